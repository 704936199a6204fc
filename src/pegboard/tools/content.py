"""Content of a result: text, images, audio, files, links; `ToolResult`; to and from JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from attrs import field

from pegboard.errors import instance_of, one_of
from pegboard.json import encodable_text
from pegboard.schema.converter import ALWAYS, JsonRecord, UnreadError, json_key, read_by, read_record, tagged
from pegboard.typing import JsonMapping, JsonObject, frozen

_Unoffered: TypeAlias = Literal["unknown_tool", "not_offered", "invalid_arguments"]
_Refused: TypeAlias = Literal["denied", "rejected", "confirmation_required", "limit", "callback_failure"]
_NotRun: TypeAlias = Literal["skipped", "not_executed", "cut_off"]
_Failed: TypeAlias = Literal["tool_failure", "timeout", "aborted", "crashed", "invalid_output", "unknown_outcome"]
ErrorKind: TypeAlias = Literal[_Unoffered, _Refused, _NotRun, _Failed]  # why a call failed


def _text_or_none(name: str) -> Callable[[str | None], str | None]:
    return lambda text: None if text is None else encodable_text(text, name)


_is_bytes: Final = instance_of(bytes, bytearray, memoryview)
_is_text_or_bytes: Final = instance_of(str, bytes, bytearray, memoryview)


@frozen
class TextContent(JsonRecord):
    """Text. Lone surrogates are replaced, as UTF-8 can't encode them."""

    type: ClassVar = "text"
    text: str = field(converter=encodable_text)


@frozen
class ImageContent(JsonRecord):
    """An image.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"image/png"`.
    """

    type: ClassVar = "image"
    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="image/png", converter=lambda text: encodable_text(text, "mime_type"))


@frozen
class AudioContent(JsonRecord):
    """An audio clip.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"audio/wav"`.
    """

    type: ClassVar = "audio"
    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="audio/wav", converter=lambda text: encodable_text(text, "mime_type"))


