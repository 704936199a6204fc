"""Content of a result: text, images, audio, files, links; `ToolResult`; to and from JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from attrs import converters, field, frozen, validators

from pegboard.errors import one_of
from pegboard.schema.converter import ALWAYS, JsonRecord, UnreadError, read_by, read_record, tagged
from pegboard.schema.json import unicode_text
from pegboard.typing import JsonMapping, JsonObject

ErrorKind: TypeAlias = Literal[  # why a result is an error
    "unknown_tool",
    "not_offered",
    "invalid_arguments",
    "denied",
    "rejected",
    "confirmation_required",
    "tool_failure",
    "timeout",
    "aborted",
    "skipped",
    "crashed",
    "invalid_output",
    "not_executed",
    "cut_off",
    "limit",
    "callback_failure",
    "unknown_outcome",
]


def writable(text: str) -> str:
    """A text that can be written: `unicode_text` of it.

    Raises:
        TypeError: It is none.
    """
    if type(text) is not str:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a tool may pass on anything
            raise TypeError(f"expected text, got {type(text).__name__}")
        text = str.__str__(text)  # a subclass may give another text of itself
    return text if text.isascii() else unicode_text(text)


_optionally_writable: Final = converters.optional(writable)
_is_mapping: Final[Any] = validators.instance_of(Mapping)  # pyright: ignore[reportUnknownVariableType]
_is_bytes: Final[Any] = validators.instance_of((bytes, bytearray, memoryview))
_is_text_or_bytes: Final[Any] = validators.instance_of((str, bytes, bytearray, memoryview))


@frozen
class TextContent(JsonRecord):
    """Words. Lone surrogates in them are replaced: no wire takes them."""

    type: ClassVar = "text"
    text: str = field(converter=writable)


@frozen
class ImageContent(JsonRecord):
    """A picture.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"image/png"`.
    """

    type: ClassVar = "image"
    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="image/png", converter=writable)


@frozen
class AudioContent(JsonRecord):
    """A sound.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"audio/wav"`.
    """

    type: ClassVar = "audio"
    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="audio/wav", converter=writable)


@frozen
class FileContent(JsonRecord):
    """A file or another resource, embedded.

    Attributes:
        uri: What it is called.
        data: Its bytes, or its text.
        mime_type: Such as `"application/pdf"`, or `None`.
    """

    type: ClassVar = "resource"
    uri: str = field(converter=writable)
    data: bytes | str = field(validator=_is_text_or_bytes)
    mime_type: str | None = field(default=None, converter=_optionally_writable)

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "resource", "resource": {"uri", "text" or "blob", "mimeType"?}}`."""
        text, blob = (self.data, None) if isinstance(self.data, str) else (None, self.data)
        return {"type": self.type, "resource": _Resource(self.uri, text, blob, self.mime_type).to_json()}


@frozen
class LinkContent(JsonRecord):
    """A resource named, not embedded.

    Attributes:
        uri: Where it is.
        name: What it is called.
        mime_type: Such as `"text/html"`, or `None`.
    """

    type: ClassVar = "resource_link"
    uri: str = field(converter=writable)
    name: str = field(converter=writable)
    mime_type: str | None = field(default=None, converter=_optionally_writable)


Content: TypeAlias = TextContent | ImageContent | AudioContent | FileContent | LinkContent
CONTENT_TYPES: Final = (TextContent, ImageContent, AudioContent, FileContent, LinkContent)


