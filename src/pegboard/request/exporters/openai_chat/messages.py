"""The conversation as chat completions have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import define, field, frozen

from pegboard.messages.message import CallPart, MediaPart, Message, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request.exporters.calls.arguments import arguments_text, input_text
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.openai.limits import CHAT, REFUSED_IN_IDS, Limits
from pegboard.request.exporters.openai.listed import Listed
from pegboard.request.exporters.openai.results import joined, spoken_result
from pegboard.request.exporters.openai.spoken import Spoken
from pegboard.request.exporters.openai.words import words
from pegboard.request.exporters.openai_chat.answer import EXTRA
from pegboard.request.exporters.openai_chat.parts import users_content, written
from pegboard.request.exporters.untrusted import known_text, own
from pegboard.tools.call import ToolCall, writable
from pegboard.typing import JsonObject

_KINDS: Final = {"image": "Picture", "file": "File"}


@frozen
class ChatStyle:
    """How a conversation is said.

    Attributes:
        key: Under which the provider's own facts stand.
        limits: What the provider takes.
        system_role: Who the host is: `"system"`, or `"developer"`.
        reasoning: The member of the model's messages in which its reasoning goes back, for servers that want it
            (`"reasoning_content"`), or `None`.
    """

    key: str
    limits: Limits = CHAT
    system_role: str = "system"
    reasoning: str | None = None


def chat_messages(system: str, messages: Sequence[Message], listed: Listed, style: ChatStyle) -> list[JsonObject]:
    """The messages, instructions first.

    Args:
        system: The instructions, or `""`.
        messages: The conversation.
        listed: The tools of the request: a call of one that takes free text is said so.
        style: How it is said.
    """
    saying = _Saying(listed, style, SentIds(REFUSED_IN_IDS, style.limits.call_id))
    if system:
        saying.messages.append({"role": style.system_role, "content": writable(system)})
    for message in messages:
        saying.say(message)
    saying.show()
    return saying.messages


@define
class _Saying:
    """The messages so far, and what has to be said behind the results that come one after the other."""

    listed: Listed
    style: ChatStyle
    ids: SentIds
    messages: list[JsonObject] = field(factory=list[JsonObject])
    shown: list[JsonObject] = field(factory=list[JsonObject])
    hosted: set[str] = field(factory=set[str])

    def say(self, message: Message) -> None:
        if message.role != "tool":
            self.show()
        if message.role == "assistant":
            self._assistant(message.parts)
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
        if message.role == "system":
            self._append(self.style.system_role, words(message.parts))
        elif message.role == "user":
            self._append("user", users_content(message.parts, self.style.limits, self.style.key))
        elif message.role == "tool":
            content = users_content(message.parts, self.style.limits, self.style.key)
            self.shown += [{"type": "text", "text": content}] if isinstance(content, str) else content

    def show(self) -> None:
        """Says what stood in results and can only be said by a user."""
        self._append("user", self.shown)
        self.shown = []

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.messages.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        refusals = [part.text for part in parts if isinstance(part, TextPart) and _is_refusal(part, self.style.key)]
        audio = next((spoken for part in parts if (spoken := _audio_id(part, self.style.key)) is not None), None)
        said = words(
            part for part in parts if not _is_refusal(part, self.style.key) and _audio_id(part, self.style.key) is None
        )
        calls = [self._call(part.call) for part in parts if isinstance(part, CallPart) and not self._is_hosted(part)]
        facts = {
            "refusal": "".join(refusals),
            "audio": None if audio is None else {"id": audio},
            "tool_calls": calls,
        } | self._reasoning(parts)
        told = {name: fact for name, fact in facts.items() if fact}
        if said or told:
            self.messages.append({"role": "assistant", "content": said or None, **told})

    def _is_hosted(self, part: CallPart) -> bool:
        """Whether a provider has run the call itself: then neither it nor its result is said."""
        if part.call.provider_executed:
            self.hosted.add(part.call.id)
        return part.call.provider_executed

    def _call(self, call: ToolCall) -> JsonObject:
        facts = own(call.provider_metadata, self.style.key)
        kind = facts.get("type")
        call_id = self.ids.call(call.id)
        self.hosted.discard(call.id)
        if kind == "custom" or (kind is None and self.listed.is_custom(call.name)):
            return {"id": call_id, "type": "custom", "custom": {"name": sendable(call.name), "input": input_text(call)}}
        function = {"name": sendable(call.name), "arguments": arguments_text(call)}
        extra = {EXTRA: facts[EXTRA]} if facts.get(EXTRA) else {}
        return {"id": call_id, "type": "function", "function": function, **extra}

    def _reasoning(self, parts: Iterable[Part]) -> JsonObject:
        thought = [
            part.text
            for part in parts
            if isinstance(part, ReasoningPart) and own(part.provider_metadata, self.style.key)
        ]
        return {self.style.reasoning: "".join(thought)} if self.style.reasoning and thought else {}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        said = spoken_result(part.result, self.style.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of a call that has one, or of none that is left
            self.shown.append({"type": "text", "text": writable(f"A later result of {part.name}:")})
            self.shown += [written(each) for each in said]
            return
        numbers: Counter[str] = Counter()
        texts = [self._placed(each, numbers, call_id, part.name) for each in said]
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": joined(texts)})

    def _placed(self, said: Spoken, numbers: Counter[str], call_id: str, name: str) -> Spoken:
        """A text, or what says where to find what is no text."""
        if said.kind == "text":
            return said
        numbers[said.kind] += 1
        heading = writable(f"{_KINDS[said.kind]} {numbers[said.kind]} of the result of {name} ({call_id})")
        self.shown += [{"type": "text", "text": f"{heading}:"}, written(said)]
        return Spoken("text", f"[{heading}: in the message of the user behind the results]")


def _is_refusal(part: Part, key: str) -> bool:
    return isinstance(part, TextPart) and own(part.provider_metadata, key).get("refusal") is True


def _audio_id(part: Part, key: str) -> str | None:
    return known_text(own(part.provider_metadata, key), "audio") if isinstance(part, MediaPart) else None


__all__ = ["ChatStyle", "chat_messages"]
