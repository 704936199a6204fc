"""Permissions: rules, and the reader of shell lines that they use."""

from __future__ import annotations

from pegboard.dispatch.permissions.commands import (
    program_of as program_of,
    read_line as read_line,
    wrapped_commands as wrapped_commands,
)
from pegboard.dispatch.permissions.evaluation import PermissionRules as PermissionRules
from pegboard.dispatch.permissions.options import (
    RUN as RUN,
    may_run_or_write as may_run_or_write,
    options_used as options_used,
)
from pegboard.dispatch.permissions.permissions import Permissions as Permissions
from pegboard.dispatch.permissions.rule import Rule as Rule
from pegboard.dispatch.permissions.rules_file import read_permissions as read_permissions
