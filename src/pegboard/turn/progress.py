"""`TurnProgress`: how far a turn is: its history, what it has used, what its calls ask for."""

from __future__ import annotations

import time
from typing import Any

import attrs
from attrs import define, field

from pegboard.dispatch.approval.pending import PendingCalls
from pegboard.dispatch.batch import Outcome
from pegboard.messages.message import Message
from pegboard.messages.response import NO_USAGE, ModelResponse, Usage
from pegboard.tools.actions import Actions, merged
from pegboard.tools.call import CallFault, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext
from pegboard.turn.history import History
from pegboard.turn.limits import TurnLimits
from pegboard.turn.outcome import Ended, TurnOutcome


@define(eq=False)
class TurnProgress:
    """How far a turn is.

    Attributes:
        history: The conversation.
        state: The session's state, as its calls have changed it.
        began: How many messages there were when the turn began.
        rounds: How often the model was asked.
        calls: How many calls it made.
        broken: How many answers with calls were cut off, or broke off.
        usage: What all answers used together.
        actions: What all calls asked for together.
        response: The last answer.
        pending: The calls of the last answer that wait for an approval.
        deadline: When its seconds are over, by `time.monotonic()`, or `None`.
    """

    history: History
    state: dict[str, Any]
    began: int = 0
    rounds: int = 0
    calls: int = 0
    broken: int = 0
    usage: Usage = NO_USAGE
    actions: Actions = field(factory=Actions)
    response: ModelResponse | None = None
    pending: PendingCalls = field(factory=PendingCalls)
    deadline: float | None = None

    @classmethod
    def at_the_start(cls, messages: tuple[Message, ...], context: ReadonlyContext) -> TurnProgress:
        """A turn that begins."""
        return cls(History(messages), dict(context.state), len(messages))

    @classmethod
    def after(cls, before: TurnOutcome, context: ReadonlyContext) -> TurnProgress:
        """A turn that goes on from where it was suspended."""
        return cls(
            History(before.messages),
            {**context.state, **before.state},
            before.began,
            before.rounds,
            before.calls,
            usage=before.usage,
            actions=before.actions,
            response=before.response,
            pending=before.pending,
        )

    def take_answer(self, response: ModelResponse) -> Message:
        """Takes in an answer; gives its message as the history has it."""
        self.response = response
        self.usage += response.usage
        return self.history.add_answer(response)

    def take_results(self, outcome: Outcome) -> Message:
        """Takes in the results of the last answer's calls, and what they ask for; gives the message of results."""
        self.calls += len(outcome)
        self._heed(outcome)
        return self.history.add_results(outcome)

    def take_late_results(self, outcome: Outcome) -> list[Message]:
        """Takes in the results of calls that waited for an approval; gives the messages that hold them."""
        self._heed(outcome)
        return self.history.replace_results({call.id: result for call, result in outcome})

    def _heed(self, outcome: Outcome) -> None:
        self.actions = merged([self.actions, outcome.actions])
        outcome.actions.apply_to(self.state)
        self.pending = outcome.pending

    def close(self) -> Message | None:
        """Gives each call that has none its result, whatever has happened; gives the message of those, if any."""
        unanswered = self.history.unanswered()
        return self.history.add_results((call, _skipped(call)) for call in unanswered) if unanswered else None

    def seconds_left(self) -> float | None:
        """Until the turn's seconds are over; `None` is no limit."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def limit_reached(self, limits: TurnLimits) -> str | None:
        """The limit that lets no further round begin, for people; or `None`."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return f"{limits.rounds} rounds"
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return f"{limits.tokens} tokens"
        left = self.seconds_left()
        return f"{limits.seconds:g} seconds" if left is not None and left <= 0 else None

    def within(self, calls: tuple[ToolCall, ...], most: int | None) -> tuple[ToolCall, ...]:
        """The calls; those beyond the limit are marked so, and get a result that says it."""
        if most is None or self.calls + len(calls) <= most:
            return calls
        room = max(most - self.calls, 0)
        fault = CallFault("limit", f"This call was not run: the turn may make {most} calls, and has made them.")
        return (*calls[:room], *(attrs.evolve(call, error=fault) for call in calls[room:]))

    def outcome(self, ended: Ended, detail: str | None = None, **facts: Any) -> TurnOutcome:
        """The turn as it stands."""
        return TurnOutcome(
            tuple(self.history.messages),
            ended,
            self.response,
            self.began,
            self.usage,
            self.rounds,
            self.calls,
            self.actions,
            dict(self.state),
            self.pending,
            detail,
            **facts,
        )


def _skipped(call: ToolCall) -> ToolResult:
    return ToolResult.error("skipped", f"{call.name} was not run: the turn had ended.")


__all__ = ["TurnProgress"]
