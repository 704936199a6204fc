"""`TurnLimits`: how much one turn may use."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from attrs import Attribute, field, frozen


def _positive(_self: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not (type(value) in (int, float) and isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a number above 0, or None for no limit; got {value!r}")


def _count(_self: Any, attribute: Attribute[Any], value: int) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{attribute.name} must be a whole number, 0 or above; got {value!r}")


@frozen(kw_only=True)
class TurnLimits:
    """How much one turn may use; `None` is no limit. A limit ends a turn once every call has its result.

    Attributes:
        rounds: How often the model is asked.
        calls: How many calls run; those beyond get a result that says so.
        tokens: What all answers together may use, requests included. It is known only behind an answer.
        seconds: How long the turn takes; a model that is still answering then is cancelled, and so are calls.
        continuations: How often `on_stop` may have a turn go on.
        retries: How often a request is sent again that failed for a while (a 429, a 503, a lost connection).
        longest_pause: Seconds that a retry may wait at most; a provider that asks for more fails the request.

    Raises:
        ValueError: A limit that isn't above 0.
    """

    rounds: int | None = field(default=50, validator=_positive)
    calls: int | None = field(default=500, validator=_positive)
    tokens: int | None = field(default=None, validator=_positive)
    seconds: float | None = field(default=None, validator=_positive)
    continuations: int = field(default=3, validator=_count)
    retries: int = field(default=2, validator=_count)
    longest_pause: float = field(default=60.0, validator=_positive)


DEFAULT_TURN_LIMITS: Final = TurnLimits()

__all__ = ["DEFAULT_TURN_LIMITS", "TurnLimits"]