@frozen
class FileContent(JsonRecord):
    """A file or another resource, embedded.

    Attributes:
        uri: Its URI.
        data: Its bytes, or its text.
        mime_type: Such as `"application/pdf"`, or `None`.
    """

    type: ClassVar = "resource"
    uri: str = field(converter=lambda text: encodable_text(text, "uri"))
    data: bytes | str = field(validator=_is_text_or_bytes)
    mime_type: str | None = field(default=None, converter=_text_or_none("mime_type"))

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "resource", "resource": {"uri", "text" or "blob", "mimeType"?}}`."""
        text, blob = (self.data, None) if isinstance(self.data, str) else (None, self.data)
        return {"type": self.type, "resource": _Resource(self.uri, text, blob, self.mime_type).to_json()}


@frozen
class LinkContent(JsonRecord):
    """A link to a resource.

    Attributes:
        uri: Its URI.
        name: Its name.
        mime_type: Such as `"text/html"`, or `None`.
    """

    type: ClassVar = "resource_link"
    uri: str = field(converter=lambda text: encodable_text(text, "uri"))
    name: str = field(converter=lambda text: encodable_text(text, "name"))
    mime_type: str | None = field(default=None, converter=_text_or_none("mime_type"))


Content: TypeAlias = TextContent | ImageContent | AudioContent | FileContent | LinkContent  # a part of a result
CONTENT_TYPES: Final = (TextContent, ImageContent, AudioContent, FileContent, LinkContent)

BINARY: Final = "application/octet-stream"
"""The media type of bytes of an unknown type."""

_OTHER_NAMES: Final = {
    "application/x-pdf": "application/pdf",
    "audio/m4a": "audio/mp4",
    "audio/mp3": "audio/mpeg",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "binary/octet-stream": BINARY,
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
}
_SIGNATURES: Final = {  # by media type, what files of it begin with
    "image/png": rb"\x89PNG",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8",
    "image/webp": rb"RIFF....WEBP",
    "image/avif": rb"....ftypavif",
    "image/heic": rb"....ftyphe[iv]",
    "image/bmp": rb"BM....\0\0\0\0",
    "image/tiff": rb"II\*\0|MM\0\*",
    "image/svg+xml": rb"\s*(<\?[^>]*>\s*)?(<![^>]*>\s*)*<svg\b",
    "text/html": rb"(?i:\s*<(!doctype html|html)\b)",
    "application/pdf": rb"\s*%PDF",
    "application/zip": rb"PK\x03\x04",
    "video/avi": rb"RIFF....AVI ",
    "audio/wav": rb"RIFF|RF64",
    "audio/mpeg": rb"ID3|\xff[\xf2\xf3\xfa\xfb]",
    "audio/flac": rb"fLaC",
    "audio/ogg": rb"OggS",
    "video/mp4": rb"....ftyp",
    "video/webm": rb"\x1a\x45\xdf\xa3",
}
_SURE: Final = frozenset(  # the media types whose files all begin with their signature; of the others, only some do
    {"application/pdf", "audio/flac", "audio/ogg", "audio/wav", "image/gif", "image/jpeg", "image/png", "image/webp"}
)
_CONTAINERS: Final = {  # container formats, and how the media types begin whose files have the same signature
    "application/zip": ("application/",),
    "audio/ogg": ("audio/", "video/"),
    "video/mp4": ("audio/", "image/", "video/"),
    "video/webm": ("audio/", "video/"),
}
_HEAD: Final = 1_000  # bytes in which a signature is looked for
_TEXTUAL: Final = (  # patterns are compiled at their first use, as few programs look at media
    r"text/.*|message/.*|.*\+(json|xml|yaml)|application/(x-)?(csv|graphql|javascript|json5?|jsonl|json-seq|ndjson|"
    r"python(-code)?|rtf|sh|sql|tex|toml|typescript|www-form-urlencoded|xml(-dtd)?|yaml)"
)
# not Python's encodings of host names, which take quadratic time
_CHARSET: Final = r"(?i);\s*charset\s*=\s*[\"']?(?!idna|punycode)([a-z\d][\w.:-]*)"
_BYTE_ORDER_MARKS: Final = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CONTROLS: Final = r"[\0-\x08\x0e-\x1a\x1c-\x1f]"
_FIRST_OF_TEXT: Final = rb"(?!\s*%PDF-)[\t-\r\x1b -~]*"
_FIRST: Final = 64  # bytes: in all media but PDF, some of the first aren't printable ASCII


def plain_type(mime_type: str) -> str:
    """A media type in lower case, without parameters, by its usual name: `image/jpeg` of `IMAGE/JPG; q=1`."""
    kind = mime_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def media_type(data: bytes, declared: str | None = None) -> str:
    """The media type of bytes: by their beginning where it shows one, else as declared.

    Args:
        data: The bytes, or at least the first of them.
        declared: The type that they are said to have.

    Returns:
        `BINARY` if neither says anything, or if the bytes can't be of the declared type.
    """
    kind, head = plain_type(declared or ""), bytes(data[:_HEAD])
    shown = next((each for each, start in _SIGNATURES.items() if re.match(start, head, re.DOTALL)), None)
    if shown is None:
        return BINARY if kind in _SURE else kind or BINARY
    if is_text_type(kind) and (is_text_type(shown) or re.fullmatch(_FIRST_OF_TEXT, head[:_FIRST])):
        return kind  # a text that begins with "ID3" or "GIF8"
    return kind if kind not in _SIGNATURES and kind.startswith(_CONTAINERS.get(shown, ())) else shown


def is_text_type(kind: str) -> bool:
    """Whether files of a plain media type are text, such as `text/csv`, `application/json` and `image/svg+xml`."""
    return re.fullmatch(_TEXTUAL, kind) is not None


def text_of_file(file: FileContent) -> str | None:
    """The text of a file, decoded if it has the bytes of one; `None` for any other.

    Bytes are text by their media type, unless they hold a NUL; without one, if they are UTF-8 without control
    characters.
    """
    if isinstance(file.data, str):
        return encodable_text(file.data)
    data, declared = bytes(file.data), file.mime_type or ""
    kind = media_type(data, declared)
    if kind != BINARY and not is_text_type(kind):
        return None
    charset = re.search(_CHARSET, declared)
    mark = next((mark for mark in _BYTE_ORDER_MARKS if data.startswith(mark)), None)
    name = _BYTE_ORDER_MARKS[mark] if mark else charset[1] if charset else "utf-8"
    text = _decode(data, name, is_surely_text=kind != BINARY)
    return None if "\0" in text or (kind == BINARY and re.search(_CONTROLS, text)) else encodable_text(text)


def _decode(data: bytes, name: str, *, is_surely_text: bool) -> str:
    """The text in a charset, or in UTF-8 if it isn't; else what is readable of it, or if it may be no text, a NUL."""
    for charset, errors in ((name, "strict"), ("utf-8", "strict"), (name, "replace"), ("utf-8", "replace")):
        try:
            return data.decode(charset, errors)
        except (LookupError, ValueError):
            if not is_surely_text:
                break
    return "\0"


def _as_content(value: Any) -> tuple[Content, ...]:
    parts = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,))
    items = tuple(TextContent(part) if isinstance(part, str) else part for part in parts)
    for item in items:
        if not isinstance(item, CONTENT_TYPES):
            raise TypeError(f"content must be text or one of pegboard's content types, not {type(item).__name__}")
    return items


_MOST_LEVELS, _MOST_ITEMS = 8, 1_000  # of containers that become JSON item by item


def json_or_text(value: Any, levels: int = _MOST_LEVELS) -> Any:
    """A value as JSON data, in which text stands for what has no JSON form. Never raises.

    Containers become JSON item by item down to so many `levels`, below them as a whole.
    """
    from pegboard.schema.unstructure import to_json_data

    with suppress(Exception):  # a class of the tool may raise anything
        return to_json_data(value)
    container: Any = value
    with suppress(Exception):
        if levels and len(container) <= _MOST_ITEMS and isinstance(value, Mapping):
            return {_text_of(name): json_or_text(item, levels - 1) for name, item in container.items()}
        if levels and len(container) <= _MOST_ITEMS and isinstance(value, list | tuple):
            return [json_or_text(item, levels - 1) for item in container]
    return _text_of(container)


def _text_of(value: object) -> str:
    try:
        return value if type(value) is str else repr(value)[:1_000]
    except Exception:  # noqa: BLE001  (a class of the tool may raise anything)
        return f"<{type(value).__name__}>"


class SayableRecord(JsonRecord):
    """Base of the records with data from tools: text stands for what has no JSON form, so that writing never fails."""

    __slots__ = ()

    write_data = staticmethod(json_or_text)


@frozen(slots=False)  # one per call: setting ten attributes in a dict takes two thirds of the time
class ToolResult(SayableRecord):
    """Result of one call: exactly one per call. Validated when created, so that it can be serialized and read again.

    Attributes:
        content: For the model. Given as text, one content or several.
        structured_content: The same as JSON data (an object if there is an output schema), or `None`.
        is_error: Whether the call failed.
        kind: The kind of an error (`"tool_failure"` by default); else `None`.
        display: Text for people, if it differs from the model's.
        title: A short heading for people.
        metadata: Facts for the user interface; never sent to the model.
        detail: For the operator (message, stack); never sent to the model.
        attachments: Files for the user interface; never sent to the model.
        details: Any data for the user interface; never sent to the model.
        pending: The `PendingCall` of a call that waits for a person's answer, else `None`; not part of its JSON, as a
            client must not get it. `PendingCalls([result.pending])` stores it, and `registry.resume` takes that.
    """

    content: tuple[Content, ...] = field(default=(), converter=_as_content, metadata=ALWAYS)
    structured_content: Any = None
    is_error: bool = field(default=False, validator=instance_of(bool), metadata=ALWAYS)
    kind: ErrorKind | None = field(default=None, validator=one_of(None, *get_args(ErrorKind)))
    display: str | None = field(default=None, converter=_text_or_none("display"))
    title: str | None = field(default=None, converter=_text_or_none("title"))
    metadata: Mapping[str, Any] = field(factory=cast("type[dict[str, Any]]", dict), validator=instance_of(Mapping))
    detail: str | None = field(default=None, converter=_text_or_none("detail"))
    attachments: tuple[Content, ...] = field(default=(), converter=_as_content)
    details: Any = None
    pending: Any = field(default=None, eq=False, repr=False, metadata=json_key(""))

    def __attrs_post_init__(self) -> None:
        if self.is_error and self.kind is None:
            object.__setattr__(self, "kind", "tool_failure")

    @classmethod
    def of_text(cls, text: TextContent | str, structured_content: Any = None) -> ToolResult:
        """A result with one text, and perhaps data, as of nearly every call; in half the time of the initialiser.

        A string has to be ASCII, which needs no conversion.
        """
        if isinstance(text, str):
            content = TextContent.__new__(TextContent)
            _set(content, "text", text)
        else:
            content = text
        result, attributes = cls.__new__(cls), _OF_TEXT.copy()
        attributes["content"], attributes["metadata"] = (content,), {}
        attributes["structured_content"] = structured_content
        _set(result, "__dict__", attributes)
        return result

    @classmethod
    def error(cls, kind: ErrorKind, text: str, *, detail: str | None = None) -> ToolResult:
        """An error result: `text` for the model, `detail` for the operator."""
        return cls(content=text, is_error=True, kind=kind, detail=detail)  # pyright: ignore[reportArgumentType]

    @property
    def text(self) -> str:
        """All text content, joined by line ends."""
        return "\n".join(item.text for item in self.content if isinstance(item, TextContent))

    def _repr_html_(self) -> str:
        """The content as HTML for notebooks, with images and audio."""
        parts = "".join(_html_of(item) for item in (*self.content, *self.attachments))
        return f"<b>{self.kind}</b>{parts}" if self.is_error else parts

    def to_json(self) -> JsonObject:
        """MCP's `{"content": [...], "structuredContent"?, "isError": ...}`."""
        data: JsonObject = {"content": [item.to_json() for item in self.content]}
        if self.structured_content is not None:
            data["structuredContent"] = self.structured_content
        return {**data, "isError": self.is_error}

    @classmethod
    def from_json(cls, data: Any) -> ToolResult:
        """Reads what `to_json` writes, and results of MCP servers; unknown keys are ignored.

        An error has the kind `tool_failure`, as MCP has no kinds.

        Raises:
            ValueError: It isn't a result; the message has the path.
        """
        given: Any = data
        known = {key: given[key] for key in _OF_MCP if key in given} if isinstance(data, Mapping) else given
        return read_record(cls, known, "result")

    def to_data(self, *, detail: bool = True) -> JsonObject:
        """All attributes as JSON data, for hosts that store results and for other processes. Never raises.

        `to_json` and, if not empty, `kind`, `display`, `title`, `metadata`, `detail`, `attachments` and `details`.
        Values without a JSON form are written as text.

        Args:
            detail: Whether to include `detail`, which clients must not get.
        """
        data = super().to_json()
        if not detail:
            data.pop("detail", None)
        return data

    def to_part(self) -> JsonObject:
        """`to_data` without `detail`: clients read conversations and events."""
        return self.to_data(detail=False)

    @classmethod
    def from_data(cls, data: JsonMapping) -> ToolResult:
        """Reads what `to_data` writes; raises as `from_json` does."""
        return read_record(cls, data, "result")


def _html_of(item: Content) -> str:
    from pegboard.text import visible_html

    if isinstance(item, TextContent):
        return f"<pre>{visible_html(item.text)}</pre>"
    if isinstance(item, LinkContent):
        return f"<p>{visible_html(item.name)}: {visible_html(item.uri)}</p>"
    head, mime = f"<p>{visible_html(item.uri)}</p>" if isinstance(item, FileContent) else "", item.mime_type or ""
    if isinstance(item.data, str):
        return f"{head}<pre>{visible_html(item.data)}</pre>"
    source = f"data:{visible_html(mime)};base64,{base64.b64encode(item.data).decode()}"
    if isinstance(item, ImageContent) or mime.startswith("image/"):
        return f'{head}<img src="{source}">'
    is_sound = isinstance(item, AudioContent) or mime.startswith("audio/")
    return f'{head}<audio controls src="{source}"></audio>' if is_sound else head


_OF_MCP: Final = ("content", "structuredContent", "isError")
_OF_TEXT: Final = vars(ToolResult())  # the attributes of an empty result
_set: Final = object.__setattr__


@frozen
class _Resource(JsonRecord):
    """An embedded resource in its JSON form."""

    uri: str
    text: str | None = None
    blob: bytes | None = None
    mime_type: str | None = None


@frozen
class _Embedding:
    resource: _Resource


def _read_file(data: JsonMapping) -> FileContent:
    resource = read_record(_Embedding, data, "content").resource
    if (content := resource.blob if resource.text is None else resource.text) is None:
        raise ValueError("resource.blob: missing")
    return FileContent(resource.uri, content, resource.mime_type)


_read_by_type: Final = tagged(*CONTENT_TYPES)


def read_content(data: JsonMapping) -> Content:
    """Reads one content from what its `to_json` or MCP writes; annotations and unknown keys are ignored."""
    if data.get("type") in ("image", "audio") and data.get("mimeType") is None:
        raise UnreadError(".mimeType: missing")
    return _read_by_type(data)


read_by(FileContent, _read_file)
read_by(Content, read_content)
