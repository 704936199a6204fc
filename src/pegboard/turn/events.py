"""What happens in a turn: events, the outcome, and the queue to the reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

from attrs import define, field, frozen

from pegboard.dispatch.approval.pending import PendingCalls, SignedRecord
from pegboard.dispatch.events import CallEvent
from pegboard.errors import PendingError, log_failure
from pegboard.messages import NO_USAGE, Delta, Message, ModelResponse, Usage
from pegboard.request.model_request import ModelRequest
from pegboard.schema.converter import ALWAYS, Count, JsonRecord, json_key, read_by, read_record
from pegboard.schema.json import is_object
from pegboard.tools.call import Actions, ToolCall
from pegboard.typing import JsonObject

_VERSION: Final = 2
_KNOWN: Final = (1, _VERSION)  # version 1 had its keys in snake_case
Ended: TypeAlias = Literal[
    "answered",
    "results",
    "stopped",
    "suspended",
    "pending",
    "limit",
    "cut_off",
    "rejected",
    "escalated",
    "transferred",
    "interrupted",
    "cancelled",
    "aborted",
    "fatal",
    "failed",
]
"""Why a turn ended: the model answered and calls nothing; the results speak for themselves (`skip_summarization`); a
stop condition; calls wait for an approval; calls wait for the host to run them; a limit; the answer was cut off, or
broke off; a person rejected a call; a tool escalated, or handed over to another agent; the host or the user broke in;
the caller was cancelled; a callback aborted it; a tool ended it; the model, a processor or a callback failed."""


@frozen
class TurnOutcome(SignedRecord):
    """Outcome of a turn. Its history is complete however the turn ended: each call has its one result.

    Attributes:
        messages: The whole conversation, those that the turn began with included.
        ended: Why it ended.
        response: The model's last answer, or `None` where it gave none.
        began: How many messages there were when the turn began.
        usage: What all its answers used together.
        rounds: How often the model was asked.
        calls: How many calls it made.
        actions: What its calls asked the host for, merged.
        state: The session's state after it.
        pending: The calls that wait for an approval; `resume_turn` goes on with their answers.
        detail: More on why it ended (which limit, which reason), for people; or `None`.
        invocation: The turn's id.
        ignored: Of a turn that was taken up again: the ids of answers and results that changed nothing.
        for_host: The calls of tools without a handler; `resume_turn` goes on with their results.
        output: The answer as a value, where the turn had an `output_type`; isn't written to JSON.
        error: What ended it, or `None`; isn't written to JSON.
    """

    called: ClassVar = "the outcome of a turn"
    most_bytes: ClassVar = 256 * 1024 * 1024  # a conversation may hold pictures
    messages: tuple[Message, ...] = field(metadata=ALWAYS)
    ended: Ended = "answered"
    response: ModelResponse | None = field(default=None, repr=False)
    began: Count = 0
    usage: Usage = field(default=NO_USAGE, metadata=ALWAYS)
    rounds: Count = 0
    calls: Count = 0
    actions: Actions = field(factory=Actions)
    state: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    pending: PendingCalls = field(factory=PendingCalls)
    detail: str | None = None
    invocation: str | None = None
    ignored: tuple[str, ...] = field(default=(), kw_only=True)
    for_host: tuple[ToolCall, ...] = field(default=(), kw_only=True)
    output: Any = field(default=None, eq=False, metadata=json_key(""))
    error: BaseException | None = field(default=None, eq=False, metadata=json_key(""))

    @property
    def text(self) -> str:
        """The words of the model's last answer."""
        return "" if self.response is None else self.response.text

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What the turn has added to the conversation."""
        return self.messages[self.began :]

    def to_json(self) -> JsonObject:
        """All facts by name, for another process; see `from_json`."""
        return {"version": _VERSION, **super().to_json()}

    @classmethod
    def from_json(cls, data: object) -> TurnOutcome:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            PendingError: It is no outcome of a turn, or of another version.
        """
        wrong = "not the outcome of a turn"
        if not is_object(data):
            raise PendingError(f"{wrong}: it must be an object, got {type(data).__name__}")
        if data.get("version") not in _KNOWN:
            raise PendingError(f"{wrong}: version {data.get('version')!r:.40}; this pegboard knows version {_VERSION}")
        try:
            outcome = read_record(cls, data, "outcome")
        except ValueError as error:
            raise PendingError(f"{wrong}: {error}") from None
        return outcome.evolve(began=min(outcome.began, len(outcome.messages)))


