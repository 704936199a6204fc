"""The numbers that a schema takes: an ordinary one, and those at its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from pegboard.typing import JsonSchema

_ORDINARY: Final = 3
_LARGE: Final = 2**31
"""Past the range of 32 bits, where code that meets it for the first time goes wrong."""


def numbers(schema: JsonSchema, *, whole: bool) -> Iterator[tuple[str, Any]]:
    """Values with what is special about each; whoever asks holds them against the schema.

    Args:
        schema: With bounds or without.
        whole: Whether integers are wanted.
    """
    low, high = _low(schema, whole=whole), _high(schema, whole=whole)
    step = schema.get("multipleOf", 1)
    for guess in (_ORDINARY, 0, _between(low, high), low, high):
        if guess is not None:
            yield "sample", _stepped(guess, step)
    if not whole:
        yield "sample", _between(low, high)
        yield "a fraction", 0.5
    yield "the least", low if low is not None else -_LARGE
    yield "the most", high if high is not None else _LARGE
    yield "zero", 0
    if whole:
        yield "a whole number as a fraction", float(_stepped(_ORDINARY, step))


def _low(schema: JsonSchema, *, whole: bool) -> Any:
    """The least number that the bounds let through, or `None`."""
    bounds = [schema["minimum"]] if "minimum" in schema else []
    beyond = schema.get("exclusiveMinimum")
    if isinstance(beyond, int | float) and not isinstance(beyond, bool):
        bounds.append(math.floor(beyond) + 1 if whole else math.nextafter(beyond, math.inf))
    low = max(bounds, default=None)
    return math.ceil(low) if whole and low is not None else low


def _high(schema: JsonSchema, *, whole: bool) -> Any:
    bounds = [schema["maximum"]] if "maximum" in schema else []
    beyond = schema.get("exclusiveMaximum")
    if isinstance(beyond, int | float) and not isinstance(beyond, bool):
        bounds.append(math.ceil(beyond) - 1 if whole else math.nextafter(beyond, -math.inf))
    high = min(bounds, default=None)
    return math.floor(high) if whole and high is not None else high


def _between(low: Any, high: Any) -> Any:
    if low is None or high is None:
        return low if high is None else high
    return low + (high - low) / 2


def _stepped(guess: Any, step: Any) -> Any:
    """The first multiple of `step` from `guess` on."""
    return guess if step == 1 else math.ceil(guess / step) * step
