"""Block-based message formats: turns that alternate, blocks of an answer, and a budget of strict tools."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs
from attrs import Factory, define, field, frozen

from pegboard import CallFault, FileContent, Loss, ModelRequest, TextContent, ToolResult, ToolSpec
from pegboard.errors import ExportError
from pegboard.json import json_problems
from pegboard.messages import (
    CallPart,
    Delta,
    FinishReason,
    HostedPart,
    Message,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from pegboard.tools import Content
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.calls import StreamedCall, StreamedCalls
from pegboard_clients.dialects.keywords import Counts, counts_of
from pegboard_clients.wire.bodies import SizeBudget, TextBuffer, admit, object_in, render_text, text_in
from pegboard_clients.wire.entries import MOST_CACHED, Entries, Entry
from pegboard_clients.wire.ids import CALL_CUT_OFF, MadeCalls, SentIds


def raw_item(item: JsonMapping) -> JsonObject | None:
    """A copy of a raw item without null members: an SDK adds those that its provider never sent.

    Returns:
        `None` if it isn't JSON, or too large for a message.
    """
    kept = {name: value for name, value in item.items() if value is not None}
    return None if json_problems(kept) else kept


Role: TypeAlias = Literal["user", "assistant"]
"""Role of a turn."""

Blocks: TypeAlias = list[JsonObject]
"""Content blocks of one turn."""

OPENING: Final = "(The conversation begins with the assistant.)"
_ROLES: Final[Mapping[type[Any], Role]] = {
    CallPart: "assistant",
    HostedPart: "assistant",
    ReasoningPart: "assistant",
    ResultPart: "user",
}


class Wire(Protocol):
    """Writer of one provider's blocks, from which `turns_of` builds turns."""

    family: str
    ids: SentIds

    def blocks(self, part: Part, role: Role) -> Blocks:
        """A part as new blocks; none if there is nothing to write."""
        ...

    def text(self, text: str) -> JsonObject:
        """A text block; the text isn't blank."""
        ...

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Applies a message's options to its blocks (a cache point)."""
        ...

    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""
        ...

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning, which must not end a turn."""
        ...

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Adjusts a complete turn to the provider's rules."""
        ...


def content_of(result: ToolResult) -> Sequence[Content]:
    """The content of a result; text files of a failed one as text, as it can't have documents."""
    if not result.is_error:
        return result.content
    return [
        TextContent(render_text(each)) if isinstance(admit(each, ()), FileContent) else each for each in result.content
    ]


def texts_and_media(blocks: Blocks, heading: JsonObject) -> tuple[Blocks, Blocks]:
    """The blocks of a failed result that are text or JSON; and its others below a heading, to follow the result."""
    texts = [block for block in blocks if "text" in block or "json" in block]
    media = [block for block in blocks if block not in texts]
    return texts, [heading, *media] if media else []


