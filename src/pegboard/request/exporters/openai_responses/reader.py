"""A streamed response, read event by event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import CallDelta, Delta, ModelResponse, ReasoningDelta, TextDelta
from pegboard.request.exporters.openai.failure import error_facts
from pegboard.request.exporters.openai_responses.answer import ResponsesAnswers
from pegboard.request.exporters.openai_responses.streamed_items import CALLS, COST, StreamedItem, StreamedItems
from pegboard.request.exporters.streams.gathered import Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import object_in, object_or_none, objects_in, place_in, text_in
from pegboard.tools.call import writable
from pegboard.typing import JsonMapping, JsonObject

_CALL_PIECES: Final = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_TEXT_PIECES: Final[Mapping[str, tuple[str, str, Callable[[str], Delta]]]] = {
    "response.output_text.delta": ("message", "content.output_text", TextDelta),
    "response.refusal.delta": ("message", "content.refusal", TextDelta),
    "response.reasoning_text.delta": ("reasoning", "content.reasoning_text", ReasoningDelta),
    "response.reasoning_summary_text.delta": ("reasoning", "summary.summary_text", ReasoningDelta),
}
"""By event: the kind of item, the member of it that grows, and what is passed on."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@define
class ResponsesReader:
    """Gathers the items of a stream; where the last event has them all, those count.

    Attributes:
        answers: Reads whole answers.
    """

    answers: ResponsesAnswers
    _room: Room = field(init=False)
    _items: StreamedItems = field(init=False)
    _body: JsonObject = field(factory=dict[str, Any], init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self._room = Room(limits.answer_text)
        self._items = StreamedItems(self._room, limits.argument_text + 1)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Takes in an event, and gives what came with it. Never raises."""
        event = object_or_none(chunk)
        if event is None:
            return []
        kind = text_in(event, "type")
        if kind in _TEXT_PIECES:
            return self._text(event, *_TEXT_PIECES[kind])
        if kind in _CALL_PIECES:
            return self._call_piece(event, _CALL_PIECES[kind])
        if kind == "response.output_item.added":
            return self._begun(event)
        if kind == "response.output_item.done":
            self._items.end(event, object_in(event, "item"))
        elif kind == "response.output_text.annotation.added":
            self._annotated(event)
        else:
            self._of_whole(event, kind)
        return []

    def _text(self, event: JsonMapping, kind: str, member: str, delta: Callable[[str], Delta]) -> list[Delta]:
        item = self._items.of(event, kind)
        if item is None:
            return []
        place = place_in(event, "summary_index" if member.startswith("summary") else "content_index") or 0
        piece = self._items.add(item, member, place, text_in(event, "delta"))
        return [delta(piece)] if piece else []

    def _call_piece(self, event: JsonMapping, kind: str) -> list[Delta]:
        item = self._items.of(event, kind)
        if item is None or item.place is None:
            return []
        return [_delta(item, self._items.add(item, CALLS[kind], 0, text_in(event, "delta")))]

    def _begun(self, event: JsonMapping) -> list[Delta]:
        item = self._items.begin(event, object_in(event, "item"))
        return [_delta(item, "")] if item is not None and item.place is not None else []

    def _annotated(self, event: JsonMapping) -> None:
        item = self._items.of(event, "message")
        annotation = object_or_none(event.get("annotation"))
        if item is not None and annotation is not None and self._room.take(COST) == COST:
            item.annotations.setdefault(place_in(event, "content_index") or 0, []).append(annotation)

    def _of_whole(self, event: JsonMapping, kind: str) -> None:
        """What is said of the response as a whole: that it begins, ends, or failed."""
        response = object_or_none(event.get("response"))
        if response is not None:
            self._body = dict(response)
        self._end.reached = self._end.reached or kind in _ENDS
        if kind == "error" or event.get("error"):
            self._fail(event.get("error") or event)
        elif kind == "response.failed" or text_in(self._body, "status") == "failed":
            self._fail(self._body.get("error"))

    def _fail(self, error: object) -> None:
        code, message = error_facts(object_or_none(error) or {})
        self._end.failed(None if code == "error" else code, message)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come.

        Args:
            broken: Why the stream ended early.
        """
        whole = objects_in(self._body, "output")
        gathered = [item.data() for item in self._items.items]
        output = whole if self._end.reached and len(whole) >= len(gathered) else gathered
        status = text_in(self._body, "status") if self._end.reached else "in_progress"
        answer = self.answers.answer({**self._body, "output": output, "status": status}, whole=self._end.reached)
        return self._end.of(answer.evolve(partial=False), broken, spent=self._room.spent and output is gathered)


def _delta(item: StreamedItem, piece: str) -> CallDelta:
    call_id, name = text_in(item.item, "call_id"), text_in(item.item, "name")
    return CallDelta(item.place or 0, piece, writable(call_id), writable(name))


__all__ = ["ResponsesReader"]
