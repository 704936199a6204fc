"""`OpenAIChat`: exporter for OpenAI's chat completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from attrs import define, field

from pegboard import Loss, Message, ModelConfig, ModelRequest, ModelResponse, ToolCall, ToolSpec
from pegboard.messages import CallPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.wire import (
    Entry,
    arguments_text,
    config_facts,
    encodable_text,
    facts_of,
    hosted_type,
    input_text,
    known_text,
    passthrough,
    refusal,
    strict_schemas,
    wire_name,
    without_empty,
)
from pegboard_openai._exporter import ANOTHERS, NOTHING, Conversation, Definition, OpenAIExporter, ToolDefinitions
from pegboard_openai._openai import CHAT, FAMILY, Limits, Rendered, format_of, join_texts, render_content, render_parts
from pegboard_openai._openai_chat import EXTRA, ChatAnswers, ChatReader

_KINDS: Final = {"image": "Picture", "file": "File"}


@define
class _Conversation(Conversation):
    """The messages so far, and the content to show after the current results."""

    system_role: str
    reasoning: str | None
    shown: list[JsonObject] = field(factory=list[JsonObject])

    def write(self, messages: Iterable[Message]) -> list[JsonObject]:
        """The messages, and what is to be shown after the last."""
        super().write(messages)
        self.show()
        return self.written

    def add(self, message: Message) -> None:
        if message.role != "tool":
            self.show()
        if message.role == "assistant":
            self._assistant(message.parts)
        for part in message.parts:
            if isinstance(part, ResultPart):
                self.result(part)
        if message.role == "system":
            self.append(self.system_role, render_parts(message.parts))
        elif message.role == "user":
            self.append("user", self.users_content(message.parts))
        elif message.role == "tool":
            content = self.users_content(message.parts)
            self.shown += [{"type": "text", "text": content}] if isinstance(content, str) else content

    def show(self) -> None:
        """Adds a user's message with the content of results that isn't text."""
        self.append("user", self.shown)
        self.shown = []

    def _assistant(self, parts: Sequence[Part]) -> None:
        key = self.key
        refusals = [part.text for part in parts if isinstance(part, TextPart) and _is_refusal(part, key)]
        audio = next((spoken for part in parts if (spoken := _audio_id(part, key)) is not None), None)
        text = render_parts(part for part in parts if not _is_refusal(part, key) and _audio_id(part, key) is None)
        calls = [written for part in parts if isinstance(part, CallPart) and (written := self._call(part.call))]
        facts = without_empty(
            {
                "refusal": "".join(refusals),
                "audio": None if audio is None else {"id": audio},
                "tool_calls": calls,
                **self._reasoning(parts),
            }
        )
        if text or facts:
            self.written.append({"role": "assistant", "content": text or None, **facts})

    def _call(self, call: ToolCall) -> JsonObject | None:
        call_id, facts = self.call(call), facts_of(call.provider_metadata, self.key)
        if call_id is None:
            return None
        kind = facts.get("type")
        if kind == "custom" or (kind is None and self.listed.is_custom(call.name)):
            return {
                "id": call_id,
                "type": "custom",
                "custom": {"name": wire_name(call.name), "input": input_text(call)},
            }
        function = {"name": wire_name(call.name), "arguments": arguments_text(call)}
        extra = {EXTRA: facts[EXTRA]} if facts.get(EXTRA) else {}
        return {"id": call_id, "type": "function", "function": function, **extra}

    def _reasoning(self, parts: Iterable[Part]) -> JsonObject:
        member, key = self.reasoning, self.key
        thoughts = [part for part in parts if isinstance(part, ReasoningPart) and facts_of(part.provider_metadata, key)]
        return {member: "".join(part.text for part in thoughts)} if member else {}

    def late(self, contents: list[JsonObject]) -> None:
        """Shows a result without a call of its own."""
        self.shown += contents

    def answer(self, call_id: str, part: ResultPart, contents: list[Rendered]) -> None:
        """Writes the result of a call."""
        numbers: Counter[str] = Counter()
        texts = [self._text_or_reference(each, numbers, call_id, part.name) for each in contents]
        self.written.append({"role": "tool", "tool_call_id": call_id, "content": join_texts(texts)})

    def media(self, part: MediaPart) -> JsonObject:
        """A medium of the user's; its options are `detail` and `file_id`."""
        options = facts_of(part.provider_metadata, self.key)
        if file_id := known_text(options, "file_id"):
            return {"type": "file", "file": {"file_id": file_id}}
        return self.content(render_content(part.content, self.limits, links=True), options)

    def content(self, content: Rendered, options: JsonMapping = NOTHING) -> JsonObject:
        """One content; the option `detail` is the resolution at which a picture is processed."""
        if content.kind == "text":
            return {"type": "text", "text": content.value}
        if content.kind == "audio":
            return {"type": "input_audio", "input_audio": {"data": content.value, "format": content.name}}
        if content.kind == "file":
            return {"type": "file", "file": {"file_data": content.value, "filename": content.name}}
        detail = without_empty({"detail": known_text(options, "detail")})
        return {"type": "image_url", "image_url": {"url": content.value, **detail}}

    def _text_or_reference(self, content: Rendered, numbers: Counter[str], call_id: str, name: str) -> Rendered:
        """A text, or a reference to other content, which is shown after the results."""
        if content.kind == "text":
            return content
        numbers[content.kind] += 1
        heading = encodable_text(f"{_KINDS[content.kind]} {numbers[content.kind]} of the result of {name} ({call_id})")
        self.shown += [{"type": "text", "text": f"{heading}:"}, self.content(content)]
        return Rendered("text", f"[{heading}: in the message of the user after the results]")


