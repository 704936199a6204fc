"""`LimitResults`: long results of rounds long past, cut short."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

import attrs
from attrs import field, frozen

from pegboard.callbacks import quick
from pegboard.messages.message import CallPart, Message, ResultPart
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import TextContent, ToolResult

LEAST: Final = 200
_NOTE: Final = "\n[... {:,} characters of this old result are left out; call {} again to see them ...]\n"
_MOST_OF_A_NAME: Final = 64
_NEAR: Final = 80
"""How far from the limit a cut looks for the end of a line."""


@frozen
class LimitResults:
    """Cuts the texts of old results: the middle goes, and a note says so. Media stay.

    Which rounds are old moves on by `stride` rounds at a time, so that providers' caches of what was sent before
    stay good in between. The conversation itself, which the host keeps, isn't changed.

        registry.pipeline = registry.pipeline.replace("limit_results", LimitResults(keep=5, most=2000))

    Attributes:
        keep: How many of the newest rounds (answers that call tools) keep their results whole, at least.
        most: How many characters an older result may have, the note included, at least 200; `None` is any number.
        stride: By how many rounds what is old moves on, at least 1.
    """

    keep: int = field(default=20, validator=attrs.validators.ge(0))
    most: int | None = field(default=8_000, validator=attrs.validators.optional(attrs.validators.ge(LEAST)))
    stride: int = field(default=10, validator=attrs.validators.ge(1))

    @quick
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Cuts the texts of old results, of all but the newest rounds, where they are long."""
        old = self._old(request.messages)
        changed = [self._cut(message) for message in request.messages[:old]]
        if all(new is message for new, message in zip(changed, request.messages, strict=False)):
            return None
        return request.evolve(messages=(*changed, *request.messages[old:]))

    def _old(self, messages: Sequence[Message]) -> int:
        """How many messages at the beginning are old."""
        rounds = [place for place, message in enumerate(messages) if _calls(message)]
        old = max(len(rounds) - self.keep, 0) // self.stride * self.stride
        if self.most is None or not old:
            return 0
        return rounds[old] if old < len(rounds) else len(messages)

    def _cut(self, message: Message) -> Message:
        if message.role != "tool":
            return message
        parts = [self._shortened(part) if isinstance(part, ResultPart) else part for part in message.parts]
        if all(new is part for new, part in zip(parts, message.parts, strict=True)):
            return message
        return message.evolve(parts=parts)

    def _shortened(self, part: ResultPart) -> ResultPart:
        assert self.most is not None
        text = part.result.text
        if len(text) <= self.most:
            return part
        return attrs.evolve(part, result=_with_text(part.result, shortened(text, self.most, part.name)))


def shortened(text: str, most: int, tool: str) -> str:
    """The beginning and the end of a text, and a note between them: at most so many characters together."""
    tool = tool[:_MOST_OF_A_NAME]
    note = _NOTE.format(len(text), tool)
    room = most - len(note)
    head = text[: _end_of_line(text, room - room // 2)]
    tail = text[len(text) - room // 2 :]
    while tail and unicodedata.combining(tail[0]):
        tail = tail[1:]
    return head + _NOTE.format(len(text) - len(head) - len(tail), tool) + tail


def _end_of_line(text: str, place: int) -> int:
    """A place not far before that one, where a line ends; else one where no character is torn from its accents."""
    line_end = text.rfind("\n", max(place - _NEAR, 0), place)
    if line_end >= 0:
        return line_end
    while place > 0 and unicodedata.combining(text[place]):
        place -= 1
    return place


def _with_text(result: ToolResult, text: str) -> ToolResult:
    """A result with another text; the same as data goes, which would be sent instead by some."""
    others = tuple(item for item in result.content if not isinstance(item, TextContent))
    return attrs.evolve(result, content=(TextContent(text), *others), structured_content=None)


def _calls(message: Message) -> bool:
    return message.role == "assistant" and any(isinstance(part, CallPart) for part in message.parts)


__all__ = ["LimitResults", "shortened"]
