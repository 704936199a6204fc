"""Block-based message formats: turns that alternate, and the blocks of an answer, whole or streamed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from attrs import Factory, define, field

from pegboard import CallFault, FileContent, ModelResponse, TextContent, ToolCall, ToolResult
from pegboard.errors import ExportError
from pegboard.json import json_problems
from pegboard.messages import (
    CallPart,
    Citation,
    Delta,
    FinishReason,
    HostedPart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from pegboard.tools import Content
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import StreamedCall, StreamedCalls
from pegboard_clients.strict import (
    BlockLimits as BlockLimits,
    StrictBudget as StrictBudget,
    StrictLimits as StrictLimits,
)
from pegboard_clients.wire import (
    CALL_CUT_OFF,
    MadeCalls,
    SentIds,
    SizeBudget,
    StreamReader,
    TextBuffer,
    admit,
    arguments_object,
    as_object,
    object_in,
    passthrough,
    render_json,
    render_text,
    text_in,
    wire_name,
)


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


LimitsT = TypeVar("LimitsT", bound=BlockLimits)


@define(eq=False)
class Wire(ABC, Generic[LimitsT]):
    """Writer of one provider's blocks, from which `turns_of` builds turns.

    Attributes:
        family: The provider's name, which is its key in metadata.
        ids: The ids of the calls of one request.
        limits: The limits of the provider.
        names: The tools' names at the provider, where they differ.
    """

    family: ClassVar[str]

    ids: SentIds
    limits: LimitsT
    names: Mapping[str, str] = field(factory=dict[str, str])

    def blocks(self, part: Part, role: Role) -> Blocks:
        """A part as new blocks; none if there is nothing to write."""
        if isinstance(part, TextPart):
            return self._words(part, role)
        if isinstance(part, MediaPart):
            return self._media(part, role)
        if isinstance(part, CallPart):
            return self._call(part.call)
        if isinstance(part, ResultPart):
            return self._result(part)
        block = self._reasoning_block(part) if isinstance(part, ReasoningPart) else self.hosted(part.data)
        return [] if block is None else [block]

    def _words(self, part: TextPart, role: Role) -> Blocks:
        if not part.text.strip():  # blank text is refused (public)
            return []
        own = (object_in(citation.data, self.family) for citation in part.citations if role == "assistant")
        citations = [written for each in own if (written := self.citation(each))]
        block = self.cited(part.text, citations) if citations else self.text(part.text)
        return [self.with_options(block, part.provider_metadata)]

    def _media(self, part: MediaPart, role: Role) -> Blocks:
        if role == "assistant":  # only the user may send media
            return [self.text(render_text(part.content))]
        block = self.media(part.content)
        return [] if block is None else [self.with_options(block, part.provider_metadata)]

    def _call(self, call: ToolCall) -> Blocks:
        if call.provider_executed:  # of another provider; this one's are hosted parts
            return []
        name = wire_name(self.names.get(call.name, call.name), self.limits.name)
        block = self.call(self.ids.call(call.id), name, arguments_object(call))
        return [self.with_options(block, call.provider_metadata)]

    def _result(self, part: ResultPart) -> Blocks:
        """The result of a call; a later one, or one without a call, as text and media.

        Only text is allowed in an error (public), so that its media follow it.
        """
        use_id = self.ids.result(part.call_id)
        if use_id is None:
            content = self.content(part.result, {})
            shown = (self.text(render_json(block["json"])) if "json" in block else block for block in content)
            return [self.text(f"A result of {part.name or 'a tool'}:"), *shown]
        content, beside = self.content(part.result, self.options(part.provider_metadata)), Blocks()
        if part.result.is_error:
            content, beside = texts_and_media(content, self.text(f"Of the failed call of {part.name} ({use_id}):"))
        block = self.result(part.result, use_id, content)
        return [self.with_options(block, part.provider_metadata), *beside]

    def _reasoning_block(self, part: ReasoningPart) -> JsonObject | None:
        """Reasoning, unchanged; without this provider's signature it would be refused, and is left out."""
        own = self.options(part.provider_metadata)
        if isinstance(own.get("redacted"), str):
            return self.redacted(own["redacted"])
        signature = text_in(own, "signature")
        return self.thought(part.text, signature) if signature else None

    @abstractmethod
    def text(self, text: str) -> JsonObject:
        """A text block; the text isn't blank."""

    @abstractmethod
    def cited(self, text: str, citations: Blocks) -> JsonObject:
        """A text block with citations."""

    @abstractmethod
    def citation(self, own: JsonMapping) -> JsonObject | None:
        """A citation as the provider accepts it, from what it sent; `None` if that isn't the provider's."""

    @abstractmethod
    def media(self, content: Content) -> JsonObject | None:
        """A content of the user's as a native block, or else as text; `None` if that is blank."""

    @abstractmethod
    def call(self, call_id: str, name: str, arguments: JsonObject) -> JsonObject:
        """A call."""

    @abstractmethod
    def content(self, result: ToolResult, options: JsonMapping) -> Blocks:
        """The content of a result, without attachments; the options are the provider's of its part."""

    @abstractmethod
    def result(self, result: ToolResult, use_id: str, content: Blocks) -> JsonObject:
        """The result of a call with the provider's id; of an error, the content is the texts."""

    @abstractmethod
    def thought(self, text: str, signature: str) -> JsonObject:
        """Reasoning."""

    @abstractmethod
    def redacted(self, data: str) -> JsonObject | None:
        """Reasoning that only the provider can read; `None` if the data is invalid."""

    @abstractmethod
    def hosted(self, data: JsonMapping) -> JsonObject | None:
        """A block of the provider's own tools; `None` if it isn't one."""

    def options(self, metadata: object) -> JsonObject:
        """A copy of the provider's options of a part, from metadata of any type."""
        return passthrough(as_object(metadata), (self.family,))

    def with_options(self, block: JsonObject, metadata: object) -> JsonObject:  # noqa: ARG002  for subclasses
        """The block of a text, a medium, a call or a result with the options of its part; by default unchanged."""
        return block

    @abstractmethod
    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Applies a message's options to its blocks (a cache point)."""

    @abstractmethod
    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""

    @abstractmethod
    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning, which must not end a turn."""

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Adjusts a complete turn: strips the end of a final one of the assistant, where space is refused (public)."""
        end = turn["content"][-1]
        if last and turn["role"] == "assistant" and end.get("type", "text") == "text" and "text" in end:
            end["text"] = end["text"].rstrip()