def _is_refusal(part: Part, key: str) -> bool:
    return isinstance(part, TextPart) and facts_of(part.provider_metadata, key).get("refusal") is True


def _audio_id(part: Part, key: str) -> str | None:
    return known_text(facts_of(part.provider_metadata, key), "audio") if isinstance(part, MediaPart) else None


_ELSEWHERE: Final = ("allowed_callers", "async", "defer_loading", "namespace", "output_schema")
"""Options that only the responses API has, under a key that both exporters read."""


def _loss_of(spec: ToolSpec, name: str) -> Loss:
    return Loss(spec.name, f"/providerOptions/{FAMILY}/{name}", name, "left out: only the responses API has it")


@define(eq=False, kw_only=True)
class OpenAIChat(OpenAIExporter):
    """Exporter for OpenAI's chat completions, and for compatible servers.

    Options of tools and requests are under `"openai"`, overridden by those under its own name, which is also the key of
    provider metadata: use another name for another server. A request's options go into the body unchanged.

    Attributes:
        name: Its name.
        limits: The limits of the provider.
        system_role: The role of the instructions: `"system"`, or `"developer"`.
        reasoning: The member in which a server wants the model's reasoning back (`"reasoning_content"`), or `None`.
        response_formats: Whether it supports response formats.
        most_tokens: The member that limits an answer's length; other servers call it `"max_tokens"`.
    """

    name: str = "openai"
    limits: Limits = CHAT
    system_role: str = "system"
    reasoning: str | None = None
    response_formats: bool = True
    most_tokens: str = "max_completion_tokens"

    def body(self, request: ModelRequest, listed: ToolDefinitions, options: JsonMapping) -> JsonObject:  # noqa: ARG002  as the base class has it
        """The model and the messages; instructions are the first."""
        first = [{"role": self.system_role, "content": request.system}] if request.system else []
        conversation = _Conversation(listed, self.name, self.limits, self.system_role, self.reasoning)
        return {**without_empty({"model": request.model}), "messages": first + conversation.write(request.messages)}

    def settings(self, config: ModelConfig) -> JsonObject:
        """The members for a configuration."""
        names = {"temperature": "temperature", "top_p": "top_p", "stop": "stop", "seed": "seed"}
        names = {"max_output_tokens": self.most_tokens, **names, "reasoning": "reasoning_effort"}
        return config_facts(config, names)

    def choice(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "function": {"name"}}`, and the same of a custom tool."""
        return {"type": entry["type"], entry["type"]: {"name": name}}

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `response_format`; `None` if there is none for the request's `output`."""
        form = format_of(request) if self.response_formats else None
        return None if form is None else {"response_format": {"type": "json_schema", "json_schema": form}}

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses a chat completion.

        Raises:
            ModelError: The body is not a chat completion, or is the provider's error.
        """
        return ChatAnswers(self.name, strict_schemas(request), self.limits).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ChatReader:
        """A parser for the chunks of a streamed completion."""
        return ChatReader(ChatAnswers(self.name, strict_schemas(request), self.limits))

    def hosted(self, spec: ToolSpec) -> Entry:
        """Refuses tools that providers host."""
        hosts = hosted_type(spec, self.keys) is not None
        what = "chat completions host no tools; the responses do" if hosts else ANOTHERS
        return refusal(spec, "/providerId", "providerId", what)

    def entry(self, spec: ToolSpec, kind: str, written: Definition) -> Entry:
        """The tool's entry, `{"type": "function", "function"}` or `{"type": "custom", "custom"}`."""
        definition = written.named(spec)
        if kind == "function":
            definition |= {"parameters": written.parameters, **({"strict": True} if written.strict else {})}
        elif spec.grammar is not None:
            definition["format"] = {"type": "grammar", "grammar": spec.grammar.to_json()}
        options = passthrough(spec.provider_options, self.keys)
        elsewhere = [name for name in _ELSEWHERE if options.pop(name, None) is not None]
        losses = (*written.losses, *(_loss_of(spec, name) for name in elsewhere))
        refused = any(loss.refused for loss in losses)
        return Entry(None if refused else {"type": kind, kind: {**definition, **options}}, losses)


exporter: Final = cache(OpenAIChat)
"""Returns the shared exporter of this process, with its cache."""
