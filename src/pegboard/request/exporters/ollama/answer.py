"""Answers of `/api/chat`, whole and line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, field

from pegboard.errors import ModelError
from pegboard.messages.message import CallPart, MediaPart, Message, Part, ReasoningPart, TextPart
from pegboard.messages.response import CallDelta, Delta, FinishReason, ModelResponse, ReasoningDelta, TextDelta, Usage
from pegboard.request.exporters.calls.given_ids import GivenIds
from pegboard.request.exporters.calls.made_calls import ORIGINAL, made_call, shown
from pegboard.request.exporters.ollama.media import image_of
from pegboard.request.exporters.ollama.tools import FAMILY
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import as_object, count_in, list_in, object_in, objects_in, text_in
from pegboard.tools.call import ToolCall
from pegboard.typing import JsonMapping

_REASONS: Final[Mapping[str, FinishReason]] = {"stop": "stop", "length": "length", "": "stop"}
_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})


@define(eq=False)
class OllamaReader:
    """Reads one answer, whole or in lines: both have the same shape.

    Attributes:
        room: What the answer may still bring.
    """

    room: Room = field(factory=Room)
    _text: Gathered = field(default=Factory(lambda self: Gathered(self.room), takes_self=True), init=False)
    _thoughts: Gathered = field(default=Factory(lambda self: Gathered(self.room), takes_self=True), init=False)
    _media: list[Part] = field(factory=list[Part], init=False)
    _calls: list[ToolCall] = field(factory=list[ToolCall], init=False)
    _ids: GivenIds = field(factory=GivenIds, init=False)
    _last: JsonMapping = field(factory=dict[str, Any], init=False)
    _model: str = field(default="", init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Takes in one line and gives what came with it. Never raises."""
        if not is_answer(chunk):
            if as_object(chunk).get("error"):
                self._end.failed(None, str(error_of(chunk)))
            return ()
        self._model = text_in(chunk, "model") or self._model
        if chunk.get("done") is True:
            self._last, self._end.reached = chunk, True
        message = object_in(chunk, "message")
        self._media += [MediaPart(image) for raw in list_in(message, "images") if (image := image_of(raw)) is not None]
        deltas: list[Delta] = []
        if thought := self._thoughts.add(message.get("thinking")):
            deltas.append(ReasoningDelta(thought))
        if text := self._text.add(message.get("content")):
            deltas.append(TextDelta(text))
        return [*deltas, *(self._called(each) for each in objects_in(message, "tool_calls"))]

    def _called(self, said: JsonMapping) -> CallDelta:
        call_id, wire = self._ids.take(said.get("id"))
        metadata = None if wire is None else {FAMILY: {ORIGINAL: wire}}
        function = object_in(said, "function")
        call = made_call(function.get("name"), function.get("arguments"), call_id, metadata)
        self._calls.append(call)
        return CallDelta(len(self._calls) - 1, shown(call.arguments), call.id, call.name)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come; interrupted where no line was the last.

        Args:
            broken: Why the stream ended early, for the operator.
        """
        read = ModelResponse(
            Message("assistant", self._parts()),  # pyright: ignore[reportArgumentType]
            self._reason(),
            Usage(count_in(self._last, "prompt_eval_count"), count_in(self._last, "eval_count")),
            self._model or None,
            complete=self._reason() != "length",
        )
        return self._end.of(read, broken, spent=self.room.spent)

    def _parts(self) -> list[Part]:
        thoughts, text = self._thoughts.text, self._text.text
        parts: list[Part] = [ReasoningPart(thoughts, {FAMILY: {}})] if thoughts else []
        if text:
            parts.append(TextPart(text))
        return [*parts, *self._media, *map(CallPart, self._calls)]

    def _reason(self) -> FinishReason:
        reason: FinishReason = _REASONS.get(text_in(self._last, "done_reason"), "other")
        return "tool_calls" if self._calls and reason == "stop" else reason


def response_of(raw: Any) -> ModelResponse:
    """An answer that came whole.

    Raises:
        ModelError: It is no answer, or the provider's error.
    """
    if not is_answer(raw):
        raise error_of(raw)
    reader = OllamaReader()
    reader.feed({**raw, "done": True})
    return reader.response()


def is_answer(raw: Any) -> bool:
    """Whether this is the body of an answer, or a line of one."""
    read = as_object(raw)
    return not read.get("error") and ("message" in read or "done" in read)


def error_of(body: Any, *, status: int | None = None, retry_after: float | None = None) -> ModelError:
    """The error that a body tells.

    Args:
        body: `{"error": "..."}`, or whatever came instead.
        status: The HTTP status.
        retry_after: Seconds, by a header.
    """
    said = text_in(as_object(body), "error")
    message = said or f"an answer that can't be read: {type(body).__name__}"
    return ModelError(message, provider=FAMILY, status=status, retryable=status in _RETRYABLE, retry_after=retry_after)


__all__ = ["OllamaReader", "error_of", "is_answer", "response_of"]