def content_of(result: ToolResult) -> Sequence[Content]:
    """The content of a result; text files of a failed one as text, as it can't have documents."""
    texts = (
        TextContent(render_text(each)) if isinstance(admit(each, ()), FileContent) else each for each in result.content
    )
    return list(texts) if result.is_error else result.content


def texts_and_media(blocks: Blocks, heading: JsonObject) -> tuple[Blocks, Blocks]:
    """The blocks of a failed result that are text or JSON; and its others below a heading, to follow the result."""
    texts = [block for block in blocks if "text" in block or "json" in block]
    media = [block for block in blocks if block not in texts]
    return texts, [heading, *media] if media else []


def leading_system(messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
    """The texts of the system messages at the beginning, and the other messages."""
    count = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    return [message.text for message in messages[:count] if message.text.strip()], messages[count:]


def turns_of(messages: Sequence[Message], wire: Wire[Any]) -> list[JsonObject]:
    """The turns, each `{"role", "content"}`, with alternating roles; the first is the user's.

    A later system message goes into a user's turn, marked as the system's.

    Raises:
        ExportError: There is nothing to send.
    """
    conversation = _Conversation(wire, messages)
    for place, message in enumerate(messages):
        conversation.add(message, place)
    if not (turns := conversation.turns()):
        raise ExportError("there is no message to send", exporter=wire.family)
    if turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [wire.text(OPENING)]})
    for turn in turns:
        wire.completed(turn, last=turn is turns[-1])
    return turns