def _as_content(value: Any) -> tuple[Content, ...]:
    if isinstance(value, list | tuple):
        return tuple(_one_content(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return (_one_content(value),)


def _one_content(value: Any) -> Content:
    if isinstance(value, str):
        return TextContent(value)
    if not isinstance(value, CONTENT_TYPES):
        raise TypeError(f"content must be text or one of pegboard's content types, not {type(value).__name__}")
    return value


_MOST_UNSAYABLE: Final = 1_000


def sayable_json(value: Any) -> Any:
    """A value as JSON data; text where JSON can't hold it. Never raises."""
    from pegboard.schema.conversion import to_json_data

    try:
        return to_json_data(value)
    except Exception:  # noqa: BLE001  (whatever a value of the tool's own makes of being written)
        return _text_of(value)


def _text_of(value: object) -> str:
    try:
        return value if type(value) is str else repr(value)[:_MOST_UNSAYABLE]
    except Exception:  # noqa: BLE001  (likewise)
        return f"<{type(value).__name__}>"


class SayableRecord(JsonRecord):
    """Base of the records that hold what tools give."""

    __slots__ = ()

    @staticmethod
    def write_data(value: Any) -> Any:
        """As JSON data; as text where JSON can't hold it. Never raises."""
        if isinstance(value, Mapping):
            return {_text_of(name): sayable_json(fact) for name, fact in cast("Mapping[Any, Any]", value).items()}
        return sayable_json(value)


@frozen(slots=False)  # each call makes one, and ten attributes are set in a dict in two thirds of the time
class ToolResult(SayableRecord):
    """Result of one call: exactly one a call. What couldn't be written and read again is refused at once.

    Attributes:
        content: For the model. A text, one content or several may be given.
        structured_content: The same as JSON data (an object where there is an output schema), or `None`.
        is_error: Whether the call failed.
        kind: Why, for an error (`"tool_failure"` where nothing else is given); else `None`.
        display: Text for people, where it differs from what the model gets.
        title: A short heading for people.
        metadata: Facts for the user interface; never sent to the model.
        detail: For the operator (message, stack); never sent to the model.
        attachments: Files for the user interface; no model is sent them.
        details: Any data for the user interface; never sent to the model.
    """

    content: tuple[Content, ...] = field(default=(), converter=_as_content, metadata=ALWAYS)
    structured_content: Any = None
    is_error: bool = field(default=False, validator=validators.instance_of(bool), metadata=ALWAYS)
    kind: ErrorKind | None = field(default=None, validator=one_of(None, *get_args(ErrorKind)))
    display: str | None = field(default=None, converter=_optionally_writable)
    title: str | None = field(default=None, converter=_optionally_writable)
    metadata: Mapping[str, Any] = field(factory=cast("type[dict[str, Any]]", dict), validator=_is_mapping)
    detail: str | None = field(default=None, converter=_optionally_writable)
    attachments: tuple[Content, ...] = field(default=(), converter=_as_content)
    details: Any = None

    def __attrs_post_init__(self) -> None:
        if self.is_error and self.kind is None:
            object.__setattr__(self, "kind", "tool_failure")

    @classmethod
    def of_text(cls, text: TextContent, structured_content: Any = None) -> ToolResult:
        """A result of one text, and of data, as nearly every call gives it; half the price of the initialiser."""
        result = cls.__new__(cls)
        result.__dict__.update(_OF_TEXT, content=(text,), structured_content=structured_content, metadata={})
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
        """The content as HTML for notebooks, pictures and sounds among it."""
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
        """Reads what `to_json` writes, and what an MCP server answers; what isn't known in it is left out.

        An error has the kind `tool_failure`: MCP has no other.

        Raises:
            ValueError: It is no result; the error names the path.
        """
        given: Any = data
        known = {key: given[key] for key in _OF_MCP if key in given} if isinstance(data, Mapping) else given
        return read_record(cls, known, "result")

    def to_data(self, *, detail: bool = True) -> JsonObject:
        """Everything as JSON data, for hosts that keep results and for other processes. Never raises.

        `to_json` and, where they say something, `kind`, `display`, `title`, `metadata`, `detail`, `attachments` and
        `details`. What JSON can't say is written as text.

        Args:
            detail: Whether what is for the operator is in it: not where a client reads it.
        """
        data = super().to_json()
        if not detail:
            data.pop("detail", None)
        return data

    def to_part(self) -> JsonObject:
        """`to_data`, but for `detail`: conversations and events are where clients read them."""
        return self.to_data(detail=False)

    @classmethod
    def from_data(cls, data: JsonMapping) -> ToolResult:
        """Reads what `to_data` writes.

        Raises:
            ValueError: It is no result; the error names the path.
        """
        return read_record(cls, data, "result")


def _html_of(item: Content) -> str:
    from pegboard.tools.visible import html_of

    if isinstance(item, TextContent):
        return f"<pre>{html_of(item.text)}</pre>"
    if isinstance(item, LinkContent):
        return f"<p>{html_of(item.name)}: {html_of(item.uri)}</p>"
    head, mime = f"<p>{html_of(item.uri)}</p>" if isinstance(item, FileContent) else "", item.mime_type or ""
    if isinstance(item.data, str):
        return f"{head}<pre>{html_of(item.data)}</pre>"
    source = f"data:{html_of(mime)};base64,{base64.b64encode(item.data).decode()}"
    if isinstance(item, ImageContent) or mime.startswith("image/"):
        return f'{head}<img src="{source}">'
    is_sound = isinstance(item, AudioContent) or mime.startswith("audio/")
    return f'{head}<audio controls src="{source}"></audio>' if is_sound else head


_OF_MCP: Final = ("content", "structuredContent", "isError")
_OF_TEXT: Final = vars(ToolResult())  # the attributes of an empty result


@frozen
class _Resource(JsonRecord):
    """An embedded resource as it stands in JSON."""

    uri: str
    text: str | None = None
    blob: bytes | None = None
    mime_type: str | None = None


@frozen
class _Embedding:
    resource: _Resource


def _read_file(data: JsonMapping) -> FileContent:
    resource = read_record(_Embedding, data, "content").resource
    content = resource.blob if resource.text is None else resource.text
    if content is None:
        raise ValueError("resource.blob: missing")
    return FileContent(resource.uri, content, resource.mime_type)


_read_by_type: Final = tagged(*CONTENT_TYPES)


def read_content(data: JsonMapping) -> Content:
    """One content, as its `to_json` writes it and as MCP has it; annotations and what else isn't known are left out."""
    if data.get("type") in ("image", "audio") and data.get("mimeType") is None:
        raise UnreadError(".mimeType: missing")
    return _read_by_type(data)


read_by(FileContent, _read_file)
read_by(Content, read_content)
