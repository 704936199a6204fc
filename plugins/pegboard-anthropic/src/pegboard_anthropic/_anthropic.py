"""Anthropic's limits, and its answers: blocks, streams, citations, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import CallFault, Message, ModelError, ModelResponse
from pegboard.messages import (
    CallPart,
    Delta,
    FinishReason,
    HostedPart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Usage,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.blocks import (
    FINISHES,
    UNFINISHED,
    AnsweredBlocks,
    BlockLimits,
    BlockReader,
    StreamedBlock,
    finish_of,
    raw_item,
)
from pegboard_clients.wire import count_in, list_in, object_in, objects_in, parsed_object, text_in, without_empty

FAMILY: Final = "anthropic"
"""The provider's key in options and metadata, and the prefix of a `provider_id`."""

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def _effort(word: str) -> JsonMapping:
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}


REASONING: Final[Mapping[str, JsonMapping]] = {
    "none": {"thinking": {"type": "disabled"}},
    "low": _effort("low"),
    "medium": _effort("medium"),
    "high": _effort("high"),
}
"""For models with adaptive thinking. Older ones need a budget instead: `thinking_budgets`."""


def thinking_budgets(low: int = 1_024, medium: int = 4_096, high: int = 16_384) -> Mapping[str, JsonMapping]:
    """`AnthropicLimits.reasoning` for models that take a budget of thinking tokens."""
    budgets = {"low": low, "medium": medium, "high": high}
    words = {word: {"thinking": {"type": "enabled", "budget_tokens": most}} for word, most in budgets.items()}
    return {"none": REASONING["none"], **words}


@frozen(kw_only=True)
class AnthropicLimits(BlockLimits):
    """Limits of the provider; known from the types of its SDK, its pages and its error reports.

    Attributes:
        max_tokens: The default length of an answer; the API requires one.
        reasoning: The members of a request's body for each value of `ModelConfig.reasoning`.
        sampling: Whether `temperature` and `top_p` are sent: older models take them, the SDK's `create` no longer does.
        images: Supported media types of pictures.
    """

    max_tokens: int = 8_192
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    sampling: bool = False
    images: frozenset[str] = field(default=IMAGES, converter=frozenset)


DEFAULT_LIMITS: Final = AnthropicLimits()


