"""`OpenAIResponses`: exporter for OpenAI's responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final

from attrs import define, evolve, field, frozen

from pegboard import (
    ImageContent,
    Loss,
    Message,
    ModelConfig,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolSpec,
)
from pegboard.messages import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.wire import (
    Entry,
    arguments_text,
    config_facts,
    facts_of,
    hosted_type,
    input_text,
    known_text,
    object_or_none,
    objects_in,
    passthrough,
    refusal,
    render_text,
    strict_schemas,
    wire_name,
    without_empty,
)
from pegboard_openai._exporter import NOTHING, Conversation, Definition, InNamespace, OpenAIExporter, ToolDefinitions
from pegboard_openai._openai import (
    FAMILY,
    RESPONSES,
    Limits,
    Rendered,
    format_of,
    join_texts,
    render_content,
    render_parts,
    write_citations,
)
from pegboard_openai._openai_responses import CLIENT_CALLS, OF_ITEM, ResponsesAnswers, ToolOfType
from pegboard_openai._openai_responses_stream import ResponsesReader


@frozen
class AssistantItems:
    """Writer of the items of a model's message, except for calls.

    Attributes:
        key: The key of provider metadata, and the provider of hosted items.
        stored: Whether the provider stores its answers; otherwise items without content can't be sent back.
        with_ids: Whether items have their ids: not if the reasoning that they require is lost.
    """

    key: str
    stored: bool
    with_ids: bool = True

    def loses_reasoning(self, parts: Iterable[Part]) -> bool:
        """Whether some reasoning of the message can't be sent back."""
        thought = (facts_of(part.provider_metadata, self.key) for part in parts if isinstance(part, ReasoningPart))
        return not self.stored and any(facts and not known_text(facts, "encrypted_content") for facts in thought)

    def of(self, parts: Sequence[Part]) -> Iterator[JsonObject]:
        """The items of consecutive parts; texts of one item are joined."""
        for item_id, together in groupby(parts, self._item):
            if isinstance(item_id, str):
                yield from self._message(item_id, [part for part in together if isinstance(part, TextPart)])
            else:
                for part in together:
                    yield from self._other(part)

    def _item(self, part: Part) -> str | None:
        """The id of the item of a text, `""` if it has none; `None` for other parts."""
        if isinstance(part, MediaPart):
            return None if facts_of(part.provider_metadata, self.key).get(OF_ITEM) else ""
        if not isinstance(part, TextPart):
            return None
        return (known_text(facts_of(part.provider_metadata, self.key), "id") if self.with_ids else None) or ""

    def _message(self, item_id: str, texts: Sequence[TextPart]) -> Iterator[JsonObject]:
        facts = facts_of(texts[0].provider_metadata, self.key)
        phase = {"phase": facts["phase"]} if known_text(facts, "phase") else {}
        if item_id:
            content = [self._content(text) for text in texts]
            status = known_text(facts, "status") or "completed"
            message = {"type": "message", "id": item_id, "role": "assistant", "status": status}
            yield {**message, "content": content, **phase}
        elif text := "".join(text.text for text in texts):
            yield {"role": "assistant", "content": text, **phase}

    def _content(self, text: TextPart) -> JsonObject:
        if facts_of(text.provider_metadata, self.key).get("refusal") is True:
            return {"type": "refusal", "refusal": text.text}
        return {"type": "output_text", "text": text.text, "annotations": write_citations(text.citations, self.key)}

    def _other(self, part: Part) -> Iterator[JsonObject]:
        if isinstance(part, ReasoningPart):
            facts = facts_of(part.provider_metadata, self.key)
            if facts and (self.stored or known_text(facts, "encrypted_content")):
                yield _reasoning(part, facts)
        elif isinstance(part, HostedPart) and part.provider == self.key:
            yield dict(part.data)


def _reasoning(part: ReasoningPart, facts: Any) -> JsonObject:
    """The original item; a summary is required, even an empty one."""
    item = dict(object_or_none(facts) or {})
    if "summary" not in item:
        item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {**item, "type": "reasoning", "summary": [dict(each) for each in objects_in(item, "summary")]}


def as_text_part(part: Part) -> Part:
    """A placeholder for a picture, a sound or a file, which a model's message must not have."""
    return TextPart(render_text(part.content)) if isinstance(part, MediaPart) else part


_BY_TYPE: Final = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "programmatic_tool_calling",
        "shell",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
"""Hosted tools that a choice can name; others are chosen by `allowed_tools`."""


