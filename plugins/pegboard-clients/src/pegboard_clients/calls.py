"""Streamed tool calls: the one rule by which the pieces of a stream become calls."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import CallFault
from pegboard.json import json_text
from pegboard.messages import CallDelta
from pegboard.typing import JsonMapping
from pegboard_clients.dialects import deep_copy
from pegboard_clients.json_end import JsonEnd
from pegboard_clients.wire import ARGUMENTS_TOO_LONG, SizeBudget, TextBuffer, encodable_text, parsed_object

FAULT: Final = "fault"
"""The member for the fault of a streamed call that is read as one of a whole answer."""

MIXED_UP: Final = CallFault(
    "invalid_arguments", "Not run: the parts of this call can't be told from another call's. Make the call again."
)
"""Fault of a call that a piece of the stream may belong to, where that can't be decided."""

_PLACEHOLDER: Final = re.compile(r"\s*(?:\{\s*\}\s*)+(?=\{)")
_MOST_NAME: Final = 1_000
"""Characters of a call's name and id; further ones are cut."""


@define(eq=False)
class StreamedCall:
    """One call, as received so far.

    Attributes:
        place: Its index among the answer's calls.
        index: The provider's index of it, or `None`.
        text: Its arguments, or its free text.
        id: The provider's id, or `""`.
        name: The tool's name, or `""`.
        free: Whether it takes free text instead of a JSON object.
        closed: Whether the provider has said that it is complete.
        echoes: Whether it has no text, and may only repeat the name of the call before it.
        is_doubted: Whether a piece may belong to it that can't be placed.
        overlaps: Whether it began in the place of a call that wasn't complete, so that its place doesn't tell it apart.
        ids: The ids under which pieces have named it; the last of them is `last_id`.
    """

    place: int
    index: int | None
    text: TextBuffer
    id: str = ""
    name: str = ""
    free: bool = False
    closed: bool = False
    echoes: bool = False
    is_doubted: bool = False
    overlaps: bool = False
    ids: set[str] = field(factory=set[str])
    last_id: str = ""
    _end: JsonEnd = field(factory=JsonEnd, init=False)

    @property
    def arguments(self) -> str:
        """Its text, without a `{}` before the arguments."""
        return self.text.text if self.free else _PLACEHOLDER.sub("", self.text.text, count=1)

    @property
    def fault(self) -> CallFault | None:
        """Why it can't run, or `None`."""
        return ARGUMENTS_TOO_LONG if self.text.over else MIXED_UP if self.is_doubted or self.echoes else None

    @property
    def is_complete(self) -> bool:
        """Whether its object is complete. Free text has no end but the provider's."""
        return self.closed or (not self.free and self._end.reached(""))

    @property
    def is_empty(self) -> bool:
        """Whether it has no arguments: no text, or a `{}` that may be a placeholder."""
        return not self.free and len(self.text) <= _LONGEST_EMPTY and self.text.text.split() in _EMPTY

    def is_of_two(self, piece_id: str) -> bool:
        """Whether a piece shows that its ids are of two calls, whose pieces arrive in turns: an earlier id, or none."""
        return len(self.ids) > 1 and piece_id != self.last_id and (not piece_id or piece_id in self.ids)

    def add(self, piece: str) -> str:
        """Adds a piece of its text; returns the part that was added."""
        taken = self.text.add(piece)
        self.echoes = self.echoes and not taken.strip()
        self._end.reached(taken)
        return taken

    def agrees(self, text: str) -> bool:
        """Whether a text of the whole call says the same as its pieces."""
        mine = None if self.free else parsed_object(self.arguments)
        if mine is None:
            return text == self.text.text
        said = parsed_object(text)
        with suppress(ValueError, RecursionError):  # some servers repeat the arguments as a string that holds them
            inner = json.loads(text) if said is None and text.lstrip().startswith('"') else None
            said = parsed_object(inner) if isinstance(inner, str) else said
        return mine == said

    def delta(self, text: str) -> CallDelta:
        """The delta of a piece."""
        return CallDelta(self.place, text, encodable_text(self.id), encodable_text(self.name))


_LONGEST_EMPTY: Final = 100
_EMPTY: Final[tuple[list[str], ...]] = ([], ["{}"], ["{", "}"])


@frozen
class _Piece:
    index: int | None
    id: str
    name: str
    text: str
    is_whole: bool

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def begins(self) -> bool:
        """Whether it may begin an object."""
        return self.text.lstrip().startswith("{")


