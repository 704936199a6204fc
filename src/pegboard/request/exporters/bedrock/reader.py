"""`BedrockReader`: the events of a stream, read to a whole answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.exporters.alternating.streamed_blocks import StreamedBlocks
from pegboard.request.exporters.bedrock.answer import BedrockAnswer, answered
from pegboard.request.exporters.bedrock.errors import error_of, exception_in
from pegboard.request.exporters.bedrock.limits import BedrockLimits
from pegboard.request.exporters.bedrock.streamed_block import BedrockBlock, kind_of
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_METADATA: Final = ("usage", "trace")
_HOSTED: Final = "server_tool_use"


@define(eq=False)
class BedrockReader:
    """Reads one streamed answer: `messageStart`, the events of each block, `messageStop`, `metadata`.

    Attributes:
        answer: Gives what reads the blocks once they are whole.
        limits: How much is read.
        names: What tools are called here, by what the provider calls them, where that differs.
    """

    answer: Callable[[], BedrockAnswer]
    limits: BedrockLimits
    names: Mapping[str, str]
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _room: Room = field(init=False)
    _blocks: StreamedBlocks[BedrockBlock] = field(init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        self._room = Room(self.limits.answer_text)
        self._blocks = StreamedBlocks(self._room, self.limits.argument_text)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Takes in one event and gives what came with it. Never raises; what can't be read is passed over."""
        if not isinstance(chunk, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever came
            return ()
        came: Delta | None = None
        if "contentBlockDelta" in chunk:
            event = object_in(chunk, "contentBlockDelta")
            came = self._grow(object_in(event, "delta"), _index(event))
        elif "contentBlockStart" in chunk:
            event = object_in(chunk, "contentBlockStart")
            came = self._start(object_in(event, "start"), _index(event))
        elif "contentBlockStop" in chunk:
            self._blocks.stop(_index(object_in(chunk, "contentBlockStop")))
        else:
            self._note(chunk)
        return () if came is None else (came,)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come; interrupted where `messageStop` hasn't come.

        Args:
            broken: Why the stream ended early.
        """
        answer = self.answer()
        whole = answered(self._facts, answer, answer.streamed(self._blocks.all))
        return self._end.of(whole, broken, spent=self._room.spent)

    def _note(self, event: JsonMapping) -> None:
        """Takes in what an event says of the whole answer."""
        if "messageStop" in event:
            self._end.reached = True
            self._facts |= object_in(event, "messageStop")
        elif "metadata" in event:
            self._facts |= {key: each for key, each in object_in(event, "metadata").items() if key in _METADATA}
        elif exception_in(event) is not None:
            error = error_of(event)
            self._end.failed(error.code, str(error))

    def _start(self, start: JsonMapping, index: int | None) -> Delta | None:
        kind = next(iter(start), None)
        block = None if kind is None else self._begin(kind, object_in(start, kind), index)
        return None if block is None else block.start()

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = kind_of(delta)
        if kind is None:
            return None
        block = self._blocks.at(index)
        if block is None or block.kind != kind:
            block = self._begin(kind, {}, index)
        return None if block is None else block.take(delta)

    def _begin(self, kind: str, begun: JsonMapping, index: int | None) -> BedrockBlock | None:
        name = text_in(begun, "name")

        def make(text: Gathered, signature: Gathered) -> BedrockBlock:
            known = self.names.get(name, name)
            return BedrockBlock(kind, dict(begun), text, signature, known, text_in(begun, "toolUseId"))

        is_call = kind == "toolUse" and begun.get("type") != _HOSTED
        return self._blocks.begin(make, index, is_call=is_call)


def _index(event: JsonMapping) -> int | None:
    index = event.get("contentBlockIndex")
    return index if isinstance(index, int) else None


__all__ = ["BedrockReader"]
