"""`OpenAIResponses`: exporter for OpenAI's responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any, Final

from attrs import define, evolve, field, frozen

from pegboard import ExportedTools, ImageContent, Loss, Message, ModelRequest, ModelResponse, ToolCall, ToolSpec
from pegboard.messages import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject
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
    object_or_none,
    objects_in,
    passthrough,
    refusal,
    render_text,
    strict_schemas,
    wire_name,
    without_empty,
)
from pegboard_openai._openai import (
    REFUSED_IN_IDS,
    RESPONSES,
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
    written_citations,
)
from pegboard_openai._openai_responses import CLIENT_CALLS, OF_ITEM, ResponsesAnswers, ResponsesReader, ToolOfType


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
        return {"type": "output_text", "text": text.text, "annotations": written_citations(text.citations, self.key)}

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


def _choice(name: str, entry: JsonObject) -> JsonObject:
    """`{"type": "function", "name"}`, the same of a custom tool; a hosted tool goes by its type."""
    reference = _reference(name, entry)
    if entry["type"] in ("custom", "function", "mcp") or entry["type"] in _BY_TYPE:
        return reference
    return {"type": "allowed_tools", "mode": "required", "tools": [reference]}


def _reference(name: str, entry: JsonObject) -> JsonObject:
    kind = entry["type"]
    if kind in ("custom", "function"):
        return {"type": kind, "name": name}
    return {"type": kind, **({"server_label": entry.get("server_label")} if kind == "mcp" else {})}


_NOTHING: Final[JsonMapping] = {}


def _part(part: TextPart | MediaPart, limits: Limits, key: str) -> JsonObject:
    """A part of the user's; under the key stand a picture's or a file's options `detail` and `file_id`."""
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    options = facts_of(part.provider_metadata, key)
    content = render_content(part.content, limits, links=True)
    file_id = known_text(options, "file_id")
    if file_id is None:
        return _written(content, options)
    if isinstance(part.content, ImageContent) or content.kind == "image":
        return {"type": "input_image", "file_id": file_id, "detail": known_text(options, "detail") or "auto"}
    return {"type": "input_file", "file_id": file_id}


