"""Members of JSON objects that came from somewhere else, each checked, each named where it is wrong."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from pegboard.typing import JsonMapping

D = TypeVar("D")


@contextmanager
def below(path: str) -> Generator[None]:
    """Puts the path in front of what a `ValueError` says."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}.{error}") from None


def members(data: object, what: str) -> JsonMapping:
    """An object's members.

    Raises:
        ValueError: It is no object with texts for keys.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{what}: must be an object, got {type(data).__name__}")  # noqa: TRY004  (as documented: data from outside)
    return cast("JsonMapping", data)


def text(data: JsonMapping, name: str, default: D) -> str | D:
    """A text, or the default where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    return _of(str, "a text", data, name, default)


def needed(data: JsonMapping, name: str) -> str:
    """A text that has to be there.

    Raises:
        ValueError: It is missing, or something else.
    """
    found = text(data, name, None)
    if found is None:
        raise ValueError(f"{name}: missing")
    return found


def integer(data: JsonMapping, name: str, default: D) -> int | D:
    """A whole number, or the default where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    return _of(int, "a whole number", data, name, default)


def count(data: JsonMapping, name: str) -> int:
    """A whole number, 0 or above; 0 where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    found = integer(data, name, 0)
    if found < 0:
        raise ValueError(f"{name}: must be 0 or above, got {found:.20g}")
    return found


def number(data: JsonMapping, name: str) -> float | None:
    """A number, or `None` where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    value = data.get(name)
    if value is None or type(value) in (int, float):
        return value
    raise ValueError(f"{name}: must be a number, got {type(value).__name__}")


def flag(data: JsonMapping, name: str, default: D) -> bool | D:
    """True or false, or the default where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    return _of(bool, "a boolean", data, name, default)


def mapping(data: JsonMapping, name: str) -> dict[str, Any]:
    """An object, empty where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    return _of(dict, "an object", data, name, {})


def items(data: JsonMapping, name: str) -> list[Any]:
    """An array, empty where it is missing or null.

    Raises:
        ValueError: Something else.
    """
    return _of(list, "an array", data, name, [])


def _of(kind: type, wanted: str, data: JsonMapping, name: str, default: Any) -> Any:
    value = data.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        raise ValueError(f"{name}: must be {wanted}, got {type(value).__name__}")
    return value


__all__ = ["below", "count", "flag", "integer", "items", "mapping", "members", "needed", "number", "text"]
