"""`OpenAIChat`: exporter for OpenAI's chat completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from attrs import define, field

from pegboard import ExportedTools, Loss, Message, ModelRequest, ModelResponse, ToolCall, ToolSpec
from pegboard.messages import CallPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.dialects import Dialect
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire import (
    Entry,
    SentIds,
    arguments_text,
    encodable_text,
    facts_of,
    hosted_type,
    input_text,
    known_text,
    merged,
    passthrough,
    refusal,
    strict_schemas,
    wire_name,
    without_empty,
)
from pegboard_openai._openai import (
    CHAT,
    OPENAI,
    REFUSED_IN_IDS,
    Definition,
    Limits,
    Rendered,
    ToolDefinitions,
    beyond,
    custom_definition,
    format_of,
    function_definition,
    joined,
    render_content,
    render_parts,
    render_result,
    tool_facts,
    user_content,
)
from pegboard_openai._openai_chat import EXTRA, ChatAnswers, ChatReader


def _reference(name: str, entry: JsonObject) -> JsonObject:
    """`{"type": "function", "function": {"name"}}`, and the same of a custom tool."""
    return {"type": entry["type"], entry["type"]: {"name": name}}


_NOTHING: Final[JsonMapping] = {}


def _part(part: TextPart | MediaPart, limits: Limits, key: str) -> JsonObject:
    """A part of the user's message; its options under the key are `detail` and `file_id`."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    options = facts_of(part.provider_metadata, key)
    file_id = known_text(options, "file_id")
    if file_id is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    return _written(render_content(part.content, limits, links=True), options)


