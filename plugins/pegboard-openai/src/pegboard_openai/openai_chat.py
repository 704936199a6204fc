"""`OpenAIChat`: OpenAI's chat completions, both ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from attrs import define, field, frozen

from pegboard import (
    CallPart,
    ExportedTools,
    Loss,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    ReasoningPart,
    ResultPart,
    TextPart,
    ToolCall,
    ToolSpec,
)
from pegboard.messages import Part
from pegboard.tools.call import writable
from pegboard.typing import JsonMapping, JsonObject
from pegboard.wire import (
    Entries,
    Entry,
    SentIds,
    arguments_text,
    hosted_type,
    input_text,
    known,
    known_text,
    merged,
    own,
    passthrough,
    refusal,
    sendable,
    strict_schemas,
)
from pegboard_openai._openai import (
    ALLOWED,
    CHAT,
    REFUSED_IN_IDS,
    Definition,
    Limits,
    Rendered,
    ToolDefinitions,
    beyond,
    custom_definition,
    function_definition,
    joined,
    render_content,
    render_parts,
    render_result,
    tool_facts,
    user_content,
)
from pegboard_openai._openai_chat import EXTRA, ChatAnswers, ChatReader


class ChatChoice:
    """Tool choice in the words of chat completions."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "function": {"name"}}`, and the same of a custom tool."""
        return {"type": entry["type"], entry["type"]: {"name": name}}

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """`{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}`."""
        named = [self.one(name, entry) for name, entry in tools]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


_NOTHING: Final[JsonMapping] = {}


def users_content(parts: Iterable[Part], limits: Limits, key: str) -> str | list[JsonObject]:
    """What the user says: one text as it is, everything else part by part.

    Args:
        parts: What is said.
        limits: What the provider takes.
        key: Under which a picture's or a file's options stand: `detail`, `file_id`.
    """
    return user_content(parts, lambda part: _part(part, limits, key))


def _part(part: TextPart | MediaPart, limits: Limits, key: str) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    options = own(part.provider_metadata, key)
    file_id = known_text(options, "file_id")
    if file_id is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    return written(render_content(part.content, limits, links=True), options)


