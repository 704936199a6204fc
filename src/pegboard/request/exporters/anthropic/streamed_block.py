"""`AnthropicBlock`: one block of an answer, on its way."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import Delta, ReasoningDelta, TextDelta
from pegboard.request.exporters.alternating.streamed_blocks import StreamedBlock
from pegboard.request.exporters.calls.arguments import parsed_object
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.typing import JsonMapping, JsonObject

MOST_CITATIONS: Final = 10_000
"""Of one block; what comes beyond is not read."""

_OWN: Final = frozenset({"text", "thinking", "tool_use"})
BEGUN_BY: Final = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Which block a delta belongs to, where none has begun."""


@define(eq=False)
class AnthropicBlock(StreamedBlock):
    """A block on its way."""

    _citations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)

    @property
    def can_go_back(self) -> bool:
        """Whether it is worth something as far as it has come: what the provider does itself has to be whole."""
        return self.ended or self.kind in _OWN

    def start(self) -> Delta | None:
        """What came with its beginning."""
        if self.call >= 0:
            return self.called("")
        text = text_in(self.begun, "text") if self.kind == "text" else ""
        return TextDelta(text) if text else None

    def take(self, delta: JsonMapping) -> Delta | None:
        """Takes in more of it, and gives what came with it."""
        match delta.get("type"):
            case "text_delta":
                text = self.grown.add(delta.get("text"))
                return TextDelta(text) if text and self.kind == "text" else None
            case "thinking_delta":
                text = self.grown.add(delta.get("thinking"))
                return ReasoningDelta(text) if text and self.kind == "thinking" else None
            case "input_json_delta":
                text = self.grown.add(delta.get("partial_json"))
                return self.called(text) if text and self.call >= 0 else None
            case "signature_delta":
                self.signature.add(delta.get("signature"))
            case _:
                self._cite(object_in(delta, "citation"))
        return None

    def whole(self) -> JsonObject | None:
        """The block as an answer that isn't streamed has it; `None` where its input is no object and has to be one."""
        block = dict(self.begun)
        if self.kind == "text":
            block["text"] = text_in(block, "text") + self.grown.text
            block["citations"] = [*_listed(block.get("citations")), *self._citations]
        elif self.kind == "thinking":
            block["thinking"] = text_in(block, "thinking") + self.grown.text
            block["signature"] = text_in(block, "signature") + self.signature.text
        elif self.grown.text:
            text = self.grown.text
            block["input"] = text if self.call >= 0 else parsed_object(text)
            return None if block["input"] is None else block
        return block

    def _cite(self, citation: JsonMapping) -> None:
        if citation and len(self._citations) < MOST_CITATIONS:
            self._citations.append(citation)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


__all__ = ["BEGUN_BY", "MOST_CITATIONS", "AnthropicBlock"]
