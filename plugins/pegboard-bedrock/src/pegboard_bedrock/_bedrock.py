"""Bedrock's limits, and its answers: blocks, streams, citations, errors."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import CallFault, ImageContent, Message, ModelError, ModelResponse
from pegboard.messages import (
    CallPart,
    Citation,
    Delta,
    FinishReason,
    HostedPart,
    MediaPart,
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
from pegboard_clients.wire import SizeBudget, StreamEnd, count_in, object_in, objects_in, parsed_object, text_in

STRICT_LIMITS: Final = StrictLimits(tools=20, optional=24, unions=16)
"""Limits on strict tools in one request (Anthropic validates them)."""


FAMILY: Final = "bedrock"
"""The provider's key in options and metadata, and the prefix of a `provider_id`."""

IMAGES: Final[Mapping[str, str]] = {f"image/{word}": word for word in ("png", "jpeg", "gif", "webp")}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
DOCUMENTS: Final[Mapping[str, str]] = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}wordprocessingml.document": "docx",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
VIDEOS: Final[Mapping[str, str]] = {
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/x-matroska": "mkv",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
AUDIO: Final[Mapping[str, str]] = {
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/wav": "wav",
    "audio/webm": "webm",
}
REASONING: Final[Mapping[str, JsonMapping]] = {
    "none": {},
    **{word: {"outputConfig": {"effort": word}} for word in ("low", "medium", "high")},
}
"""Converse's own members. Others (a budget) go under `additionalModelRequestFields`."""


@frozen(kw_only=True)
class BedrockLimits:
    """Limits of the provider; known from botocore's model of the service, its pages and its error reports.

    Attributes:
        name: The pattern of tool names, as a regular expression.
        strict: Limits on strict tools in one request.
        reasoning: The members of a request's body for each value of `ModelConfig.reasoning`.
        images: Media types of pictures, with their names in the API.
        documents: Media types of documents, with their names in the API.
        videos: Media types of videos, with their names in the API.
        audio: Media types of sounds, by their usual names, with their names in the API.
        call_id: Maximum length of a call's id.
        document_name: Maximum length of a document's name.
        argument_text: Characters of one call's arguments in a stream; a call with more is invalid.
        answer_text: Characters of a streamed answer in total; an answer with more isn't complete.
    """

    name: str = "[a-zA-Z0-9_-]{1,64}"
    strict: StrictLimits = STRICT_LIMITS
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    images: Mapping[str, str] = field(default=IMAGES, repr=False)
    documents: Mapping[str, str] = field(default=DOCUMENTS, repr=False)
    videos: Mapping[str, str] = field(default=VIDEOS, repr=False)
    audio: Mapping[str, str] = field(default=AUDIO, repr=False)
    call_id: int = 64
    document_name: int = 200
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


DEFAULT_LIMITS: Final = BedrockLimits()


_STATUS: Final = {
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "modelErrorException": 424,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "modelNotReadyException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""The status by exception (botocore's model of the service)."""

_LATER: Final = frozenset({408, 424, 429, 500, 503})


def exception_in(event: JsonMapping) -> str | None:
    """The name of the exception in a stream event, or `None`."""
    return next((name for name in event if name in _STATUS), None)


def error_of(body: JsonMapping) -> ModelError:
    """The error of a body that isn't an answer, or of an event that is an exception."""
    name = exception_in(body)
    error = object_in(body, "Error") if name is None else object_in(body, name)
    about = object_in(body, "ResponseMetadata")
    code = name or text_in(error, "Code")
    known = _STATUS.get(code[:1].lower() + code[1:])
    text = text_in(error, "Message") or text_in(error, "message") or text_in(body, "message")
    status = count_in(about, "HTTPStatusCode") or known
    return ModelError(
        (text or code or "the body is not an answer")[:2_000],
        provider=FAMILY,
        status=status,
        code=code or None,
        retryable=status in _LATER,
        request_id=text_in(about, "RequestId") or None,
    )


_TAKEN: Final = ("title", "source", "sourceContent", "location")


def read_citations(given: Iterable[JsonMapping]) -> tuple[Citation, ...]:
    """The citations of a block; each is for the whole block, without a position."""
    return tuple(map(_citation, given))


def written_citations(citations: Iterable[Citation]) -> list[JsonObject]:
    """This provider's citations, in the form in which it accepts them."""
    found = (object_in(citation.data, FAMILY) for citation in citations)
    return [{key: own[key] for key in _TAKEN if own.get(key) is not None} for own in found if own]


def _citation(given: JsonMapping) -> Citation:
    text = "".join(text_in(each, "text") for each in objects_in(given, "sourceContent")) or None
    uri = text_in(object_in(object_in(given, "location"), "web"), "url") or text_in(given, "source") or None
    kept = raw_item(given)
    return Citation(text, uri, text_in(given, "title") or None, data={FAMILY: kept} if kept else {})


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


@define(eq=False)
class BedrockAnswer(AnsweredBlocks):
    """Parser of the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """Converts a block to a part; `None` if it can't be read.

        Args:
            block: The provider's block: one member, which is its kind.
            fault: Why it can't run, for a call.
        """
        if isinstance(block.get("text"), str):
            return TextPart(text_in(block, "text"))
        if "citationsContent" in block:
            return _cited(object_in(block, "citationsContent"))
        if "reasoningContent" in block:
            return _read_thought(object_in(block, "reasoningContent"))
        use = object_in(block, "toolUse")
        if "toolUse" in block and use.get("type") != _HOSTED:
            return CallPart(self.calls.call(use.get("name"), use.get("input"), use.get("toolUseId"), {}, fault))
        return _picture(object_in(block, "image")) or self._hosted(block, use)

    def _hosted(self, block: JsonMapping, use: JsonMapping) -> HostedPart | None:
        """Blocks of the provider's own tools, and unknown ones; both are sent back unchanged."""
        kept = raw_item(block)
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


def _read_thought(block: JsonMapping) -> ReasoningPart:
    redacted = block.get("redactedContent")
    if isinstance(redacted, bytes):  # from boto3
        redacted = base64.b64encode(redacted).decode()
    if isinstance(redacted, str):
        return ReasoningPart("", {FAMILY: {"redacted": redacted}})
    thought = object_in(block, "reasoningText")
    signature = text_in(thought, "signature")
    return ReasoningPart(text_in(thought, "text"), {FAMILY: {"signature": signature}} if signature else {})


def _picture(image: JsonMapping) -> MediaPart | None:
    data = object_in(image, "source").get("bytes")
    if not isinstance(data, bytes) or not data:
        return None
    return MediaPart(ImageContent(data, f"image/{text_in(image, 'format') or 'png'}"))


def answered(raw: JsonMapping, answer: BedrockAnswer, parts: list[Part]) -> ModelResponse:
    """Builds a response.

    Args:
        raw: The body, without its message.
        answer: The reader of the message.
        parts: The parts made from the message.
    """
    finish = finish_of(raw.get("stopReason"), parts, _FINISHES)
    router = object_in(object_in(raw, "trace"), "promptRouter")
    return ModelResponse(
        Message("assistant", tuple(parts)),
        finish,
        _usage(object_in(raw, "usage")),
        text_in(router, "invokedModelId") or None,
        text_in(object_in(raw, "ResponseMetadata"), "RequestId") or None,
        complete=finish not in UNFINISHED,
        custom_metadata=answer.facts(raw, "additionalModelResponseFields", "trace"),
        error_code=text_in(raw, "stopReason") if finish == "error" else None,
    )


def _usage(usage: JsonMapping) -> Usage:
    """The token usage; whether `inputTokens` includes cached tokens depends on the model, so the total decides."""
    given, output = count_in(usage, "inputTokens"), count_in(usage, "outputTokens")
    all_of_request = max(given, count_in(usage, "totalTokens") - output)
    return Usage(
        all_of_request, output, count_in(usage, "cacheReadInputTokens"), count_in(usage, "cacheWriteInputTokens")
    )


MOST_LISTED: Final = 10_000
"""Citations, or pieces of a hosted tool's result, in one block; further ones are dropped."""

_OWN: Final = frozenset({"text", "reasoningContent", "toolUse"})


@define(eq=False)
class BedrockBlock(StreamedBlock):
    """A streamed block."""

    _listed: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _beside: dict[str, Any] = field(factory=dict[str, Any], init=False)

    @property
    def can_go_back(self) -> bool:
        """Whether it is usable though incomplete; blocks of the provider's own tools must be complete."""
        return self.ended or (self.kind in _OWN and (self.kind != "toolUse" or self.call is not None))

    def take(self, delta: JsonMapping) -> Delta | None:
        """Adds a piece of it; returns its delta."""
        if "reasoningContent" in delta:
            return self._think(object_in(delta, "reasoningContent"))
        if "text" in delta:
            text = self.grown.add(delta.get("text"))
            return TextDelta(text) if text else None
        self._list(objects_in(delta, "toolResult") or [object_in(delta, "citation")])
        self._beside |= object_in(delta, "image")
        return None

    def whole(self) -> JsonObject | None:
        """The block as in an answer that isn't streamed; `None` if its input must be an object and isn't."""
        match self.kind:
            case "toolUse":
                return self._use()
            case "reasoningContent":
                thought = {"text": self.grown.text, "signature": self.signature.text}
                return {self.kind: self._beside or {"reasoningText": thought}}
            case "text" if self._listed:
                return {"citationsContent": {"content": [{"text": self.grown.text}], "citations": self._listed}}
            case "text":
                return {"text": self.grown.text}
            case "toolResult":
                return {self.kind: {**self.begun, "content": self._listed}}
            case _:
                return {self.kind: {**self.begun, **self._beside}}

    def _use(self) -> JsonObject | None:
        given = parsed_object(self.grown.text) if self.call is None else self.call.arguments or {}
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
    """The kind of block of a delta; `None` if unknown."""
    if "citation" in delta:
        return "text"
    return next(
        (kind for kind in ("text", "toolUse", "reasoningContent", "toolResult", "image") if kind in delta), None
    )


_METADATA: Final = ("usage", "trace")
_HOSTED: Final = "server_tool_use"


@define(eq=False)
class BedrockReader:
    """Parser of one streamed answer: `messageStart`, the events of each block, `messageStop`, `metadata`.

    Attributes:
        answer: Makes the reader of the complete blocks.
        limits: Limits on what is read.
        names: The tools' names here, by their names at the provider, where they differ.
    """

    answer: Callable[[], BedrockAnswer]
    limits: BedrockLimits
    names: Mapping[str, str]
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _budget: SizeBudget = field(init=False)
    _blocks: StreamedBlocks[BedrockBlock] = field(init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        self._budget = SizeBudget(self.limits.answer_text)
        self._blocks = StreamedBlocks(BedrockBlock, self.names, self._budget, self.limits.argument_text)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Parses one event; returns its deltas. Never raises: unreadable events are skipped."""
        if not isinstance(chunk, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  of any type
            return ()
        came: Delta | None = None
        if "contentBlockDelta" in chunk:
            event = object_in(chunk, "contentBlockDelta")
            came = self._grow(object_in(event, "delta"), _index(event))
        elif "contentBlockStart" in chunk:
            event = object_in(chunk, "contentBlockStart")
            came = self._start(object_in(event, "start"), _index(event))
        elif "contentBlockStop" in chunk:
            self._blocks.stop(_index(object_in(chunk, "contentBlockStop")))
        else:
            self._note(chunk)
        return () if came is None else (came,)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far; interrupted if `messageStop` hasn't come.

        Args:
            broken: Why the stream ended early.
        """
        answer = self.answer()
        whole = answered(self._facts, answer, answer.streamed(self._blocks.all))
        return self._end.of(whole, broken, spent=self._budget.spent)

    def _note(self, event: JsonMapping) -> None:
        """Handles an event about the whole answer."""
        if "messageStop" in event:
            self._end.reached = True
            self._facts |= object_in(event, "messageStop")
        elif "metadata" in event:
            self._facts |= {key: each for key, each in object_in(event, "metadata").items() if key in _METADATA}
        elif exception_in(event) is not None:
            error = error_of(event)
            self._end.failed(error.code, error.message)

    def _start(self, start: JsonMapping, index: int | None) -> Delta | None:
        kind = next(iter(start), None)
        if kind is None:
            return None
        begun = object_in(start, kind)
        if kind == "toolUse" and begun.get("type") != _HOSTED:
            return self._blocks.call(kind, begun, index, text_in(begun, "toolUseId"), begun.get("input") or None)
        self._blocks.begin(kind, begun, index)
        return None

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = kind_of(delta)
        if kind is None:
            return None
        if kind == "toolUse":
            return self._blocks.call(kind, {}, index, "", object_in(delta, kind).get("input"))
        block = self._blocks.at(index)
        if block is None or block.kind != kind:
            block = self._blocks.begin(kind, {}, index)
        return None if block is None else block.take(delta)


def _index(event: JsonMapping) -> int | None:
    index = event.get("contentBlockIndex")
    return index if isinstance(index, int) else None
