"""What happens in a turn, as events; those of its calls (`CallEvent`) stand among them."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from attrs import field, frozen

from pegboard.dispatch.events import CallEvent
from pegboard.messages.message import Message
from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.model_request import ModelRequest
from pegboard.turn.outcome import TurnOutcome
from pegboard.typing import JsonObject


@frozen
class RoundStarted:
    """A model is about to be asked.

    Attributes:
        number: Which round, from 1.
        request: As it is sent, after all processors.
    """

    type: ClassVar = "round"
    number: int
    request: ModelRequest = field(repr=False)

    def to_json(self) -> JsonObject:
        """`{"type", "number", "model", "tools"}`; the tools by name."""
        tools = [tool.name for tool in self.request.offered]
        return {"type": self.type, "number": self.number, "model": self.request.model, "tools": tools}


@frozen
class ModelRetried:
    """A request has failed for a while, and is sent again after a pause.

    Attributes:
        attempt: How many have been made.
        pause: Seconds until the next.
        cause: What went wrong, for the operator.
    """

    type: ClassVar = "retry"
    attempt: int
    pause: float
    cause: str

    def to_json(self) -> JsonObject:
        """All facts by name."""
        return {"type": self.type, "attempt": self.attempt, "pause": self.pause, "cause": self.cause}


@frozen
class AnswerDelta:
    """Some more of an answer.

    Attributes:
        delta: Words, thoughts, or a piece of a call.
    """

    type: ClassVar = "delta"
    delta: Delta

    def to_json(self) -> JsonObject:
        """`{"type": "delta", "delta"}`."""
        return {"type": self.type, "delta": self.delta.to_json()}


@frozen
class Answered:
    """The model has answered.

    Attributes:
        response: The whole answer.
    """

    type: ClassVar = "answer"
    response: ModelResponse

    def to_json(self) -> JsonObject:
        """`{"type": "answer", "response"}`."""
        return {"type": self.type, "response": self.response.to_json()}


@frozen
class MessageAdded:
    """The history goes on: an answer, results, what the user said meanwhile.

    Attributes:
        message: What was added.
    """

    type: ClassVar = "message"
    message: Message

    def to_json(self) -> JsonObject:
        """`{"type": "message", "message"}`."""
        return {"type": self.type, "message": self.message.to_json()}


@frozen
class TurnEnded:
    """The turn has ended; the last event.

    Attributes:
        outcome: What came of it.
    """

    type: ClassVar = "end"
    outcome: TurnOutcome

    def to_json(self) -> JsonObject:
        """`{"type": "end", "ended", "detail", "rounds", "calls", "usage"}`."""
        outcome = self.outcome
        return {
            "type": self.type,
            "ended": outcome.ended,
            "detail": outcome.detail,
            "rounds": outcome.rounds,
            "calls": outcome.calls,
            "usage": outcome.usage.to_json(),
        }


TurnEvent: TypeAlias = RoundStarted | ModelRetried | AnswerDelta | Answered | MessageAdded | TurnEnded | CallEvent

__all__ = [
    "AnswerDelta",
    "Answered",
    "MessageAdded",
    "ModelRetried",
    "RoundStarted",
    "TurnEnded",
    "TurnEvent",
]