def _written(content: Rendered, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` is the resolution at which a picture is processed."""
    if content.kind == "text":
        return {"type": "text", "text": content.value}
    if content.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": content.value, "format": content.name}}
    if content.kind == "file":
        return {"type": "file", "file": {"file_data": content.value, "filename": content.name}}
    picture: dict[str, Any] = {"url": content.value}
    detail = known_text(options, "detail")
    return {"type": "image_url", "image_url": picture if detail is None else {**picture, "detail": detail}}


_KINDS: Final = {"image": "Picture", "file": "File"}


@define
class _Conversation:
    """The messages so far, and the content to show after the current results."""

    listed: ToolDefinitions
    exporter: OpenAIChat
    ids: SentIds
    messages: list[JsonObject] = field(factory=list[JsonObject])
    shown: list[JsonObject] = field(factory=list[JsonObject])
    hosted: set[str] = field(factory=set[str])

    def add(self, message: Message) -> None:
        if message.role != "tool":
            self.show()
        if message.role == "assistant":
            self._assistant(message.parts)
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
        if message.role == "system":
            self._append(self.exporter.system_role, render_parts(message.parts))
        elif message.role == "user":
            self._append("user", self._users_content(message.parts))
        elif message.role == "tool":
            content = self._users_content(message.parts)
            self.shown += [{"type": "text", "text": content}] if isinstance(content, str) else content

    def show(self) -> None:
        """Adds a user's message with the content of results that isn't text."""
        self._append("user", self.shown)
        self.shown = []

    def _users_content(self, parts: Iterable[Part]) -> str | list[JsonObject]:
        return user_content(parts, lambda part: _part(part, self.exporter.limits, self.exporter.name))

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.messages.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        key = self.exporter.name
        refusals = [part.text for part in parts if isinstance(part, TextPart) and _is_refusal(part, key)]
        audio = next((spoken for part in parts if (spoken := _audio_id(part, key)) is not None), None)
        text = render_parts(part for part in parts if not _is_refusal(part, key) and _audio_id(part, key) is None)
        calls = [self._call(part.call) for part in parts if isinstance(part, CallPart) and not self._is_hosted(part)]
        facts = without_empty(
            {
                "refusal": "".join(refusals),
                "audio": None if audio is None else {"id": audio},
                "tool_calls": calls,
                **self._reasoning(parts),
            }
        )
        if text or facts:
            self.messages.append({"role": "assistant", "content": text or None, **facts})

    def _is_hosted(self, part: CallPart) -> bool:
        """Whether a provider has run the call itself: then it and its result aren't sent."""
        if part.call.provider_executed:
            self.hosted.add(part.call.id)
        return part.call.provider_executed

    def _call(self, call: ToolCall) -> JsonObject:
        facts = facts_of(call.provider_metadata, self.exporter.name)
        kind = facts.get("type")
        call_id = self.ids.call(call.id)
        self.hosted.discard(call.id)
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
        member, key = self.exporter.reasoning, self.exporter.name
        thoughts = [part for part in parts if isinstance(part, ReasoningPart) and facts_of(part.provider_metadata, key)]
        return {member: "".join(part.text for part in thoughts)} if member else {}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        contents = render_result(part.result, self.exporter.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of an answered call, or without a call
            self.shown.append({"type": "text", "text": encodable_text(f"A later result of {part.name}:")})
            self.shown += map(_written, contents)
            return
        numbers: Counter[str] = Counter()
        texts = [self._placed(each, numbers, call_id, part.name) for each in contents]
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": joined(texts)})

    def _placed(self, content: Rendered, numbers: Counter[str], call_id: str, name: str) -> Rendered:
        """A text, or a reference to other content, which is shown after the results."""
        if content.kind == "text":
            return content
        numbers[content.kind] += 1
        heading = encodable_text(f"{_KINDS[content.kind]} {numbers[content.kind]} of the result of {name} ({call_id})")
        self.shown += [{"type": "text", "text": f"{heading}:"}, _written(content)]
        return Rendered("text", f"[{heading}: in the message of the user after the results]")


def _is_refusal(part: Part, key: str) -> bool:
    return isinstance(part, TextPart) and facts_of(part.provider_metadata, key).get("refusal") is True


def _audio_id(part: Part, key: str) -> str | None:
    return known_text(facts_of(part.provider_metadata, key), "audio") if isinstance(part, MediaPart) else None


FAMILY: Final = "openai"
_ELSEWHERE: Final = ("allowed_callers", "async", "defer_loading", "namespace", "output_schema")
"""Options that only the responses API has, under a key that both exporters read."""


def _named(spec: ToolSpec, written: Definition) -> JsonObject:
    return {"name": spec.name, **without_empty({"description": written.description})}


def _left_out(spec: ToolSpec, name: str) -> Loss:
    return Loss(spec.name, f"/providerOptions/{FAMILY}/{name}", name, "left out: only the responses API has it")


@define(eq=False, kw_only=True)
class OpenAIChat(BaseExporter):
    """Exporter for OpenAI's chat completions, and for compatible servers.

    Options of tools and requests are under `"openai"`, overridden by those under its own name, which is also the key of
    provider metadata: use another name for another server. A request's options go into the body unchanged.

    Attributes:
        name: Its name.
        limits: The limits of the provider.
        custom_tools: Whether it supports custom tools, which take free text; otherwise they become functions.
        system_role: The role of the instructions: `"system"`, or `"developer"`.
        reasoning: The member in which a server wants the model's reasoning back (`"reasoning_content"`), or `None`.
        response_formats: Whether it supports response formats.
        most_tokens: The member that limits an answer's length; other servers call it `"max_tokens"`.
        dialect: The dialect of schemas.
    """

    name: str = "openai"
    limits: Limits = CHAT
    custom_tools: bool = True
    system_role: str = "system"
    reasoning: str | None = None
    response_formats: bool = True
    most_tokens: str = "max_completion_tokens"
    dialect: Dialect = OPENAI

    @property
    def _keys(self) -> tuple[str, ...]:
        return FAMILY, self.name

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions and custom tools; tools that providers host are refused."""
        return self._definitions(specs, strict).exported

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /chat/completions`, without `stream`; instructions are its first message.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        listed = self._definitions([tool.spec for tool in request.offered], request.config.strict)
        options = passthrough(request.config.provider_options, self._keys)
        tools = tool_facts(request, listed, self.name, _reference)
        conversation = _Conversation(listed, self, SentIds(REFUSED_IN_IDS, self.limits.call_id))
        if request.system:
            conversation.messages.append({"role": self.system_role, "content": request.system})
        for message in request.messages:
            conversation.add(message)
        conversation.show()
        config = request.config
        facts = {
            self.most_tokens: config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": list(config.stop),
            "seed": config.seed,
            "reasoning_effort": config.reasoning,
        }
        model = without_empty({"model": request.model})
        form = self.response_format(request) or {}
        return merged({**model, "messages": conversation.messages, **tools, **without_empty(facts), **form}, options)

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

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry, `{"type": "function", "function"}` or `{"type": "custom", "custom"}`."""
        if spec.kind == "provider":
            hosts = hosted_type(spec, self._keys) is not None
            what = "chat completions host no tools; the responses do" if hosts else "another provider's tool"
            return refusal(spec, "/providerId", "providerId", what)
        if spec.kind == "freeform" and self.custom_tools:
            written = custom_definition(spec, self.limits.description)
            custom = _named(spec, written)
            if spec.grammar is not None:
                custom["format"] = {"type": "grammar", "grammar": spec.grammar.to_json()}
            return self._entry(spec, "custom", custom, written)
        written = function_definition(spec, strict, self.limits.description, self.dialect)
        function = _named(spec, written) | {"parameters": written.parameters}
        if written.strict:
            function["strict"] = True
        return self._entry(spec, "function", function, written)

    def _entry(self, spec: ToolSpec, kind: str, definition: JsonObject, written: Definition) -> Entry:
        options = passthrough(spec.provider_options, self._keys)
        elsewhere = [name for name in _ELSEWHERE if options.pop(name, None) is not None]
        losses = (*written.losses, *(_left_out(spec, name) for name in elsewhere))
        refused = any(loss.refused for loss in losses)
        return Entry(None if refused else {"type": kind, kind: {**definition, **options}}, losses)

    def _definitions(self, specs: Sequence[ToolSpec], strict: bool | None) -> ToolDefinitions:
        """The list of these tools; those beyond the maximum number are refused."""
        taken: list[ToolSpec] = []
        by_name: dict[str, JsonObject] = {}
        losses: list[Loss] = []
        for spec in specs:
            entry = self._entries.one(spec, strict).entry
            if entry is not None and spec.name not in by_name:
                if len(by_name) >= self.limits.tools:
                    losses.append(beyond(spec, self.limits.tools))
                    continue
                by_name[spec.name] = entry
            taken.append(spec)
        exported = self._entries.exported(taken, strict)
        return ToolDefinitions(ExportedTools(exported.entries, (*exported.losses, *losses), exported.names), by_name)


@cache
def exporter() -> OpenAIChat:
    """The shared exporter of this process, with its cache."""
    return OpenAIChat()
