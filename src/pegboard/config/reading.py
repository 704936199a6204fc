"""One `pegboard.toml`: its bytes -> its checked values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args

from pegboard.config.file import read_bounded, reason
from pegboard.errors import ConfigError, did_you_mean, suggest
from pegboard.tools.name import is_valid_name
from pegboard.tools.origin import ConflictPolicy

MAX_BYTES: Final = 256 * 1024
CONFLICTS: Final = get_args(ConflictPolicy)


def read_config(file: str) -> bytes | None:
    """The bytes of a configuration file, or `None` where there is none.

    Raises:
        ConfigError: It is there and can't be read, or is larger than 256 KiB.
    """
    try:
        return read_bounded(file, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"can't be read: {reason(error)}", file=file) from None


def parse_config(content: bytes, file: str) -> dict[str, Any]:
    """The values of a configuration file by key, all of the right type.

    Args:
        content: TOML.
        file: Its path, for errors.

    Raises:
        ConfigError: It isn't TOML, or a key is unknown or of the wrong type.
    """
    table = _toml(content, file)
    for key in table:
        if key not in _CHECKS:
            raise ConfigError(f"unknown key.{_meant(key, _CHECKS)}", file=file, key=key)
    return {key: _CHECKS[key](value, key, file) for key, value in table.items()}


def _toml(content: bytes, file: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"not UTF-8 (at line {line})", file=file) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}", file=file) from None
    except RecursionError:
        raise ConfigError("nested too deep", file=file) from None


def _wrong(wanted: str, value: object, key: str, file: str) -> ConfigError:
    return ConfigError(f"expected {wanted}, found {type(value).__name__}", file=file, key=key)


def _meant(word: str, known: Iterable[str]) -> str:
    return did_you_mean(suggest(word, known)) or f" Known are {', '.join(known)}."


def _text(value: Any, key: str, file: str) -> str:
    if not isinstance(value, str):
        raise _wrong("a text", value, key, file)
    if not value.strip():
        raise ConfigError("empty", file=file, key=key)
    return value


def _names(value: Any, key: str, file: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong("a list of plugin names", value, key, file)
    return tuple(_text(item, f"{key}[{index}]", file) for index, item in enumerate(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _table(value: Any, key: str, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("a table", value, key, file)
    return value  # pyright: ignore[reportUnknownVariableType]


def _tool_names(value: Any, key: str, file: str) -> dict[str, str]:
    """A table whose values are tool names, or the beginnings of such."""
    names = {part: _text(name, f"{key}.{part}", file) for part, name in _table(value, key, file).items()}
    for part, name in names.items():
        if not is_valid_name(name):
            raise ConfigError(
                f"{name!r} can't stand in a tool's name: use A-Z, a-z, 0-9, '_' and '-', a letter or '_' first, "
                "at most 64",
                file=file,
                key=f"{key}.{part}",
            )
    return names


def _renames(value: Any, key: str, file: str) -> dict[str, str]:
    names = _tool_names(value, key, file)
    first: dict[str, str] = {}
    for tool, name in names.items():
        if first.setdefault(name, tool) != tool:
            raise ConfigError(f"{first[name]!r} is renamed to {name!r} too", file=file, key=f"{key}.{tool}")
    return names


def _policy(value: Any, key: str, file: str) -> str:
    text = _text(value, key, file)
    if text not in CONFLICTS:
        raise ConfigError(f"{text!r} is no way to settle conflicts.{_meant(text, CONFLICTS)}", file=file, key=key)
    return text


def _predicate(value: Any, key: str, file: str) -> str:
    """A predicate's text that stands alone: put in brackets, it can't reach out of them.

    What is in the brackets is judged when it is parsed, once the plugins' own predicates are known.
    """
    text = _text(value, key, file)
    if not _stands_alone(text):
        raise ConfigError(f"brackets or quotes don't match in {text!r}", file=file, key=key)
    return text


def _stands_alone(text: str) -> bool:
    """Whether brackets match outside quotes, as the predicate language quotes (`"` as in JSON, `'` without escapes)."""
    depth, quote, escaped = 0, "", False
    for character in text:
        if quote:
            escaped, closes = not escaped and quote == '"' and character == "\\", not escaped and character == quote
            quote = "" if closes else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return not depth and not quote


def _plugins(value: Any, key: str, file: str) -> dict[str, dict[str, Any]]:
    tables = _table(value, key, file)
    return {plugin: _table(settings, f"{key}.{plugin}", file) for plugin, settings in tables.items()}


_CHECKS: Final[Mapping[str, Callable[[Any, str, str], Any]]] = {
    "block": _names,
    "enable": _names,
    "rename": _renames,
    "prefix": _tool_names,
    "conflicts": _policy,
    "where": _predicate,
    "plugins": _plugins,
}
