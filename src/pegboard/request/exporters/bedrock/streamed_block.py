"""`BedrockBlock`: one block of an answer, on its way."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import Delta, ReasoningDelta, TextDelta
from pegboard.request.exporters.alternating.streamed_blocks import StreamedBlock
from pegboard.request.exporters.calls.arguments import parsed_object
from pegboard.request.exporters.untrusted import object_in, objects_in
from pegboard.typing import JsonMapping, JsonObject

MOST_LISTED: Final = 10_000
"""Citations, or pieces of a hosted tool's result, in one block; what comes beyond is not read."""

_OWN: Final = frozenset({"text", "reasoningContent", "toolUse"})


@define(eq=False)
class BedrockBlock(StreamedBlock):
    """A block on its way."""

    _listed: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _beside: dict[str, Any] = field(factory=dict[str, Any], init=False)

    @property
    def can_go_back(self) -> bool:
        """Whether it is worth something as far as it has come: what the provider does itself has to be whole."""
        return self.ended or (self.kind in _OWN and (self.kind != "toolUse" or self.call >= 0))

    def start(self) -> Delta | None:
        """What came with its beginning."""
        return self.called("") if self.call >= 0 else None

    def take(self, delta: JsonMapping) -> Delta | None:
        """Takes in more of it, and gives what came with it."""
        if "toolUse" in delta:
            text = self.grown.add(object_in(delta, "toolUse").get("input"))
            return self.called(text) if text and self.call >= 0 else None
        if "reasoningContent" in delta:
            return self._think(object_in(delta, "reasoningContent"))
        if "text" in delta:
            text = self.grown.add(delta.get("text"))
            return TextDelta(text) if text else None
        self._list(objects_in(delta, "toolResult") or [object_in(delta, "citation")])
        self._beside |= object_in(delta, "image")
        return None

    def whole(self) -> JsonObject | None:
        """The block as an answer that isn't streamed has it; `None` where its input is no object and has to be one."""
        match self.kind:
            case "toolUse":
                return self._use()
            case "reasoningContent":
                said = {"text": self.grown.text, "signature": self.signature.text}
                return {self.kind: self._beside or {"reasoningText": said}}
            case "text" if self._listed:
                return {"citationsContent": {"content": [{"text": self.grown.text}], "citations": self._listed}}
            case "text":
                return {"text": self.grown.text}
            case "toolResult":
                return {self.kind: {**self.begun, "content": self._listed}}
            case _:
                return {self.kind: {**self.begun, **self._beside}}

    def _use(self) -> JsonObject | None:
        text = self.grown.text
        given = (text or {}) if self.call >= 0 else parsed_object(text)
        return None if given is None else {self.kind: {**self.begun, "input": given}}

    def _think(self, delta: JsonMapping) -> Delta | None:
        self.signature.add(delta.get("signature"))
        if isinstance(delta.get("redactedContent"), bytes | str):
            self._beside = {"redactedContent": delta["redactedContent"]}
        text = self.grown.add(delta.get("text"))
        return ReasoningDelta(text) if text else None

    def _list(self, items: list[JsonMapping]) -> None:
        self._listed += [each for each in items if each][: MOST_LISTED - len(self._listed)]


def kind_of(delta: JsonMapping) -> str | None:
    """The kind of block that a delta belongs to; `None` of an unknown one."""
    if "citation" in delta:
        return "text"
    return next(
        (kind for kind in ("text", "toolUse", "reasoningContent", "toolResult", "image") if kind in delta), None
    )


__all__ = ["MOST_LISTED", "BedrockBlock", "kind_of"]
