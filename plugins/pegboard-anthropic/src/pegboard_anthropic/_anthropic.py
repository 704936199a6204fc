"""Anthropic's limits, and its answers: blocks, streams, citations, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import CallFault, Message, ModelError, ModelResponse
from pegboard.messages import (
    CallPart,
    Citation,
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
    UNFINISHED,
    AnsweredBlocks,
    StreamedBlock,
    StreamedBlocks,
    StrictLimits,
    finish_of,
    raw_item,
)
from pegboard_clients.wire import (
    SizeBudget,
    StreamEnd,
    count_in,
    object_in,
    objects_in,
    parsed_object,
    text_in,
    without_empty,
)

STRICT_LIMITS: Final = StrictLimits(tools=20, optional=24, unions=16)
"""Limits on strict tools in one request (Anthropic's error reports)."""


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
class AnthropicLimits:
    """Limits of the provider; known from the types of its SDK, its pages and its error reports.

    Attributes:
        name: The pattern of tool names, as a regular expression.
        max_tokens: The default length of an answer; the API requires one.
        strict: Limits on strict tools in one request.
        reasoning: The members of a request's body for each value of `ModelConfig.reasoning`.
        sampling: Whether `temperature` and `top_p` are sent: older models take them, the SDK's `create` no longer does.
        images: Supported media types of pictures.
        call_id: Maximum length of a call's id.
        argument_text: Characters of one call's arguments in a stream; a call with more is invalid.
        answer_text: Characters of a streamed answer in total; an answer with more isn't complete.
    """

    name: str = "[A-Za-z0-9_-]{1,64}"
    max_tokens: int = 8_192
    strict: StrictLimits = STRICT_LIMITS
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    sampling: bool = False
    images: frozenset[str] = field(default=IMAGES, converter=frozenset)
    call_id: int = 64
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


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


_IN_DOCUMENT: Final = ("cited_text", "document_index", "document_title")
_TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "char_location": (*_IN_DOCUMENT, "start_char_index", "end_char_index"),
    "page_location": (*_IN_DOCUMENT, "start_page_number", "end_page_number"),
    "content_block_location": (*_IN_DOCUMENT, "start_block_index", "end_block_index"),
    "web_search_result_location": ("cited_text", "encrypted_index", "title", "url"),
    "search_result_location": (
        *("cited_text", "search_result_index", "source", "title"),
        *("start_block_index", "end_block_index"),
    ),
}
"""By type, the members that may be sent back: not `file_id`, and a missing title must be null (the SDK's types)."""


def read_citations(given: Iterable[JsonMapping]) -> tuple[Citation, ...]:
    """The citations of a block; each is for the whole block, without a position."""
    return tuple(map(_citation, given))


def written_citations(citations: Iterable[Citation]) -> list[JsonObject]:
    """This provider's citations, in the form in which it accepts them."""
    found = (object_in(citation.data, FAMILY) for citation in citations)
    return [
        {"type": kind, **{key: own.get(key) for key in _TAKEN[kind]}}
        for own in found
        if isinstance(kind := own.get("type"), str) and kind in _TAKEN
    ]


def _citation(given: JsonMapping) -> Citation:
    text = text_in(given, "cited_text") or None
    uri = text_in(given, "url") or text_in(given, "source") or None
    title = text_in(given, "title") or text_in(given, "document_title") or None
    kept = raw_item(given)
    return Citation(text, uri, title, data={FAMILY: kept} if kept else {})


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
    """Parser of the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """Converts a block to a part; `None` if it can't be read.

        Args:
            block: The provider's block.
            fault: Why it can't run, for a call.
        """
        kind = block.get("type")
        if kind == "text":
            return TextPart(text_in(block, "text"), read_citations(objects_in(block, "citations")))
        if kind == "tool_use":
            kept = raw_item({key: block.get(key) for key in _WITH_CALLS}) or {}
            return CallPart(self.calls.call(block.get("name"), block.get("input"), block.get("id"), kept, fault))
        if kind == "thinking":
            return _read_thought(text_in(block, "thinking"), "signature", text_in(block, "signature"))
        if kind == "redacted_thinking":
            return _read_thought("", "redacted", text_in(block, "data"))
        return self._hosted(block, kind)

    def _hosted(self, block: JsonMapping, kind: object) -> HostedPart | None:
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


def _read_thought(text: str, key: str, value: str) -> ReasoningPart:
    return ReasoningPart(text, {FAMILY: {key: value}} if value else {})


def answered(message: JsonMapping, answer: AnthropicAnswer, parts: list[Part]) -> ModelResponse:
    """Builds a response.

    Args:
        message: The body, without its blocks.
        answer: The reader of the blocks.
        parts: The parts made from the blocks.
    """
    stop = without_empty({"stop_sequence": text_in(message, "stop_sequence")})
    finish = finish_of(message.get("stop_reason"), parts, _FINISHES)
    return ModelResponse(
        Message("assistant", tuple(parts)),
        finish,
        _usage(object_in(message, "usage")),
        text_in(message, "model") or None,
        text_in(message, "id") or None,
        complete=finish not in UNFINISHED,
        custom_metadata={**answer.facts(message, "container", "stop_details"), **stop},
        error_message=text_in(object_in(message, "stop_details"), "explanation") or None,
    )


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

_OWN: Final = frozenset({"text", "thinking", "tool_use"})
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

    _citations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)

    @property
    def can_go_back(self) -> bool:
        """Whether it is usable though incomplete; blocks of the provider's own tools must be complete."""
        return self.ended or self.kind in _OWN

    def start(self) -> Delta | None:
        """The delta of its start, or `None`."""
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
            block["citations"] = [*_listed(block.get("citations")), *self._citations]
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


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


