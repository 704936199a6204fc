"""A file of rules: TOML or JSON -> `Permissions`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pegboard.dispatch.permissions.mode import MODES, Mode
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import ConfigError, did_you_mean, suggest

MOST_BYTES: Final = 1 << 20
LISTS: Final = ("allow", "ask", "deny", "forbid")
"""The short forms, in the order in which their rules stand: of two that speak of the same, the stricter wins."""

_KEYS: Final = ("mode", *LISTS, "rule", "rules")


class RulesError(ValueError):
    """What is wrong with rules as data.

    Attributes:
        key: Where.
        reason: What.
    """

    def __init__(self, reason: str, key: str = "") -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"{key}: {reason}" if key else reason)


def read_permissions(path: str) -> Permissions:
    """Reads a file of rules.

    `mode = "plan"`. `allow`, `ask`, `deny` and `forbid` are lists of `"permission: pattern"`; without a pattern it is
    `*`. Each `[[rule]]` has the attributes of `Rule`. The lists come first, in this order, so that of two that speak
    of the same the stricter wins; then the rules in theirs.

    Args:
        path: `*.json` is JSON, anything else TOML.

    Raises:
        ConfigError: It can't be read, or says what can't be; names the file and the key.
    """
    try:
        content = _read(path)
        return permissions_of(_from_json(content) if path.lower().endswith(".json") else _from_toml(content))
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror or error}", file=path) from None
    except RulesError as error:
        raise ConfigError(error.reason, file=path, key=error.key) from None


def permissions_of(data: Any) -> Permissions:
    """Reads rules from data, as a file or `Permissions.to_json` gives them.

    Raises:
        RulesError: A key that is unknown or of the wrong type.
    """
    table = _table(data, "")
    for key in table:
        if key not in _KEYS:
            raise RulesError(f"unknown key.{_meant(key, _KEYS)}", key)
    if "rule" in table and "rules" in table:
        raise RulesError("write either 'rule' or 'rules'", "rules")
    return Permissions(_rules(table), _mode(table.get("mode", "default")))


def _rules(table: Mapping[str, Any]) -> Iterator[Rule]:
    for key in LISTS:
        for place, text in enumerate(_list(table.get(key, []), key)):
            yield _short(text, key, f"{key}[{place}]")
    key = "rules" if "rules" in table else "rule"
    for place, each in enumerate(_list(table.get(key, []), key)):
        where = f"{key}[{place}]"
        try:
            yield Rule.from_json(_table(each, where))
        except RulesError:
            raise
        except ValueError as error:
            raise RulesError(str(error), where) from None


def _short(text: Any, action: str, where: str) -> Rule:
    """A rule of `"permission: pattern"`, or of `"permission"`."""
    if not isinstance(text, str):
        raise RulesError(f"expected a text such as 'bash: git *', found {_type(text)}", where)
    permission, colon, pattern = (part.strip() for part in text.partition(":"))
    if not permission or (colon and not pattern):
        raise RulesError(f"expected 'permission: pattern' or 'permission', found {text!r:.100}", where)
    forbid = action == "forbid"
    return Rule(permission, pattern or "*", cast("Any", "deny" if forbid else action), forbid=forbid)


def _mode(value: Any) -> Mode:
    if not isinstance(value, str):
        raise RulesError(f"expected a text, found {_type(value)}", "mode")
    if value not in MODES:
        raise RulesError(f"there is no mode {value!r:.100}.{_meant(value, MODES)}", "mode")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise RulesError(f"expected a list, found {_type(value)}", key)
    return value  # pyright: ignore[reportUnknownVariableType]


def _table(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RulesError(f"expected a table, found {_type(value)}", key)
    return value  # pyright: ignore[reportUnknownVariableType]


def _type(value: object) -> str:
    return type(value).__name__


def _meant(word: object, known: Iterable[str]) -> str:
    known = tuple(known)
    return did_you_mean(suggest(str(word), known)) or f" There are {', '.join(known)}."


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise RulesError(f"larger than {MOST_BYTES} bytes")
    return content


def _from_json(content: bytes) -> Any:
    from jiter import from_json

    try:
        return from_json(content, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        raise RulesError(f"not JSON: {error}") from None


def _from_toml(content: bytes) -> Any:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise RulesError("not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"not TOML: {error}") from None
    except RecursionError:
        raise RulesError("nested too deep") from None


__all__ = ["RulesError", "permissions_of", "read_permissions"]
