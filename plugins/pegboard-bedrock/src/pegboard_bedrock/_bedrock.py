"""Bedrock's limits, and its answers: blocks, streams, citations, errors."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import CallFault, ImageContent, Message, ModelError, ModelResponse
from pegboard.messages import (
    CallPart,
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
    FINISHES,
    UNFINISHED,
    AnsweredBlocks,
    BlockLimits,
    BlockReader,
    StreamedBlock,
    finish_of,
    raw_item,
)
from pegboard_clients.wire import count_in, object_in, objects_in, parsed_object, text_in

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
class BedrockLimits(BlockLimits):
    """Limits of the provider; known from botocore's model of the service, its pages and its error reports.

    Attributes:
        name: The pattern of tool names, as a regular expression.
        reasoning: The members of a request's body for each value of `ModelConfig.reasoning`.
        images: Media types of pictures, with their names in the API.
        documents: Media types of documents, with their names in the API.
        videos: Media types of videos, with their names in the API.
        audio: Media types of sounds, by their usual names, with their names in the API.
        document_name: Maximum length of a document's name.
    """

    name: str = "[a-zA-Z0-9_-]{1,64}"
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    images: Mapping[str, str] = field(default=IMAGES, repr=False)
    documents: Mapping[str, str] = field(default=DOCUMENTS, repr=False)
    videos: Mapping[str, str] = field(default=VIDEOS, repr=False)
    audio: Mapping[str, str] = field(default=AUDIO, repr=False)
    document_name: int = 200


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


_FINISHES: Final[Mapping[str, FinishReason]] = {
    **FINISHES,
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}


@define(eq=False)
class BedrockAnswer(AnsweredBlocks):
    """Parser of the blocks of one answer."""

    def part(self, block: JsonMapping, fault: CallFault | None = None) -> Part | None:
        """Converts a block, which has one member, its kind, to a part."""
        if isinstance(block.get("text"), str):
            return TextPart(text_in(block, "text"))
        if "citationsContent" in block:
            return self._text_with_citations(object_in(block, "citationsContent"))
        if "reasoningContent" in block:
            return _read_thought(object_in(block, "reasoningContent"))
        use = object_in(block, "toolUse")
        if "toolUse" in block and use.get("type") != _HOSTED:
            return CallPart(self.calls.call(use.get("name"), use.get("input"), use.get("toolUseId"), {}, fault))
        return _picture(object_in(block, "image")) or self._provider_part(block, use)

    def source(self, citation: JsonMapping) -> tuple[str, str, str]:
        """Text, address and title of a citation."""
        text = "".join(text_in(each, "text") for each in objects_in(citation, "sourceContent"))
        uri = text_in(object_in(object_in(citation, "location"), "web"), "url") or text_in(citation, "source")
        return text, uri, text_in(citation, "title")

    def response(self, body: JsonMapping, parts: Sequence[Part]) -> ModelResponse:
        """The response."""
        finish = finish_of(body.get("stopReason"), parts, _FINISHES)
        router = object_in(object_in(body, "trace"), "promptRouter")
        return ModelResponse(
            Message("assistant", tuple(parts)),
            finish,
            _usage(object_in(body, "usage")),
            text_in(router, "invokedModelId") or None,
            text_in(object_in(body, "ResponseMetadata"), "RequestId") or None,
            complete=finish not in UNFINISHED,
            custom_metadata=self.facts(body, "additionalModelResponseFields", "trace"),
            error_code=text_in(body, "stopReason") if finish == "error" else None,
        )

    def _text_with_citations(self, block: JsonMapping) -> TextPart:
        text = "".join(text_in(each, "text") for each in objects_in(block, "content"))
        return TextPart(text, self.citations(objects_in(block, "citations")))

    def _provider_part(self, block: JsonMapping, use: JsonMapping) -> HostedPart | None:
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


def _usage(usage: JsonMapping) -> Usage:
    """The token usage; whether `inputTokens` includes cached tokens depends on the model, so the total decides."""
    given, output = count_in(usage, "inputTokens"), count_in(usage, "outputTokens")
    all_of_request = max(given, count_in(usage, "totalTokens") - output)
    return Usage(
        all_of_request, output, count_in(usage, "cacheReadInputTokens"), count_in(usage, "cacheWriteInputTokens")
    )


MOST_LISTED: Final = 10_000
"""Citations, or pieces of a hosted tool's result, in one block; further ones are dropped."""


@define(eq=False)
class BedrockBlock(StreamedBlock):
    """A streamed block."""

    own = frozenset({"text", "reasoningContent"})
    _listed: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _beside: dict[str, Any] = field(factory=dict[str, Any], init=False)

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
_OF_BLOCKS: Final = ("contentBlockDelta", "contentBlockStart", "contentBlockStop")


@define(eq=False)
class BedrockReader(BlockReader[BedrockBlock]):
    """Parser of one streamed answer: `messageStart`, the events of each block, `messageStop`, `metadata`."""

    block = BedrockBlock

    def delta(self, event: JsonMapping) -> Delta | None:
        """Parses one event."""
        name = next((each for each in _OF_BLOCKS if each in event), "")
        facts = object_in(event, name)
        index: Any = facts.get("contentBlockIndex")
        index = index if isinstance(index, int) else None
        match name:
            case "contentBlockDelta":
                return self._grow(object_in(facts, "delta"), index)
            case "contentBlockStart":
                return self._start(object_in(facts, "start"), index)
            case "contentBlockStop":
                return self.blocks.stop(index)
            case _:
                return self._note(event)

    def _note(self, event: JsonMapping) -> None:
        """Handles an event about the whole answer."""
        if "messageStop" in event:
            self.end.reached = True
            self.facts |= object_in(event, "messageStop")
        elif "metadata" in event:
            self.facts |= {key: each for key, each in object_in(event, "metadata").items() if key in _METADATA}
        elif exception_in(event) is not None:
            error = error_of(event)
            self.end.failed(error.code, error.message)

    def _start(self, start: JsonMapping, index: int | None) -> Delta | None:
        kind = next(iter(start), None)
        if kind is None:
            return None
        begun = object_in(start, kind)
        is_call = kind == "toolUse" and begun.get("type") != _HOSTED
        return self.begin(kind, begun, index, text_in(begun, "toolUseId") if is_call else None)

    def _grow(self, delta: JsonMapping, index: int | None) -> Delta | None:
        kind = kind_of(delta)
        if kind is None:
            return None
        if kind == "toolUse":
            return self.blocks.call(kind, {}, index, "", object_in(delta, kind).get("input"))
        block = self.blocks.at(index)
        if block is None or block.kind != kind:
            block = self.blocks.begin(kind, {}, index)
        return None if block is None else block.take(delta)
