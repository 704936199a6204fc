"""Items that come in pieces: which piece belongs to which item."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.untrusted import place_in, text_in
from pegboard.typing import JsonMapping, JsonObject

COST: Final = 1_000
"""Characters of an answer's room that each item and each part of one takes beside its own."""

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items whose text comes in pieces, and where it stands in them."""


@define
class StreamedItem:
    """One item so far.

    Attributes:
        item: As it was when it began, or as it is when it is done.
        place: Among the answer's calls, or `None` where it is none.
        done: Whether it is whole.
        texts: The pieces of its texts, by the member and the place that they belong to.
        annotations: Of its content, by place.
    """

    item: JsonMapping
    place: int | None = None
    done: bool = False
    texts: dict[tuple[str, int], Gathered] = field(factory=dict[tuple[str, int], Gathered])
    annotations: dict[int, list[JsonMapping]] = field(factory=dict[int, list[JsonMapping]])

    def data(self) -> JsonMapping:
        """The item; of what isn't done, with what has come of it."""
        return self.item if self.done else self._so_far()

    def _so_far(self) -> JsonObject:
        item: dict[str, Any] = {**self.item}
        if text_in(item, "type") in ("message", "reasoning", *CALLS):
            item["status"] = "incomplete"
        lists: dict[str, list[JsonObject]] = {}
        for (member, place), gathered in sorted(self.texts.items()):
            if member in CALLS.values():
                item[member] = gathered.text
                continue
            where, _, kind = member.partition(".")
            lists.setdefault(where, []).append(self._part(kind, place, gathered.text))
        return {**item, **lists}

    def _part(self, kind: str, place: int, text: str) -> JsonObject:
        member = "refusal" if kind == "refusal" else "text"
        annotated = {"annotations": self.annotations.get(place, [])} if kind == "output_text" else {}
        return {"type": kind, member: text, **annotated}


@define
class StreamedItems:
    """The items of an answer so far.

    Attributes:
        room: Of the answer.
        most: Characters that are kept of one call's text; one more than are taken.
        items: In the order in which they began.
    """

    room: Room
    most: int
    items: list[StreamedItem] = field(factory=list[StreamedItem], init=False)
    _at: dict[int | None, StreamedItem] = field(factory=dict["int | None", StreamedItem], init=False)
    _by_id: dict[str, StreamedItem] = field(factory=dict[str, StreamedItem], init=False)
    _calls: int = field(default=0, init=False)

    def begin(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """An item begins; `None` where there is no room for it."""
        if self.room.take(COST) < COST:
            return None
        begun = StreamedItem(item)
        if text_in(item, "type") in CALLS:
            begun.place, self._calls = self._calls, self._calls + 1
        self.items.append(begun)
        self._at[place_in(event, "output_index")] = begun
        for name in ("id", "call_id"):
            if found := text_in(item, name):
                self._by_id[found] = begun
        return begun

    def end(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """An item is whole; one that nobody has heard of begins with it."""
        own = text_in(item, "id") or text_in(item, "call_id")
        ended = self._by_id.get(own) or self._at.get(place_in(event, "output_index"))
        if ended is None or ended.done or not _is_same(ended.item, item):
            ended = self.begin(event, item)
        if ended is not None:
            ended.item, ended.done = item, True
        return ended

    def of(self, event: JsonMapping, kind: str) -> StreamedItem | None:
        """The item that a piece belongs to; a piece of none that is there begins one of its kind."""
        item_id = text_in(event, "item_id")
        found = self._by_id.get(item_id) if item_id else None
        found = found or self._at.get(place_in(event, "output_index"))
        if found is None or (item_id and text_in(found.item, "id") not in ("", item_id)):
            return self.begin(event, {"type": kind, **({"id": item_id} if item_id else {})})
        return found

    def add(self, item: StreamedItem, member: str, place: int, piece: str) -> str:
        """Takes in a piece of a text of an item, and gives what was taken of it."""
        gathered = item.texts.get((member, place))
        if gathered is None:
            if self.room.take(COST) < COST:
                return ""
            gathered = Gathered(self.room, self.most if member in CALLS.values() else None)
            item.texts[member, place] = gathered
        return gathered.add(piece)


def _is_same(one: JsonMapping, other: JsonMapping) -> bool:
    """Whether two items may be one: of one type, and under no two ids."""
    if text_in(one, "type") != text_in(other, "type"):
        return False
    ids = ((text_in(one, name), text_in(other, name)) for name in ("id", "call_id"))
    return all(not mine or not its or mine == its for mine, its in ids)


__all__ = ["CALLS", "COST", "StreamedItem", "StreamedItems"]
