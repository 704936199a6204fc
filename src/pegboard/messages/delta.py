"""What comes of an answer on its way, piece by piece."""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import field, frozen

from pegboard.tools.call import writable
from pegboard.typing import JsonObject


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

__all__ = ["DELTA_TYPES", "CallDelta", "Delta", "ReasoningDelta", "TextDelta"]
