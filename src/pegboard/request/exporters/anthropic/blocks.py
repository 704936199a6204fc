"""`AnthropicWire`: parts of messages as Anthropic's blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import define, field

from pegboard.messages.message import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request.exporters.alternating.conversation import Blocks, Speaker
from pegboard.request.exporters.anthropic.cited import written_citations
from pegboard.request.exporters.anthropic.limits import FAMILY, AnthropicLimits
from pegboard.request.exporters.anthropic.media import content_block
from pegboard.request.exporters.anthropic.results import result_block, result_content
from pegboard.request.exporters.calls.arguments import arguments_object
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.worded import worded
from pegboard.typing import JsonMapping, JsonObject

REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_CACHE: Final = "cache_control"
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (_CACHE,),
    "image": (_CACHE, "transformations"),
    "document": (_CACHE, "citations", "context", "title"),
    "tool_use": (_CACHE, "caller", "toolset_name"),
}
"""By type of block, what a part's options may add to it."""


@define(eq=False)
class AnthropicWire:
    """Writes the blocks of one request.

    Attributes:
        ids: The ids of its calls.
        limits: What the provider takes.
        names: What the provider calls a tool, where that differs from the tool's name.
    """

    ids: SentIds
    limits: AnthropicLimits
    names: Mapping[str, str] = field(factory=dict[str, str])
    family: str = field(default=FAMILY, init=False)

    def blocks(self, part: Part, speaker: Speaker) -> Blocks:
        """A part."""
        if isinstance(part, TextPart):
            return self._text(part, speaker)
        if isinstance(part, MediaPart):
            return self._media(part, speaker)
        if isinstance(part, CallPart):
            return self._call(part)
        if isinstance(part, ResultPart):
            return self._result(part)
        return _thought(part) if isinstance(part, ReasoningPart) else _hosted(part)

    def text(self, text: str) -> JsonObject:
        """Words."""
        return {"type": "text", "text": text}

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Ends what is cached with a message, where its options say so."""
        options = passed(metadata, (FAMILY,))
        if options.get(_CACHE) is not None and not self.is_thought(blocks[-1]):
            blocks[-1][_CACHE] = options[_CACHE]

    def is_result(self, block: JsonObject) -> bool:
        """Whether it answers a call."""
        return block["type"] == "tool_result"

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return block["type"] in _THOUGHTS

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """A last turn of the assistant's must not end with blanks (public)."""
        end = turn["content"][-1]
        if last and turn["role"] == "assistant" and end["type"] == "text":
            end["text"] = end["text"].rstrip()

    def _text(self, part: TextPart, speaker: Speaker) -> Blocks:
        if not part.text.strip():  # blank words are refused (public)
            return []
        block = self.text(part.text)
        citations = written_citations(part.citations) if speaker == "assistant" else []
        if citations:
            block["citations"] = citations
        return [_with_options(block, part.provider_metadata)]

    def _media(self, part: MediaPart, speaker: Speaker) -> Blocks:
        if speaker == "assistant":  # pictures are the user's to show
            return [self.text(worded(part.content))]
        block = content_block(part.content, self.limits, links=True)
        return [] if block is None else [_with_options(block, part.provider_metadata)]

    def _call(self, part: CallPart) -> Blocks:
        call = part.call
        if call.provider_executed:  # another provider's: this one's are hosted parts
            return []
        block: JsonObject = {
            "type": "tool_use",
            "id": self.ids.call(call.id),
            "name": sendable(self.names.get(call.name, call.name), self.limits.name),
            "input": arguments_object(call),
        }
        return [_with_options(block, call.provider_metadata)]

    def _result(self, part: ResultPart) -> Blocks:
        use_id = self.ids.result(part.call_id)
        if use_id is not None:
            return [result_block(part, use_id, self.limits)]
        content = result_content(part.result, self.limits, {})
        shown = [self.text(content)] if isinstance(content, str) and content else content
        return [self.text(f"A result of {part.name or 'a tool'}:"), *(shown or [])]


def _thought(part: ReasoningPart) -> Blocks:
    """Reasoning, unchanged; what bears no signature of this provider's is refused by it, and left out."""
    own = passed(part.provider_metadata, (FAMILY,))
    redacted, signature = own.get("redacted"), own.get("signature")
    if isinstance(redacted, str):
        return [{"type": "redacted_thinking", "data": redacted}]
    if isinstance(signature, str) and signature:
        return [{"type": "thinking", "thinking": part.text, "signature": signature}]
    return []


def _hosted(part: HostedPart) -> Blocks:
    return [dict(part.data)] if isinstance(part.data.get("type"), str) else []


def _with_options(block: JsonObject, metadata: Any) -> JsonObject:
    options = passed(cast("JsonMapping", metadata), (FAMILY,)) if isinstance(metadata, Mapping) else {}
    for key in _OPTIONS.get(block["type"], ()):
        if options.get(key) is not None:
            block[key] = options[key]
    return block


__all__ = ["REFUSED_IN_IDS", "AnthropicWire"]
