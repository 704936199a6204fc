"""Calls that come in pieces: which piece belongs to which call."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import CallDelta
from pegboard.request.dialects.copied import copied
from pegboard.request.exporters.openai.json_end import JsonEnd
from pegboard.request.exporters.openai_chat.answer import EXTRA
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.untrusted import object_in, object_or_none, place_in, text_in
from pegboard.schema.json import json_text
from pegboard.tools.call import writable
from pegboard.typing import JsonMapping, JsonObject

COST: Final = 1_000
"""Characters of an answer's room that each call takes beside its own: an answer can't bring calls without end."""


@define
class StreamedCall:
    """One call so far.

    Attributes:
        place: Which of the answer's calls it is.
        text: Its arguments, or its free text.
        id: As far as it is known.
        name: Likewise.
        custom: Whether it takes free text.
        extra: What other servers want back with it.
    """

    place: int
    text: Gathered
    id: str = ""
    name: str = ""
    custom: bool = False
    extra: Any = None
    _end: JsonEnd = field(factory=JsonEnd, init=False)
    _unread: list[str] = field(factory=list[str], init=False)

    def named(self, name: str) -> None:
        """Takes in some more of the name; servers that repeat the whole with each piece say nothing new."""
        if name and name != self.name and not len(self.text):
            self.name += name[:COST]

    def add(self, piece: str) -> str:
        """Takes in some more of its text, and gives what was taken of it."""
        taken = self.text.add(piece)
        self._unread.append(taken)
        return taken

    def is_whole(self) -> bool:
        """Whether its arguments are a whole object: then nothing more can belong to it."""
        unread, self._unread = self._unread, []
        return self._end.reached("".join(unread)) and not self.custom

    def repeats(self, text: str) -> bool:
        """Whether a piece is all of it once more, as some servers end with."""
        return len(text) == len(self.text) and self.is_whole() and text == self.text.text

    def data(self) -> JsonObject:
        """As an answer that comes whole would have it."""
        if self.custom:
            return {"id": self.id, "custom": {"name": self.name, "input": self.text.text}}
        function = {"name": self.name, "arguments": self.text.text}
        return {"id": self.id, "function": function, EXTRA: self.extra}


@define
class StreamedCalls:
    """The calls of an answer so far.

    Attributes:
        room: Of the answer.
        most: Characters that are kept of one call's arguments; one more than are taken, so that the call is refused
            for its length.
    """

    room: Room
    most: int
    calls: list[StreamedCall] = field(factory=list[StreamedCall], init=False)
    _at: dict[int | None, StreamedCall] = field(factory=dict["int | None", StreamedCall], init=False)
    _by_id: dict[tuple[int | None, str], StreamedCall] = field(
        factory=dict[tuple["int | None", str], StreamedCall], init=False
    )

    def feed(self, piece: JsonMapping) -> CallDelta | None:
        """Takes in one piece; gives what came with it, or `None` where there was no room."""
        custom = object_or_none(piece.get("custom"))
        said = custom if custom is not None else object_in(piece, "function")
        index, call_id, name = place_in(piece, "index"), text_in(piece, "id"), text_in(said, "name")
        text = _text(said.get("input" if custom is not None else "arguments"))
        call = self._of(index, call_id, name, text)
        if call is None:
            return None
        if call_id and call.id == call_id and call.repeats(text):
            return None
        call.custom = call.custom or custom is not None
        call.extra = piece.get(EXTRA) or call.extra
        call.named(name)
        return CallDelta(call.place, call.add(text), writable(call.id), writable(call.name))

    def _of(self, index: int | None, call_id: str, name: str, text: str) -> StreamedCall | None:
        """The call of a piece. A new id is a new call, under whatever index; so is a name behind a whole call."""
        current = self._at.get(index) if index is not None else self._last()
        if call_id:
            known = self._by_id.get((index, call_id))
            if known is not None and not _is_another(known, name, text):
                return known
            if current is None or current.id or known is not None:
                return self._new(index, call_id)
            current.id = call_id[:COST]
            self._by_id[index, call_id] = current
            return current
        return current if current is not None and not _is_another(current, name, text) else self._new(index, "")

    def _last(self) -> StreamedCall | None:
        return self.calls[-1] if self.calls else None

    def _new(self, index: int | None, call_id: str) -> StreamedCall | None:
        if self.room.take(COST) < COST:
            return None
        call = StreamedCall(len(self.calls), Gathered(self.room, self.most), call_id[:COST])
        self.calls.append(call)
        self._at[index] = call
        self._by_id[index, call_id] = call
        return call


def _is_another(call: StreamedCall, name: str, text: str) -> bool:
    """Whether a piece begins another call: it has a name and begins an object, and that of this call is whole."""
    begins = bool(name) and len(call.text) > 0 and text.lstrip().startswith("{")
    return begins and call.is_whole() and not call.repeats(text)


def _text(arguments: object) -> str:
    """Arguments that come whole, as an object, are written as text."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    data, fault = copied(arguments)
    return str(json_text(data)) if fault is None else fault  # which is no JSON either, so that the call is refused


__all__ = ["StreamedCall", "StreamedCalls"]