def _reference(name: str, entry: JsonObject) -> JsonObject:
    kind = entry["type"]
    if kind in ("custom", "function"):
        return {"type": kind, "name": name}
    return {"type": kind, **({"server_label": entry.get("server_label")} if kind == "mcp" else {})}


_BESIDE = ("id", "namespace", "caller", "async")
"""Members of a call that are sent back unchanged."""


@define
class _Conversation(Conversation):
    """The items so far, and what is known of the calls among them."""

    stored: bool
    calls: dict[str, JsonMapping] = field(factory=dict[str, JsonMapping])

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._assistant(message.parts)
            return
        for part in message.parts:
            if isinstance(part, ResultPart):
                self.result(part)
            elif isinstance(part, HostedPart):
                self.written += AssistantItems(self.key, self.stored).of([part])
        if message.role == "system":
            self.append("system", render_parts(message.parts))
        else:
            self.append("user", self.users_content(message.parts))

    def _assistant(self, parts: Sequence[Part]) -> None:
        writing = AssistantItems(self.key, self.stored)
        if writing.loses_reasoning(parts):
            writing = evolve(writing, with_ids=False)
        together: list[Part] = []
        for part in parts:
            if isinstance(part, CallPart):
                self.written += writing.of(together)
                together = []
                self._call(part.call, with_id=writing.with_ids)
            elif not isinstance(part, ResultPart):
                together.append(part if self._stands_in_item(part) else as_text_part(part))
        self.written += writing.of(together)
        while self.written and self.written[-1].get("type") == "reasoning":  # refused where nothing follows it
            self.written.pop()
        for part in parts:
            if isinstance(part, ResultPart):
                self.result(part)

    def _stands_in_item(self, part: Part) -> bool:
        return isinstance(part, MediaPart) and bool(facts_of(part.provider_metadata, self.key).get(OF_ITEM))

    def _call(self, call: ToolCall, *, with_id: bool) -> None:
        call_id, facts = self.call(call), facts_of(call.provider_metadata, self.key)
        if call_id is None:
            return
        kind = known_text(facts, "type")
        if kind in CLIENT_CALLS and object_or_none(facts.get("item")) is None:
            kind = "function_call"
        if kind is None and self.listed.is_custom(call.name):
            kind = "custom_tool_call"
        self.calls[call_id] = {**facts, "type": kind}
        self.written.append(self._call_item(call, kind, call_id, facts, with_id=with_id))

    def _call_item(
        self, call: ToolCall, kind: str | None, call_id: str, facts: JsonMapping, *, with_id: bool
    ) -> JsonObject:
        if kind in CLIENT_CALLS:
            return {**facts["item"], "call_id": call_id}
        beside = {name: facts[name] for name in _BESIDE if facts.get(name) and (with_id or name != "id")}
        named = {"call_id": call_id, "name": wire_name(call.name)}
        if kind == "custom_tool_call":
            return {"type": kind, **named, "input": input_text(call), **beside}
        return {"type": "function_call", **named, "arguments": arguments_text(call), **beside}

    def late(self, contents: list[JsonObject]) -> None:
        """Writes a result without a call of its own."""
        self.append("user", contents)

    def answer(self, call_id: str, part: ResultPart, contents: list[Rendered]) -> None:
        """Writes the result of a call."""
        facts = self.calls[call_id]
        kind = facts["type"]
        if kind in CLIENT_CALLS:
            result = part.result
            output = CLIENT_CALLS[kind].output(call_id, contents, result.is_error, result.structured_content)
            self.written.append(output)
            return
        texts = all(each.kind == "text" for each in contents)
        item = {
            "type": "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output",
            "call_id": call_id,
            "output": join_texts(contents) if texts else [self.content(each) for each in contents],
        }
        self.written.append({**item, **({"caller": facts["caller"]} if facts.get("caller") else {})})

    def media(self, part: MediaPart) -> JsonObject:
        """A medium of the user's; a picture's or a file's options are `detail` and `file_id`."""
        options = facts_of(part.provider_metadata, self.key)
        content = render_content(part.content, self.limits, links=True)
        file_id = known_text(options, "file_id")
        if file_id is None:
            return self.content(content, options)
        if isinstance(part.content, ImageContent) or content.kind == "image":
            return {"type": "input_image", "file_id": file_id, "detail": known_text(options, "detail") or "auto"}
        return {"type": "input_file", "file_id": file_id}

    def content(self, content: Rendered, options: JsonMapping = NOTHING) -> JsonObject:
        """One content; the option `detail` states how closely a picture is looked at."""
        if content.kind == "image":
            detail = known_text(options, "detail") or "auto"
            return {"type": "input_image", "image_url": content.value, "detail": detail}
        if content.kind == "file":
            return {"type": "input_file", "file_data": content.value, "filename": content.name}
        return {"type": "input_text", "text": content.value}


