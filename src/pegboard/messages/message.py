"""A conversation as data: `Message` and its parts, to and from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs
from attrs import field, frozen

from pegboard.schema.converter import UnreadError, json_key, read_by, read_record, tagged
from pegboard.tools.call import ToolCall, writable
from pegboard.tools.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
    content_from_json,
)
from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[Mapping[str, Any]] = {}
_METADATA: Final = json_key("providerMetadata")
_TEXTS: Final = ("text", "uri", "title")
_PLACES: Final = ("start", "end")


@frozen
class Citation:
    """A source of some of a model's words.

    Attributes:
        text: What is cited, in the source's words, or `None`.
        uri: Where it stands, or `None`.
        title: What the source is called, or `None`.
        start: Where the words that rest on it begin in their part, in characters from 0, or `None`.
        end: Where they end, exclusive, or `None`.
        data: By provider, the citation as the provider wrote it; opaque.
    """

    text: str | None = None
    uri: str | None = None
    title: str | None = None
    start: int | None = None
    end: int | None = None
    data: JsonMapping = field(default=_NOTHING, repr=False)

    def to_json(self) -> JsonObject:
        """The facts that are known, by name."""
        facts: JsonObject = {name: getattr(self, name) for name in (*_TEXTS, *_PLACES)}
        known = {name: fact for name, fact in facts.items() if fact is not None}
        return {**known, "data": dict(self.data)} if self.data else known

    @classmethod
    def from_json(cls, data: object) -> Citation:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is of the wrong type; names it.
        """
        return read_record(cls, data, "citation")


@frozen
class TextPart:
    """Words.

    Attributes:
        text: Lone surrogates in it are replaced: no wire takes them.
        citations: What the words rest on, where the model gave it.
        provider_metadata: By provider, what it wants to have back with this part (an item's id, a signature); opaque.
    """

    text: str = field(converter=writable)
    citations: tuple[Citation, ...] = field(default=(), converter=tuple)
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False, metadata=_METADATA)

    def to_json(self) -> JsonObject:
        """`{"type": "text", "text"}`, and what else is set."""
        data: JsonObject = {"type": "text", "text": self.text}
        if self.citations:
            data["citations"] = [citation.to_json() for citation in self.citations]
        return _with_metadata(data, self.provider_metadata)


@frozen
class MediaPart:
    """A picture, a sound, a file or a link, from the user or from the model.

    Attributes:
        content: In MCP's words, as results have it.
        provider_metadata: By provider, what it wants to have back with this part; opaque.
    """

    content: ImageContent | AudioContent | FileContent | LinkContent
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False, metadata=_METADATA)

    def to_json(self) -> JsonObject:
        """`{"type": "media", "content": MCP's}`, and what else is set."""
        return _with_metadata({"type": "media", "content": self.content.to_json()}, self.provider_metadata)


@frozen
class CallPart:
    """A call of a tool, by the model.

    Attributes:
        call: The call; its `provider_metadata`, by provider, holds signatures and ids that go back unchanged.
    """

    call: ToolCall

    def to_json(self) -> JsonObject:
        """`{"type": "call", "call"}`."""
        return {"type": "call", "call": self.call.to_json()}


@frozen
class ResultPart:
    """What a call answered.

    Attributes:
        call_id: The call's id.
        name: The name of the tool, as the call had it.
        result: The result.
        provider_metadata: By provider, what its call carried for the result; opaque.
    """

    call_id: str = field(metadata=json_key("callId"))
    name: str
    result: ToolResult
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False, metadata=_METADATA)

    @classmethod
    def of(cls, call: ToolCall, result: ToolResult) -> ResultPart:
        """The answer to this call."""
        metadata: Any = call.provider_metadata
        return cls(call.id, call.name, result, metadata if isinstance(metadata, dict) else _NOTHING)  # pyright: ignore[reportUnknownArgumentType]

    def to_json(self) -> JsonObject:
        """`{"type": "result", "callId", "name", "result": ToolResult.to_data()}`, and what else is set.

        Without the result's `detail`: it is the operator's, and a conversation is kept where clients read it.
        """
        result = self.result.to_data()
        result.pop("detail", None)
        data: JsonObject = {
            "type": "result",
            "callId": writable(self.call_id),
            "name": writable(self.name),
            "result": result,
        }
        return _with_metadata(data, self.provider_metadata)


@frozen
class ReasoningPart:
    """What the model thought, as far as its provider shows it.

    Attributes:
        text: Its words or their summary; `""` where the provider keeps them to itself.
        provider_metadata: By provider, signatures and encrypted content, given back unchanged; opaque.
    """

    text: str = field(default="", converter=writable)
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False, metadata=_METADATA)

    def to_json(self) -> JsonObject:
        """`{"type": "reasoning", "text"}`, and what else is set."""
        return _with_metadata({"type": "reasoning", "text": self.text}, self.provider_metadata)


