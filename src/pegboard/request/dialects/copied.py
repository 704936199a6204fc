"""A copy of a JSON value, made without trusting it."""

from __future__ import annotations

import math
from typing import Any, Final, cast

MOST_LEVELS: Final = 128
"""Containers within containers of a schema as it is given; what parsers of JSON commonly read."""

MOST_VALUES: Final = 500_000
"""Values of a schema as it is given, each counted as often as it is reached."""

_MOST_BITS: Final = 14_000
"""Of an integer: some 4,200 digits, which Python still writes as text."""

_NO_BOUND: Final = 1 << 60
_LEAVES: Final = (str, int, float, bool, type(None))
_SAFE: Final = frozenset({str, bool, type(None)})
"""What needs no look; most values of a schema are texts."""


class _BeyondError(Exception):
    """The value is no JSON, or beyond a bound."""


def copied(value: Any, *, bounded: bool = True) -> tuple[Any, str | None]:
    """A copy that shares no container with `value`, and why there is none: `{}` then.

    Args:
        value: What may be JSON; cycles and parts shared without end are found out by the bounds.
        bounded: Whether the bounds hold; not for values that we have made ourselves.
    """
    left = [(MOST_VALUES if bounded else _NO_BOUND) - 1]
    try:
        return _copy(value, MOST_LEVELS if bounded else _NO_BOUND, left), None
    except _BeyondError as error:
        return {}, str(error)


def _copy(value: Any, levels: int, left: list[int]) -> Any:
    """A copy of one value, itself counted already."""
    if not isinstance(value, (dict, list, tuple)):
        return _leaf(value)
    left[0] -= len(value)  # pyright: ignore[reportUnknownArgumentType]
    if left[0] < 0:
        raise _BeyondError(f"it holds more than {MOST_VALUES} values")
    if levels == 0:
        raise _BeyondError(f"it is nested more than {MOST_LEVELS} levels deep")
    if not isinstance(value, dict):
        items = cast("list[Any]", value)
        return [item if type(item) in _SAFE else _copy(item, levels - 1, left) for item in items]
    new: dict[str, Any] = {}
    for key, item in cast("dict[Any, Any]", value).items():
        if not isinstance(key, str):
            raise _BeyondError("it is no JSON: it has keys that are no strings")
        new[key] = item if type(item) in _SAFE else _copy(item, levels - 1, left)
    return new


def _leaf(value: Any) -> Any:
    if not isinstance(value, _LEAVES):
        raise _BeyondError(f"it is no JSON: it holds a Python {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise _BeyondError("it is no JSON: it holds a number that isn't finite")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise _BeyondError("it holds an integer that is too long to be written")
    return value


__all__ = ["MOST_LEVELS", "MOST_VALUES", "copied"]