@define(eq=False)
class StreamedCalls:
    """The calls of a streamed answer, as received so far.

    The rule: a piece with a name starts a call, or repeats what is known of one. A piece without a name belongs to the
    call of its id or index, else to the last call; it starts one only where there is none. A `{}` before an object is a
    placeholder. Where id and index disagree, the call is complete, or another call was open in its place and no id
    tells them apart, a piece can't be placed: then no call runs that it may belong to, which are these, and those
    without arguments or with incomplete ones. A named piece without text in the place of a call of its name, which the
    provider hasn't ended, may only repeat that: it is no call until text follows.

    Attributes:
        budget: The size budget of the answer.
        most: Characters of one call's text; a call with more can't run.
        all: The calls, in the order in which they started, with such as may only repeat a name; `made` is without
            these, unless a piece couldn't be placed.
    """

    budget: SizeBudget
    most: int
    all: list[StreamedCall] = field(factory=list[StreamedCall], init=False)
    _at: dict[int | None, StreamedCall] = field(factory=dict["int | None", StreamedCall], init=False)
    _by_id: dict[str, StreamedCall] = field(factory=dict[str, StreamedCall], init=False)
    _last: StreamedCall | None = field(default=None, init=False)  # to which the last piece was added
    _is_mixed: bool = field(default=False, init=False)  # a piece couldn't be placed
    _shared: set[str] = field(factory=set[str], init=False)  # ids of several calls

    @property
    def calls(self) -> list[StreamedCall]:
        """The calls of the answer, but for one with arguments that is there under another index, with the same id."""
        for call, after in pairwise(self.all):  # either two calls, or one of which `{}` is a placeholder
            is_so = (call.name, call.index) == (after.name, after.index) and not (call.closed or after.is_empty)
            call.is_doubted = call.is_doubted or (is_so and call.is_empty and bool(call.id and after.id))
        found, shared = list[StreamedCall](), dict[str, list[StreamedCall]]()
        for call in self.all:
            same = shared.setdefault(call.id, []) if call.id in self._shared else []
            if not call.is_empty and any(call.name == other.name and other.agrees(call.arguments) for other in same):
                continue
            same.append(call)
            if self._is_mixed or not call.echoes:
                found.append(call)
        return found

    def feed(
        self, index: int | None, call_id: str, name: str, arguments: object = "", *, free: bool = False
    ) -> tuple[StreamedCall, str] | None:
        """Adds a piece.

        Args:
            index: The provider's index of the call, or `None`.
            call_id: Its id, or `""`.
            name: The tool's name, or a part of it, or `""`.
            arguments: The next text, `None` for none; other values, such as an object, are all of the arguments.
            free: Whether the tool takes free text.

        Returns:
            The call, with the text that was added to it; `None` if there is none, or no room for it.
        """
        piece = _Piece(index, call_id, name, _text_of(arguments), not isinstance(arguments, str | None))
        call = self._find_named(piece) if name else self._find_unnamed(piece)
        if call is None:
            return None
        if call.index is None and index is not None:
            call.index = index
            self._at.setdefault(index, call)
        if name and piece.is_blank and len(call.text):
            call.overlaps = True  # another call of its name may begin
        if not len(call.text):
            call.free = call.free or free
        elif call.free != free and not piece.is_blank:
            self.doubt(call)
            return None
        if not call.name or (name != call.name and not len(call.text)):
            call.name = (call.name + name)[:_MOST_NAME]
        if call_id and not call.id:
            call.id = call_id[:_MOST_NAME]
            self._by_id[call_id] = call
        if not piece.is_blank and call.is_of_two(call_id):
            self.doubt(call)
        elif name and call_id not in call.ids and self.budget.take(len(call_id)):
            call.ids.add(call_id)
            call.last_id = call_id
        added = self._add(call, piece)
        self._last = call
        return call, added

    def finish(self, call: StreamedCall, arguments: object) -> None:
        """Takes the arguments of a whole call, which some providers repeat at its end.

        A call that they contradict can't run.
        """
        text = _text_of(arguments)
        if not len(call.text) or (text.startswith(call.text.text) and not call.is_complete):
            call.add(text[len(call.text) :])
        elif text.strip() and not call.agrees(text):
            if call.is_empty:
                call.add(text)
            else:
                self.doubt(call)

    def doubt(self, *calls: StreamedCall) -> None:
        """Marks the calls to which a piece may belong that can't be placed."""
        self._is_mixed = True
        for call in self.all:
            if call in calls or call.is_empty or not call.is_complete:
                call.is_doubted = True

    def _find_unnamed(self, piece: _Piece) -> StreamedCall | None:
        known, at = self._by_id.get(piece.id), self._at.get(piece.index)
        if known is not None and at is not None and known is not at and known.index != piece.index:
            self.doubt(known, at)
            return None
        if known or at or self.all:
            found = known or at or self.all[-1]
            is_told_apart = known is not None and piece.id not in self._shared
            if (found.overlaps and not is_told_apart) or (found.echoes and found is not self._last):
                self.doubt(found)
            return found
        return None if piece.is_blank and not piece.id else self._open(piece)

    def _find_named(self, piece: _Piece) -> StreamedCall | None:
        known = self._by_id.get(piece.id)
        if known is not None and not (known.closed or (known.echoes and known.name != piece.name)):
            return known if self._repeats(known, piece) else self._open(piece)
        at = self._in_place_of(piece)
        return at if at is not None and not at.closed and self._continues(at, piece) else self._open(piece)

    def _in_place_of(self, piece: _Piece) -> StreamedCall | None:
        """The call of the index of a piece with a name; where either has no index, the last one."""
        last = self.all[-1] if self.all else None
        is_last = last is not None and None in (piece.index, last.index)
        return self._at.get(piece.index, last if is_last else None)

    def _repeats(self, call: StreamedCall, piece: _Piece) -> bool:
        """Whether a piece with a name and a known id belongs to that call: some servers give all calls one id."""
        if call.index == piece.index or None in (call.index, piece.index):
            return call.name in ("", piece.name) or not len(call.text)
        if call.name == piece.name and not len(call.text):
            call.is_doubted = True  # either a call without arguments, or the beginning of this one
        return False

    def _continues(self, call: StreamedCall, piece: _Piece) -> bool:
        """Whether a piece with a name, and without a known id, belongs to the call of its index, or the last one."""
        is_same = call.name in ("", piece.name)
        if (piece.is_whole and len(call.text)) or (call.echoes and not is_same):
            return False
        if piece.id and call.id:
            if is_same and not call.is_complete and not (piece.text and (len(call.text) or piece.index is not None)):
                call.is_doubted = True  # either a call without arguments, or the beginning of this one
                return False
            return is_same and not call.is_complete
        if not len(call.text) or not is_same:
            return not len(call.text)
        if not call.is_complete or call.is_empty:
            return True
        return not piece.is_blank and (call.agrees(piece.text) or not piece.begins)

    def _open(self, piece: _Piece) -> StreamedCall | None:
        if not self.budget.take_item():
            return None
        call = StreamedCall(len(self.all), piece.index, TextBuffer(self.budget, self.most), piece.id[:_MOST_NAME])
        at = self._in_place_of(piece)
        if at is not None:
            call.overlaps = not at.closed and (at.overlaps or not at.is_complete)
            is_named_again = not at.closed and piece.name in (at.name, self._last and self._last.name)
            call.echoes = piece.is_blank and (self._is_mixed or is_named_again)
        self.all.append(call)
        if piece.index is not None:
            self._at[piece.index] = call
        if piece.id:
            if piece.id in self._by_id:
                self._shared.add(piece.id)
            self._by_id[piece.id] = call
        return call

    def _add(self, call: StreamedCall, piece: _Piece) -> str:
        """Adds a piece to its call, unless it can't belong to it; returns the part that was added."""
        if call.is_doubted and not piece.is_blank:
            self.doubt(call)  # it may belong to another, too
        if piece.is_blank or not call.is_complete:
            return call.add(piece.text)
        is_last = call is self.all[-1] is self._last
        if call.is_empty and not call.closed and (piece.name or is_last) and piece.begins:
            return call.add(piece.text)
        is_alone = is_last and all(other.is_complete for other in self.all)
        if not (call.agrees(piece.text) and (piece.name or is_alone)):
            self.doubt(call)
        return ""


def fault_in(call: JsonMapping) -> CallFault | None:
    """The fault under `FAULT`; JSON data has none."""
    fault: Any = call.get(FAULT)
    return fault if isinstance(fault, CallFault) else None


def _text_of(arguments: object) -> str:
    """Arguments as text; those that aren't JSON become a text that isn't, either, so that the call is refused."""
    if isinstance(arguments, str | None):
        return arguments or ""
    data, fault = deep_copy(arguments)
    return str(json_text(data)) if fault is None else fault