@define(eq=False)
class _Conversation:
    """The turns of a conversation so far."""

    wire: Wire[Any]
    messages: Sequence[Message]
    entries: list[tuple[Role, Blocks]] = field(factory=list["tuple[Role, Blocks]"])
    calls: frozenset[str] = field(init=False)  # the ids of hosted calls
    results: frozenset[str] = field(init=False)  # the ids of those that have results
    settled: int = field(init=False)  # the index of the last user message that isn't a result

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

    own: ClassVar[frozenset[str]]
    """Kinds that are usable though incomplete, besides calls; blocks of the provider's own tools must be complete."""

    @property
    def can_go_back(self) -> bool:
        """Whether it is usable."""
        return self.ended or self.call is not None or self.kind in self.own

    def start(self) -> Delta | None:
        """The delta of its start; by default, none."""
        return None

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

        Returns:
            `None` if there are too many blocks.
        """
        if len(self.all) >= MOST_BLOCKS:
            self.budget.spent = True
            return None
        return self._begin(self.block(kind, dict(begun), TextBuffer(self.budget), TextBuffer(self.budget)), index)

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
            self._of_call[call.place] = self._begin(block, index)
        return call.delta(text) if text or begun else None

    def _begin(self, block: Block, index: int | None) -> Block:
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

    @abstractmethod
    def response(self, body: JsonMapping, parts: Sequence[Part]) -> ModelResponse:
        """The response, from a body and the parts of its blocks."""

    @abstractmethod
    def source(self, citation: JsonMapping) -> tuple[str, str, str]:
        """Text, address and title of a citation; each may be empty."""

    def citations(self, given: Iterable[JsonMapping]) -> tuple[Citation, ...]:
        """The citations of a block; each is for the whole block, without a position."""
        return tuple(
            Citation(text or None, uri or None, title or None, data={self.calls.provider: kept} if kept else {})
            for each in given
            for (text, uri, title), kept in [(self.source(each), raw_item(each))]
        )

    def parts(self, blocks: Iterable[JsonMapping]) -> list[Part]:
        """The parts of complete blocks, in order."""
        return [part for block in blocks if (part := self.part(block)) is not None]

    def streamed(self, blocks: Iterable[StreamedBlock]) -> list[Part]:
        """The parts of streamed blocks, in order."""
        return [part for block in blocks if (part := self._part_of(block)) is not None]

    def _part_of(self, block: StreamedBlock) -> Part | None:
        whole = block.whole() if block.can_go_back else None
        if whole is None:
            self.passed_over += 1
            return None
        return self.part(whole, block.fault)

    def facts(self, body: JsonMapping, *names: str) -> JsonObject:
        """Metadata of an answer: further members of its body, and the number of unreadable blocks."""
        found: JsonObject = {name: kept for name in names if (kept := raw_item(object_in(body, name)))}
        return {**found, "passed_over": self.passed_over} if self.passed_over else found


FINISHES: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""The finish reasons by those of Anthropic's models; providers have further ones."""


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


@define(eq=False)
class BlockReader(StreamReader, Generic[Block]):
    """Parser of one streamed answer.

    Attributes:
        answer: Makes the reader of the complete blocks.
        limits: Limits on what is read.
        names: The tools' names here, by their names at the provider, where they differ.
        facts: The answer so far, without its blocks.
        blocks: Its blocks so far.
    """

    block: ClassVar[type[Any]]

    answer: Callable[[], AnsweredBlocks]
    limits: BlockLimits
    names: Mapping[str, str]
    facts: JsonObject = field(factory=dict[str, Any], init=False)
    blocks: StreamedBlocks[Block] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.budget = SizeBudget(self.limits.answer_text)
        self.blocks = StreamedBlocks(self.block, self.names, self.budget, self.limits.argument_text)

    def read(self, event: JsonMapping) -> Sequence[Delta]:
        """Parses one event; returns its deltas."""
        return () if (delta := self.delta(event)) is None else (delta,)

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer."""
        answer = self.answer()
        return answer.response(self.facts, answer.streamed(self.blocks.all))

    @abstractmethod
    def delta(self, event: JsonMapping) -> Delta | None:
        """Parses one event; returns its delta."""

    def begin(self, kind: str, begun: JsonMapping, index: int | None, call_id: str | None) -> Delta | None:
        """Starts a block, or a call if there is an id, even an empty one; returns its delta."""
        if call_id is not None:
            return self.blocks.call(kind, begun, index, call_id, begun.get("input") or None)
        block = self.blocks.begin(kind, begun, index)
        return None if block is None else block.start()
