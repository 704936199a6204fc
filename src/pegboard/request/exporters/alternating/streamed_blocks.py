"""`StreamedBlocks`: the blocks of an answer on their way, each under its index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from attrs import define, field

from pegboard.messages.response import CallDelta, Delta
from pegboard.request.exporters.calls.made_calls import CUT, ENDLESS
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.tools.call import CallFault
from pegboard.typing import JsonMapping, JsonObject

MOST_BLOCKS: Final = 10_000
"""Of one answer; what comes beyond is not read."""


@define(eq=False)
class StreamedBlock(ABC):
    """A block on its way.

    Attributes:
        kind: What it is, in the provider's word.
        begun: What it began with.
        grown: What has come of its text, or of its input's.
        signature: What has come of its signature.
        name: What the tool is called here, if it is a call.
        call_id: What the provider calls the call.
        call: Which of the answer's calls it is; -1 where it is none.
        ended: Whether all of it has come.
    """

    kind: str
    begun: JsonMapping
    grown: Gathered
    signature: Gathered
    name: str = ""
    call_id: str = ""
    call: int = -1
    ended: bool = False

    @property
    @abstractmethod
    def can_go_back(self) -> bool:
        """Whether it is worth something as far as it has come: what the provider does itself has to be whole."""

    @abstractmethod
    def start(self) -> Delta | None:
        """What came with its beginning."""

    @abstractmethod
    def take(self, delta: JsonMapping) -> Delta | None:
        """Takes in more of it, and gives what came with it."""

    @abstractmethod
    def whole(self) -> JsonObject | None:
        """The block as an answer that isn't streamed has it; `None` where its input is no object and has to be one."""

    @property
    def fault(self) -> CallFault | None:
        """Why it can't run, if it is a call."""
        if self.call < 0:
            return None
        if self.grown.over:
            return ENDLESS
        return None if self.ended else CUT

    def called(self, text: str) -> CallDelta:
        """What came of a call."""
        return CallDelta(self.call, text, self.call_id, self.name)


Block = TypeVar("Block", bound=StreamedBlock)


@define(eq=False)
class StreamedBlocks(Generic[Block]):
    """The blocks of one answer.

    Attributes:
        room: What the answer may still bring.
        most: Characters of one call's arguments.
        all: In the order in which they began.
    """

    room: Room
    most: int
    all: list[Block] = field(factory=list[Block], init=False)
    _open: dict[int | None, Block] = field(factory=dict["int | None", Block], init=False)
    _calls: int = field(default=0, init=False)

    def begin(self, make: Callable[[Gathered, Gathered], Block], index: int | None, *, is_call: bool) -> Block | None:
        """A block begins, also at an index where there is one: that one has ended then.

        Args:
            make: Makes it, of where its text and its signature are gathered.
            index: Where it is.
            is_call: Whether it is a call.

        Returns:
            `None` where there is no room for another one.
        """
        if len(self.all) >= MOST_BLOCKS:
            self.room.spent = True
            return None
        block = make(Gathered(self.room, self.most if is_call else None), Gathered(self.room))
        if is_call:
            block.call, self._calls = self._calls, self._calls + 1
        if index is not None:
            self.stop(index)
        self._open[index] = block
        self.all.append(block)
        return block

    def at(self, index: int | None) -> Block | None:
        """The block that an event is about, without an index the last; `None` where it has ended."""
        block = self._open.get(index)
        if block is None and index is None and self.all:
            block = self.all[-1]
        return None if block is None or block.ended else block

    def stop(self, index: int | None) -> None:
        """All of a block has come."""
        block = self.at(index)
        if block is not None:
            block.ended = True


__all__ = ["MOST_BLOCKS", "StreamedBlock", "StreamedBlocks"]
