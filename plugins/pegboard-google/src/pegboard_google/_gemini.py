"""Shared code for Gemini's requests and answers: limits, media, results, finish reasons and errors."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard import AudioContent, FileContent, ImageContent, LinkContent, ModelError, TextContent, ToolResult
from pegboard.messages import FinishReason, MediaPart
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.wire import (
    ORIGINAL,
    Content,
    admit,
    as_object,
    decoded,
    facts_of,
    object_in,
    object_or_none,
    objects_in,
    render_text,
    text_in,
)

FAMILY: Final = "gemini"
"""The key of provider metadata of both exporters, so that they can read each other's."""

OPTION_KEYS: Final = ("google", "gemini")
"""The provider's keys in options, later ones overriding earlier ones, and prefixes of a `provider_id`."""

UNVALIDATED: Final = "skip_thought_signature_validator"
"""The signature that Gemini 3 accepts for calls of other models (Gemini API: thought signatures)."""


MEDIA: Final = frozenset(
    {
        "application/pdf",
        *(f"image/{name}" for name in ("heic", "heif", "jpeg", "png", "webp")),
        *(f"audio/{name}" for name in ("aac", "aiff", "flac", "mp4", "mpeg", "ogg", "opus", "wav", "webm")),
        *(f"video/{name}" for name in ("3gpp", "avi", "mov", "mp4", "mpeg", "quicktime", "webm", "wmv", "x-flv")),
    }
)
"""Gemini API: image, audio, video and document understanding."""


@frozen
class GeminiLimits:
    """Limits of the provider.

    Attributes:
        name: The pattern of function names, as a regular expression.
        functions: Maximum number of functions in one request.
        media: Media types that a message may have inline.
        result_media: Those of them that a function's result may have, by the first part of the type (`"image"`) or all
            of it.
        unvalidated: The signature for the first call of another provider's answer; `None` to send none. Not sent to
            models before Gemini 3, which only accept their own.
        mixes: Whether a request may have both functions and Google's tools; before Gemini 3, it may not.
        dated: Prefixes of models with a thinking budget instead of a level, and without foreign signatures.
    """

    name: str = "[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    functions: int = 512
    media: frozenset[str] = field(default=MEDIA, converter=frozenset, repr=False)
    result_media: frozenset[str] = field(
        default=frozenset({"image", "audio", "video", "application/pdf"}), converter=frozenset
    )
    unvalidated: str | None = UNVALIDATED
    mixes: bool = True
    dated: tuple[str, ...] = ("gemini-1", "gemini-2")

    def takes_name(self, name: str) -> bool:
        """Whether it is a valid name of a function."""
        return re.fullmatch(self.name, name, re.ASCII) is not None

    @property
    def media_of_results(self) -> frozenset[str]:
        """The media types that a function's result may have inline."""
        return frozenset(each for each in self.media if {each, each.partition("/")[0]} & self.result_media)

    def is_dated(self, model: str | None) -> bool:
        """Whether this is a model before Gemini 3."""
        return model is not None and model.rpartition("/")[2].startswith(self.dated)


DEFAULT_LIMITS: Final = GeminiLimits()


def camel(name: str) -> str:
    """`googleSearch` of `google_search`, and of itself."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


DATA: Final = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""The members for the content of a part, which has one of them."""

_OURS: Final = frozenset({ORIGINAL, "thought"})


def metadata_of(part: JsonMapping, **more: Any) -> JsonObject:
    """The members of a part besides its content, as provider metadata."""
    beside = {key: value for key, value in part.items() if key not in DATA and value is not None}
    return {FAMILY: {**beside, **more}}


def is_own(metadata: object) -> bool:
    """Whether Gemini made the part; the metadata may be empty."""
    return object_or_none(as_object(metadata).get(FAMILY)) is not None


def beside(metadata: object) -> JsonObject:
    """The members of a part besides its content."""
    return {key: value for key, value in facts_of(metadata, FAMILY).items() if key not in _OURS and key not in DATA}


_STORED = ("gs://", "https://generativelanguage.googleapis.com/")
"""Prefixes of the addresses of files stored at Google; other links become text."""


def media_part(content: Content, limits: GeminiLimits) -> JsonObject:
    """A part for a content: inline, by its address if Google stores it, or else as text."""
    if isinstance(content, LinkContent) and content.uri.startswith(_STORED):
        named = {} if content.mime_type is None else {"mimeType": content.mime_type}
        return {"fileData": {**named, "fileUri": content.uri}}
    return _part(content, limits.media)


