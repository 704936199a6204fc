"""`BedrockAnswer`: an answer's blocks as parts, and what else it says."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from attrs import define

from pegboard.messages.message import CallPart, HostedPart, MediaPart, Message, Part, ReasoningPart, TextPart
from pegboard.messages.response import FinishReason, ModelResponse, Usage
from pegboard.request.exporters.alternating.answered_blocks import CUT_OFF, AnsweredBlocks, finish_of
from pegboard.request.exporters.alternating.opaque import opaque
from pegboard.request.exporters.bedrock.cited import read_citations
from pegboard.request.exporters.bedrock.limits import FAMILY
from pegboard.request.exporters.untrusted import count_in, object_in, objects_in, text_in
from pegboard.tools.call import CallFault
from pegboard.tools.content import ImageContent
from pegboard.typing import JsonMapping

_FINISHES: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
_HOSTED: Final = "server_tool_use"


@define(eq=False)
class BedrockAnswer(AnsweredBlocks):
    """Reads the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """A block; `None` where it is nothing that could be kept.

        Args:
            block: As the provider wrote it: one member, which says its kind.
            fault: Why it can't run, if it is a call.
        """
        if isinstance(block.get("text"), str):
            return TextPart(text_in(block, "text"))
        if "citationsContent" in block:
            return _cited(object_in(block, "citationsContent"))
        if "reasoningContent" in block:
            return _thought(object_in(block, "reasoningContent"))
        use = object_in(block, "toolUse")
        if "toolUse" in block and use.get("type") != _HOSTED:
            return CallPart(self.calls.call(use.get("name"), use.get("input"), use.get("toolUseId"), {}, fault))
        return _picture(object_in(block, "image")) or self._hosted(block, use)

    def _hosted(self, block: JsonMapping, use: JsonMapping) -> HostedPart | None:
        """What the provider has done itself, and what isn't known here: both go back as they came."""
        kept = opaque(block)
        if not kept:
            self.passed_over += 1
            return None
        if use:
            return HostedPart(FAMILY, kept, "call", text_in(use, "name"), text_in(use, "toolUseId"))
        result = object_in(block, "toolResult")
        name = text_in(result, "type") or str(next(iter(kept)))
        return HostedPart(FAMILY, kept, "result", name, text_in(result, "toolUseId"))


def _cited(block: JsonMapping) -> TextPart:
    text = "".join(text_in(each, "text") for each in objects_in(block, "content"))
    return TextPart(text, read_citations(objects_in(block, "citations")))


def _thought(block: JsonMapping) -> ReasoningPart:
    redacted = block.get("redactedContent")
    if isinstance(redacted, bytes):  # as boto3 gives it
        redacted = base64.b64encode(redacted).decode()
    if isinstance(redacted, str):
        return ReasoningPart("", {FAMILY: {"redacted": redacted}})
    said = object_in(block, "reasoningText")
    signature = text_in(said, "signature")
    return ReasoningPart(text_in(said, "text"), {FAMILY: {"signature": signature}} if signature else {})


def _picture(image: JsonMapping) -> MediaPart | None:
    data = object_in(image, "source").get("bytes")
    if not isinstance(data, bytes) or not data:
        return None
    return MediaPart(ImageContent(data, f"image/{text_in(image, 'format') or 'png'}"))


def answered(raw: JsonMapping, answer: BedrockAnswer, parts: list[Part]) -> ModelResponse:
    """A whole answer.

    Args:
        raw: What it says of itself, without its message.
        answer: What has read this.
        parts: What it came to.
    """
    finish = finish_of(raw.get("stopReason"), parts, _FINISHES)
    router = object_in(object_in(raw, "trace"), "promptRouter")
    return ModelResponse(
        Message("assistant", tuple(parts)),
        finish,
        _usage(object_in(raw, "usage")),
        text_in(router, "invokedModelId") or None,
        text_in(object_in(raw, "ResponseMetadata"), "RequestId") or None,
        complete=finish not in CUT_OFF,
        custom_metadata=answer.facts(raw, "additionalModelResponseFields", "trace"),
        error_code=text_in(raw, "stopReason") if finish == "error" else None,
    )


def _usage(usage: JsonMapping) -> Usage:
    """Tokens; whether those of the cache are among `inputTokens` depends on the model, and the total tells."""
    given, output = count_in(usage, "inputTokens"), count_in(usage, "outputTokens")
    all_of_request = max(given, count_in(usage, "totalTokens") - output)
    return Usage(
        all_of_request, output, count_in(usage, "cacheReadInputTokens"), count_in(usage, "cacheWriteInputTokens")
    )


__all__ = ["BedrockAnswer", "answered"]