_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status by error type (the provider's documentation); a body alone has none."""

_LATER: Final = frozenset({"rate_limit_error", "api_error", "timeout_error", "overloaded_error"})


def error_of(body: JsonMapping) -> ModelError:
    """The error of a body that isn't an answer."""
    error = object_in(body, "error")
    code = text_in(error, "type")
    message = text_in(error, "message") or code or "the body is not an answer"
    return ModelError(
        message[:2_000],
        provider=FAMILY,
        status=_STATUS.get(code),
        code=code or None,
        retryable=code in _LATER,
        request_id=text_in(body, "request_id") or None,
    )


_FINISHES: Final[Mapping[str, FinishReason]] = {**FINISHES, "pause_turn": "pause", "refusal": "refusal"}
_RESULT: Final = "_tool_result"
_WITH_CALLS: Final = ("caller", "toolset_name")


@define(eq=False)
class AnthropicAnswer(AnsweredBlocks):
    """Parser of the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """Converts a block to a part."""
        kind = block.get("type")
        if kind == "text":
            return TextPart(text_in(block, "text"), self.citations(objects_in(block, "citations")))
        if kind == "tool_use":
            kept = raw_item({key: block.get(key) for key in _WITH_CALLS}) or {}
            return CallPart(self.calls.call(block.get("name"), block.get("input"), block.get("id"), kept, fault))
        if kind == "thinking":
            return _read_thought(text_in(block, "thinking"), "signature", text_in(block, "signature"))
        if kind == "redacted_thinking":
            return _read_thought("", "redacted", text_in(block, "data"))
        return self._provider_part(block, kind)

    def _provider_part(self, block: JsonMapping, kind: object) -> HostedPart | None:
        """Blocks of the provider's own tools, and unknown ones; both are sent back unchanged."""
        kept = raw_item(block) if isinstance(kind, str) and kind else None
        if kept is None or not isinstance(kind, str):
            self.passed_over += 1
            return None
        if kind.endswith(_RESULT):
            return HostedPart(FAMILY, kept, "result", kind.removesuffix(_RESULT), text_in(block, "tool_use_id"))
        if kind.endswith("tool_use"):
            return HostedPart(FAMILY, kept, "call", text_in(block, "name"), text_in(block, "id"))
        return HostedPart(FAMILY, kept, "result", kind)

    def source(self, citation: JsonMapping) -> tuple[str, str, str]:
        """Text, address and title of a citation."""
        uri = text_in(citation, "url") or text_in(citation, "source")
        return text_in(citation, "cited_text"), uri, text_in(citation, "title") or text_in(citation, "document_title")

    def response(self, body: JsonMapping, parts: Sequence[Part]) -> ModelResponse:
        """The response."""
        stop = without_empty({"stop_sequence": text_in(body, "stop_sequence")})
        finish = finish_of(body.get("stop_reason"), parts, _FINISHES)
        return ModelResponse(
            Message("assistant", tuple(parts)),
            finish,
            _usage(object_in(body, "usage")),
            text_in(body, "model") or None,
            text_in(body, "id") or None,
            complete=finish not in UNFINISHED,
            custom_metadata={**self.facts(body, "container", "stop_details"), **stop},
            error_message=text_in(object_in(body, "stop_details"), "explanation") or None,
        )


def _read_thought(text: str, key: str, value: str) -> ReasoningPart:
    return ReasoningPart(text, {FAMILY: {key: value}} if value else {})


def _usage(usage: JsonMapping) -> Usage:
    """The token usage; the provider counts cached tokens separately."""
    cached, written = count_in(usage, "cache_read_input_tokens"), count_in(usage, "cache_creation_input_tokens")
    return Usage(
        count_in(usage, "input_tokens") + cached + written,
        count_in(usage, "output_tokens"),
        cached,
        written,
        count_in(object_in(usage, "output_tokens_details"), "thinking_tokens"),
    )


MOST_CITATIONS: Final = 10_000
"""Citations of one block; further ones are dropped."""

BEGUN_BY: Final = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""The type of block that a delta starts, if there is none."""


@define(eq=False)
class AnthropicBlock(StreamedBlock):
    """A streamed block."""

    own = frozenset({"text", "thinking"})
    _citations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)

    def start(self) -> Delta | None:
        """The delta of its start."""
        text = text_in(self.begun, "text") if self.kind == "text" else ""
        return TextDelta(text) if text else None

    def take(self, delta: JsonMapping) -> Delta | None:
        """Adds a piece of it; returns its delta."""
        match delta.get("type"):
            case "text_delta":
                text = self.grown.add(delta.get("text"))
                return TextDelta(text) if text and self.kind == "text" else None
            case "thinking_delta":
                text = self.grown.add(delta.get("thinking"))
                return ReasoningDelta(text) if text and self.kind == "thinking" else None
            case "signature_delta":
                self.signature.add(delta.get("signature"))
            case _:
                self._cite(object_in(delta, "citation"))
        return None

    def whole(self) -> JsonObject | None:
        """The block as in an answer that isn't streamed; `None` if its input must be an object and isn't."""
        block = {"type": self.kind, **self.begun}
        if self.kind == "text":
            block["text"] = text_in(block, "text") + self.grown.text
            block["citations"] = [*list_in(block, "citations"), *self._citations]
        elif self.kind == "thinking":
            block["thinking"] = text_in(block, "thinking") + self.grown.text
            block["signature"] = text_in(block, "signature") + self.signature.text
        elif self.call is not None:
            block["input"] = self.call.arguments or {}
        elif self.grown.text:
            block["input"] = parsed_object(self.grown.text)
            return None if block["input"] is None else block
        return block

    def _cite(self, citation: JsonMapping) -> None:
        if citation and len(self._citations) < MOST_CITATIONS:
            self._citations.append(citation)


@define(eq=False)
class AnthropicReader(BlockReader[AnthropicBlock]):
    """Parser of one streamed answer: `message_start`, the events of each block, `message_delta`, `message_stop`."""

    block = AnthropicBlock
    _usage: JsonObject = field(factory=dict[str, Any], init=False)

    def delta(self, event: JsonMapping) -> Delta | None:
        """Parses one event; none after the end."""
        if self.end.reached:
            return None
        index: Any = event.get("index")
        index = index if isinstance(index, int) else None
        match event.get("type"):
            case "content_block_delta":
                return self._grow(object_in(event, "delta"), index)
            case "content_block_start":
                begun = object_in(event, "content_block")
                kind = text_in(begun, "type")
                return self.begin(kind, begun, index, text_in(begun, "id") if kind == "tool_use" else None)
            case "content_block_stop":
                return self.blocks.stop(index)
            case kind:
                return self._note(kind, event)

    def _note(self, kind: object, event: JsonMapping) -> None:
        """Handles an event about the whole answer; token counts are cumulative."""
        if kind == "message_start":
            message = object_in(event, "message")
            self.facts = {key: value for key, value in message.items() if key != "content"}
            self._usage |= _without_none(object_in(message, "usage"))
        elif kind == "message_delta":
            self.facts |= _without_none(object_in(event, "delta"))
            self._usage |= _without_none(object_in(event, "usage"))
        elif kind == "message_stop":
            self.end.reached = True
        elif kind == "error":
            error = error_of(event)
            self.end.failed(error.code, error.message)
        self.facts["usage"] = self._usage

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = BEGUN_BY.get(text_in(delta, "type"))
        if kind is None:
            return None
        if kind == "tool_use":
            return self.blocks.call(kind, {}, index, "", text_in(delta, "partial_json"))
        block = self.blocks.at(index) or self.blocks.begin(kind, {}, index)
        return None if block is None else block.take(delta)


def _without_none(data: JsonMapping) -> JsonObject:
    return {key: value for key, value in data.items() if value is not None}