def _written(content: Rendered, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` states how closely a picture is looked at."""
    if content.kind == "image":
        return {"type": "input_image", "image_url": content.value, "detail": known_text(options, "detail") or "auto"}
    if content.kind == "file":
        return {"type": "input_file", "file_data": content.value, "filename": content.name}
    return {"type": "input_text", "text": content.value}


_BESIDE = ("id", "namespace", "caller", "async")
"""Members of a call that are sent back unchanged."""


@define
class _Conversation:
    """The items so far, and what is known of the calls among them."""

    listed: ToolDefinitions
    exporter: OpenAIResponses
    stored: bool
    ids: SentIds
    items: list[JsonObject] = field(factory=list[JsonObject])
    calls: dict[str, JsonMapping] = field(factory=dict[str, JsonMapping])
    hosted: set[str] = field(factory=set[str])

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._assistant(message.parts)
            return
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
            elif isinstance(part, HostedPart):
                self.items += AssistantItems(self.exporter.name, self.stored).of([part])
        if message.role == "system":
            self._append("system", render_parts(message.parts))
        else:
            write = partial(_part, limits=self.exporter.limits, key=self.exporter.name)
            self._append("user", user_content(message.parts, write))

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.items.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        writing = AssistantItems(self.exporter.name, self.stored)
        if writing.loses_reasoning(parts):
            writing = evolve(writing, with_ids=False)
        together: list[Part] = []
        for part in parts:
            if isinstance(part, CallPart):
                self.items += writing.of(together)
                together = []
                self._call(part.call, with_id=writing.with_ids)
            elif not isinstance(part, ResultPart):
                together.append(part if self._stands_in_item(part) else as_text_part(part))
        self.items += writing.of(together)
        while self.items and self.items[-1].get("type") == "reasoning":  # refused where nothing follows it
            self.items.pop()
        for part in parts:
            if isinstance(part, ResultPart):
                self._result(part)

    def _stands_in_item(self, part: Part) -> bool:
        return isinstance(part, MediaPart) and bool(facts_of(part.provider_metadata, self.exporter.name).get(OF_ITEM))

    def _call(self, call: ToolCall, *, with_id: bool) -> None:
        if call.provider_executed:  # it and its result aren't sent
            self.hosted.add(call.id)
            return
        facts = facts_of(call.provider_metadata, self.exporter.name)
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
        named = {"call_id": call_id, "name": wire_name(call.name)}
        if kind == "custom_tool_call":
            return {"type": kind, **named, "input": input_text(call), **beside}
        return {"type": "function_call", **named, "arguments": arguments_text(call), **beside}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        contents = render_result(part.result, self.exporter.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of an answered call, or without a call
            heading = {"type": "input_text", "text": encodable_text(f"A later result of {part.name}:")}
            self._append("user", [heading, *map(_written, contents)])
            return
        facts = self.calls[call_id]
        kind = facts["type"]
        if kind in CLIENT_CALLS:
            result = part.result
            self.items.append(CLIENT_CALLS[kind].output(call_id, contents, result.is_error, result.structured_content))
            return
        texts = all(each.kind == "text" for each in contents)
        item = {
            "type": "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output",
            "call_id": call_id,
            "output": joined(contents) if texts else [_written(each) for each in contents],
        }
        self.items.append({**item, **({"caller": facts["caller"]} if facts.get("caller") else {})})


FAMILY: Final = "openai"


@frozen
class InNamespace(Entry):
    """The entry of a tool in a namespace.

    Attributes:
        namespace: The name of the namespace.
        purpose: Its description, or `None` if another tool has it.
    """

    namespace: str = ""
    purpose: str | None = None


def _named(kind: str, spec: ToolSpec, written: Definition) -> JsonObject:
    return {"type": kind, "name": spec.name, **without_empty({"description": written.description})}


def _placed(spec: ToolSpec, entry: JsonObject, losses: tuple[Loss, ...], given: object) -> Entry:
    facts = object_or_none(given) or {"name": given}
    name, description = known_text(facts, "name"), known_text(facts, "description")
    if name is None:
        what = "left out: a namespace is a name, or an object with name and description"
        return Entry(entry, (*losses, Loss(spec.name, f"/providerOptions/{FAMILY}/namespace", "namespace", what)))
    return InNamespace(entry, losses, namespace=name, purpose=description)


SEARCH: Final = "tool_search"
_DEFERRABLE: Final = frozenset({"function", "custom", "mcp"})


@define
class _Listing:
    most: int
    searched: bool
    entries: list[JsonObject] = field(factory=list[JsonObject])
    by_name: dict[str, JsonObject] = field(factory=dict[str, JsonObject])
    namespaces: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    beyond: list[ToolSpec] = field(factory=list[ToolSpec])
    deferred: bool = False

    def add(self, spec: ToolSpec, written: Entry) -> None:
        entry = written.entry
        if entry is None or spec.name in self.by_name:
            return
        if self.searched and spec.deferred and entry["type"] in _DEFERRABLE:
            self.deferred = True
            entry = {**entry, "defer_loading": True}
        into = self._namespace(written) if isinstance(written, InNamespace) else self._budget()
        if into is None:
            self.beyond.append(spec)
            return
        into.append(entry)
        self.by_name[spec.name] = entry

    def _budget(self) -> list[JsonObject] | None:
        return self.entries if len(self.entries) < self.most else None

    def _namespace(self, written: InNamespace) -> list[JsonObject] | None:
        found: dict[str, Any] | None = self.namespaces.get(written.namespace)
        if found is None:
            budget = self._budget()
            if budget is None:
                return None
            made: list[JsonObject] = []
            found = {"type": "namespace", "name": written.namespace, "description": "", "tools": made}
            self.namespaces[written.namespace] = found
            budget.append(found)
        found["description"] = found["description"] or written.purpose or ""
        tools: list[JsonObject] = found["tools"]
        return tools

    def listed(self, most: int, losses: Iterable[Loss]) -> ToolDefinitions:
        for name, namespace in self.namespaces.items():
            namespace["description"] = namespace["description"] or f"Tools of {name}."  # the provider wants one
        if self.deferred and not any(entry["type"] == SEARCH for entry in self.entries):
            self.entries.append({"type": SEARCH})
        left_out = [beyond(spec, most) for spec in self.beyond]
        exported = ExportedTools(tuple(self.entries), (*losses, *left_out), frozenset(self.by_name))
        return ToolDefinitions(exported, self.by_name)


@define(eq=False, kw_only=True)
class OpenAIResponses(BaseExporter):
    """Exporter for OpenAI's responses API.

    Each request has the whole conversation: items with their ids, reasoning with its encrypted content if it has one.
    With the option `store` false, nothing is sent that the provider would have to look up; by default, the provider
    decides whether it stores answers.

    Options of tools and requests are under `"openai"`, overridden by those under its own name. A tool's option
    `namespace` puts it into one; other options go into the entry or the body unchanged.

    Attributes:
        name: Its name, and the key of provider metadata.
        limits: The limits of the provider.
        custom_tools: Whether it supports custom tools, which take free text; otherwise they become functions.
    """

    name: str = "openai-responses"
    limits: Limits = RESPONSES
    custom_tools: bool = True

    @property
    def _keys(self) -> tuple[str, ...]:
        return FAMILY, self.name

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions, custom tools, namespaces, and tools that OpenAI hosts."""
        return self._definitions(specs, strict).exported

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /responses`, without `stream`; it has no members for `stop` and `seed`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs, config = [tool.spec for tool in request.offered], request.config
        listed = self._definitions(specs, config.strict, deferred=request.loads_deferred)
        options = passthrough(config.provider_options, self._keys)
        tools = tool_facts(request, listed, self.name, _choice)
        stored = options.get("store") is not False
        conversation = _Conversation(listed, self, stored, SentIds(REFUSED_IN_IDS, self.limits.call_id))
        for message in request.messages:
            conversation.add(message)
        facts = {
            "max_output_tokens": config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "reasoning": without_empty({"effort": config.reasoning}),
        }
        asked = without_empty({"model": request.model, "instructions": request.system})
        form = self.response_format(request) or {}
        return merged({**asked, "input": conversation.items, **tools, **without_empty(facts), **form}, options)

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
                if tool.spec.kind == "provider" and hosted_type(tool.spec, self._keys) in types:
                    return tool.spec.name
            return None

        return find

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry; its option `namespace`, a name or `{"name", "description"}`, puts it into one."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            written = custom_definition(spec, self.limits.description)
            entry = _named("custom", spec, written)
            if spec.grammar is not None:
                entry["format"] = {"type": "grammar", **spec.grammar.to_json()}
            return self._entry(spec, entry, written)
        written = function_definition(spec, strict, self.limits.description)
        # If `strict` is missing or null, the provider rewrites the schema.
        entry = _named("function", spec, written) | {"parameters": written.parameters, "strict": written.strict}
        if spec.output_schema_text is not None:
            entry["output_schema"] = spec.output_schema
        return self._entry(spec, entry, written)

    def _hosted(self, spec: ToolSpec) -> Entry:
        kind = hosted_type(spec, self._keys)
        if kind is None:
            return refusal(spec, "/providerId", "providerId", "another provider's tool")
        options = passthrough(spec.provider_options, self._keys)
        options.pop("namespace", None)
        return Entry({**spec.provider_arguments, **options, "type": kind})

    def _entry(self, spec: ToolSpec, entry: JsonObject, written: Definition) -> Entry:
        if any(loss.refused for loss in written.losses):
            return Entry(None, written.losses)
        options = passthrough(spec.provider_options, self._keys)
        given = options.pop("namespace", None)
        entry = {**entry, **options}
        return Entry(entry, written.losses) if given is None else _placed(spec, entry, written.losses, given)

    def _definitions(
        self, specs: Sequence[ToolSpec], strict: bool | None, *, deferred: bool = False
    ) -> ToolDefinitions:
        """The list of these tools; those beyond the maximum number are refused.

        Args:
            specs: The tools, in order.
            strict: The request's `strict`.
            deferred: Whether the provider's search, which is added to the list, finds deferred tools.
        """
        most, searched = self.limits.tools, deferred and any(spec.deferred for spec in specs)
        listing = _Listing(most - 1 if searched else most, searched)
        for spec in specs:
            listing.add(spec, self._entries.one(spec, strict))
        left_out = {spec.name for spec in listing.beyond}
        kept = [spec for spec in specs if spec.name not in left_out]
        return listing.listed(most, self._entries.exported(kept, strict).losses)


@cache
def exporter() -> OpenAIResponses:
    """The shared exporter of this process, with its cache."""
    return OpenAIResponses()
