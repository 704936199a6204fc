"""What a message is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from pegboard.messages.citation import Citation
from pegboard.tools.call import ToolCall, writable
from pegboard.tools.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
)
from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[Mapping[str, Any]] = {}


@frozen
class TextPart:
    """Words.

    Attributes:
        text: Lone surrogates in it are replaced: no wire takes them.
        citations: What the words rest on, where the model said so.
        provider_metadata: By provider, what it wants to have back with this part (an item's id, a signature); opaque.
    """

    text: str = field(converter=writable)
    citations: tuple[Citation, ...] = field(default=(), converter=tuple)
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)

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
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)

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

    call_id: str
    name: str
    result: ToolResult
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)

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
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)

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
PART_TYPES: Final = (TextPart, MediaPart, CallPart, ResultPart, ReasoningPart, HostedPart)
_MEDIA: Final = (ImageContent, AudioContent, FileContent, LinkContent)


def as_part(value: Part | ToolCall | Content | str) -> Part:
    """A part of what hosts write for short: a text, content, or a call.

    Raises:
        TypeError: Something else.
    """
    if isinstance(value, PART_TYPES):
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


__all__ = [
    "PART_TYPES",
    "CallPart",
    "HostedPart",
    "MediaPart",
    "Part",
    "ReasoningPart",
    "ResultPart",
    "TextPart",
    "as_part",
]
