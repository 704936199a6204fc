"""`Anthropic`: exporter for Anthropic's messages API."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from attrs import define, field

from pegboard import (
    FileContent,
    ImageContent,
    LinkContent,
    Loss,
    ModelRequest,
    NamedTool,
    TextContent,
    ToolResult,
    ToolSpec,
)
from pegboard.errors import SchemaError
from pegboard.json import json_text
from pegboard.messages import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_anthropic._anthropic import (
    DEFAULT_LIMITS,
    FAMILY,
    AnthropicAnswer,
    AnthropicLimits,
    AnthropicReader,
    answered,
    error_of,
    written_citations,
)
from pegboard_clients.blocks import Blocks, Role, content_of, leading_system, texts_and_media, turns_of
from pegboard_clients.dialects import (
    CLOSED,
    READ,
    UNIONS,
    Counts,
    Dialect,
    Within,
    named_definitions,
    property_names,
    root_object,
)
from pegboard_clients.exporter import BlockExporter, BlockFormat
from pegboard_clients.wire import (
    Content,
    Entry,
    SentIds,
    admit,
    arguments_object,
    called_before,
    convert_schema,
    description_of,
    hosted_type,
    merged,
    object_in,
    output_schema,
    passthrough,
    refusal,
    render_json,
    render_text,
    wire_name,
)

STRICT_SIZE: Final = Counts(optional=24, unions=16)
"""Size limits of a strict schema, and of all in a request together (Anthropic's error reports)."""

PROPERTY_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"
"""The property names that the provider accepts."""

ANTHROPIC: Final = Dialect("anthropic", (*READ, root_object(*UNIONS), named_definitions, property_names(PROPERTY_NAME)))
"""Anthropic's tools, not strict: draft 2020-12 with a plain root."""

ANTHROPIC_STRICT: Final = Dialect("anthropic-strict", (*CLOSED, property_names(PROPERTY_NAME), Within(STRICT_SIZE)))
"""Anthropic's strict tools: closed objects without bounds or recursion; optional properties stay optional."""


PDF: Final = "application/pdf"


def _content_block(
    content: Content, limits: AnthropicLimits, *, links: bool = False, citations: JsonMapping | None = None
) -> JsonObject | None:
    """Content as a picture or a document, or else as text; `None` if that is blank.

    Args:
        content: The content.
        limits: The limits of the provider.
        links: Whether the provider may fetch linked pictures and documents.
        citations: The option for documents; with it, text files become search results, which the model can cite.
    """
    content = admit(content, {*limits.images, PDF})
    if isinstance(content, ImageContent):
        return {"type": "image", "source": _base64(content.data, content.mime_type)}
    if isinstance(content, FileContent):
        block = _document(content, is_result=bool(citations))
        return {**block, "citations": dict(citations)} if citations else block
    linked = _linked(content, limits) if links and isinstance(content, LinkContent) else None
    text = render_text(content)
    return linked or ({"type": "text", "text": text} if text.strip() else None)


def _document(content: FileContent, *, is_result: bool) -> JsonObject:
    data, title = content.data, content.uri or "file"
    if isinstance(data, str) and is_result:
        text = [{"type": "text", "text": data}]
        return {"type": "search_result", "source": content.uri, "title": title, "content": text}
    plain = {"type": "text", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": plain if isinstance(data, str) else _base64(data, PDF), "title": title}


def _linked(content: LinkContent, limits: AnthropicLimits) -> JsonObject | None:
    if not content.uri.startswith(("https://", "http://")):
        return None
    source = {"type": "url", "url": content.uri}
    if content.mime_type in limits.images:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": content.name} if content.mime_type == PDF else None


def _base64(data: bytes, mime_type: str) -> JsonObject:
    return {"type": "base64", "media_type": mime_type, "data": base64.b64encode(data).decode()}


_KEYS: Final = ("cache_control", "toolset_name")
_FAILED: Final = "The call failed without a message."


def _result_blocks(part: ResultPart, use_id: str, limits: AnthropicLimits) -> Blocks:
    """The answer to a call; only text is allowed in an error (public), so that its media follow it."""
    options = passthrough(part.provider_metadata, (FAMILY,))
    block: JsonObject = {"type": "tool_result", "tool_use_id": use_id}
    content = _result_content(part.result, limits, object_in(options, "citations"))
    media: Blocks = []
    if part.result.is_error and not isinstance(content, str):
        heading = {"type": "text", "text": f"Of the failed call of {part.name} ({use_id}):"}
        content, media = texts_and_media(content, heading)
    if content:
        block["content"] = content
    if part.result.is_error:
        block["is_error"] = True
        block.setdefault("content", _FAILED)  # an error without text is refused (public)
    return [{**block, **{key: options[key] for key in _KEYS if options.get(key) is not None}}, *media]


def _result_content(result: ToolResult, limits: AnthropicLimits, citations: JsonMapping) -> str | list[JsonObject]:
    """The content of a result; a single text as a string. Attachments aren't sent."""
    content = content_of(result)
    if not content and result.structured_content is not None:
        content = (TextContent(render_json(result.structured_content)),)
    if len(content) == 1 and isinstance(content[0], TextContent):
        return content[0].text if content[0].text.strip() else ""
    blocks = (_content_block(each, limits, citations=citations) for each in content)
    return [block for block in blocks if block is not None]


REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_CACHE: Final = "cache_control"
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (_CACHE,),
    "image": (_CACHE, "transformations"),
    "document": (_CACHE, "citations", "context", "title"),
    "tool_use": (_CACHE, "caller", "toolset_name"),
}
"""By type of block, the options of a part that are added to it."""


@define(eq=False)
class AnthropicWire:
    """Writer of the blocks of one request.

    Attributes:
        ids: The ids of its calls.
        limits: The limits of the provider.
        names: The tools' names at the provider, where they differ.
    """

    ids: SentIds
    limits: AnthropicLimits
    names: Mapping[str, str] = field(factory=dict[str, str])
    family: str = field(default=FAMILY, init=False)

    def blocks(self, part: Part, role: Role) -> Blocks:
        """The blocks of a part."""
        if isinstance(part, TextPart):
            return self._text(part, role)
        if isinstance(part, MediaPart):
            return self._media(part, role)
        if isinstance(part, CallPart):
            return self._call(part)
        if isinstance(part, ResultPart):
            return self._result(part)
        return _thought(part) if isinstance(part, ReasoningPart) else _hosted(part)

    def text(self, text: str) -> JsonObject:
        """A text block."""
        return {"type": "text", "text": text}

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Sets a cache point after a message, if its options have one."""
        options = passthrough(metadata, (FAMILY,))
        if options.get(_CACHE) is not None and not self.is_thought(blocks[-1]):
            blocks[-1][_CACHE] = options[_CACHE]

    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""
        return block["type"] == "tool_result"

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return block["type"] in _THOUGHTS

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Strips the end of a final turn of the assistant, where whitespace is refused (public)."""
        end = turn["content"][-1]
        if last and turn["role"] == "assistant" and end["type"] == "text":
            end["text"] = end["text"].rstrip()

    def _text(self, part: TextPart, role: Role) -> Blocks:
        if not part.text.strip():  # blank text is refused (public)
            return []
        block = self.text(part.text)
        citations = written_citations(part.citations) if role == "assistant" else []
        if citations:
            block["citations"] = citations
        return [_with_options(block, part.provider_metadata)]

    def _media(self, part: MediaPart, role: Role) -> Blocks:
        if role == "assistant":  # only the user may send pictures
            return [self.text(render_text(part.content))]
        block = _content_block(part.content, self.limits, links=True)
        return [] if block is None else [_with_options(block, part.provider_metadata)]

    def _call(self, part: CallPart) -> Blocks:
        call = part.call
        if call.provider_executed:  # of another provider; this one's are hosted parts
            return []
        block: JsonObject = {
            "type": "tool_use",
            "id": self.ids.call(call.id),
            "name": wire_name(self.names.get(call.name, call.name), self.limits.name),
            "input": arguments_object(call),
        }
        return [_with_options(block, call.provider_metadata)]

    def _result(self, part: ResultPart) -> Blocks:
        use_id = self.ids.result(part.call_id)
        if use_id is not None:
            return _result_blocks(part, use_id, self.limits)
        content = _result_content(part.result, self.limits, {})
        shown = [self.text(content)] if isinstance(content, str) and content else content
        return [self.text(f"A result of {part.name or 'a tool'}:"), *(shown or [])]


def _thought(part: ReasoningPart) -> Blocks:
    """Reasoning, unchanged; without this provider's signature it would be refused, and is left out."""
    own = passthrough(part.provider_metadata, (FAMILY,))
    redacted, signature = own.get("redacted"), own.get("signature")
    if isinstance(redacted, str):
        return [{"type": "redacted_thinking", "data": redacted}]
    if isinstance(signature, str) and signature:
        return [{"type": "thinking", "thinking": part.text, "signature": signature}]
    return []


def _hosted(part: HostedPart) -> Blocks:
    return [dict(part.data)] if isinstance(part.data.get("type"), str) else []


def _with_options(block: JsonObject, metadata: Any) -> JsonObject:
    options = passthrough(cast("JsonMapping", metadata), (FAMILY,)) if isinstance(metadata, Mapping) else {}
    for key in _OPTIONS.get(block["type"], ()):
        if options.get(key) is not None:
            block[key] = options[key]
    return block


_DATED: Final = re.compile(r"([a-z0-9_]+?)(?:_20[0-9]{6})?")
_OTHERWISE: Final[Mapping[str, str]] = {
    "text_editor_20241022": "str_replace_editor",
    "text_editor_20250124": "str_replace_editor",
    "text_editor": "str_replace_based_edit_tool",
}
"""Types whose name isn't the type without its date (types of the SDK)."""

SEARCH: Final = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The tool that finds deferred tools."""


_TOOLSET: Final = re.compile(r"_toolset(_20[0-9]{6})?$")
"""Types of toolsets, which have no name (`browser_toolset_20260801`, `mcp_toolset`)."""


def _is_search(kind: object) -> bool:
    """Whether a type is a search for deferred tools."""
    return isinstance(kind, str) and kind.startswith("tool_search_tool_")


def _server_tool_name(kind: str) -> str | None:
    """The name for a type (`"web_search"` for `"web_search_20250305"`); `None` for an invalid type."""
    if kind in _OTHERWISE:
        return _OTHERWISE[kind]
    found = _DATED.fullmatch(kind)
    return None if found is None else _OTHERWISE.get(found[1], found[1])


KEYS: Final = (FAMILY,)


def _add_examples(entry: JsonObject, spec: ToolSpec, schema: JsonSchema) -> tuple[Loss, ...]:
    """Adds the examples that fit the exported schema: one that doesn't fails the whole request (public)."""
    if not spec.examples:
        return ()
    from pegboard.schema import validator_of

    examples = spec.examples
    try:
        validator = validator_of(json_text(schema))
    except SchemaError as error:
        return (Loss(spec.name, "/examples", "examples", f"left out: {error}"),)
    fitting = [example for example in examples if not validator.problems(example)]
    if fitting:
        entry["input_examples"] = fitting
    what = "left out: it doesn't fit the exported schema"
    return tuple(
        Loss(spec.name, f"/examples/{at}", "examples", what) for at, each in enumerate(examples) if each not in fitting
    )


def _strict_schema(entry: JsonObject) -> JsonSchema | None:
    schema: Any = entry.get("input_schema") if entry.get("strict") is True else None
    return cast("JsonSchema", schema) if isinstance(schema, dict) else None


def _name(entry: JsonObject) -> str | None:
    name = entry.get("name")
    return name if isinstance(name, str) else None


_WORDS: Final = {"auto": "auto", "required": "any", "none": "none"}
_DEFERRED: Final = "defer_loading"


def _server_tool(spec: ToolSpec) -> Entry:
    kind = hosted_type(spec, KEYS)
    name = None if kind is None else _server_tool_name(kind)
    if kind is None or name is None:
        return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is not one of Anthropic's tools")
    entry: JsonObject = {"type": kind} if _TOOLSET.search(kind) else {"type": kind, "name": name}
    return Entry({**entry, **spec.provider_arguments, **passthrough(spec.provider_options, KEYS)})


def _deferred_names(request: ModelRequest, names: Mapping[str, str]) -> frozenset[str]:
    """The provider's names of the deferred tools, except for one that must be called."""
    choice = request.tool_choice
    forced = choice.name if isinstance(choice, NamedTool) else None
    specs = (tool.spec for tool in request.offered)
    return frozenset(names.get(spec.name, spec.name) for spec in specs if spec.deferred and spec.name != forced)


def _choice(request: ModelRequest, names: Mapping[str, str]) -> JsonObject | None:
    choice, alone = request.tool_choice, request.config.parallel_calls is False
    if choice == "auto" and not alone:
        return None
    if isinstance(choice, NamedTool):
        written: JsonObject = {"type": "tool", "name": names.get(choice.name, choice.name)}
    else:
        written = {"type": _WORDS[choice]}
    return {**written, "disable_parallel_tool_use": True} if alone and choice != "none" else written


def _deferred(entry: JsonObject) -> JsonObject:
    """The entry of a deferred tool; it must not have a cache point (public)."""
    return {**{key: value for key, value in entry.items() if key != "cache_control"}, _DEFERRED: True}


def _gone(name: str) -> JsonObject:
    return {"name": name, "description": "No longer available.", "input_schema": {"type": "object", "properties": {}}}


_CHANCE: Final = ("temperature", "top_p")


FORMAT: Final = BlockFormat(
    FAMILY,
    entry_name=_name,
    schema_of=_strict_schema,
    message_in=lambda body: body,
    answer=AnthropicAnswer,
    response=answered,
    error=error_of,
)


@define(eq=False)
class Anthropic(BlockExporter[AnthropicLimits, AnthropicAnswer]):
    """Exporter for the messages API: bodies for the SDK's `messages.create`, answers from `model_dump()`.

    Attributes:
        limits: The limits of the provider.
    """

    limits: AnthropicLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)
    format: BlockFormat[AnthropicAnswer] = field(default=FORMAT, init=False, repr=False)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body.

        It has no seed, and `temperature` and `top_p` only for models that support them (`limits.sampling`) and without
        thinking. Thinking is left out if a call is forced, as they exclude each other (public).

        Raises:
            ExportError: There is nothing to send, or the tool choice can't be met.
        """
        names = self.names(request)
        lead, messages = leading_system(request.messages)
        ids = SentIds(REFUSED_IN_IDS, self.limits.call_id)
        body: JsonObject = {} if request.model is None else {"model": request.model}
        body["max_tokens"] = request.config.max_output_tokens or self.limits.max_tokens
        system = "\n\n".join(part for part in (request.system, *lead) if part)
        if system.strip():
            body["system"] = system
        body["messages"] = turns_of(messages, AnthropicWire(ids, self.limits, names))
        body.update(self._tool_facts(request, names))
        self._add_config(body, request)
        body = merged(body, self.response_format(request) or {})
        return merged(body, passthrough(request.config.provider_options, KEYS))

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `output_config`; `None` if there is none for the request's `output`."""
        schema = output_schema(request, ANTHROPIC, ANTHROPIC_STRICT)
        return None if schema is None else {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def reader(self, request: ModelRequest | None = None) -> AnthropicReader:
        """A parser for the events of a stream."""
        return AnthropicReader(self.answer(request), self.limits, self.own_names(request))

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry."""
        if spec.kind == "provider":
            return _server_tool(spec)
        if re.fullmatch(self.limits.name, spec.name, re.ASCII) is None:
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = convert_schema(spec, ANTHROPIC, ANTHROPIC_STRICT, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "input_schema": schema.schema}
        description = description_of(spec, grammar=True)
        if description.strip():
            entry["description"] = description
        if schema.strict:
            entry["strict"] = True
        losses = (*schema.losses, *_add_examples(entry, spec, schema.schema))
        return Entry({**entry, **passthrough(spec.provider_options, KEYS)}, losses)

    def _tool_facts(self, request: ModelRequest, names: Mapping[str, str]) -> JsonObject:
        """`tools` and `tool_choice`, if needed.

        A conversation with calls is refused without tools (public): then placeholders for the called ones are listed,
        and calls are disabled.

        Raises:
            ExportError: The choice can't be met.
        """
        exported = self.exported(request)
        if not exported.entries:
            gone = [_gone(names.get(name, name)) for name in called_before(request.messages)]
            return {"tools": gone, "tool_choice": {"type": "none"}} if gone else {}
        entries = list(exported.entries)
        if request.loads_deferred:
            deferred = _deferred_names(request, names)
            entries = [_deferred(entry) if entry.get("name") in deferred else entry for entry in entries]
        if any(entry.get(_DEFERRED) for entry in entries) and not any(_is_search(each.get("type")) for each in entries):
            entries.insert(0, dict(SEARCH))
        choice = _choice(request, names)
        return {"tools": entries, **({} if choice is None else {"tool_choice": choice})}

    def _add_config(self, body: JsonObject, request: ModelRequest) -> None:
        config = request.config
        forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        thinks = config.reasoning not in (None, "none") and not forced
        if config.reasoning is not None and (thinks or config.reasoning == "none"):
            body.update(passthrough({FAMILY: self.limits.reasoning.get(config.reasoning, {})}, KEYS))
            budget = object_in(body, "thinking").get("budget_tokens")
            if isinstance(budget, int) and budget >= body["max_tokens"]:
                body["max_tokens"] += budget  # it counts thinking, too, and must be above the budget (public)
        chance = {name: getattr(config, name) for name in _CHANCE if self.limits.sampling and not thinks}
        body.update({name: value for name, value in chance.items() if value is not None})
        if config.stop:
            body["stop_sequences"] = list(config.stop)


@cache
def exporter() -> Anthropic:
    """The shared exporter of this process, with its cache."""
    return Anthropic()
