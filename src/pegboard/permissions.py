"""Permissions: rules, and the reader of shell lines that they use."""

from __future__ import annotations

from pegboard.dispatch.permissions.commands import (
    LANGUAGES as LANGUAGES,
    SHELLS as SHELLS,
    program_of as program_of,
    programs_run as programs_run,
    wrapped_commands as wrapped_commands,
)
from pegboard.dispatch.permissions.evaluation import PermissionRules as PermissionRules
from pegboard.dispatch.permissions.options import (
    RUN as RUN,
    may_run_or_write as may_run_or_write,
    options_used as options_used,
)
from pegboard.dispatch.permissions.permissions import Permissions as Permissions
from pegboard.dispatch.permissions.rule import HOLE as HOLE, Rule as Rule, UnreadableError as UnreadableError
from pegboard.dispatch.permissions.rules_file import read_permissions as read_permissions
from pegboard.dispatch.permissions.shell import Command as Command, Line as Line, read_line as read_line
