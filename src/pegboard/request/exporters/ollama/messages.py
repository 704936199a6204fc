"""Messages as `/api/chat` takes them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import define, field

from pegboard.messages.message import CallPart, MediaPart, Message, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request.exporters.calls.arguments import arguments_object
from pegboard.request.exporters.calls.in_order import in_order
from pegboard.request.exporters.calls.made_calls import ORIGINAL
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.ollama.tools import FAMILY
from pegboard.request.exporters.untrusted import own
from pegboard.request.exporters.worded import worded
from pegboard.schema.json import json_text
from pegboard.tools.call import ToolCall
from pegboard.tools.content import Content, ImageContent
from pegboard.typing import JsonObject


@define(eq=False)
class Conversation:
    """Writes messages; each result of a turn is a message of its own, in the order of the calls.

    Attributes:
        said: What has been written.
    """

    said: list[JsonObject] = field(factory=list[JsonObject])
    _calls: list[str] = field(factory=list[str])
    _wire_ids: dict[str, str] = field(factory=dict[str, str])
    _answers: list[ResultPart] = field(factory=list[ResultPart])

    def add(self, messages: Iterable[Message]) -> list[JsonObject]:
        """Writes messages, and gives all so far."""
        for message in messages:
            if message.role == "assistant":
                self._answered()
                self._speak(message)
            else:
                self._hear(message)
        self._answered()
        return self.said

    def _speak(self, message: Message) -> None:
        calls = [part.call for part in message.parts if isinstance(part, CallPart) and not part.call.provider_executed]
        self._calls = [call.id for call in calls]
        text, images = _content(message.parts)
        thoughts = "".join(
            part.text for part in message.parts if isinstance(part, ReasoningPart) and FAMILY in part.provider_metadata
        )
        written: JsonObject = {"role": "assistant", "content": text}
        if thoughts:
            written["thinking"] = thoughts
        if images:
            written["images"] = images
        if calls:
            written["tool_calls"] = [self._call(call) for call in calls]
        if text or len(written) > 2:
            self.said.append(written)

    def _call(self, call: ToolCall) -> JsonObject:
        wire_id = own(call.provider_metadata, FAMILY).get(ORIGINAL, call.id)
        self._wire_ids[call.id] = wire_id if isinstance(wire_id, str) else ""
        named = {"id": self._wire_ids[call.id]} if self._wire_ids[call.id] else {}
        return {**named, "function": {"name": sendable(call.name, _TAKEN), "arguments": arguments_object(call)}}

    def _hear(self, message: Message) -> None:
        results = message.results if message.role == "tool" else ()
        self._answers += results
        text, images = _content([part for part in message.parts if not (results and isinstance(part, ResultPart))])
        if text or images:
            self._answered()
            role = "system" if message.role == "system" and not images else "user"
            self.said.append({"role": role, "content": text, **({"images": images} if images else {})})

    def _answered(self) -> None:
        """Writes the results that have come, in the order of their calls."""
        for part in in_order(self._answers, self._calls):
            self._answer(part)
        self._answers.clear()

    def _answer(self, part: ResultPart) -> None:
        images = _images(part.result.content)
        texts = [worded(item) for item in part.result.content if not isinstance(item, ImageContent)]
        if not texts and not images and part.result.structured_content is not None:
            texts = [json_text(part.result.structured_content)]
        text = "\n".join(texts)
        answer: JsonObject = {"role": "tool", "tool_name": sendable(part.name, _TAKEN)}
        answer["content"] = f"Error: {text or 'failed'}" if part.result.is_error else text
        wire_id = self._wire_ids.get(part.call_id, part.call_id)
        if wire_id:
            answer["tool_call_id"] = wire_id
        if images:
            answer["images"] = images
        self.said.append(answer)


def _content(parts: Sequence[Part]) -> tuple[str, list[str]]:
    """The words of a message, and its pictures as base64; whatever else is in it is told in words."""
    images = _images(part.content for part in parts if isinstance(part, MediaPart))
    return "".join(text for part in parts if (text := _words(part))), images


def _words(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, MediaPart) and not isinstance(part.content, ImageContent):
        return f"\n{worded(part.content)}\n"
    if isinstance(part, ResultPart):
        return f"\n[result of {part.name}]\n" + "\n".join(map(worded, part.result.content))
    return ""


def _images(contents: Iterable[Content]) -> list[str]:
    return [base64.b64encode(item.data).decode() for item in contents if isinstance(item, ImageContent)]


_TAKEN: Final = r"(?s).+"
"""What Ollama takes as a name: anything but nothing."""

__all__ = ["Conversation"]