def written(said: Rendered, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` says how closely a picture is looked at."""
    if said.kind == "text":
        return {"type": "text", "text": said.value}
    if said.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": said.value, "format": said.name}}
    if said.kind == "file":
        return {"type": "file", "file": {"file_data": said.value, "filename": said.name}}
    picture: dict[str, Any] = {"url": said.value}
    detail = known_text(options, "detail")
    return {"type": "image_url", "image_url": picture if detail is None else {**picture, "detail": detail}}


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


def chat_messages(
    system: str, messages: Sequence[Message], listed: ToolDefinitions, style: ChatStyle
) -> list[JsonObject]:
    """The messages, instructions first.

    Args:
        system: The instructions, or `""`.
        messages: The conversation.
        listed: The tools of the request: a call of one that takes free text is said so.
        style: How it is said.
    """
    saying = _Conversation(listed, style, SentIds(REFUSED_IN_IDS, style.limits.call_id))
    if system:
        saying.messages.append({"role": style.system_role, "content": writable(system)})
    for message in messages:
        saying.say(message)
    saying.show()
    return saying.messages


@define
class _Conversation:
    """The messages so far, and what has to be said behind the results that come one after the other."""

    listed: ToolDefinitions
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
            self._append(self.style.system_role, render_parts(message.parts))
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
        said = render_parts(
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
        said = render_result(part.result, self.style.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of a call that has one, or of none that is left
            self.shown.append({"type": "text", "text": writable(f"A later result of {part.name}:")})
            self.shown += [written(each) for each in said]
            return
        numbers: Counter[str] = Counter()
        texts = [self._placed(each, numbers, call_id, part.name) for each in said]
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": joined(texts)})

    def _placed(self, said: Rendered, numbers: Counter[str], call_id: str, name: str) -> Rendered:
        """A text, or what says where to find what is no text."""
        if said.kind == "text":
            return said
        numbers[said.kind] += 1
        heading = writable(f"{_KINDS[said.kind]} {numbers[said.kind]} of the result of {name} ({call_id})")
        self.shown += [{"type": "text", "text": f"{heading}:"}, written(said)]
        return Rendered("text", f"[{heading}: in the message of the user behind the results]")


def _is_refusal(part: Part, key: str) -> bool:
    return isinstance(part, TextPart) and own(part.provider_metadata, key).get("refusal") is True


def _audio_id(part: Part, key: str) -> str | None:
    return known_text(own(part.provider_metadata, key), "audio") if isinstance(part, MediaPart) else None


FAMILY: Final = "openai"
_ELSEWHERE: Final = ("allowed_callers", "async", "defer_loading", "namespace", "output_schema")
"""Options that only responses have, under a key that both wires read."""


@frozen
class ChatWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they are functions.
        keys: Under which a tool's options stand.
    """

    limits: Limits
    custom_tools: bool = True
    keys: tuple[str, ...] = (FAMILY,)

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry, `{"type": "function", "function"}` or `{"type": "custom", "custom"}`."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self._custom(spec)
        told = function_definition(spec, strict, self.limits.description)
        function = _named(spec, told) | {"parameters": told.parameters}
        if told.strict:
            function["strict"] = True
        return self._written(spec, "function", function, told)

    def _custom(self, spec: ToolSpec) -> Entry:
        told = custom_definition(spec, self.limits.description)
        custom = _named(spec, told)
        if spec.grammar is not None:
            custom["format"] = {"type": "grammar", "grammar": spec.grammar.to_json()}
        return self._written(spec, "custom", custom, told)

    def _hosted(self, spec: ToolSpec) -> Entry:
        what = "another provider's tool"
        if hosted_type(spec, self.keys) is not None:
            what = "chat completions host no tools; the responses do"
        return refusal(spec, "/providerId", "providerId", what)

    def _written(self, spec: ToolSpec, kind: str, definition: JsonObject, told: Definition) -> Entry:
        options = passthrough(spec.provider_options, self.keys)
        elsewhere = [name for name in _ELSEWHERE if options.pop(name, None) is not None]
        losses = (*told.losses, *(_left_out(spec, name) for name in elsewhere), *_unsaid(spec))
        refused = any(loss.refused for loss in losses)
        return Entry(None if refused else {"type": kind, kind: {**definition, **options}}, losses)


def _named(spec: ToolSpec, told: Definition) -> JsonObject:
    return {"name": spec.name, **({"description": told.description} if told.description else {})}


def _left_out(spec: ToolSpec, name: str) -> Loss:
    return Loss(spec.name, f"/providerOptions/{FAMILY}/{name}", name, "left out: only responses have it")


def _unsaid(spec: ToolSpec) -> tuple[Loss, ...]:
    if spec.output_schema_text is None:
        return ()
    return (Loss(spec.name, "/outputSchema", "outputSchema", "not told: chat completions have no field for it"),)


def tool_definitions(written: Entries, specs: Sequence[ToolSpec], strict: bool | None, most: int) -> ToolDefinitions:
    """The list of these tools; what comes after as many as the provider takes is refused.

    Args:
        written: The tools, each written once.
        specs: In their order.
        strict: What the request says of strictness.
        most: Entries in a list.
    """
    taken: list[ToolSpec] = []
    by_name: dict[str, JsonObject] = {}
    losses: list[Loss] = []
    for spec in specs:
        entry = written.one(spec, strict).entry
        if entry is not None and spec.name not in by_name:
            if len(by_name) >= most:
                losses.append(beyond(spec, most))
                continue
            by_name[spec.name] = entry
        taken.append(spec)
    exported = written.exported(taken, strict)
    return ToolDefinitions(ExportedTools(exported.entries, (*exported.losses, *losses), exported.names), by_name)


def chat_body(request: ModelRequest, listed: ToolDefinitions, style: ChatStyle, most_tokens: str) -> JsonObject:
    """The whole body.

    Args:
        request: What is asked.
        listed: The tools of the request.
        style: How the conversation is said.
        most_tokens: The member that limits the answer's length.

    Raises:
        ExportError: The tool choice can't be said.
    """
    options = passthrough(request.config.provider_options, (FAMILY, style.key))
    tools = tool_facts(request, listed, options.pop(ALLOWED, None), style.key, ChatChoice())
    body = {
        **known({"model": request.model}),
        "messages": chat_messages(request.system, request.messages, listed, style),
        **tools,
        **_config(request, most_tokens),
    }
    return merged(body, options)


def _config(request: ModelRequest, most_tokens: str) -> JsonObject:
    config = request.config
    return known(
        {
            most_tokens: config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": list(config.stop),
            "seed": config.seed,
            "reasoning_effort": config.reasoning,
        }
    )


@define(eq=False, kw_only=True)
class OpenAIChat:
    """Writes requests for OpenAI's chat completions, and for the many servers that speak as they do.

    Options of tools and requests stand under `"openai"` and, stronger, under its own name. There its own facts of calls
    and parts stand too: one with another name, for another server, keeps apart what is whose. The request's option
    `allowed_tools` (names) leaves the list as it is and lets the model choose among these; all other options go into
    the body as they are.

    Attributes:
        name: What it is found by.
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they become functions.
        system_role: Who gives the instructions: `"system"`, or `"developer"`.
        reasoning: The member in which a server wants the model's reasoning back (`"reasoning_content"`), or `None`.
        most_tokens: The member that limits an answer's length; other servers call it `"max_tokens"`.
    """

    name: str = "openai"
    limits: Limits = CHAT
    custom_tools: bool = True
    system_role: str = "system"
    reasoning: str | None = None
    most_tokens: str = "max_completion_tokens"
    _written: Entries = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._written = Entries(ChatWriter(self.limits, self.custom_tools, (FAMILY, self.name)))

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions and custom tools; tools that providers host are refused."""
        return tool_definitions(self._written, specs, strict, self.limits.tools).exported

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /chat/completions`, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs = [tool.spec for tool in request.offered]
        tools = tool_definitions(self._written, specs, request.config.strict, self.limits.tools)
        style = ChatStyle(self.name, self.limits, self.system_role, self.reasoning)
        return chat_body(request, tools, style, self.most_tokens)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """A `chat.completion`, read; of several choices the first.

        Raises:
            ModelError: It is no chat completion, or the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ChatReader:
        """What reads a stream of `chat.completion.chunk`s."""
        return ChatReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ChatAnswers:
        return ChatAnswers(self.name, strict_schemas(request), self.limits)


@cache
def exporter() -> OpenAIChat:
    """The one of this process, which keeps what it has written."""
    return OpenAIChat()


__all__ = ["OpenAIChat", "exporter"]