read_by(Actions, Actions.from_json)
read_by(PendingCalls, PendingCalls.from_json)
read_by(TurnOutcome, TurnOutcome.from_json)


@frozen
class RoundStarted(JsonRecord):
    """A model is about to be asked.

    Attributes:
        number: Which round, from 1.
        request: As it is sent, after all processors.
    """

    type: ClassVar = "round"
    number: int
    request: ModelRequest = field(repr=False)

    def to_json(self) -> JsonObject:
        """`{"type", "number", "model", "tools", "problems"}`; the tools by name, problems as lines, where there are."""
        tools, problems = [tool.name for tool in self.request.offered], [str(each) for each in self.request.problems]
        data: JsonObject = {"type": self.type, "number": self.number, "model": self.request.model, "tools": tools}
        return {**data, "problems": problems} if problems else data


@frozen
class ModelRetried(JsonRecord):
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


@frozen
class AnswerDelta(JsonRecord):
    """Some more of an answer.

    Attributes:
        delta: Words, thoughts, or a piece of a call.
    """

    type: ClassVar = "delta"
    delta: Delta


@frozen
class Answered(JsonRecord):
    """The model has answered.

    Attributes:
        response: The whole answer.
    """

    type: ClassVar = "answer"
    response: ModelResponse


@frozen
class MessageAdded(JsonRecord):
    """A message was added to the history: an answer, results, what the user wrote meanwhile.

    Attributes:
        message: What was added.
    """

    type: ClassVar = "message"
    message: Message


@frozen
class TurnEnded(JsonRecord):
    """The turn has ended; the last event.

    Attributes:
        outcome: What came of it.
    """

    type: ClassVar = "end"
    outcome: TurnOutcome

    def to_json(self) -> JsonObject:
        """What came of it, but the conversation and the state, with the `text` of the last answer."""
        data = {**self.outcome.to_json(), "text": self.outcome.text}
        return {"type": self.type, **{name: data[name] for name in _OF_END if name in data}}


_OF_END: Final = ("ended", "text", "detail", "pending", "forHost", "ignored", "usage", "rounds", "calls", "invocation")


TurnEvent: TypeAlias = RoundStarted | ModelRetried | AnswerDelta | Answered | MessageAdded | TurnEnded | CallEvent
_MOST_WAITING: Final = 1_000  # events that may wait before `put` does


class EventQueue(asyncio.Queue["TurnEvent | None"]):
    """Queue of events, bounded for senders that can wait and unbounded for those that can't; `None` behind the last."""

    def __init__(self) -> None:
        super().__init__()
        self._room: Final = asyncio.Event()

    async def put(self, item: TurnEvent | None) -> None:
        """Sends an event, once there is room."""
        while self.qsize() >= _MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self.put_nowait(item)

    async def get(self) -> TurnEvent | None:
        """The next event."""
        event = await super().get()
        self._room.set()
        return event


@define(eq=False)
class EventSink:
    """Emitter of a turn's events, to its reader and its listener.

    Attributes:
        listener: Gets each event; what it raises costs the turn nothing. `None`: there is none.
        reader: The queue of the reader; `None`: there is none, and answers needn't come piece by piece.
    """

    listener: Callable[[TurnEvent], None] | None = None
    reader: EventQueue | None = field(default=None, init=False)

    def emit(self, event: TurnEvent) -> None:
        """Emits an event, without waiting."""
        if self.reader is not None:
            self.reader.put_nowait(event)
        self._call_listener(event)

    async def emit_delta(self, delta: Delta) -> None:
        """Emits a piece of an answer; waits where the reader is slow."""
        if self.reader is not None:
            await self.reader.put(AnswerDelta(delta))
        self._call_listener(AnswerDelta(delta))

    def _call_listener(self, event: TurnEvent) -> None:
        if self.listener is not None:
            try:
                self.listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001  the host's own
                log_failure("the listener of a turn", error)
