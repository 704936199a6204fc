"""Parser of the streams of the responses format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field

from pegboard import ModelResponse
from pegboard.messages import (
    Delta,
    ReasoningDelta,
    TextDelta,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import FAULT, StreamedCall, StreamedCalls
from pegboard_clients.wire import (
    SizeBudget,
    StreamReader,
    TextBuffer,
    object_in,
    object_or_none,
    objects_in,
    place_in,
    text_in,
)
from pegboard_openai._openai import (
    error_facts,
)
from pegboard_openai._openai_responses import ResponsesAnswers

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items with streamed text, and the member that holds it."""


@define
class StreamedItem:
    """One item, as received so far.

    Attributes:
        item: The item at its start, or complete.
        call: Its call, if it is one.
        done: Whether it is complete.
        texts: The pieces of its texts, by the member and the place that they belong to.
        annotations: Of its content, by place.
    """

    item: JsonMapping
    call: StreamedCall | None = None
    done: bool = False
    texts: dict[tuple[str, int], TextBuffer] = field(factory=dict[tuple[str, int], TextBuffer])
    annotations: dict[int, list[JsonMapping]] = field(factory=dict[int, list[JsonMapping]])

    def data(self) -> JsonMapping:
        """The item; an incomplete one as received so far."""
        item = self.item if self.done else self._so_far()
        return item if self.call is None else {**item, **_call_facts(item, self.call)}

    def _so_far(self) -> JsonObject:
        item: dict[str, Any] = {**self.item}
        if text_in(item, "type") in ("message", "reasoning", *CALLS):
            item["status"] = "incomplete"
        lists: dict[str, list[JsonObject]] = {}
        for (member, place), gathered in sorted(self.texts.items()):
            where, _, kind = member.partition(".")
            lists.setdefault(where, []).append(self._part(kind, place, gathered.text))
        return {**item, **lists}

    def _part(self, kind: str, place: int, text: str) -> JsonObject:
        member = "refusal" if kind == "refusal" else "text"
        annotated = {"annotations": self.annotations.get(place, [])} if kind == "output_text" else {}
        return {"type": kind, member: text, **annotated}


def _call_facts(item: JsonMapping, call: StreamedCall) -> JsonObject:
    """The members of a call's item that its pieces decide."""
    return {CALLS[text_in(item, "type")]: call.arguments, FAULT: call.fault}


