"""Content of a result: text, images, audio, files, links; `ToolResult`; to and from JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from attrs import converters, evolve, field, frozen, validators

from pegboard.schema.converter import UnreadError, json_key, read_by, read_record, tagged
from pegboard.schema.json import is_unicode
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
    """`text` with lone surrogates, which no wire takes, as U+FFFD (an undecodable file name brings them)."""
    if type(text) is not str:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a tool may pass on anything
            raise TypeError(f"expected text, got {type(text).__name__}")
        text = str.__str__(text)  # a subclass may give another text of itself
    return (
        text
        if text.isascii() or is_unicode(text)
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


_optionally_writable: Final = converters.optional(writable)
_is_mapping: Final[Any] = validators.instance_of(Mapping)  # pyright: ignore[reportUnknownVariableType]
_is_bytes: Final[Any] = validators.instance_of((bytes, bytearray, memoryview))
_is_text_or_bytes: Final[Any] = validators.instance_of((str, bytes, bytearray, memoryview))


@frozen
class TextContent:
    """Words. Lone surrogates in them are replaced: no wire takes them."""

    text: str = field(converter=writable)

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "text", "text": ...}`."""
        return {"type": "text", "text": self.text}


@frozen
class ImageContent:
    """A picture.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"image/png"`.
    """

    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="image/png", converter=writable, metadata=json_key("mimeType"))

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "image", "data": base64, "mimeType": ...}`."""
        return {"type": "image", "data": base64.b64encode(self.data).decode(), "mimeType": self.mime_type}


@frozen
class AudioContent:
    """A sound.

    Attributes:
        data: The bytes of the file.
        mime_type: Such as `"audio/wav"`.
    """

    data: bytes = field(validator=_is_bytes)
    mime_type: str = field(default="audio/wav", converter=writable, metadata=json_key("mimeType"))

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "audio", "data": base64, "mimeType": ...}`."""
        return {"type": "audio", "data": base64.b64encode(self.data).decode(), "mimeType": self.mime_type}


@frozen
class FileContent:
    """A file or another resource, embedded.

    Attributes:
        uri: What it is called.
        data: Its bytes, or its text.
        mime_type: Such as `"application/pdf"`, or `None`.
    """

    uri: str = field(converter=writable)
    data: bytes | str = field(validator=_is_text_or_bytes)
    mime_type: str | None = field(default=None, converter=_optionally_writable)

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "resource", "resource": {"uri", "text" or "blob", "mimeType"?}}`."""
        resource: JsonObject = {"uri": self.uri}
        if isinstance(self.data, str):
            resource["text"] = self.data
        else:
            resource["blob"] = base64.b64encode(self.data).decode()
        if self.mime_type is not None:
            resource["mimeType"] = self.mime_type
        return {"type": "resource", "resource": resource}


@frozen
class LinkContent:
    """A resource named, not embedded.

    Attributes:
        uri: Where it is.
        name: What it is called.
        mime_type: Such as `"text/html"`, or `None`.
    """

    uri: str = field(converter=writable)
    name: str = field(converter=writable)
    mime_type: str | None = field(default=None, converter=_optionally_writable, metadata=json_key("mimeType"))

    def to_json(self) -> JsonObject:
        """MCP's `{"type": "resource_link", "uri", "name", "mimeType"?}`."""
        link: JsonObject = {"type": "resource_link", "uri": self.uri, "name": self.name}
        return link if self.mime_type is None else {**link, "mimeType": self.mime_type}


Content: TypeAlias = TextContent | ImageContent | AudioContent | FileContent | LinkContent
CONTENT_TYPES: Final = (TextContent, ImageContent, AudioContent, FileContent, LinkContent)