def _part(content: Content, media: frozenset[str]) -> JsonObject:
    """A part with a content's bytes, if they are of one of these types, or its text."""
    content = admit(content, media)
    if isinstance(content, TextContent | LinkContent) or isinstance(content.data, str):
        return {"text": render_text(content)}
    return {"inlineData": {"mimeType": content.mime_type, "data": base64.b64encode(content.data).decode()}}


def media_of(part: JsonMapping) -> MediaPart | None:
    """The media of a model's part; `None` if it has none that can be read."""
    blob, file = object_in(part, "inlineData"), object_in(part, "fileData")
    if text_in(file, "fileUri"):
        uri = text_in(file, "fileUri")
        link = LinkContent(uri, text_in(file, "displayName") or uri, text_in(file, "mimeType") or None)
        return MediaPart(link, metadata_of(part))
    text = text_in(blob, "data").translate(_STANDARD)
    data = decoded(text + "=" * (-len(text) % 4))
    return MediaPart(_content(data, blob), metadata_of(part)) if data else None


def _content(data: bytes, blob: JsonMapping) -> ImageContent | AudioContent | FileContent:
    mime_type = text_in(blob, "mimeType")
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(data, mime_type)
    if kind == "audio":
        return AudioContent(data, mime_type)
    return FileContent(text_in(blob, "displayName") or "file", data, mime_type or None)


_STANDARD = str.maketrans("-_", "+/")
"""To the usual alphabet of base64."""


_WORDS = ("output", "error")
"""The keys that distinguish a result and an error (Gemini API: `FunctionResponse.response`)."""


def response_part(name: str, wire_id: str, result: ToolResult, limits: GeminiLimits) -> JsonObject:
    """The part that answers a call.

    Args:
        name: The function's name on the wire.
        wire_id: The call's id on the wire; `""` if it had none.
        result: The result; its content is sent, or structured data if the content is the same.
        limits: The limits on media; other media become text.
    """
    takes = limits.media_of_results
    parts = [_part(item, takes) for item in result.content]
    media, texts = [part for part in parts if "text" not in part], [part["text"] for part in parts if "text" in part]
    response: JsonObject = {"name": name, "response": _response(result, texts)}
    if wire_id:
        response["id"] = wire_id
    if media:
        response["parts"] = media
    return {"functionResponse": response}


def _response(result: ToolResult, texts: list[str]) -> JsonObject:
    """`{"error": ...}`, the structured object itself, or `{"output": ...}`.

    Where content and structured data differ, the content counts: it may have been cut for the model.
    """
    if result.is_error:
        return {"error": "\n".join(texts) or "failed"}
    data = result.structured_content
    if data is None or not _is_same(texts, data):
        return {"output": "\n".join(texts)}
    if isinstance(data, dict) and not any(word in data for word in _WORDS):
        return cast("JsonObject", data)
    return {"output": data}


def _is_same(texts: Iterable[str], data: Any) -> bool:
    """Whether the content is nothing but the structured data."""
    found = [text for text in texts if text]
    if not found:
        return True
    try:
        return len(found) == 1 and json.loads(found[0]) == data
    except (ValueError, RecursionError):
        return False


UNEXPECTED: Final = "UNEXPECTED_TOOL_CALL"
"""The finish reason of an answer that calls an unknown tool."""

MALFORMED: Final = "MALFORMED_FUNCTION_CALL"
"""The finish reason of an answer with a call that can't be read, and isn't in it."""

_FILTERED: Final = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
)
_FAILED: Final = (
    MALFORMED,
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
    "IMAGE_OTHER",
    "NO_IMAGE",
)
_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    UNEXPECTED: "tool_calls",
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "error"),
}
CUT_OFF: Final = frozenset({"length", "content_filter", "error"})
"""Finish reasons of an incomplete answer: its calls never run."""

_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


def reason_of(word: str, *, calls: bool) -> FinishReason:
    """The finish reason of an answer."""
    reason = _REASONS.get(word, "other" if word else "stop")
    return "tool_calls" if calls and reason == "stop" else reason


def error_of(body: Any) -> ModelError:
    """The error of a body, `{"error": {"code", "message", "status", "details"}}` or any other value."""
    error = object_in(as_object(body), "error")
    code = error.get("code")
    status = code if type(code) is int else None
    return ModelError(
        text_in(error, "message") or "the body is not an answer",
        provider=FAMILY,
        status=status,
        code=text_in(error, "status") or None,
        retryable=status in _RETRYABLE,
        retry_after=_retry_after(error),
    )


def _retry_after(error: JsonMapping) -> float | None:
    """Seconds by `google.rpc.RetryInfo`."""
    for detail in objects_in(error, "details"):
        found = _SECONDS.fullmatch(text_in(detail, "retryDelay"))
        if found is not None:
            return float(found[1])
    return None