@define
class StreamedItems:
    """The items of an answer, as received so far."""

    budget: SizeBudget
    calls: StreamedCalls
    items: list[StreamedItem] = field(factory=list[StreamedItem], init=False)
    _at: dict[int | None, StreamedItem] = field(factory=dict["int | None", StreamedItem], init=False)
    _by_id: dict[str, StreamedItem] = field(factory=dict[str, StreamedItem], init=False)
    _of_call: dict[int, StreamedItem] = field(factory=dict[int, StreamedItem], init=False)

    def begin(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """Starts an item; `None` if there is no room for it."""
        kind = text_in(item, "type")
        if kind not in CALLS:
            return self._register(event, StreamedItem(item)) if self.budget.take_item() else None
        facts = {**item, "arguments": item.get(CALLS[kind])}
        fed = self._feed(event, facts, kind, text_in(item, "call_id") or text_in(item, "id"))
        return None if fed is None else fed[0]

    def end(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """Ends an item; an unknown one is added."""
        index, kind = place_in(event, "output_index"), text_in(item, "type")
        known = (self._by_id.get(text_in(item, name)) for name in ("id", "call_id"))
        among = (self._at.get(index), *known) if kind in CALLS else (*known, self._at.get(index))
        ended = next((each for each in among if each is not None and _is_same(each, item)), None)
        ended = ended or self.begin(event, {**item, CALLS[kind]: None} if kind in CALLS else item)
        if ended is None:
            return None
        ended.item, ended.done = item, True
        if ended.call is not None:
            self.calls.finish(ended.call, item.get(CALLS[kind]))
            ended.call.closed = True
        return ended

    def of(self, event: JsonMapping, kind: str) -> StreamedItem | None:
        """The item of a piece of text; started if it is unknown."""
        item_id = text_in(event, "item_id")
        found = self._by_id.get(item_id) if item_id else None
        found = found or self._at.get(place_in(event, "output_index"))
        if found is None or (item_id and text_in(found.item, "id") not in ("", item_id)):
            return self.begin(event, {"type": kind, **({"id": item_id} if item_id else {})})
        return found

    def call_piece(self, event: JsonMapping, kind: str, arguments: object) -> tuple[StreamedCall, str] | None:
        """Adds a piece of a call; returns the call with what was added to it.

        It goes by `output_index`, by `item_id` only where the index is unknown or doesn't tell two calls apart.
        """
        item_id = text_in(event, "item_id")
        at, by_id = self._at.get(place_in(event, "output_index")), self._by_id.get(item_id)
        first = at or by_id
        if first is not None and first.call is None:
            self.calls.doubt()
            return None
        known = None if by_id is None or not (at is None or (at.call and at.call.overlaps)) else by_id.call
        fed = self._feed(event, {"id": item_id, "arguments": arguments}, kind, "" if known is None else known.id)
        return None if fed is None or fed[0].call is None else (fed[0].call, fed[1])

    def add(self, item: StreamedItem, member: str, place: int, piece: str) -> str:
        """Adds a piece of an item's text; returns the part that was added."""
        gathered = item.texts.get((member, place))
        if gathered is None:
            if not self.budget.take_item():
                return ""
            gathered = item.texts[member, place] = TextBuffer(self.budget)
        return gathered.add(piece)

    def check(self, whole: list[JsonMapping]) -> list[JsonMapping]:
        """The items of the last event; the calls among them that contradict their pieces can't run."""
        streamed = [item.call for item in self.items if item.call is not None]
        by_id = {call.id: call for call in streamed}
        calls = [item for item in whole if text_in(item, "type") in CALLS]
        known: dict[int, StreamedCall] = {}
        for place, item in enumerate(calls):
            call_id, call = text_in(item, "call_id"), streamed[place] if place < len(streamed) else None
            if call is None or call.id != call_id:
                call = by_id.get(call_id, call)
            if call is None:
                continue
            known[id(item)] = call
            self.calls.finish(call, item.get(CALLS[text_in(item, "type")]))
            if call.name not in ("", text_in(item, "name")):
                self.calls.doubt(call)
        return [item if id(item) not in known else {**item, **_call_facts(item, known[id(item)])} for item in whole]

    def _feed(self, event: JsonMapping, item: JsonMapping, kind: str, call_id: str) -> tuple[StreamedItem, str] | None:
        index, is_free = place_in(event, "output_index"), kind != "function_call"
        name = text_in(item, "name")
        fed = self.calls.feed(index, call_id, name, item.get("arguments"), free=is_free)
        if fed is None:
            return None
        if name and name != fed[0].name:  # no part of its name: here, names aren't streamed
            self.calls.doubt(fed[0])
        known = self._of_call.get(fed[0].place)
        if known is None:
            facts = {name: fact for name, fact in item.items() if name != "arguments" and fact != ""}
            known = self._register(event, StreamedItem({"type": kind, **facts}, fed[0]))
            self._of_call[fed[0].place] = known
        return known, fed[1]

    def _register(self, event: JsonMapping, item: StreamedItem) -> StreamedItem:
        self.items.append(item)
        self._at[place_in(event, "output_index")] = item
        for name in ("id", "call_id"):
            if found := text_in(item.item, name):
                self._by_id[found] = item
        return item


def _is_same(begun: StreamedItem, item: JsonMapping) -> bool:
    """Whether an item may end the one that has begun: of one type, and a call not yet ended, or of the same ids."""
    mine = begun.item
    if text_in(mine, "type") != text_in(item, "type"):
        return False
    if begun.call is not None and not begun.done:
        return text_in(item, "name") in ("", begun.call.name) or not begun.call.name
    ids = [(text_in(mine, name), text_in(item, name)) for name in ("id", "call_id")]
    if begun.done:
        return begun.call is not None and ids[1][0] == ids[1][1] != ""
    return all(not own or not its or own == its for own, its in ids)


_CALL_PIECES: Final = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_CALL_ENDS: Final = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
_TEXT_PIECES: Final[Mapping[str, tuple[str, str, Callable[[str], Delta]]]] = {
    "response.output_text.delta": ("message", "content.output_text", TextDelta),
    "response.refusal.delta": ("message", "content.refusal", TextDelta),
    "response.reasoning_text.delta": ("reasoning", "content.reasoning_text", ReasoningDelta),
    "response.reasoning_summary_text.delta": ("reasoning", "summary.summary_text", ReasoningDelta),
}
"""By event: the type of the item, its member that grows, and the class of the delta."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@define(eq=False)
class ResponsesReader(StreamReader):
    """Parser of a stream: collects its items, unless the last event has all of them."""

    answers: ResponsesAnswers
    _items: StreamedItems = field(init=False)
    _body: JsonObject = field(factory=dict[str, Any], init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self.budget = SizeBudget(limits.answer_text)
        self._items = StreamedItems(self.budget, StreamedCalls(self.budget, limits.argument_text))

    def read(self, event: JsonMapping) -> list[Delta]:
        """Parses an event; returns its deltas."""
        kind = text_in(event, "type")
        if kind in _TEXT_PIECES:
            return self._text(event, *_TEXT_PIECES[kind])
        if kind in _CALL_PIECES:
            fed = self._items.call_piece(event, _CALL_PIECES[kind], event.get("delta"))
            return [] if fed is None else [fed[0].delta(fed[1])]
        if kind == "response.output_item.added":
            return self._begin(event)
        if kind == "response.output_item.done":
            self._items.end(event, object_in(event, "item"))
        elif kind in _CALL_ENDS:
            fed = self._items.call_piece(event, _CALL_ENDS[kind], None)
            if fed is not None:
                self._items.calls.finish(fed[0], event.get(CALLS[_CALL_ENDS[kind]]))
        elif kind == "response.output_text.annotation.added":
            self._annotate(event)
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

    def _begin(self, event: JsonMapping) -> list[Delta]:
        item = self._items.begin(event, object_in(event, "item"))
        return [] if item is None or item.call is None else [item.call.delta(item.call.arguments)]

    def _annotate(self, event: JsonMapping) -> None:
        item = self._items.of(event, "message")
        annotation = object_or_none(event.get("annotation"))
        if item is not None and annotation is not None and self.budget.take_item():
            item.annotations.setdefault(place_in(event, "content_index") or 0, []).append(annotation)

    def _of_whole(self, event: JsonMapping, kind: str) -> None:
        """Handles an event about the response as a whole: its start, end or failure."""
        response = object_or_none(event.get("response"))
        if response is not None:
            self._body = dict(response)
        self.end.reached = self.end.reached or kind in _ENDS
        if kind == "error" or event.get("error"):
            self._fail(event.get("error") or event)
        elif kind == "response.failed" or text_in(self._body, "status") == "failed":
            self._fail(self._body.get("error"))

    def _fail(self, error: object) -> None:
        code, message = error_facts(object_or_none(error) or {})
        self.end.failed(None if code == "error" else code, message)

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer; the last event may have all that was dropped for lack of room."""
        whole = self._items.check(objects_in(self._body, "output"))
        gathered = [item.data() for item in self._items.items]
        output = whole if self.end.reached and len(whole) >= len(gathered) else gathered
        status = text_in(self._body, "status") if self.end.reached else "in_progress"
        answer = self.answers.answer({**self._body, "output": output, "status": status}, whole=self.end.reached)
        self.budget.spent = self.budget.spent and output is gathered
        return answer.evolve(partial=False)
