"""`AnsweredBlocks`: what reads the blocks of one answer, and why the answer ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field

from pegboard.messages.message import CallPart, Part
from pegboard.messages.response import FinishReason
from pegboard.request.exporters.alternating.opaque import opaque
from pegboard.request.exporters.alternating.streamed_blocks import StreamedBlock
from pegboard.request.exporters.calls.made_calls import MadeCalls
from pegboard.request.exporters.untrusted import object_in
from pegboard.tools.call import CallFault
from pegboard.typing import JsonMapping, JsonObject

CUT_OFF: Final = frozenset({"length", "refusal", "content_filter", "error"})
"""Why an answer ended where the model wasn't done: what it called mustn't run."""


@define(eq=False)
class AnsweredBlocks(ABC):
    """Reads the blocks of one answer.

    Attributes:
        calls: Makes its calls.
        passed_over: How many blocks couldn't be read, nor kept.
    """

    calls: MadeCalls
    passed_over: int = field(default=0, init=False)

    @abstractmethod
    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """A block; `None` where it is nothing that could be kept.

        Args:
            block: As the provider wrote it.
            fault: Why it can't run, if it is a call.
        """

    def parts(self, blocks: Iterable[JsonMapping]) -> list[Part]:
        """The parts of blocks that came whole, in order."""
        parts = [self.part(block) for block in blocks]
        return [part for part in parts if part is not None]

    def streamed(self, blocks: Iterable[StreamedBlock]) -> list[Part]:
        """The parts of blocks that came in pieces, as far as they came, in order."""
        parts = [self._streamed(block) for block in blocks]
        return [part for part in parts if part is not None]

    def _streamed(self, block: StreamedBlock) -> Part | None:
        whole = block.whole() if block.can_go_back else None
        if whole is None:
            self.passed_over += 1
            return None
        return self.part(whole, block.fault)

    def facts(self, body: JsonMapping, *names: str) -> JsonObject:
        """What else is worth knowing of an answer: objects that its body has beside, and what couldn't be read."""
        found: dict[str, Any] = {}
        for name in names:
            kept = opaque(object_in(body, name))
            if kept:
                found[name] = kept
        return {**found, "passed_over": self.passed_over} if self.passed_over else found


def finish_of(reason: object, parts: Iterable[Part], finishes: Mapping[str, FinishReason]) -> FinishReason:
    """Why an answer ended; one that calls tools has ended for that.

    Args:
        reason: The provider's word, of any type.
        parts: What the answer came to.
        finishes: What its words mean.
    """
    finish: FinishReason = finishes.get(reason, "other") if isinstance(reason, str) else "other"
    calls = any(isinstance(part, CallPart) for part in parts)
    return "tool_calls" if calls and finish in ("stop", "other") else finish


__all__ = ["CUT_OFF", "AnsweredBlocks", "finish_of"]
