"""Shared code of chat completions and the responses API."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

from attrs import evolve, field, frozen

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    ModelError,
    ModelRequest,
    ToolResult,
)
from pegboard.json import json_text
from pegboard.messages import Citation, MediaPart, Part, TextPart, Usage
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.dialects import (
    BOUNDS,
    FORMATS,
    READ,
    SHAPE,
    SHAPED,
    SIMPLE,
    UNIONS,
    Counts,
    Dialect,
    Within,
    arrays_need_items,
    boolean_schemas,
    close_objects,
    deep_copy,
    formats,
    isolate_any_of,
    isolate_references,
    named_definitions,
    one_of_to_any_of,
    only_keywords,
    open_objects,
    patterns,
    require_all,
    root_object,
    simple_enums,
    tuple_items,
    type_lists,
    typed_enums,
    typed_values,
)
from pegboard_clients.wire import (
    Content,
    admit,
    count_in,
    encodable_text,
    facts_of,
    known_text,
    object_in,
    object_or_none,
    output_schema,
    place_in,
    render_text,
)

FAMILY: Final = "openai"
"""The key that both exporters read in options, besides their own."""

STRICT_SIZE: Final = Counts(properties=5_000, levels=10, enum_values=1_000, characters=120_000)
"""Size limits of a strict schema (OpenAI's documentation and error reports)."""

OPENAI: Final = Dialect(
    "openai", (*READ, root_object(*UNIONS, "enum", "const", "not"), arrays_need_items, named_definitions)
)
"""OpenAI's functions, not strict: any schema with a plain root, whose arrays have `items`."""

OPENAI_STRICT: Final = Dialect(
    "openai-strict",
    (
        *READ,
        boolean_schemas,
        named_definitions,
        one_of_to_any_of,
        *SIMPLE,
        tuple_items(closed=True),
        typed_enums,
        simple_enums,
        typed_values,
        only_keywords(
            {*SHAPE, *BOUNDS, "$ref", "$defs", "additionalProperties", "pattern", "format", "minItems", "maxItems"}
        ),
        formats(FORMATS),
        patterns(),
        isolate_any_of,
        arrays_need_items,
        typed_values,
        isolate_references,
        open_objects,
        close_objects,
        require_all,
        named_definitions,
        Within(STRICT_SIZE),
    ),
)
"""OpenAI's strict functions: closed objects that require everything; recursion stays."""

MOONSHOT: Final = Dialect(
    "moonshot",
    (
        *READ,
        boolean_schemas,
        named_definitions,
        one_of_to_any_of,
        *SIMPLE,
        tuple_items(),
        typed_enums,
        type_lists,
        isolate_any_of,
        isolate_references,
        arrays_need_items,
        named_definitions,
    ),
)
"""Moonshot's functions (public): types in the members of `anyOf`, a `$ref` alone, one schema for all items."""

SIMPLE_SERVER: Final = Dialect("simple", SHAPED)
"""For servers that read few keywords: no references; other keywords go into descriptions."""

DIALECTS: Final = {each.name: each for each in (OPENAI, MOONSHOT, SIMPLE_SERVER)}
"""The dialects of OpenAI-compatible servers, by name."""


def render_parts(parts: Iterable[Part]) -> str:
    """The texts joined; placeholders for pictures, sounds and files."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, MediaPart):
            texts.append(("\n" if texts else "") + render_text(part.content))
    return "".join(texts)


REFUSED_IN_IDS: Final = re.compile("[\ud800-\udfff]")
"""Characters that aren't allowed in a call's id: lone surrogates."""

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
FILES: Final = frozenset(
    {
        "application/pdf",
        f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}presentationml.presentation",
        f"{_OFFICE}spreadsheetml.sheet",
    }
)


@frozen(kw_only=True)
class Limits:
    """Limits of the provider, from its reference and error reports.

    Attributes:
        tools: Maximum number of entries in a request's list of tools.
        description: Maximum length of a tool's description; `None` is no limit.
        call_id: Maximum length of a call's id.
        images: Media types of pictures.
        audio: Media types of sounds, by their usual names, with their names in the API.
        files: Media types of binary files; text files are sent as text.
        argument_text: Characters of one call's arguments that are read of an answer; a call with more is invalid.
        answer_text: Characters of all that is read of a streamed answer; one with more isn't complete.
    """

    tools: int = 128
    description: int | None = None
    call_id: int = 64
    images: frozenset[str] = field(default=IMAGES, converter=frozenset)
    audio: dict[str, str] = field(factory=dict[str, str])
    files: frozenset[str] = field(default=FILES, converter=frozenset)
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20

    @property
    def media(self) -> frozenset[str]:
        """The media types of all pictures, sounds and files."""
        return self.images.union(self.audio, self.files)


CHAT: Final = Limits(
    description=1_024,
    call_id=40,
    audio={"audio/wav": "wav", "audio/mpeg": "mp3"},
)
RESPONSES: Final = Limits()


_NULLABLE: Final = frozenset({"code", "outputs", "result"})
"""Members of hosted items that may be null."""

_OPAQUE: Final = frozenset({"arguments", "input_schema", "output_schema", "parameters"})
"""Members with foreign JSON, whose nulls are kept."""


def without_nulls(data: JsonMapping) -> JsonObject | None:
    """A copy of a provider's item without nulls, to send back; `None` if it is too large."""
    copy, fault = deep_copy(dict(data))
    return None if fault is not None else _without_nulls(copy, _NULLABLE)


def _without_nulls(item: JsonObject, nullable: frozenset[str] = frozenset()) -> JsonObject:
    """Nulls in the SDK's dump were never on the wire, except for required members."""
    return {
        key: value if key in _OPAQUE else _clear(value)
        for key, value in item.items()
        if value is not None or key in nullable
    }


def _clear(value: Any) -> Any:
    if isinstance(value, list):
        return [_clear(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return _without_nulls(value) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]


def read_citations(annotations: Iterable[JsonMapping], key: str) -> tuple[Citation, ...]:
    """The citations of a text.

    Args:
        annotations: As chat completions nest them (`{"type", "url_citation": {...}}`), or flat as responses have them.
        key: The provider's key in their data.
    """
    return tuple(_citation(each, key) for each in annotations)


def _citation(annotation: JsonMapping, key: str) -> Citation:
    cited = object_in(annotation, "url_citation") or annotation
    whole = without_nulls(annotation)
    return Citation(
        uri=known_text(cited, "url"),
        title=known_text(cited, "title") or known_text(cited, "filename"),
        start=place_in(cited, "start_index"),
        end=place_in(cited, "end_index"),
        data={key: whole} if whole else {},
    )


def write_citations(citations: Iterable[Citation], key: str) -> list[JsonObject]:
    """The provider's own annotations, unchanged; those of others are left out."""
    return [dict(annotation) for each in citations if (annotation := facts_of(each.data, key))]


def read_usage(usage: JsonMapping, asked: str, answered: str) -> Usage:
    """The token usage of an answer; missing or invalid counts are 0.

    Args:
        usage: The provider's.
        asked: Its prefix for the request (`"prompt"` or `"input"`).
        answered: Its prefix for the answer (`"completion"` or `"output"`).
    """
    request = object_in(usage, f"{asked}_tokens_details")
    answer = object_in(usage, f"{answered}_tokens_details")
    return Usage(
        count_in(usage, f"{asked}_tokens"),
        count_in(usage, f"{answered}_tokens"),
        count_in(request, "cached_tokens"),
        count_in(request, "cache_write_tokens"),
        count_in(answer, "reasoning_tokens"),
    )


_AGAIN: Final = frozenset(
    {"overloaded_error", "rate_limit_exceeded", "requests", "server_error", "tokens", "vector_store_timeout"}
)
"""Codes and types of errors after which the same request may succeed."""

NEVER: Final = frozenset({"insufficient_quota"})
"""Codes of permanent errors with a temporary status: this one is a 429, though the credit is used up."""

_AGAIN_STATUS: Final = frozenset({408, 409, 429})
_MOST_SHOWN: Final = 2_000


def failure(error: object, provider: str) -> ModelError:
    """The error of an error body (`{"message", "type", "code"}`, or a text)."""
    body = object_or_none(error) or {}
    code, message = error_facts(body)
    if isinstance(error, str):
        message = error
    status = _status(body)
    again = code in _AGAIN or known_text(body, "type") in _AGAIN or status in _AGAIN_STATUS or (status or 0) >= 500
    text = encodable_text(message or "the provider answered with an error")[:_MOST_SHOWN]
    return ModelError(text, provider=provider, status=status, code=code, retryable=again and code not in NEVER)


def error_facts(error: JsonMapping) -> tuple[str | None, str | None]:
    """The code and the text of an error; `None` if missing."""
    return known_text(error, "code") or known_text(error, "type"), known_text(error, "message")


def no_answer(what: str, provider: str) -> ModelError:
    """The error for a body that isn't an answer."""
    return ModelError(f"the answer can't be read: {what}", provider=provider, code="invalid_response")


def answer_body(raw: object, provider: str) -> JsonMapping:
    """The body of an answer.

    Raises:
        ModelError: It isn't an object.
    """
    body = object_or_none(raw)
    if body is None:
        raise no_answer(f"an object was expected, got {type(raw).__name__}", provider)
    return body


def _status(error: JsonMapping) -> int | None:
    """The status of an error; some servers send it as the code."""
    code = error.get("status", error.get("code"))
    return code if type(code) is int and 100 <= code < 600 else None


_WITHOUT_FORMATS: Final = re.compile(r"(ft:)?(gpt-3|gpt-4(-|:|$)|gpt-4o-2024-05-13|o1-(mini|preview)|chatgpt-)")
"""https://platform.openai.com/docs/guides/structured-outputs: models since gpt-4o-2024-08-06 have formats."""


def format_of(request: ModelRequest) -> JsonObject | None:
    """The response format for the request's `output`; `None` if the model has none for it."""
    schema = output_schema(request, OPENAI, OPENAI_STRICT)
    if schema is None or request.output is None or _WITHOUT_FORMATS.match(request.model or ""):
        return None
    return {"name": request.output.name, "schema": schema, "strict": True}


@frozen
class Rendered:
    """One content in the API's terms.

    Attributes:
        kind: Its kind.
        value: The text, the picture's URL, the sound in base64, or the file as a data URL.
        name: The file's name, or the sound's format.
    """

    kind: Literal["text", "image", "audio", "file"]
    value: str = field(repr=False)
    name: str = ""


def render_content(content: Content, limits: Limits, *, links: bool = False) -> Rendered:
    """Converts one content.

    Args:
        content: The content.
        limits: The limits of the provider.
        links: Whether the provider may fetch linked pictures; not for links from a tool.
    """
    content = admit(content, limits.media)
    if isinstance(content, ImageContent):
        return Rendered("image", _data_url(content))
    if isinstance(content, AudioContent):
        return Rendered("audio", base64.b64encode(content.data).decode(), limits.audio[content.mime_type])
    if isinstance(content, FileContent) and not isinstance(content.data, str):
        return Rendered("file", _data_url(content), file_name(content.uri))
    if isinstance(content, LinkContent) and links and _is_picture(content, limits):
        return Rendered("image", encodable_text(content.uri))
    return Rendered("text", render_text(content))


def file_name(uri: str) -> str:
    """A file's name: the last part of its URI."""
    return encodable_text(unquote(uri.rstrip("/").rpartition("/")[2])) or "file"


def _is_picture(content: LinkContent, limits: Limits) -> bool:
    return content.uri.startswith(("https://", "http://")) and content.mime_type in limits.images


def _data_url(content: ImageContent | FileContent) -> str:
    return f"data:{content.mime_type};base64,{base64.b64encode(cast('bytes', content.data)).decode()}"


ERROR: Final = "Error"


def render_result(result: ToolResult, limits: Limits) -> list[Rendered]:
    """The content of a result, with placeholders for sounds; the structured content if there is no other.

    An error's text starts with "Error". `detail`, `display`, `metadata`, `details` and attachments are the
    host's.
    """
    silent = evolve(limits, audio={}) if limits.audio else limits  # few models take audio
    contents = [render_content(content, silent) for content in result.content]
    if not contents and result.structured_content is not None:
        contents = [Rendered("text", str(json_text(result.to_data()["structuredContent"])))]
    if not result.is_error:
        return contents
    if not contents or contents[0].kind != "text":
        return [Rendered("text", f"{ERROR}."), *contents]
    if contents[0].value.lower().startswith(ERROR.lower()):
        return contents
    return [Rendered("text", f"{ERROR}: {contents[0].value}"), *contents[1:]]


def join_texts(contents: Iterable[Rendered]) -> str:
    """The texts of a result, joined."""
    return "\n".join(each.value for each in contents)
