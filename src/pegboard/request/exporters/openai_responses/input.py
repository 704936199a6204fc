"""The conversation as responses have it: a list of items."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from pegboard.messages.message import CallPart, HostedPart, MediaPart, Message, Part, ResultPart
from pegboard.request.exporters.calls.arguments import arguments_text, input_text
from pegboard.request.exporters.calls.said_names import sendable
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.openai.limits import REFUSED_IN_IDS, RESPONSES, Limits
from pegboard.request.exporters.openai.listed import Listed
from pegboard.request.exporters.openai.results import spoken_result
from pegboard.request.exporters.openai.words import words
from pegboard.request.exporters.openai_responses.client_calls import CLIENT_CALLS
from pegboard.request.exporters.openai_responses.parts import output_of, users_content, written
from pegboard.request.exporters.openai_responses.said_items import OF_ITEM, SaidItems, in_words
from pegboard.request.exporters.untrusted import known_text, object_or_none, own
from pegboard.tools.call import ToolCall, writable
from pegboard.typing import JsonMapping, JsonObject

_BESIDE = ("id", "namespace", "caller", "async")
"""What goes back with a call as it came."""


@frozen
class ResponsesStyle:
    """How a conversation is said.

    Attributes:
        key: Under which the provider's own facts stand.
        limits: What the provider takes.
        stored: Whether the provider keeps its answers.
    """

    key: str
    limits: Limits = RESPONSES
    stored: bool = True


def input_items(messages: Sequence[Message], listed: Listed, style: ResponsesStyle) -> list[JsonObject]:
    """The items of a conversation.

    Args:
        messages: The conversation.
        listed: The tools of the request: a call of one that takes free text is said so.
        style: How it is said.
    """
    saying = _Saying(listed, style, SentIds(REFUSED_IN_IDS, style.limits.call_id))
    for message in messages:
        saying.say(message)
    return saying.items


@define
class _Saying:
    """The items so far, and what is known of the calls among them."""

    listed: Listed
    style: ResponsesStyle
    ids: SentIds
    items: list[JsonObject] = field(factory=list[JsonObject])
    calls: dict[str, JsonMapping] = field(factory=dict[str, JsonMapping])
    hosted: set[str] = field(factory=set[str])

    def say(self, message: Message) -> None:
        if message.role == "assistant":
            self._assistant(message.parts)
            return
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
            elif isinstance(part, HostedPart):
                self.items += SaidItems(self.style.key, self.style.stored).of([part])
        if message.role == "system":
            self._append("system", words(message.parts))
        else:
            self._append("user", users_content(message.parts, self.style.limits, self.style.key))

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.items.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        writing = SaidItems(self.style.key, self.style.stored)
        if writing.loses_reasoning(parts):
            writing = evolve(writing, with_ids=False)
        together: list[Part] = []
        for part in parts:
            if isinstance(part, CallPart):
                self.items += writing.of(together)
                together = []
                self._call(part.call, with_id=writing.with_ids)
            elif not isinstance(part, ResultPart):
                together.append(part if self._stands_in_item(part) else in_words(part))
        self.items += writing.of(together)
        while self.items and self.items[-1].get("type") == "reasoning":  # refused where nothing follows it
            self.items.pop()
        for part in parts:
            if isinstance(part, ResultPart):
                self._result(part)

    def _stands_in_item(self, part: Part) -> bool:
        return isinstance(part, MediaPart) and bool(own(part.provider_metadata, self.style.key).get(OF_ITEM))

    def _call(self, call: ToolCall, *, with_id: bool) -> None:
        if call.provider_executed:  # neither it nor its result is ours to say
            self.hosted.add(call.id)
            return
        facts = own(call.provider_metadata, self.style.key)
        call_id = self.ids.call(call.id)
        self.hosted.discard(call.id)
        kind = known_text(facts, "type")
        if kind in CLIENT_CALLS and object_or_none(facts.get("item")) is None:
            kind = "function_call"
        if kind is None and self.listed.is_custom(call.name):
            kind = "custom_tool_call"
        self.calls[call_id] = {**facts, "type": kind}
        self.items.append(self._call_item(call, kind, call_id, facts, with_id=with_id))

    def _call_item(
        self, call: ToolCall, kind: str | None, call_id: str, facts: JsonMapping, *, with_id: bool
    ) -> JsonObject:
        if kind in CLIENT_CALLS:
            return {**facts["item"], "call_id": call_id}
        beside = {name: facts[name] for name in _BESIDE if facts.get(name) and (with_id or name != "id")}
        named = {"call_id": call_id, "name": sendable(call.name)}
        if kind == "custom_tool_call":
            return {"type": kind, **named, "input": input_text(call), **beside}
        return {"type": "function_call", **named, "arguments": arguments_text(call), **beside}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        said = spoken_result(part.result, self.style.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of a call that has one, or of none that is left
            heading = {"type": "input_text", "text": writable(f"A later result of {part.name}:")}
            self._append("user", [heading, *(written(each) for each in said)])
            return
        facts = self.calls[call_id]
        kind = facts["type"]
        if kind in CLIENT_CALLS:
            result = part.result
            self.items.append(CLIENT_CALLS[kind].output(call_id, said, result.is_error, result.structured_content))
            return
        output = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
        caller = {"caller": facts["caller"]} if facts.get("caller") else {}
        self.items.append({"type": output, "call_id": call_id, "output": output_of(said), **caller})


__all__ = ["ResponsesStyle", "input_items"]
