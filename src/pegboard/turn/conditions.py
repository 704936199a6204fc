"""Conditions that stop a turn, asked behind every round in which tools were called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pegboard.turn.outcome import TurnOutcome

StopCondition: TypeAlias = Callable[[TurnOutcome], "bool | str | Awaitable[bool | str | None] | None"]
"""Gets the turn as it stands. Anything true stops it; a text says why. Plain or async; a plain one must not wait."""


def called(*names: str) -> StopCondition:
    """Stops once one of these tools was called, and answered without an error."""

    def was_called(turn: TurnOutcome) -> str | None:
        last = turn.messages[-1].results if turn.messages else ()
        found = next((part.name for part in last if part.name in names and not part.result.is_error), None)
        return None if found is None else f"{found} was called"

    return was_called


def rounds(number: int) -> StopCondition:
    """Stops after so many rounds, as a plan and not as a failure: a limit of the same number ends with `"limit"`."""
    return lambda turn: f"{turn.rounds} rounds" if turn.rounds >= number else None


__all__ = ["StopCondition", "called", "rounds"]
