"""`BedrockWire`: parts of messages as Converse's blocks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import Factory, define, field

from pegboard.messages.message import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request.exporters.alternating.conversation import Blocks, Speaker
from pegboard.request.exporters.bedrock.cited import written_citations
from pegboard.request.exporters.bedrock.limits import FAMILY, BedrockLimits
from pegboard.request.exporters.bedrock.media import BedrockMedia
from pegboard.request.exporters.bedrock.results import result_block, result_content
from pegboard.request.exporters.bedrock.tools import CACHE_POINT
from pegboard.request.exporters.calls.arguments import arguments_object
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.worded import worded
from pegboard.schema.json import json_text
from pegboard.typing import JsonMapping, JsonObject

REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
_BESIDE_DOCUMENTS: Final = "The document is attached."


@define(eq=False)
class BedrockWire:
    """Writes the blocks of one request.

    Attributes:
        ids: The ids of its calls.
        limits: What the provider takes.
        names: What the provider calls a tool, where that differs from the tool's name.
    """

    ids: SentIds
    limits: BedrockLimits
    names: Mapping[str, str] = field(factory=dict[str, str])
    family: str = field(default=FAMILY, init=False)
    _media: BedrockMedia = field(default=Factory(lambda self: BedrockMedia(self.limits), takes_self=True), init=False)

    def blocks(self, part: Part, speaker: Speaker) -> Blocks:
        """A part, and the cache point behind it that its options want."""
        blocks = self._blocks(part, speaker)
        if blocks:
            self.mark(blocks, _metadata_of(part))
        return blocks

    def text(self, text: str) -> JsonObject:
        """Words."""
        return {"text": text}

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Adds a cache point, where the options want one."""
        point = passed(metadata, (FAMILY,)).get(CACHE_POINT)
        if isinstance(point, dict):
            blocks.append({CACHE_POINT: point})

    def is_result(self, block: JsonObject) -> bool:
        """Whether it answers a call."""
        return "toolResult" in block

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return "reasoningContent" in block

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Documents want words beside them; a last turn of the assistant's must not end with blanks (public)."""
        content: Blocks = turn["content"]
        if any("document" in block for block in content) and not any("text" in block for block in content):
            content.append(self.text(_BESIDE_DOCUMENTS))
        if last and turn["role"] == "assistant" and "text" in content[-1]:
            content[-1]["text"] = content[-1]["text"].rstrip()

    def _blocks(self, part: Part, speaker: Speaker) -> Blocks:
        if isinstance(part, TextPart):
            return self._text(part, speaker)
        if isinstance(part, MediaPart):
            return self._shown(part, speaker)
        if isinstance(part, CallPart):
            return self._call(part)
        if isinstance(part, ResultPart):
            return self._result(part)
        return _thought(part) if isinstance(part, ReasoningPart) else _hosted(part)

    def _text(self, part: TextPart, speaker: Speaker) -> Blocks:
        if not part.text.strip():  # blank words are refused (public)
            return []
        citations = written_citations(part.citations) if speaker == "assistant" else []
        if citations:
            return [{"citationsContent": {"content": [self.text(part.text)], "citations": citations}}]
        return [self.text(part.text)]

    def _shown(self, part: MediaPart, speaker: Speaker) -> Blocks:
        if speaker == "assistant":  # media are the user's to show
            return [self.text(worded(part.content))]
        block = self._media.block(part.content, in_result=False)
        return [] if block is None else [block]

    def _call(self, part: CallPart) -> Blocks:
        call = part.call
        if call.provider_executed:  # another provider's: this one's are hosted parts
            return []
        use = {
            "toolUseId": self.ids.call(call.id),
            "name": sendable(self.names.get(call.name, call.name), self.limits.name),
            "input": arguments_object(call),
        }
        return [{"toolUse": use}]

    def _result(self, part: ResultPart) -> Blocks:
        use_id = self.ids.result(part.call_id)
        if use_id is not None:
            return [result_block(part, use_id, self._media)]
        content = result_content(part.result, self._media)
        shown = [self.text(json_text(block["json"])) if "json" in block else block for block in content]
        return [self.text(f"A result of {part.name or 'a tool'}:"), *shown]


def _thought(part: ReasoningPart) -> Blocks:
    """Reasoning, unchanged; what bears no signature is refused, and left out."""
    own = passed(part.provider_metadata, (FAMILY,))
    redacted, signature = own.get("redacted"), own.get("signature")
    if isinstance(redacted, str):
        try:
            return [{"reasoningContent": {"redactedContent": base64.b64decode(redacted, validate=True)}}]
        except (binascii.Error, ValueError):
            return []
    if isinstance(signature, str) and signature:
        return [{"reasoningContent": {"reasoningText": {"text": part.text, "signature": signature}}}]
    return []


def _hosted(part: HostedPart) -> Blocks:
    return [dict(part.data)] if len(part.data) == 1 else []


def _metadata_of(part: Part) -> JsonMapping:
    if isinstance(part, CallPart):
        metadata: Any = part.call.provider_metadata
        return cast("JsonMapping", metadata) if isinstance(metadata, Mapping) else {}
    return {} if isinstance(part, HostedPart) else part.provider_metadata


__all__ = ["REFUSED_IN_IDS", "BedrockWire"]
