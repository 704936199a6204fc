"""`Spoken`: a model's parts as they come, whole or in a stream, as parts of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import Factory, define, field

from pegboard.messages.message import CallPart, HostedPart, Part, ReasoningPart, TextPart
from pegboard.messages.response import CallDelta, Delta, ReasoningDelta, TextDelta
from pegboard.request.exporters.calls.given_ids import GivenIds
from pegboard.request.exporters.calls.made_calls import ORIGINAL, made_call, shown
from pegboard.request.exporters.gemini.limits import FAMILY
from pegboard.request.exporters.gemini.media import media_of
from pegboard.request.exporters.gemini.metadata import DATA, kept, written
from pegboard.request.exporters.gemini.open_call import OpenCall
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.tools.call import ToolCall
from pegboard.typing import JsonMapping

_RESULTS: Final = frozenset({"functionResponse", "codeExecutionResult", "toolResponse"})
_NAMES: Final[Mapping[str, str]] = {"executableCode": "code_execution", "codeExecutionResult": "code_execution"}


@define(eq=False)
class Spoken:
    """Reads the parts of one answer.

    Words without a signature that follow each other in a stream become one part; a part with a signature stays by
    itself, as the signature is of that part (Gemini API: thought signatures).

    Attributes:
        room: What the answer may still bring, if it is streamed.
        streamed: Whether parts may be pieces of one.
    """

    room: Room = field(factory=Room)
    streamed: bool = False
    _parts: list[Part] = field(factory=list[Part], init=False)
    _words: Gathered = field(default=Factory(lambda self: Gathered(self.room), takes_self=True), init=False)
    _thinking: bool = field(default=False, init=False)
    _ids: GivenIds = field(factory=GivenIds, init=False)
    _calls: int = field(default=0, init=False)
    _open: OpenCall | None = field(default=None, init=False)

    def add(self, part: JsonMapping) -> list[Delta]:
        """Takes in one part, and gives what came with it."""
        if isinstance(part.get("functionCall"), Mapping):
            return self._called(part)
        if isinstance(part.get("text"), str):
            return self._said(text_in(part, "text"), part)
        self._close_words()
        other = _other(part)
        if other is not None:
            self._parts.append(other)
        return []

    def parts(self) -> list[Part]:
        """Everything so far; a call that never ended is there, and can't run."""
        self._close_words()
        if self._open is not None:
            self._parts.append(CallPart(self._open.broken_off()))
            self._open = None
        return self._parts

    def _said(self, text: str, part: JsonMapping) -> list[Delta]:
        thinking, metadata = part.get("thought") is True, kept(part)
        alone = not self.streamed or bool(metadata[FAMILY].keys() - {"thought"})
        if alone or thinking is not self._thinking:
            self._close_words()
        self._thinking = thinking
        if self.streamed:
            text = self._words.add(text)
        if alone:
            self._parts.append(_words(text, thinking=thinking, metadata=metadata))
            self._words = Gathered(self.room)
        return [ReasoningDelta(text) if thinking else TextDelta(text)] if text else []

    def _close_words(self) -> None:
        text = self._words.text
        self._words = Gathered(self.room)
        if text:
            metadata = {FAMILY: {"thought": True}} if self._thinking else {}
            self._parts.append(_words(text, thinking=self._thinking, metadata=metadata))

    def _called(self, part: JsonMapping) -> list[Delta]:
        self._close_words()
        piece = object_in(part, "functionCall")
        if self._open is not None and not text_in(piece, "name"):
            return self._went_on(self._open, piece)
        if self._open is not None:  # another one begins
            self._parts.append(CallPart(self._open.broken_off()))
            self._open = None
        call_id, wire = self._ids.take(piece.get("id"))
        metadata = kept(part) if wire is None else kept(part, **{ORIGINAL: wire})
        self._calls += 1
        if piece.get("willContinue") is True or isinstance(piece.get("partialArgs"), list):
            return self._began(piece, call_id, metadata)
        return [self._delta(self._ended(made_call(piece.get("name"), piece.get("args"), call_id, metadata)))]

    def _began(self, piece: JsonMapping, call_id: str, metadata: dict[str, Any]) -> list[Delta]:
        self._open = OpenCall(text_in(piece, "name"), call_id, metadata)
        begun = CallDelta(self._calls - 1, "", call_id, self._open.name)
        return [begun, *self._went_on(self._open, piece)]

    def _went_on(self, call: OpenCall, piece: JsonMapping) -> list[Delta]:
        call.feed(piece)
        if piece.get("willContinue") is True:
            return []
        self._open = None
        return [self._delta(self._ended(call.call()))]

    def _ended(self, call: ToolCall) -> ToolCall:
        self._parts.append(CallPart(call))
        return call

    def _delta(self, call: ToolCall) -> CallDelta:
        return CallDelta(self._calls - 1, shown(call.arguments), call.id, call.name)


def _words(text: str, *, thinking: bool, metadata: dict[str, Any]) -> Part:
    if thinking:
        return ReasoningPart(text, metadata)
    return TextPart(text, provider_metadata=metadata if metadata.get(FAMILY) else {})


def _other(part: JsonMapping) -> Part | None:
    """Media, or what the provider did by itself, kept as it is; `None` of a part that says nothing."""
    media = media_of(part)
    if media is not None:
        return media
    kind = next((key for key in DATA if isinstance(part.get(key), Mapping)), None)
    if kind is None and not any(isinstance(value, Mapping) for value in part.values()):
        return None
    said = object_in(part, kind or "")
    name = _NAMES.get(kind or "") or text_in(said, "toolType").lower() or text_in(said, "name") or kind or ""
    role = "result" if kind in _RESULTS else "call"
    data = {key: written(value) for key, value in part.items() if value is not None}
    return HostedPart(FAMILY, data, role, name, text_in(said, "id"))


__all__ = ["Spoken"]
