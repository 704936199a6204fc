"""`AnthropicAnswer`: an answer's blocks as parts, and what else it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define

from pegboard.messages.message import CallPart, HostedPart, Message, Part, ReasoningPart, TextPart
from pegboard.messages.response import FinishReason, ModelResponse, Usage
from pegboard.request.exporters.alternating.answered_blocks import CUT_OFF, AnsweredBlocks, finish_of
from pegboard.request.exporters.alternating.opaque import opaque
from pegboard.request.exporters.anthropic.cited import read_citations
from pegboard.request.exporters.anthropic.limits import FAMILY
from pegboard.request.exporters.body import known
from pegboard.request.exporters.untrusted import count_in, object_in, objects_in, text_in
from pegboard.tools.call import CallFault
from pegboard.typing import JsonMapping

_FINISHES: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
}
_RESULT: Final = "_tool_result"
_WITH_CALLS: Final = ("caller", "toolset_name")


@define(eq=False)
class AnthropicAnswer(AnsweredBlocks):
    """Reads the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """A block; `None` where it is nothing that could be kept.

        Args:
            block: As the provider wrote it.
            fault: Why it can't run, if it is a call.
        """
        kind = block.get("type")
        if kind == "text":
            return TextPart(text_in(block, "text"), read_citations(objects_in(block, "citations")))
        if kind == "tool_use":
            kept = opaque({key: block.get(key) for key in _WITH_CALLS}) or {}
            return CallPart(self.calls.call(block.get("name"), block.get("input"), block.get("id"), kept, fault))
        if kind == "thinking":
            return _thought(text_in(block, "thinking"), "signature", text_in(block, "signature"))
        if kind == "redacted_thinking":
            return _thought("", "redacted", text_in(block, "data"))
        return self._hosted(block, kind)

    def _hosted(self, block: JsonMapping, kind: object) -> HostedPart | None:
        """What the provider has done itself, and what isn't known here: both go back as they came."""
        kept = opaque(block) if isinstance(kind, str) and kind else None
        if kept is None or not isinstance(kind, str):
            self.passed_over += 1
            return None
        if kind.endswith(_RESULT):
            return HostedPart(FAMILY, kept, "result", kind.removesuffix(_RESULT), text_in(block, "tool_use_id"))
        if kind.endswith("tool_use"):
            return HostedPart(FAMILY, kept, "call", text_in(block, "name"), text_in(block, "id"))
        return HostedPart(FAMILY, kept, "result", kind)


def _thought(text: str, key: str, value: str) -> ReasoningPart:
    return ReasoningPart(text, {FAMILY: {key: value}} if value else {})


def answered(message: JsonMapping, answer: AnthropicAnswer, parts: list[Part]) -> ModelResponse:
    """A whole answer.

    Args:
        message: What it says of itself, without its blocks.
        answer: What has read these.
        parts: What they came to.
    """
    stop = known({"stop_sequence": text_in(message, "stop_sequence")})
    finish = finish_of(message.get("stop_reason"), parts, _FINISHES)
    return ModelResponse(
        Message("assistant", tuple(parts)),
        finish,
        _usage(object_in(message, "usage")),
        text_in(message, "model") or None,
        text_in(message, "id") or None,
        complete=finish not in CUT_OFF,
        custom_metadata={**answer.facts(message, "container", "stop_details"), **stop},
        error_message=text_in(object_in(message, "stop_details"), "explanation") or None,
    )


def _usage(usage: JsonMapping) -> Usage:
    """Tokens; the provider counts those of its cache apart."""
    cached, written = count_in(usage, "cache_read_input_tokens"), count_in(usage, "cache_creation_input_tokens")
    return Usage(
        count_in(usage, "input_tokens") + cached + written,
        count_in(usage, "output_tokens"),
        cached,
        written,
        count_in(object_in(usage, "output_tokens_details"), "thinking_tokens"),
    )


__all__ = ["AnthropicAnswer", "answered"]