def _with_namespace(spec: ToolSpec, entry: JsonObject, losses: tuple[Loss, ...], given: object) -> Entry:
    facts = object_or_none(given) or {"name": given}
    name, description = known_text(facts, "name"), known_text(facts, "description")
    if name is None:
        what = "left out: a namespace is a name, or an object with name and description"
        return Entry(entry, (*losses, Loss(spec.name, f"/providerOptions/{FAMILY}/namespace", "namespace", what)))
    return InNamespace(entry, losses, namespace=name, purpose=description)


@define(eq=False, kw_only=True)
class OpenAIResponses(OpenAIExporter):
    """Exporter for OpenAI's responses API.

    Each request has the whole conversation: items with their ids, reasoning with its encrypted content if it has one.
    With the option `store` false, nothing is sent that the provider would have to look up; by default, the provider
    decides whether it stores answers.

    Options of tools and requests are under `"openai"`, overridden by those under its own name. A tool's option
    `namespace` puts it into one; other options go into the entry or the body unchanged.

    Attributes:
        name: Its name, and the key of provider metadata.
        limits: The limits of the provider.
    """

    searches = True

    name: str = "openai-responses"
    limits: Limits = RESPONSES

    def body(self, request: ModelRequest, listed: ToolDefinitions, options: JsonMapping) -> JsonObject:
        """The model, the instructions and the items."""
        stored = options.get("store") is not False
        items = _Conversation(listed, self.name, self.limits, stored).write(request.messages)
        return {**without_empty({"model": request.model, "instructions": request.system}), "input": items}

    def settings(self, config: ModelConfig) -> JsonObject:
        """The members for a configuration; there are none for `stop` and `seed`."""
        plain = config_facts(config, {name: name for name in ("max_output_tokens", "temperature", "top_p")})
        return {**plain, **({} if config.reasoning is None else {"reasoning": {"effort": config.reasoning}})}

    def choice(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "name"}`, the same of a custom tool; a hosted tool goes by its type."""
        reference = _reference(name, entry)
        if entry["type"] in ("custom", "function", "mcp") or entry["type"] in _BY_TYPE:
            return reference
        return {"type": "allowed_tools", "mode": "required", "tools": [reference]}

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `text`; `None` if there is none for the request's `output`."""
        form = format_of(request)
        return None if form is None else {"text": {"format": {"type": "json_schema", **form}}}

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses a `response`.

        Raises:
            ModelError: The body is not a response, or is the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponsesReader:
        """A parser for the events of a streamed response."""
        return ResponsesReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ResponsesAnswers:
        return ResponsesAnswers(self.name, strict_schemas(request), self._of_type(request), self.limits)

    def _of_type(self, request: ModelRequest | None) -> ToolOfType:
        def find(types: tuple[str, ...]) -> str | None:
            for tool in () if request is None else request.offered:
                if tool.spec.kind == "provider" and hosted_type(tool.spec, self.keys) in types:
                    return tool.spec.name
            return None

        return find

    def hosted(self, spec: ToolSpec) -> Entry:
        """The entry of a tool that OpenAI hosts."""
        kind = hosted_type(spec, self.keys)
        if kind is None:
            return refusal(spec, "/providerId", "providerId", "another provider's tool")
        options = passthrough(spec.provider_options, self.keys)
        options.pop("namespace", None)
        return Entry({**spec.provider_arguments, **options, "type": kind})

    def entry(self, spec: ToolSpec, kind: str, written: Definition) -> Entry:
        """The tool's entry; its option `namespace`, a name or `{"name", "description"}`, puts it into one."""
        if any(loss.refused for loss in written.losses):
            return Entry(None, written.losses)
        options = passthrough(spec.provider_options, self.keys)
        given = options.pop("namespace", None)
        entry: JsonObject = {"type": kind, **written.named(spec)}
        if kind == "function":  # if `strict` is missing or null, the provider rewrites the schema
            entry |= {"parameters": written.parameters, "strict": written.strict}
            entry |= {} if spec.output_schema_text is None else {"output_schema": spec.output_schema}
        elif spec.grammar is not None:
            entry["format"] = {"type": "grammar", **spec.grammar.to_json()}
        entry |= options
        return Entry(entry, written.losses) if given is None else _with_namespace(spec, entry, written.losses, given)


exporter: Final = cache(OpenAIResponses)
"""Returns the shared exporter of this process, with its cache."""
