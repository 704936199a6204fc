"""`Conversation`: messages as `contents`, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attrs import define, field

from pegboard.messages.message import (
    CallPart,
    HostedPart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from pegboard.request.exporters.calls.arguments import arguments_object
from pegboard.request.exporters.calls.in_order import in_order
from pegboard.request.exporters.calls.made_calls import ORIGINAL
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.gemini.limits import FAMILY, GeminiLimits
from pegboard.request.exporters.gemini.media import media_part
from pegboard.request.exporters.gemini.metadata import beside, is_own
from pegboard.request.exporters.gemini.results import response_part
from pegboard.request.exporters.untrusted import own
from pegboard.request.exporters.worded import worded
from pegboard.tools.call import ToolCall
from pegboard.typing import JsonObject

_SIGNATURE: Final = "thoughtSignature"


@define(eq=False)
class Conversation:
    """Writes messages as contents; the results of one turn's calls stand together, in the order of the calls.

    Attributes:
        limits: What the provider takes.
        unvalidated: The signature for calls of other providers, or `None`.
        contents: What has been written.
    """

    limits: GeminiLimits
    unvalidated: str | None = None
    contents: list[JsonObject] = field(factory=list[JsonObject])
    _calls: list[str] = field(factory=list[str])
    _wire_ids: dict[str, str] = field(factory=dict[str, str])
    _answers: list[ResultPart] = field(factory=list[ResultPart])

    def add(self, messages: Iterable[Message]) -> list[JsonObject]:
        """Writes messages, and gives all contents so far."""
        for message in messages:
            if message.role == "assistant":
                self._answered()
                self._speak("model", self._said(message))
            else:
                self._hear(message)
        self._answered()
        return self.contents

    def _hear(self, message: Message) -> None:
        """What comes from this side: results wait until all of the turn's have come, anything else is the user's."""
        results = message.results if message.role == "tool" else ()
        self._answers += results
        if len(results) < len(message.parts):
            self._answered()
            rest = [part for part in message.parts if not (results and isinstance(part, ResultPart))]
            self._speak("user", [said for part in rest if (said := self._part(part)) is not None])

    def _speak(self, role: str, parts: list[JsonObject]) -> None:
        if not parts:
            return
        last = self.contents[-1] if self.contents else None
        if last is not None and last["role"] == role and "functionResponse" not in last["parts"][0]:
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _said(self, message: Message) -> list[JsonObject]:
        """A model's turn; the first of calls that another provider's model has made says that it isn't validated."""
        said = [written for part in message.parts if (written := self._part(part)) is not None]
        first = next((call for call in message.calls if not call.provider_executed), None)
        if first is not None and self.unvalidated is not None and not is_own(first.provider_metadata):
            calling = next(part for part in said if "functionCall" in part)
            calling[_SIGNATURE] = self.unvalidated
        return said

    def _part(self, part: Part) -> JsonObject | None:
        """One part; `None` where Gemini has nothing to hear of it."""
        if isinstance(part, TextPart):
            return _text(part.text, beside(part.provider_metadata))
        if isinstance(part, MediaPart):
            return {**media_part(part.content), **beside(part.provider_metadata)}
        if isinstance(part, CallPart):
            return None if part.call.provider_executed else self._call(part.call)
        if isinstance(part, ResultPart):
            return {"text": f"[result of {part.name}]\n" + "\n".join(map(worded, part.result.content))}
        if isinstance(part, ReasoningPart):
            ours = is_own(part.provider_metadata)
            return {"text": part.text, "thought": True, **beside(part.provider_metadata)} if ours else None
        return _hosted(part)

    def _call(self, call: ToolCall) -> JsonObject:
        wire_id: Any = own(call.provider_metadata, FAMILY).get(ORIGINAL, call.id)
        self._wire_ids[call.id] = wire_id if isinstance(wire_id, str) else ""
        self._calls.append(call.id)
        said: JsonObject = {"name": sendable(call.name, self.limits.name), "args": arguments_object(call)}
        if self._wire_ids[call.id]:
            said["id"] = self._wire_ids[call.id]
        return {"functionCall": said, **beside(call.provider_metadata)}

    def _answered(self) -> None:
        """Writes the results that have come, in the order of their calls."""
        if self._answers:
            ordered = in_order(self._answers, self._calls)
            self.contents.append({"role": "user", "parts": [self._answer(part) for part in ordered]})
            self._answers = []
            self._calls = []

    def _answer(self, part: ResultPart) -> JsonObject:
        wire_id = self._wire_ids.get(part.call_id, part.call_id)
        return response_part(sendable(part.name, self.limits.name), wire_id, part.result, self.limits)


def _text(text: str, carried: JsonObject) -> JsonObject | None:
    """A text; an empty one only where it carries something that has to go back."""
    return {"text": text, **carried} if text or carried else None


def _hosted(part: HostedPart) -> JsonObject | None:
    return dict(part.data) if part.provider == FAMILY else None


__all__ = ["Conversation"]
