"""Files of rules, and what is wrong with rules in view of the tools that there are."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.rule import RulesError
from pegboard.errors import ConfigError

MOST_FILE: Final = 1 << 20


def read_permissions(path: str) -> Permissions:
    """Reads a file of rules.

    `mode = "plan"`. `allow`, `ask`, `deny` and `forbid` are lists of `"permission: pattern"`; without a pattern it is
    `*`. Each `[[rule]]` has the attributes of `Rule`, and examples that it has to apply to, or must not: `match` and
    `not_match`, lists of values that are read as the rule's `kind`, or else as text. The lists come first, in this
    order, so that of two that apply to the same the stricter wins; then the rules in theirs.

    Args:
        path: `*.json` is JSON, anything else TOML.

    Raises:
        ConfigError: It can't be read, another user can write it, or it is wrong; names the file and the key.
    """
    try:
        with Path(path).open("rb") as file:
            _check_writers(os.fstat(file.fileno()))
            content = file.read(MOST_FILE + 1)
        return Permissions.from_json(_parsed(content, is_json=path.lower().endswith(".json")))
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror or error}", file=path) from None
    except RulesError as error:
        raise ConfigError(error.reason, file=path, key=error.key) from None


def _check_writers(facts: os.stat_result) -> None:
    """Refuses a file that another user can write: its rules could be anything."""
    if os.name != "posix":
        return
    of_group = facts.st_mode & stat.S_IWGRP and facts.st_gid != os.getegid()  # a user's own group is the user's
    if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & stat.S_IWOTH or of_group:
        raise RulesError("other users can write it; take it over (chown) and keep them out (chmod go-w)")


def _parsed(content: bytes, *, is_json: bool) -> Any:
    import tomllib  # loaded only where a file is read, as jiter

    from jiter import from_json

    if len(content) > MOST_FILE:
        raise RulesError(f"larger than {MOST_FILE} bytes")
    if is_json:
        try:
            return from_json(content, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
        except ValueError as error:
            raise RulesError(f"not JSON: {error}") from None
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise RulesError("not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"not TOML: {error}") from None
    except RecursionError:
        raise RulesError("nested too deep") from None