@define(eq=False)
class AnthropicReader:
    """Parser of one streamed answer: `message_start`, the events of each block, `message_delta`, `message_stop`.

    Attributes:
        answer: Makes the reader of the complete blocks.
        limits: Limits on what is read.
        names: The tools' names here, by their names at the provider, where they differ.
    """

    answer: Callable[[], AnthropicAnswer]
    limits: AnthropicLimits
    names: Mapping[str, str]
    _message: JsonObject = field(factory=dict[str, Any], init=False)
    _usage: JsonObject = field(factory=dict[str, Any], init=False)
    _budget: SizeBudget = field(init=False)
    _blocks: StreamedBlocks[AnthropicBlock] = field(init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        self._budget = SizeBudget(self.limits.answer_text)
        self._blocks = StreamedBlocks(AnthropicBlock, self.names, self._budget, self.limits.argument_text)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Parses one event; returns its deltas. Never raises: unreadable events are skipped."""
        if self._end.reached or not isinstance(chunk, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  of any type
            return ()
        match chunk.get("type"):
            case "content_block_delta":
                came = self._grow(object_in(chunk, "delta"), _place(chunk.get("index")))
            case "content_block_start":
                came = self._start(object_in(chunk, "content_block"), _place(chunk.get("index")))
            case "content_block_stop":
                came = self._blocks.stop(_place(chunk.get("index")))
            case kind:
                came = self._note(kind, chunk)
        return () if came is None else (came,)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far; interrupted if `message_stop` hasn't come.

        Args:
            broken: Why the stream ended early.
        """
        answer = self.answer()
        whole = answered({**self._message, "usage": self._usage}, answer, answer.streamed(self._blocks.all))
        return self._end.of(whole, broken, spent=self._budget.spent)

    def _note(self, kind: object, event: JsonMapping) -> None:
        """Handles an event about the whole answer; token counts are cumulative."""
        if kind == "message_start":
            message = object_in(event, "message")
            self._message = {key: value for key, value in message.items() if key not in ("content", "usage")}
            self._usage |= _given(object_in(message, "usage"))
        elif kind == "message_delta":
            self._message |= _given(object_in(event, "delta"))
            self._usage |= _given(object_in(event, "usage"))
        elif kind == "message_stop":
            self._end.reached = True
        elif kind == "error":
            error = error_of(event)
            self._end.failed(error.code, error.message)

    def _start(self, begun: JsonMapping, index: int | None) -> Delta | None:
        if begun.get("type") == "tool_use":
            return self._blocks.call("tool_use", begun, index, text_in(begun, "id"), begun.get("input") or None)
        block = self._blocks.begin(text_in(begun, "type"), begun, index)
        return None if block is None else block.start()

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = BEGUN_BY.get(text_in(delta, "type"))
        if kind is None:
            return None
        if kind == "tool_use":
            return self._blocks.call(kind, {}, index, "", text_in(delta, "partial_json"))
        block = self._blocks.at(index) or self._blocks.begin(kind, {}, index)
        return None if block is None else block.take(delta)


def _place(index: object) -> int | None:
    return index if isinstance(index, int) else None


def _given(data: JsonMapping) -> JsonObject:
    return {key: value for key, value in data.items() if value is not None}
