"""Events of a turn, its outcome, and the event queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

from attrs import define, field, frozen

from pegboard.dispatch.approval.pending import PendingCalls, SignedRecord
from pegboard.dispatch.events import CallEvent
from pegboard.errors import log_failure
from pegboard.messages import NO_USAGE, Delta, Message, ModelResponse, Usage
from pegboard.request.model_request import ModelRequest
from pegboard.schema.converter import ALWAYS, Count, JsonRecord, json_key, read_by
from pegboard.tools.call import Actions, ToolCall
from pegboard.typing import JsonObject

_Completed: TypeAlias = Literal["answered", "results", "stopped", "rejected", "escalated", "transferred"]
"""The model answered without calls; the results need no summary (`skip_summarization`); a stop condition; a person
rejected a call; a tool escalated, or handed over to another agent."""
_Waiting: TypeAlias = Literal["suspended", "pending"]  # calls wait for an approval, or for the host to run them
_Broken: TypeAlias = Literal["limit", "cut_off", "interrupted", "cancelled", "aborted", "fatal", "failed"]
"""A limit; the answer was cut off, or broke off; the host or the user interrupted it; the caller was cancelled; a
callback aborted it; a tool ended it; the model, a processor or a callback failed."""
Ended: TypeAlias = Literal[_Completed, _Waiting, _Broken]  # why a turn ended


@frozen
class TurnOutcome(SignedRecord):
    """Outcome of a turn. Its history is complete however the turn ended: each call has exactly one result.

    Attributes:
        messages: The whole conversation, including the messages before the turn.
        ended: Why it ended.
        response: The model's last answer, or `None` if there is none.
        began: The number of messages before the turn.
        usage: The token usage of all its answers.
        rounds: The number of requests to the model.
        calls: The number of calls.
        actions: The actions that its calls requested of the host, merged.
        state: The session's state after the turn.
        pending: The calls that wait for an approval; `run_turn(resume=...)` continues with their answers.
        detail: More on why it ended (which limit, which reason), for people; or `None`.
        invocation: The turn's id.
        ignored: In a resumed turn, the ids of answers and results that changed nothing.
        for_host: The calls of tools without a handler; `run_turn(resume=...)` continues with their results.
        reports: What plugins report of the turn, by the plugin's name, such as the files that it has changed.
        output: The answer as a value, if the turn had an `output_type`; isn't written to JSON.
        error: The exception that ended it, or `None`; isn't written to JSON.
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
    reports: Mapping[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]], repr=False, kw_only=True)
    output: Any = field(default=None, eq=False, metadata=json_key(""))
    error: BaseException | None = field(default=None, eq=False, metadata=json_key(""))

    @property
    def text(self) -> str:
        """The text of the model's last answer."""
        return "" if self.response is None else self.response.text

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages that the turn added to the conversation."""
        return self.messages[self.began :]


read_by(Actions, Actions.from_json)
read_by(PendingCalls, PendingCalls.from_json)
read_by(TurnOutcome, TurnOutcome.from_json)


@frozen
class RoundStarted(JsonRecord):
    """A request is about to be sent to the model.

    Attributes:
        number: The number of the round, from 1.
        request: The request, after all processors.
    """

    type: ClassVar = "round"
    number: int
    request: ModelRequest = field(repr=False)

    def to_json(self) -> JsonObject:
        """`{"type", "number", "model", "tools", "problems"}`; tools by name, problems as lines, if there are any."""
        tools, problems = [tool.name for tool in self.request.offered], [str(each) for each in self.request.problems]
        data: JsonObject = {"type": self.type, "number": self.number, "model": self.request.model, "tools": tools}
        return {**data, "problems": problems} if problems else data


@frozen
class ModelRetried(JsonRecord):
    """A request has failed temporarily, and is sent again after a pause.

    Attributes:
        attempt: The number of attempts so far.
        pause: Seconds until the next.
        cause: The error, for the operator.
    """

    type: ClassVar = "retry"
    attempt: int
    pause: float
    cause: str


@frozen
class AnswerDelta(JsonRecord):
    """A piece of a streamed answer.

    Attributes:
        delta: Text, reasoning, or a piece of a call.
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
    """A message was added to the history: an answer, results, a message of the user during the turn.

    Attributes:
        message: The message.
    """

    type: ClassVar = "message"
    message: Message


@frozen
class TurnReported(JsonRecord):
    """A plugin has reported what the turn did.

    Attributes:
        plugin: The plugin's name.
        report: Its report, a JSON object.
    """

    type: ClassVar = "report"
    plugin: str
    report: Mapping[str, Any]


@frozen
class TurnEnded(JsonRecord):
    """The turn has ended; the last event.

    Attributes:
        outcome: Its outcome.
    """

    type: ClassVar = "end"
    outcome: TurnOutcome

    def to_json(self) -> JsonObject:
        """The outcome without conversation and state, with the `text` of the last answer."""
        data = {**self.outcome.to_json(), "text": self.outcome.text}
        return {"type": self.type, **{name: data[name] for name in _OF_END if name in data}}


_OF_END: Final = ("ended", "text", "detail", "pending", "forHost", "ignored", "usage", "rounds", "calls", "invocation")


TurnEvent: TypeAlias = (
    RoundStarted | ModelRetried | AnswerDelta | Answered | MessageAdded | TurnReported | TurnEnded | CallEvent
)
"""An event of a turn, of any class; those of its calls, too."""

_MOST_WAITING: Final = 1_000  # queued events at which a stream is held up


@define(eq=False)
class EventSink:
    """Emitter of a turn's events: to the queue of its reader, and to its listener, whose exceptions are logged."""

    listener: Callable[[TurnEvent], None] | None = None
    reader: asyncio.Queue[TurnEvent | None] | None = field(default=None, init=False)

    def emit(self, event: TurnEvent) -> None:
        """Emits an event, without waiting."""
        if self.reader is not None:
            self.reader.put_nowait(event)
        if self.listener is not None:
            try:
                self.listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001  the host's own
                log_failure("the listener of a turn", error)

    def emit_messages(self, *messages: Message) -> None:
        """Emits messages that were added to the history."""
        for message in messages:
            self.emit(MessageAdded(message))

    async def emit_delta(self, delta: Delta) -> None:
        """Emits a piece of an answer; a reader that is far behind holds up the stream until it has caught up."""
        self.emit(AnswerDelta(delta))
        if self.reader is not None and self.reader.qsize() >= _MOST_WAITING:
            await self.reader.join()