def _as_content(value: Any) -> tuple[Content, ...]:
    if type(value) is TextContent:  # what nearly every result is
        return (value,)
    if isinstance(value, list | tuple):
        return tuple(_one_content(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return (_one_content(value),)


def _one_content(value: Any) -> Content:
    if isinstance(value, str):
        return TextContent(value)
    if not isinstance(value, CONTENT_TYPES):
        raise TypeError(f"content must be text or one of pegboard's content types, not {type(value).__name__}")
    return value


@frozen(slots=False)  # each call makes one, and ten attributes are set in a dict in two thirds of the time
class ToolResult:
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

    content: tuple[Content, ...] = field(default=(), converter=_as_content)
    structured_content: Any = field(default=None, metadata=json_key("structuredContent"))
    is_error: bool = field(default=False, validator=validators.instance_of(bool), metadata=json_key("isError"))
    kind: ErrorKind | None = field(default=None, validator=validators.in_((None, *get_args(ErrorKind))))
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

    def evolve(self, **changes: Any) -> ToolResult:
        """A result with some attributes changed."""
        return evolve(self, **changes)

    @property
    def text(self) -> str:
        """All text content, joined by line ends."""
        return "\n".join(item.text for item in self.content if isinstance(item, TextContent))

    def _repr_html_(self) -> str:
        """The content as HTML for notebooks, pictures and sounds among it."""
        parts = "".join(_html_of(item) for item in (*self.content, *self.attachments))
        return f"<b>{self.kind}</b>{parts}" if self.is_error else parts

    def to_json(self) -> JsonObject:
        """MCP's `{"content": [...], "structuredContent": ..., "isError": ...}`."""
        return {
            "content": [item.to_json() for item in self.content],
            "structuredContent": self.structured_content,
            "isError": self.is_error,
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> ToolResult:
        """Reads what `to_json` writes, and what an MCP server answers; what isn't known in it is left out.

        An error has the kind `tool_failure`: MCP has no other.

        Raises:
            ValueError: It is no result; the error names the path.
        """
        known = {key: value for key, value in data.items() if key in _OF_MCP} if isinstance(data, Mapping) else data  # pyright: ignore[reportUnnecessaryIsInstance]
        return read_record(cls, known, "result")

    def to_data(self) -> JsonObject:
        """Everything as JSON data, for hosts that keep results and for other processes. Never raises.

        `to_json` and, where they say something, `kind`, `display`, `title`, `metadata`, `detail`, `attachments` and
        `details`. What JSON can't say is written as text.
        """
        data = self.to_json()
        data["structuredContent"] = sayable_json(self.structured_content)
        for name in ("kind", "display", "title", "detail"):
            if (fact := getattr(self, name)) is not None:
                data[name] = fact
        if self.metadata:
            data["metadata"] = {_text_of(name): sayable_json(fact) for name, fact in self.metadata.items()}
        if self.attachments:
            data["attachments"] = [item.to_json() for item in self.attachments]
        if self.details is not None:
            data["details"] = sayable_json(self.details)
        return data

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
    if isinstance(item, ImageContent | AudioContent):
        source = f"data:{html_of(item.mime_type)};base64,{base64.b64encode(item.data).decode()}"
        return f'<img src="{source}">' if isinstance(item, ImageContent) else f'<audio controls src="{source}"></audio>'
    return f"<p>{html_of(item.uri)}</p>"


_OF_MCP: Final = ("content", "structuredContent", "isError")
_OF_TEXT: Final = vars(ToolResult())  # the attributes of an empty result
_MOST_UNSAYABLE: Final = 1_000


def sayable_json(value: Any) -> Any:
    """A value as JSON data; text where JSON can't hold it. Never raises."""
    from pegboard.schema.dump import to_json_data

    try:
        return to_json_data(value)
    except Exception:  # noqa: BLE001  (whatever a value of the tool's own makes of being written)
        return _text_of(value)


def _text_of(value: object) -> str:
    try:
        return value if type(value) is str else repr(value)[:_MOST_UNSAYABLE]
    except Exception:  # noqa: BLE001  (likewise)
        return f"<{type(value).__name__}>"


@frozen
class _Resource:
    """An embedded resource as it stands in JSON."""

    uri: str
    text: str | None = None
    blob: bytes | None = None
    mime_type: str | None = field(default=None, metadata=json_key("mimeType"))


@frozen
class _Embedding:
    resource: _Resource


def _read_file(data: JsonMapping) -> FileContent:
    resource = read_record(_Embedding, data, "content").resource
    content = resource.blob if resource.text is None else resource.text
    if content is None:
        raise ValueError("resource.blob: missing")
    return FileContent(resource.uri, content, resource.mime_type)


_read_by_type: Final = tagged(
    {
        "text": TextContent,
        "image": ImageContent,
        "audio": AudioContent,
        "resource": FileContent,
        "resource_link": LinkContent,
    }
)


def read_content(data: JsonMapping) -> Content:
    """One content, as its `to_json` writes it and as MCP has it; annotations and what else isn't known are left out."""
    if data.get("type") in ("image", "audio") and data.get("mimeType") is None:
        raise UnreadError(".mimeType: missing")
    return _read_by_type(data)


read_by(FileContent, _read_file)
read_by(Content, read_content)


__all__ = ["read_content", "sayable_json", "writable"]