def leading_system(messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
    """The texts of the system messages at the beginning, and the other messages."""
    count = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    return [message.text for message in messages[:count] if message.text.strip()], messages[count:]


def turns_of(messages: Sequence[Message], wire: Wire) -> list[JsonObject]:
    """The turns, each `{"role", "content"}`, with alternating roles; the first is the user's.

    A later system message goes into a user's turn, marked as the system's.

    Raises:
        ExportError: There is nothing to send.
    """
    conversation = _Conversation(wire, messages)
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
    """The turns of a conversation so far.

    Attributes:
        calls: The ids of the hosted calls, in any message.
        results: The ids of those that have results.
        settled: The index of the last user message that isn't a result.
    """

    wire: Wire
    messages: Sequence[Message]
    entries: list[tuple[Role, Blocks]] = field(factory=list["tuple[Role, Blocks]"])
    calls: frozenset[str] = field(init=False)
    results: frozenset[str] = field(init=False)
    settled: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        parts = [part for message in self.messages for part in message.parts if isinstance(part, HostedPart)]
        own = [part for part in parts if part.provider == self.wire.family]
        self.calls = frozenset(part.id for part in own if part.role == "call")
        self.results = frozenset(part.id for part in own if part.role == "result")
        places = (at for at, each in enumerate(self.messages) if each.role == "user" and not each.results)
        self.settled = max(places, default=-1)

    def belongs(self, part: HostedPart, place: int) -> bool:
        """Whether a hosted part of the message at `place` may be sent back; other providers' parts may not.

        A result needs its call. A call without a result may only be sent while the provider still runs it (a paused
        turn, or a program that waits for other calls), which is until the next message of the user.
        """
        if part.provider != self.wire.family or not part.id:
            return part.provider == self.wire.family
        return part.id in self.calls if part.role == "result" else part.id in self.results or place > self.settled

    def add(self, message: Message, place: int) -> None:
        own: Role = "assistant" if message.role == "assistant" else "user"
        blocks: Blocks = []
        for part in message.parts:
            if isinstance(part, HostedPart) and not self.belongs(part, place):
                continue
            blocks = self._add(part, _ROLES.get(type(part), own), system=message.role == "system") or blocks
        if blocks and message.provider_metadata:
            self.wire.mark(blocks, message.provider_metadata)

    def _add(self, part: Part, role: Role, *, system: bool) -> Blocks:
        """Writes a part; returns the turn that it went into, or an empty one if there was nothing to write."""
        if role == "assistant" and (not self.entries or self.entries[-1][0] != role):
            self.wire.ids.turn()
        if system and isinstance(part, TextPart) and part.text.strip():
            part = TextPart(f"<system>\n{part.text}\n</system>", provider_metadata=part.provider_metadata)
        written = self.wire.blocks(part, role)
        if not written:
            return written
        if not self.entries or self.entries[-1][0] != role:
            self.entries.append((role, []))
        turn = self.entries[-1][1]
        turn += written
        return turn

    def turns(self) -> list[JsonObject]:
        """The turns as they are sent."""
        turns: list[JsonObject] = []
        for role, blocks in self.entries:
            while role == "assistant" and blocks and self.wire.is_thought(blocks[-1]):
                blocks.pop()  # a turn of the assistant must not end with one
            if not blocks:
                continue
            if turns and turns[-1]["role"] == role:  # the turn between them was empty
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        for turn in turns:
            if turn["role"] == "user":
                turn["content"] = sorted(turn["content"], key=lambda block: not self.wire.is_result(block))
        return turns


MOST_BLOCKS: Final = 10_000
"""Blocks of one answer; further ones are dropped."""


@define(eq=False)
class StreamedBlock(ABC):
    """Content block of a streamed answer, as received so far.

    Attributes:
        kind: The provider's type of it.
        begun: Its content at the start.
        grown: Its text, or its input as text, so far.
        signature: Its signature so far.
        call: The call, if it is one.
        ended: Whether it is complete.
    """

    kind: str
    begun: JsonMapping
    grown: TextBuffer
    signature: TextBuffer
    call: StreamedCall | None = None
    ended: bool = False

    @property
    @abstractmethod
    def can_go_back(self) -> bool:
        """Whether it is usable though incomplete; blocks of the provider's own tools must be complete."""

    @abstractmethod
    def take(self, delta: JsonMapping) -> Delta | None:
        """Adds a piece of it; returns its delta."""

    @abstractmethod
    def whole(self) -> JsonObject | None:
        """The block as in an answer that isn't streamed; `None` if its input must be an object and isn't."""

    @property
    def fault(self) -> CallFault | None:
        """Why it can't run, for a call."""
        return None if self.call is None else self.call.fault or (None if self.ended else CALL_CUT_OFF)


Block = TypeVar("Block", bound=StreamedBlock)


@define(eq=False)
class StreamedBlocks(Generic[Block]):
    """Blocks of one streamed answer, by index.

    Attributes:
        block: The class of the blocks.
        names: The tools' names here, by their names at the provider, where they differ.
        budget: The size budget of the answer.
        most: Characters of one call's arguments.
        all: The blocks, in the order in which they started.
    """

    block: type[Block]
    names: Mapping[str, str]
    budget: SizeBudget
    most: int
    all: list[Block] = field(factory=list[Block], init=False)
    calls: StreamedCalls = field(
        default=Factory(lambda self: StreamedCalls(self.budget, self.most), takes_self=True), init=False
    )
    _open: dict[int | None, Block] = field(factory=dict["int | None", Block], init=False)
    _of_call: dict[int, Block] = field(factory=dict[int, Block], init=False)

    def begin(self, kind: str, begun: JsonMapping, index: int | None) -> Block | None:
        """Starts a block that isn't a call; an earlier one at the same index ends.

        Args:
            kind: The provider's type of it.
            begun: Its content at the start.
            index: Its index.

        Returns:
            `None` if there are too many blocks.
        """
        if len(self.all) >= MOST_BLOCKS:
            self.budget.spent = True
            return None
        block = self.block(kind, dict(begun), TextBuffer(self.budget), TextBuffer(self.budget))
        return self._begun(block, index)

    def call(self, kind: str, begun: JsonMapping, index: int | None, call_id: str, arguments: object) -> Delta | None:
        """Starts a call, or adds a piece to one; returns its delta.

        Args:
            kind: The provider's type of its block.
            begun: Its content at the start, with its name; empty for a piece.
            index: The index of the block.
            call_id: The provider's id; `""` for a piece.
            arguments: The next text of its input, or all of it.
        """
        at = self.at(index)
        if not begun and at is not None and at.call is None and not at.can_go_back:
            at.grown.add(arguments)  # the input of a tool that the provider runs
            return None
        own = text_in(begun, "name")
        name = self.names.get(own, own)
        fed = self.calls.feed(index, call_id, name, arguments)
        if fed is None:
            return None
        call, text = fed
        if name and name != call.name:  # no part of its name: here, names aren't streamed
            self.calls.doubt(call)
        if call.place not in self._of_call:
            block = self.block(kind, dict(begun), TextBuffer(self.budget), TextBuffer(self.budget), call)
            self._of_call[call.place] = self._begun(block, index)
        return call.delta(text) if text or begun else None

    def _begun(self, block: Block, index: int | None) -> Block:
        if index is not None:
            self.stop(index)
        self._open[index] = block
        self.all.append(block)
        return block

    def at(self, index: int | None) -> Block | None:
        """The block of an event, without an index the last; `None` if it has ended."""
        block = self._open.get(index)
        if block is None and index is None and self.all:
            block = self.all[-1]
        return None if block is None or block.ended else block

    def stop(self, index: int | None) -> None:
        """Ends a block."""
        if (block := self.at(index)) is not None:
            block.ended = True
            if block.call is not None:
                block.call.closed = not block.call.overlaps  # else it may be the end of the other


UNFINISHED: Final = frozenset({"length", "refusal", "content_filter", "error"})
"""Finish reasons of an unfinished answer: its calls must not run."""


@define(eq=False)
class AnsweredBlocks(ABC):
    """Reader of the blocks of one answer.

    Attributes:
        calls: Makes its calls.
        passed_over: The number of blocks that were skipped as unreadable.
    """

    calls: MadeCalls
    passed_over: int = field(default=0, init=False)

    @abstractmethod
    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """Converts a block to a part; `None` if it can't be read.

        Args:
            block: As the provider wrote it.
            fault: Why it can't run, for a call.
        """

    def parts(self, blocks: Iterable[JsonMapping]) -> list[Part]:
        """The parts of complete blocks, in order."""
        return [part for block in blocks if (part := self.part(block)) is not None]

    def streamed(self, blocks: Iterable[StreamedBlock]) -> list[Part]:
        """The parts of streamed blocks, in order."""
        return [part for block in blocks if (part := self._streamed(block)) is not None]

    def _streamed(self, block: StreamedBlock) -> Part | None:
        whole = block.whole() if block.can_go_back else None
        if whole is None:
            self.passed_over += 1
            return None
        return self.part(whole, block.fault)

    def facts(self, body: JsonMapping, *names: str) -> JsonObject:
        """Metadata of an answer: further members of its body, and the number of unreadable blocks."""
        found: JsonObject = {name: kept for name in names if (kept := raw_item(object_in(body, name)))}
        return {**found, "passed_over": self.passed_over} if self.passed_over else found


def finish_of(reason: object, parts: Iterable[Part], finishes: Mapping[str, FinishReason]) -> FinishReason:
    """The finish reason of an answer; `"tool_calls"` if it has calls and wasn't cut off.

    Args:
        reason: The provider's reason, of any type.
        parts: The parts of the answer.
        finishes: The finish reasons by the provider's.
    """
    finish: FinishReason = finishes.get(reason, "other") if isinstance(reason, str) else "other"
    calls = any(isinstance(part, CallPart) for part in parts)
    return "tool_calls" if calls and finish in ("stop", "other") else finish


@frozen
class StrictLimits:
    """Provider's limits on strict tools in one request; `None` is no limit.

    Attributes:
        tools: Strict tools.
        optional: Properties that aren't required, in all of them together.
        unions: Properties of several types, in all of them together.
    """

    tools: int | None = None
    optional: int | None = None
    unions: int | None = None

    def __str__(self) -> str:
        """For people."""
        facts = ((self.tools, "strict tools"), (self.optional, "optional"), (self.unions, "union-typed parameters"))
        return ", ".join(f"{most} {what}" for most, what in facts if most is not None)


@define(eq=False)
class StrictBudget(Entries):
    """Cache of exported tools that makes tools strict within the limits of a request, and others not, with a loss.

    Attributes:
        schema_of: Returns the schema of a strict entry, `None` for another.
        limits: The limits of a request.
    """

    schema_of: Callable[[JsonObject], JsonSchema | None] = field(kw_only=True)
    limits: StrictLimits = field(kw_only=True)
    _counts: dict[ToolSpec, Counts] = field(factory=dict[ToolSpec, Counts], init=False)

    def chooser(self, specs: Sequence[ToolSpec], strict: bool | None) -> Callable[[ToolSpec], Entry]:
        """Tools that set `strict` themselves come before those that are strict by default."""
        limits = (self.limits.tools, self.limits.optional, self.limits.unions)
        left = [math.inf if most is None else most for most in limits]
        first = {spec.name: spec for spec in reversed(specs)}
        wanted = {spec: self._chosen(spec, strict, left) for spec in specs if spec.strict and first[spec.name] is spec}
        return lambda spec: wanted.get(spec) or self._chosen(spec, strict, left)

    def name_of(self, spec: ToolSpec) -> str:
        """The provider's name of a tool; for its own tools, that may differ."""
        entry = self.one(spec).entry if spec.kind == "provider" else None
        return spec.name if entry is None else self.entry_name(entry) or spec.name

    def names_of(self, request: ModelRequest | None) -> dict[str, str]:
        """The provider's names of its own tools in a request, by their names here."""
        specs = () if request is None else (tool.spec for tool in request.offered)
        return {spec.name: self.name_of(spec) for spec in specs if spec.kind == "provider"}

    def _chosen(self, spec: ToolSpec, strict: bool | None, left: list[float]) -> Entry:
        written = self.one(spec, strict)
        schema = None if written.entry is None else self.schema_of(written.entry)
        if schema is None:
            return written
        counts = self._counted(spec, schema)
        after = [left[0] - 1, left[1] - (counts.optional or 0), left[2] - (counts.unions or 0)]
        if min(after) >= 0:
            left[:] = after
            return written
        plainly = self.entry(spec, strict=False)
        what = f"exported as not strict: a request may have {self.limits}, which other tools have used up"
        return attrs.evolve(plainly, losses=(Loss(spec.name, "/strict", "strict", what), *plainly.losses))

    def _counted(self, spec: ToolSpec, schema: JsonSchema) -> Counts:
        counts = self._counts.get(spec)
        if counts is None:
            if len(self._counts) >= MOST_CACHED:
                self._counts.clear()
            counts = self._counts[spec] = counts_of(schema)
        return counts
