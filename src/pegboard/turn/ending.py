"""How a turn ends: by what its calls came to, or by what the model answered."""

from __future__ import annotations

from typing import TypeAlias

from pegboard.dispatch.batch import Outcome
from pegboard.errors import TurnAbortedError
from pegboard.messages.response import ModelResponse
from pegboard.tools.actions import Actions
from pegboard.turn.outcome import Ended

End: TypeAlias = tuple[Ended, str | None]
"""Why, and more on it for people."""


def end_by_results(outcome: Outcome, actions: Actions) -> End | None:
    """What results make of a turn; `None`: it goes on.

    Args:
        outcome: Of the calls of one answer.
        actions: What all calls of the turn ask for: some may have waited for an approval.
    """
    if outcome.fatal is not None:
        return "aborted" if isinstance(outcome.fatal, TurnAbortedError) else "fatal", str(outcome.fatal)
    if len(outcome.pending):
        return "suspended", f"{len(outcome.pending)} waiting for an approval"
    if outcome.ended == "rejected":
        return "rejected", None
    return _asked_for(actions)


def _asked_for(actions: Actions) -> End | None:
    if actions.transfer_to is not None:
        return "transferred", actions.transfer_to
    if actions.escalate:
        return "escalated", None
    return ("results", None) if actions.skip_summarization else None


def end_by_answer(response: ModelResponse) -> End | None:
    """What an answer that calls nothing makes of a turn; `None`: the provider only paused, and goes on."""
    if response.finish_reason == "pause":
        return None
    if response.interrupted:
        return "cut_off", response.error_message or "the answer was broken off"
    if not response.complete:
        return "cut_off", f"the answer ended by {response.finish_reason}"
    return "answered", None


__all__ = ["End", "end_by_answer", "end_by_results"]
