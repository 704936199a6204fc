"""Messages as turns of user and assistant that alternate, results first in the turn that follows their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from attrs import define, field

from pegboard.errors import ExportError
from pegboard.messages.message import CallPart, HostedPart, Message, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request.exporters.alternating.hosted_pairs import HostedPairs
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.typing import JsonMapping, JsonObject

Speaker: TypeAlias = Literal["user", "assistant"]
Blocks: TypeAlias = list[JsonObject]

OPENING: Final = "(The conversation begins with the assistant.)"
_SPEAKERS: Final[Mapping[type[Any], Speaker]] = {
    CallPart: "assistant",
    HostedPart: "assistant",
    ReasoningPart: "assistant",
    ResultPart: "user",
}


class Wire(Protocol):
    """How one provider writes what turns are made of."""

    family: str
    ids: SentIds

    def blocks(self, part: Part, speaker: Speaker) -> Blocks:
        """A part, in blocks of the caller's own; none where nothing is to be said."""
        ...

    def text(self, text: str) -> JsonObject:
        """Words, not blank."""
        ...

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Adds what a message wants to have said behind its blocks (that they be cached)."""
        ...

    def is_result(self, block: JsonObject) -> bool:
        """Whether it answers a call."""
        ...

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning, with which no turn may end."""
        ...

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Makes a whole turn what the provider wants it to be."""
        ...


def leading_system(messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
    """What the host says before anybody else does, and the other messages."""
    count = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    return [message.text for message in messages[:count] if message.text.strip()], messages[count:]


def turns_of(messages: Sequence[Message], wire: Wire) -> list[JsonObject]:
    """The turns, each `{"role", "content"}`; the first is the user's, and no two of one role follow each other.

    What the host says in the midst of a conversation stands in the user's turn, marked as the system's.

    Raises:
        ExportError: There is nothing to say.
    """
    conversation = _Conversation(wire, HostedPairs.of(messages, wire.family))
    for place, message in enumerate(messages):
        conversation.add(message, place)
    turns = conversation.turns()
    if not turns:
        raise ExportError("there is no message to send.", exporter=wire.family)
    if turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [wire.text(OPENING)]})
    for turn in turns:
        wire.completed(turn, last=turn is turns[-1])
    return turns


@define(eq=False)
class _Conversation:
    wire: Wire
    hosted: HostedPairs
    said: list[tuple[Speaker, Blocks]] = field(factory=list["tuple[Speaker, Blocks]"])

    def add(self, message: Message, place: int) -> None:
        own: Speaker = "assistant" if message.role == "assistant" else "user"
        blocks: Blocks = []
        for part in message.parts:
            if isinstance(part, HostedPart) and not self.hosted.belongs(part, place):
                continue
            blocks = self._add(part, _SPEAKERS.get(type(part), own), system=message.role == "system") or blocks
        if blocks and message.provider_metadata:
            self.wire.mark(blocks, message.provider_metadata)

    def _add(self, part: Part, speaker: Speaker, *, system: bool) -> Blocks:
        """Writes a part; gives the turn that it went into, and an empty one where nothing was to be said."""
        if speaker == "assistant" and (not self.said or self.said[-1][0] != speaker):
            self.wire.ids.turn()
        if system and isinstance(part, TextPart) and part.text.strip():
            part = TextPart(f"<system>\n{part.text}\n</system>", provider_metadata=part.provider_metadata)
        written = self.wire.blocks(part, speaker)
        if not written:
            return written
        if not self.said or self.said[-1][0] != speaker:
            self.said.append((speaker, []))
        turn = self.said[-1][1]
        turn += written
        return turn

    def turns(self) -> list[JsonObject]:
        """The turns as they are sent."""
        turns: list[JsonObject] = []
        for speaker, blocks in self.said:
            if speaker == "assistant":
                self._end(blocks)
            if not blocks:
                continue
            if turns and turns[-1]["role"] == speaker:  # the turn between them had nothing that may be sent
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": speaker, "content": blocks})
        for turn in turns:
            if turn["role"] == "user":
                turn["content"] = self._ordered(turn["content"])
        return turns

    def _end(self, blocks: Blocks) -> None:
        """Takes away what a turn of the assistant may not end with."""
        while blocks and self.wire.is_thought(blocks[-1]):
            blocks.pop()

    def _ordered(self, blocks: Blocks) -> Blocks:
        """A turn of the user with results first."""
        return sorted(blocks, key=lambda block: not self.wire.is_result(block))


__all__ = ["OPENING", "Blocks", "Speaker", "Wire", "leading_system", "turns_of"]
