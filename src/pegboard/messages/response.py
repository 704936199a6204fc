"""A model's answer: `ModelResponse`, the deltas of a stream, `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs
from attrs import field, frozen

from pegboard.messages.message import CallPart, Message, Part, TextPart
from pegboard.schema.converter import Count, read_record
from pegboard.schema.json import is_object
from pegboard.tools.call import ToolCall, writable
from pegboard.typing import JsonMapping, JsonObject


@frozen
class Usage:
    """What one answer, or several together, used, in tokens.

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
        """Request and answer."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(*(mine + its for mine, its in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def to_json(self) -> JsonObject:
        """All counts by name."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Usage:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: A count isn't a whole number, 0 or above; names it.
        """
        return read_record(cls, data, "usage")


NO_USAGE = Usage()


@frozen
class TextDelta:
    """Some more words.

    Attributes:
        text: What has come.
    """

    text: str = field(converter=writable)

    def to_json(self) -> JsonObject:
        """`{"type": "text", "text"}`."""
        return {"type": "text", "text": self.text}


@frozen
class ReasoningDelta:
    """Some more of what the model thinks.

    Attributes:
        text: What has come.
    """

    text: str = field(converter=writable)

    def to_json(self) -> JsonObject:
        """`{"type": "reasoning", "text"}`."""
        return {"type": "reasoning", "text": self.text}


@frozen
class CallDelta:
    """Some more of a call of a tool. To be shown, never to be run: the response has the calls.

    Attributes:
        index: Which of the answer's calls, from 0.
        arguments: What has come of the arguments' text; `""` where the call has just begun.
        id: The call's id as far as it is known, or `""`.
        name: The tool's name, or `""` where it hasn't come yet.
    """

    index: int
    arguments: str = field(default="", converter=writable)
    id: str = ""
    name: str = ""

    def to_json(self) -> JsonObject:
        """`{"type": "call", "index", "id", "name", "arguments"}`."""
        return {"type": "call", "index": self.index, "id": self.id, "name": self.name, "arguments": self.arguments}


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta
DELTA_TYPES: Final = (TextDelta, ReasoningDelta, CallDelta)

FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error", "other"
]
"""Why an answer ended: it was whole; it calls tools; the token limit; a filter; the model refused; the provider paused
a long answer, which goes on when it is sent back; it failed; something that isn't known here."""

_FINISH_REASONS: Final = get_args(FinishReason)
_NOTHING: Final[Mapping[str, Any]] = {}
_EMPTY: Final = Message("assistant")


def _as_message(given: Any) -> Message:
    return given if isinstance(given, Message) else Message("assistant", given)


@frozen
class ModelResponse:
    """One answer of a model, frozen and provider-neutral.

    Attributes:
        message: The answer, of role `"assistant"`; a text, a part, or a list of them may be given.
        finish_reason: Why it ended.
        usage: What it used, in tokens.
        model: The model's name as the provider gave it, or `None`.
        id: The answer's id at the provider, or `None`.
        partial: Whether more of it is to come: a state on the way of a stream.
        complete: Whether the model was done; `False` where it was cut off (`"length"`), broken off or interrupted.
            Calls of an answer that isn't complete never run.
        interrupted: Whether it was broken off: the stream broke, or the user spoke.
        grounding: What a provider's search has put under the answer, as the provider wrote it.
        custom_metadata: Anything else that a client or a callback wants to say.
        error_code: The provider's word for what went wrong, or `None`.
        error_message: What went wrong, for the operator, or `None`.
    """

    message: Message = field(default=_EMPTY, converter=_as_message)
    finish_reason: FinishReason = field(default="stop", validator=attrs.validators.in_(_FINISH_REASONS))
    usage: Usage = NO_USAGE
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
        """What its message is made of."""
        return self.message.parts

    @property
    def text(self) -> str:
        """All its words."""
        return self.message.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that are for us to answer: those that the provider has executed itself are left out."""
        return tuple(
            part.call for part in self.message.parts if isinstance(part, CallPart) and not part.call.provider_executed
        )

    @property
    def citations(self) -> tuple[Any, ...]:
        """What its words rest on, part by part."""
        return tuple(each for part in self.message.parts if isinstance(part, TextPart) for each in part.citations)

    def evolve(self, **changes: Any) -> ModelResponse:
        """A response with some attributes changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """`{"message", "finish_reason", "usage"}`, and what else is set, by name."""
        data: JsonObject = {
            "message": self.message.to_json(),
            "finish_reason": self.finish_reason,
            "usage": self.usage.to_json(),
        }
        for name in _PLAIN:
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                data[name] = dict(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType]
        return data

    @classmethod
    def from_json(cls, data: object) -> ModelResponse:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: It is no response; the error names the path.
        """
        if is_object(data) and data.get("message") is None:
            raise ValueError("message: missing")
        return read_record(cls, data, "response")


_TEXTS: Final = ("model", "id", "error_code", "error_message")
_FLAGS: Final = ("partial", "complete", "interrupted")
_MAPPINGS: Final = ("grounding", "custom_metadata")
_PLAIN: Final = (*_TEXTS, *_FLAGS, *_MAPPINGS)

_DEFAULTS: Final[Mapping[str, Any]] = {
    each.name: each.default for each in attrs.fields(ModelResponse) if each.name in _PLAIN
}


__all__ = [
    "DELTA_TYPES",
    "NO_USAGE",
    "CallDelta",
    "Delta",
    "FinishReason",
    "ModelResponse",
    "ReasoningDelta",
    "TextDelta",
    "Usage",
]
