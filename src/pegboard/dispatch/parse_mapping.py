"""`plain_object`: a mapping that a host passes on becomes plain JSON of the call's own, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.schema.json import MAX_DEPTH, MAX_DIGITS, is_unicode, json_faults
from pegboard.schema.problems import problem

_INFINITY: Final = float("inf")
_TOO_LARGE: Final = 10**MAX_DIGITS


class NotPlainError(Exception):
    """A value that isn't a plain JSON object.

    Attributes:
        problems: Why, as `"path: reason"`.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(*problems)


class _FaultError(Exception):
    """Something in it is no JSON; `json_faults` says what."""


def plain_object(given: object, *, most_nodes: int) -> dict[str, Any]:
    """A copy of a mapping, as deep as it goes, of JSON's own types only. A tuple becomes a list.

    Some 3 us for what a model usually writes, which is less than to look at it twice.

    Args:
        given: Anything. The outermost may be any mapping; what is in it has to be of JSON's own types, exactly.
        most_nodes: How many values it may hold.

    Raises:
        NotPlainError: It isn't a mapping, holds what isn't JSON, holds too much, or holds itself.
        Exception: Whatever a mapping of another type raises when it is read.
    """
    members = cast("dict[Any, Any]", given) if type(given) is dict else _members(given, most_nodes)
    left = [most_nodes]
    try:
        return _copied(members, MAX_DEPTH, left)
    except _FaultError:
        if left[0] < 0:
            raise NotPlainError(_too_many(most_nodes)) from None
        faults = json_faults(members, most_nodes) or (problem((), "must be JSON"),)  # somebody may have mended it
        raise NotPlainError(*faults) from None


def _members(given: object, most_nodes: int) -> dict[Any, Any]:
    """What a mapping of another type gives when it is read, once."""
    if not isinstance(given, Mapping):
        raise NotPlainError(problem((), f"expected a JSON object, found {named(given)}"))
    mapping = cast("Mapping[Any, Any]", given)
    members: dict[Any, Any] = {}
    for count, key in enumerate(mapping):
        if count >= most_nodes:
            raise NotPlainError(_too_many(most_nodes))
        members[key] = mapping[key]
    return members


def _copied(value: Any, levels: int, left: list[int]) -> Any:
    kind = cast("type[Any]", type(value))
    if kind is str:
        if value.isascii() or is_unicode(value):
            return value
    elif kind is dict:
        _enter(value, levels, left)
        copy: dict[str, Any] = {}
        for key, item in value.items():
            if type(key) is not str or not (key.isascii() or is_unicode(key)):
                raise _FaultError
            copy[key] = _copied(item, levels - 1, left)
        return copy
    elif kind is list or kind is tuple:
        _enter(value, levels, left)
        return [_copied(item, levels - 1, left) for item in value]
    elif value is None or kind is bool or _is_written(kind, value):
        return value
    raise _FaultError


def _is_written(kind: type[Any], value: Any) -> bool:
    """Whether it is a number that JSON can write, and Python too."""
    return (kind is int and -_TOO_LARGE < value < _TOO_LARGE) or (kind is float and -_INFINITY < value < _INFINITY)


def _enter(container: Any, levels: int, left: list[int]) -> None:
    """Counts what a container holds; one that holds itself uses up the levels."""
    left[0] -= len(container)
    if levels == 0 or left[0] < 0:
        raise _FaultError


def _too_many(most_nodes: int) -> str:
    return problem((), f"holds more than {most_nodes:,} values")


_NAMES: Final[dict[type[Any], str]] = {
    str: "a string",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def named(value: object) -> str:
    """A JSON value by its kind; anything else by the name of its type."""
    return _NAMES.get(type(value), type(value).__name__)


__all__ = ["NotPlainError", "named", "plain_object"]
