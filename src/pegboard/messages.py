"""A conversation as data: `Message` and its parts, a model's answer, the deltas of a stream; to and from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, cast, get_args

import attrs
from attrs import field

from pegboard.errors import one_of, tuple_of
from pegboard.json import is_object
from pegboard.schema.converter import ALWAYS, Count, JsonRecord, UnreadError, read_by, tagged
from pegboard.tools.call import ToolCall
from pegboard.tools.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
    encodable_text,
    read_content,
)
from pegboard.typing import JsonMapping, frozen

_NOTHING: Final[Mapping[str, Any]] = {}


@frozen
class Citation(JsonRecord):
    """Citation of a source by a part of a model's text.

    Attributes:
        text: The quoted text of the source, or `None`.
        uri: The source's address, or `None`.
        title: The source's title, or `None`.
        start: Where the text that cites it begins in its part, in characters from 0, or `None`.
        end: Where that ends, exclusive, or `None`.
        data: By provider, the citation as the provider wrote it; opaque.
    """

    text: str | None = None
    uri: str | None = None
    title: str | None = None
    start: int | None = None
    end: int | None = None
    data: JsonMapping = field(default=_NOTHING, repr=False)


@frozen
class TextPart(JsonRecord):
    """Text, as a part of a message.

    Attributes:
        text: Lone surrogates in it are replaced: no wire format accepts them.
        citations: The sources of the text, where the model gave them.
        provider_metadata: By provider, what has to be sent back with this part (an item's id, a signature); opaque.
    """

    type: ClassVar = "text"
    text: str = field(converter=encodable_text)
    citations: tuple[Citation, ...] = field(default=(), converter=tuple_of("citations", Citation))
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)


@frozen
class MediaPart(JsonRecord):
    """An image, audio, a file or a link, from the user or from the model.

    Attributes:
        content: MCP content, as in results.
        provider_metadata: By provider, what has to be sent back with this part; opaque.
    """

    type: ClassVar = "media"
    content: ImageContent | AudioContent | FileContent | LinkContent
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)


@frozen
class CallPart(JsonRecord):
    """A tool call by the model.

    Attributes:
        call: The call; its `provider_metadata`, by provider, holds signatures and ids that go back unchanged.
    """

    type: ClassVar = "call"
    call: ToolCall


@frozen
class ResultPart(JsonRecord):
    """Result of a call, as a part of a message.

    Attributes:
        call_id: The call's id.
        name: The name of the tool, as the call had it.
        result: The result.
        provider_metadata: By provider, what its call carried for the result; opaque.
    """

    type: ClassVar = "result"
    call_id: str
    name: str
    result: ToolResult
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)

    @classmethod
    def of(cls, call: ToolCall, result: ToolResult) -> ResultPart:
        """The result of this call."""
        metadata: Any = call.provider_metadata
        return cls(call.id, call.name, result, metadata if isinstance(metadata, dict) else _NOTHING)  # pyright: ignore[reportUnknownArgumentType]


@frozen
class ReasoningPart(JsonRecord):
    """Reasoning of the model, as far as its provider shows it.

    Attributes:
        text: The reasoning or its summary; `""` where the provider withholds it.
        provider_metadata: By provider, signatures and encrypted content, given back unchanged; opaque.
    """

    type: ClassVar = "reasoning"
    text: str = field(default="", converter=encodable_text)
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)


@frozen
class HostedPart(JsonRecord):
    """A call of a tool that the provider hosts, or its result: never run here, given back unchanged.

    Attributes:
        provider: The provider, by the name of its exporter.
        data: The item as the provider wrote it; opaque.
        role: `"call"` or `"result"`.
        name: The hosted tool's name, for display, or `""`.
        id: The id that a call and its result share, or `""`.
    """

    type: ClassVar = "hosted"
    provider: str
    data: JsonMapping = field(repr=False)
    role: Literal["call", "result"] = "call"
    name: str = ""
    id: str = ""


Part: TypeAlias = TextPart | MediaPart | CallPart | ResultPart | ReasoningPart | HostedPart  # a part of a message


_Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Writable: TypeAlias = "Part | ToolCall | Content | str"
"""A part of a message, or a shorthand for one."""


def _as_part(value: Writable) -> Part:
    if isinstance(value, Part):
        return value
    if isinstance(value, str | TextContent):
        return TextPart(value if isinstance(value, str) else value.text)
    if isinstance(value, ToolCall):
        return CallPart(value)
    if isinstance(value, Content):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        return MediaPart(value)
    raise TypeError(f"parts of a message must be strings, content, calls or parts, got {value!r:.100}")


def _as_parts(given: Any) -> tuple[Part, ...]:
    return tuple(map(_as_part, cast("Iterable[Writable]", given if isinstance(given, list | tuple) else (given,))))


@frozen
class Message(JsonRecord):
    """One message of a conversation: of the user, the model (`assistant`), tools (results), or the host (`system`).

    Attributes:
        role: Its author. All results of one answer's calls are in one message of role `"tool"`, right after it.
        parts: Its content, in order. A text, content, a call or a list of them may be given.
        id: The message's id, or `None`.
        provider_metadata: By provider, what has to be sent back with the message; opaque.
        metadata: The host's own data; never sent.
    """

    role: _Role = field(validator=one_of(*get_args(_Role)))
    parts: tuple[Part, ...] = field(default=(), converter=_as_parts, metadata=ALWAYS)
    id: str | None = None
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)
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
        """A message of the host within a conversation; a request's `instructions` come before the conversation."""
        return cls("system", parts)

    @classmethod
    def tool(cls, answers: Iterable[tuple[ToolCall, ToolResult]]) -> Message:
        """The results of calls; an `Outcome` is such pairs."""
        return cls("tool", tuple(ResultPart.of(call, result) for call, result in answers))

    @property
    def text(self) -> str:
        """Its text parts, joined without separators."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, those that the provider has executed included."""
        return tuple(part.call for part in self.parts if isinstance(part, CallPart))

    @property
    def results(self) -> tuple[ResultPart, ...]:
        """The results in it."""
        return tuple(part for part in self.parts if isinstance(part, ResultPart))


def _media(data: JsonMapping) -> Content:
    if data.get("type") == "text":
        raise UnreadError(".type: text belongs in a part of type 'text'")
    return read_content(data)


read_by(ImageContent | AudioContent | FileContent | LinkContent, _media)
read_by(Part, tagged(*get_args(Part)))


@frozen
class Usage(JsonRecord):
    """Token usage of one answer, or of several together.

    Attributes:
        input_tokens: Of the request, those from a cache included.
        output_tokens: Of the answer, reasoning included.
        cached_tokens: Of the request, read from the provider's cache.
        cache_write_tokens: Of the request, written into the provider's cache.
        reasoning_tokens: Of the answer, reasoning that isn't part of the text.
    """

    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    reasoning_tokens: Count = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(*(mine + its for mine, its in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


NO_USAGE = Usage()


@frozen
class TextDelta(JsonRecord):
    """A piece of streamed text.

    Attributes:
        text: The new text.
    """

    type: ClassVar = "text"
    text: str = field(converter=encodable_text)


@frozen
class ReasoningDelta(JsonRecord):
    """A piece of streamed reasoning.

    Attributes:
        text: The new text.
    """

    type: ClassVar = "reasoning"
    text: str = field(converter=encodable_text)


@frozen
class CallDelta(JsonRecord):
    """A piece of a streamed tool call, for display only: the calls to run are in the response.

    Attributes:
        index: Which of the answer's calls, from 0.
        arguments: The new text of the arguments; `""` where the call has just begun.
        id: The call's id as far as it is known, or `""`.
        name: The tool's name, or `""` where it isn't known yet.
    """

    type: ClassVar = "call"
    index: int
    arguments: str = field(default="", converter=lambda text: encodable_text(text, "arguments"))
    id: str = ""
    name: str = ""


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta  # a piece of a streamed answer

FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error", "other"
]
"""Why an answer ended: complete; calls tools; token limit; content filter; the model refused; the provider paused a
long answer, which continues when it is sent back; an error; an unknown reason."""

_EMPTY: Final = Message("assistant")


def _as_message(given: Any) -> Message:
    return given if isinstance(given, Message) else Message("assistant", given)


@frozen
class ModelResponse(JsonRecord):
    """One answer of a model, frozen and provider-neutral.

    Attributes:
        message: The answer, of role `"assistant"`; a text, a part, or a list of them may be given.
        finish_reason: Why it ended.
        usage: What it used, in tokens.
        model: The model's name as the provider gave it, or `None`.
        id: The answer's id at the provider, or `None`.
        partial: Whether it is an intermediate state of a stream.
        complete: Whether the model finished; `False` where it was cut off (`"length"`), failed or was interrupted.
            Calls of an answer that isn't complete never run.
        interrupted: Whether it was interrupted: the stream broke, or the user spoke.
        grounding: What a provider's search found for the answer, as the provider wrote it.
        custom_metadata: Anything that a client or a callback adds.
        error_code: The provider's error code, or `None`.
        error_message: What went wrong, for the operator, or `None`.
    """

    message: Message = field(default=_EMPTY, converter=_as_message, metadata=ALWAYS)
    finish_reason: FinishReason = field(default="stop", validator=one_of(*get_args(FinishReason)))
    usage: Usage = field(default=NO_USAGE, metadata=ALWAYS)
    model: str | None = None
    id: str | None = None
    partial: bool = False
    complete: bool = True
    interrupted: bool = False
    grounding: JsonMapping = field(default=_NOTHING, repr=False)
    custom_metadata: JsonMapping = field(default=_NOTHING, repr=False)
    error_code: str | None = None
    error_message: str | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of its message."""
        return self.message.parts

    @property
    def text(self) -> str:
        """The text of its message."""
        return self.message.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls to run: those that the provider has executed itself are left out."""
        return tuple(call for call in self.message.calls if not call.provider_executed)

    @property
    def citations(self) -> tuple[Any, ...]:
        """The citations of its text, part by part."""
        return tuple(each for part in self.message.parts if isinstance(part, TextPart) for each in part.citations)

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Reads what `to_json` writes; `message` is required."""
        if is_object(data) and data.get("message") is None:
            raise ValueError("message: missing")
        return super().from_json(data)
