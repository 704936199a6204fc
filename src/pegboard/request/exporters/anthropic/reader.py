"""`AnthropicReader`: the events of a stream, read to a whole answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.exporters.alternating.streamed_blocks import StreamedBlocks
from pegboard.request.exporters.anthropic.answer import AnthropicAnswer, answered
from pegboard.request.exporters.anthropic.errors import error_of
from pegboard.request.exporters.anthropic.limits import AnthropicLimits
from pegboard.request.exporters.anthropic.streamed_block import BEGUN_BY, AnthropicBlock
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.typing import JsonMapping, JsonObject


@define(eq=False)
class AnthropicReader:
    """Reads one streamed answer: `message_start`, the events of each block, `message_delta`, `message_stop`.

    Attributes:
        answer: Gives what reads the blocks once they are whole.
        limits: How much is read.
        names: What tools are called here, by what the provider calls them, where that differs.
    """

    answer: Callable[[], AnthropicAnswer]
    limits: AnthropicLimits
    names: Mapping[str, str]
    _message: JsonObject = field(factory=dict[str, Any], init=False)
    _usage: JsonObject = field(factory=dict[str, Any], init=False)
    _room: Room = field(init=False)
    _blocks: StreamedBlocks[AnthropicBlock] = field(init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        self._room = Room(self.limits.answer_text)
        self._blocks = StreamedBlocks(self._room, self.limits.argument_text)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Takes in one event and gives what came with it. Never raises; what can't be read is passed over."""
        if self._end.reached or not isinstance(chunk, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever came
            return ()
        match chunk.get("type"):
            case "content_block_delta":
                came = self._grow(object_in(chunk, "delta"), _place(chunk.get("index")))
            case "content_block_start":
                came = self._start(object_in(chunk, "content_block"), _place(chunk.get("index")))
            case "content_block_stop":
                came = self._blocks.stop(_place(chunk.get("index")))
            case kind:
                came = self._note(kind, chunk)
        return () if came is None else (came,)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come; interrupted where `message_stop` hasn't come.

        Args:
            broken: Why the stream ended early.
        """
        answer = self.answer()
        whole = answered({**self._message, "usage": self._usage}, answer, answer.streamed(self._blocks.all))
        return self._end.of(whole, broken, spent=self._room.spent)

    def _note(self, kind: object, event: JsonMapping) -> None:
        """Takes in what an event says of the whole answer; counts are cumulative, and those it doesn't have stay."""
        if kind == "message_start":
            message = object_in(event, "message")
            self._message = {key: value for key, value in message.items() if key not in ("content", "usage")}
            self._usage |= _given(object_in(message, "usage"))
        elif kind == "message_delta":
            self._message |= _given(object_in(event, "delta"))
            self._usage |= _given(object_in(event, "usage"))
        elif kind == "message_stop":
            self._end.reached = True
        elif kind == "error":
            error = error_of(event)
            self._end.failed(error.code, str(error))

    def _start(self, begun: JsonMapping, index: int | None) -> Delta | None:
        block = self._begin(begun, index)
        return None if block is None else block.start()

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = BEGUN_BY.get(text_in(delta, "type"))
        if kind is None:
            return None
        block = self._blocks.at(index) or self._begin({"type": kind}, index)
        return None if block is None else block.take(delta)

    def _begin(self, begun: JsonMapping, index: int | None) -> AnthropicBlock | None:
        kind, name = text_in(begun, "type"), text_in(begun, "name")

        def make(text: Gathered, signature: Gathered) -> AnthropicBlock:
            known = self.names.get(name, name)
            return AnthropicBlock(kind, dict(begun), text, signature, known, text_in(begun, "id"))

        return self._blocks.begin(make, index, is_call=kind == "tool_use")


def _place(index: object) -> int | None:
    return index if isinstance(index, int) else None


def _given(data: JsonMapping) -> JsonObject:
    return {key: value for key, value in data.items() if value is not None}


__all__ = ["AnthropicReader"]