@frozen
class HostedPart:
    """A call of a tool that the provider hosts, or its result: never run here, given back unchanged.

    Attributes:
        provider: Whose it is: the name of its exporter.
        data: The item as the provider wrote it; opaque.
        role: `"call"` or `"result"`.
        name: The hosted tool's name, for people, or `""`.
        id: What joins a call and its result, or `""`.
    """

    provider: str
    data: JsonMapping = field(repr=False)
    role: Literal["call", "result"] = "call"
    name: str = ""
    id: str = ""

    def to_json(self) -> JsonObject:
        """`{"type": "hosted", "provider", "role", "name", "id", "data"}`."""
        return {
            "type": "hosted",
            "provider": self.provider,
            "role": self.role,
            "name": self.name,
            "id": self.id,
            "data": dict(self.data),
        }


Part: TypeAlias = TextPart | MediaPart | CallPart | ResultPart | ReasoningPart | HostedPart
_PART_TYPES: Final = (TextPart, MediaPart, CallPart, ResultPart, ReasoningPart, HostedPart)
_MEDIA: Final = (ImageContent, AudioContent, FileContent, LinkContent)


def _as_part(value: Part | ToolCall | Content | str) -> Part:
    """A part of what hosts write for short: a text, content, or a call.

    Raises:
        TypeError: Something else.
    """
    if isinstance(value, _PART_TYPES):
        return value
    if isinstance(value, str):
        return TextPart(value)
    if isinstance(value, TextContent):
        return TextPart(value.text)
    if isinstance(value, _MEDIA):
        return MediaPart(value)
    if isinstance(value, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        return CallPart(value)
    raise TypeError(f"a part of a message must be a text, content, a call or a part, not {type(value).__name__}")


def _with_metadata(data: JsonObject, metadata: JsonMapping) -> JsonObject:
    if metadata:
        data["providerMetadata"] = dict(metadata)
    return data


_Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
_ROLES: Final = get_args(_Role)
Writable: TypeAlias = "Part | ToolCall | Content | str"
"""What a message may be written with for short."""


def _as_parts(given: Any) -> tuple[Part, ...]:
    if isinstance(given, list | tuple):
        return tuple(_as_part(each) for each in cast("Iterable[Writable]", given))
    return (_as_part(given),)


@frozen
class Message:
    """One message of a conversation: of the user, the model (`assistant`), tools (results), or the host (`system`).

    Attributes:
        role: Who speaks. All results of one answer's calls stand in one message of role `"tool"`, right behind it.
        parts: Its content, in order. A text, a content, a call or a list of them may be given.
        id: The message's id, or `None`.
        provider_metadata: By provider, what it wants to have back with the message; opaque.
        metadata: The host's own facts; never sent.
    """

    role: _Role = field(validator=attrs.validators.in_(_ROLES))
    parts: tuple[Part, ...] = field(default=(), converter=_as_parts)
    id: str | None = None
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False, metadata=_METADATA)
    metadata: JsonMapping = field(default=_NOTHING, repr=False)

    @classmethod
    def user(cls, *parts: Writable) -> Message:
        """A message of the user."""
        return cls("user", parts)

    @classmethod
    def assistant(cls, *parts: Writable) -> Message:
        """An answer of a model."""
        return cls("assistant", parts)

    @classmethod
    def system(cls, *parts: Writable) -> Message:
        """A message of the host in the midst of a conversation; a request's `instructions` stand before it."""
        return cls("system", parts)

    @classmethod
    def tool(cls, answers: Iterable[tuple[ToolCall, ToolResult]]) -> Message:
        """What calls answered; an `Outcome` is such pairs."""
        return cls("tool", tuple(ResultPart.of(call, result) for call, result in answers))

    @property
    def text(self) -> str:
        """All its words, parts joined as they are."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, those that the provider has executed included."""
        return tuple(part.call for part in self.parts if isinstance(part, CallPart))

    @property
    def results(self) -> tuple[ResultPart, ...]:
        """The results in it."""
        return tuple(part for part in self.parts if isinstance(part, ResultPart))

    def evolve(self, **changes: Any) -> Message:
        """A message with some attributes changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """`{"role", "parts"}`, and what else is set."""
        data: JsonObject = {"role": self.role, "parts": [part.to_json() for part in self.parts]}
        if self.id is not None:
            data["id"] = self.id
        if self.provider_metadata:
            data["providerMetadata"] = dict(self.provider_metadata)
        if self.metadata:
            data["metadata"] = dict(self.metadata)
        return data

    @classmethod
    def from_json(cls, data: object) -> Message:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: It is no message; the error names the path.
        """
        return read_record(cls, data, "message")


def _content(data: JsonMapping) -> Content:
    try:
        content = content_from_json(data, "")
    except ValueError as error:
        raise UnreadError(str(error)) from None
    if isinstance(content, TextContent):
        raise UnreadError(".type: words are a part of type 'text'")
    return content


read_by(ImageContent | AudioContent | FileContent | LinkContent, _content)
read_by(ToolResult, ToolResult.from_data)
read_by(
    Part,
    tagged(
        {
            "text": TextPart,
            "media": MediaPart,
            "call": CallPart,
            "result": ResultPart,
            "reasoning": ReasoningPart,
            "hosted": HostedPart,
        }
    ),
)

__all__ = [
    "CallPart",
    "Citation",
    "HostedPart",
    "MediaPart",
    "Message",
    "Part",
    "ReasoningPart",
    "ResultPart",
    "TextPart",
    "Writable",
]
