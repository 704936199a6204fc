"""`Anthropic`: exporter for Anthropic's messages API."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

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
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_anthropic._anthropic import (
    DEFAULT_LIMITS,
    FAMILY,
    AnthropicAnswer,
    AnthropicLimits,
    AnthropicReader,
    error_of,
)
from pegboard_clients.blocks import Blocks, Wire, content_of, leading_system, turns_of
from pegboard_clients.dialects import READ, UNIONS, Dialect, named_definitions, property_names, root_object
from pegboard_clients.exporter import BlockExporter
from pegboard_clients.strict import PROPERTY_NAME, STRICT
from pegboard_clients.wire import (
    Content,
    SentIds,
    admit,
    config_facts,
    known_text,
    merged,
    object_in,
    output_schema,
    passthrough,
    render_json,
    render_text,
    text_in,
)

ANTHROPIC: Final = Dialect("anthropic", (*READ, root_object(*UNIONS), named_definitions, property_names(PROPERTY_NAME)))
"""Anthropic's tools, not strict: draft 2020-12 with a plain root."""

ANTHROPIC_STRICT: Final = Dialect("anthropic-strict", STRICT)
"""Anthropic's strict tools; optional properties stay optional."""


PDF: Final = "application/pdf"
_FAILED: Final = "The call failed without a message."


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
    linked = _link(content, limits) if links and isinstance(content, LinkContent) else None
    text = render_text(content)
    return linked or ({"type": "text", "text": text} if text.strip() else None)


def _document(content: FileContent, *, is_result: bool) -> JsonObject:
    data, title = content.data, content.uri or "file"
    if isinstance(data, str) and is_result:
        text = [{"type": "text", "text": data}]
        return {"type": "search_result", "source": content.uri, "title": title, "content": text}
    plain = {"type": "text", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": plain if isinstance(data, str) else _base64(data, PDF), "title": title}


def _link(content: LinkContent, limits: AnthropicLimits) -> JsonObject | None:
    if not content.uri.startswith(("https://", "http://")):
        return None
    source = {"type": "url", "url": content.uri}
    if content.mime_type in limits.images:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": content.name} if content.mime_type == PDF else None


def _base64(data: bytes, mime_type: str) -> JsonObject:
    return {"type": "base64", "media_type": mime_type, "data": base64.b64encode(data).decode()}


def _contents(result: ToolResult) -> Sequence[Content]:
    if not result.content and result.structured_content is not None:
        return (TextContent(render_json(result.structured_content)),)
    return content_of(result)


_IN_DOCUMENT: Final = ("cited_text", "document_index", "document_title")
_TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "char_location": (*_IN_DOCUMENT, "start_char_index", "end_char_index"),
    "page_location": (*_IN_DOCUMENT, "start_page_number", "end_page_number"),
    "content_block_location": (*_IN_DOCUMENT, "start_block_index", "end_block_index"),
    "web_search_result_location": ("cited_text", "encrypted_index", "title", "url"),
    "search_result_location": (
        *("cited_text", "search_result_index", "source", "title"),
        *("start_block_index", "end_block_index"),
    ),
}
"""By type, the members that may be sent back: not `file_id`, and a missing title must be null (the SDK's types)."""

REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_CACHE: Final = "cache_control"
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (_CACHE,),
    "image": (_CACHE, "transformations"),
    "document": (_CACHE, "citations", "context", "title"),
    "tool_use": (_CACHE, "caller", "toolset_name"),
    "tool_result": (_CACHE, "toolset_name"),
}
"""By type of block, the options of a part that are added to it."""


@define(eq=False)
class AnthropicWire(Wire[AnthropicLimits]):
    """Writer of the blocks of one request."""

    family = FAMILY

    def text(self, text: str) -> JsonObject:
        """A text block."""
        return {"type": "text", "text": text}

    def cited(self, text: str, citations: Blocks) -> JsonObject:
        """A text block with citations."""
        return {**self.text(text), "citations": citations}

    def citation(self, own: JsonMapping) -> JsonObject | None:
        """A citation as the provider accepts it."""
        kind = text_in(own, "type")
        return {"type": kind, **{key: own.get(key) for key in _TAKEN[kind]}} if kind in _TAKEN else None

    def media(self, content: Content) -> JsonObject | None:
        """A content of the user's; the provider may fetch linked ones."""
        return _content_block(content, self.limits, links=True)

    def call(self, call_id: str, name: str, arguments: JsonObject) -> JsonObject:
        """A call."""
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def content(self, result: ToolResult, options: JsonMapping) -> Blocks:
        """The content of a result."""
        cited = object_in(options, "citations")
        blocks = (_content_block(each, self.limits, citations=cited) for each in _contents(result))
        return [block for block in blocks if block is not None]

    def result(self, result: ToolResult, use_id: str, content: Blocks) -> JsonObject:
        """The result of a call; a single text as a string."""
        block: JsonObject = {"type": "tool_result", "tool_use_id": use_id}
        if content:
            contents = _contents(result)
            is_text = len(contents) == 1 and isinstance(contents[0], TextContent)
            block["content"] = content[0]["text"] if is_text else content
        if result.is_error:
            block["is_error"] = True
            block.setdefault("content", _FAILED)  # an error without text is refused (public)
        return block

    def thought(self, text: str, signature: str) -> JsonObject:
        """Reasoning."""
        return {"type": "thinking", "thinking": text, "signature": signature}

    def redacted(self, data: str) -> JsonObject:
        """Reasoning that only the provider can read."""
        return {"type": "redacted_thinking", "data": data}

    def hosted(self, data: JsonMapping) -> JsonObject | None:
        """A block of the provider's own tools."""
        return dict(data) if isinstance(data.get("type"), str) else None

    def with_options(self, block: JsonObject, metadata: object) -> JsonObject:
        """The block with those of the options that blocks of its type have."""
        options = self.options(metadata)
        given = {key: options[key] for key in _OPTIONS.get(block["type"], ()) if options.get(key) is not None}
        return {**block, **given}

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Sets a cache point after a message, if its options have one."""
        options = self.options(metadata)
        if options.get(_CACHE) is not None and not self.is_thought(blocks[-1]):
            blocks[-1][_CACHE] = options[_CACHE]

    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""
        return block["type"] == "tool_result"

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return block["type"] in _THOUGHTS


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


_WORDS: Final = {"auto": "auto", "required": "any", "none": "none"}
_DEFERRED: Final = "defer_loading"


def _names_of_deferred(request: ModelRequest, names: Mapping[str, str]) -> frozenset[str]:
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


def _defer(entry: JsonObject) -> JsonObject:
    """The entry of a deferred tool; it must not have a cache point (public)."""
    return {**{key: value for key, value in entry.items() if key != "cache_control"}, _DEFERRED: True}


_CHANCE: Final = {"temperature": "temperature", "top_p": "top_p"}


@define(eq=False)
class Anthropic(BlockExporter[AnthropicLimits]):
    """Exporter for the messages API: bodies for the SDK's `messages.create`, answers from `model_dump()`.

    Attributes:
        limits: The limits of the provider.
    """

    vendor = "Anthropic"
    dialects = (ANTHROPIC, ANTHROPIC_STRICT)
    answers = AnthropicAnswer
    readers = AnthropicReader
    error = staticmethod(error_of)

    limits: AnthropicLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)

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
        return merged(body, passthrough(request.config.provider_options, (FAMILY,)))

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `output_config`; `None` if there is none for the request's `output`."""
        schema = output_schema(request, ANTHROPIC, ANTHROPIC_STRICT)
        return None if schema is None else {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def declaration(self, name: str, schema: JsonSchema, facts: JsonObject) -> JsonObject:
        """The entry of a function."""
        return {"name": name, "input_schema": schema, **facts}

    def hosted(self, kind: str, facts: JsonObject) -> JsonObject | None:
        """The entry of one of the provider's own tools."""
        name = _server_tool_name(kind)
        if name is None:
            return None
        return {"type": kind, **({} if _TOOLSET.search(kind) else {"name": name}), **facts}

    def examples(self, spec: ToolSpec, schema: JsonSchema) -> tuple[JsonObject, tuple[Loss, ...]]:
        """The examples that fit the exported schema: one that doesn't fails the whole request (public)."""
        if not spec.examples:
            return {}, ()
        from pegboard.schema import validator_of

        try:
            validator = validator_of(json_text(schema))
        except SchemaError as error:
            return {}, (Loss(spec.name, "/examples", "examples", f"left out: {error}"),)
        fitting = [example for example in spec.examples if not validator.problems(example)]
        what = "left out: it doesn't fit the exported schema"
        losses = (
            Loss(spec.name, f"/examples/{at}", "examples", what)
            for at, each in enumerate(spec.examples)
            if each not in fitting
        )
        return ({"input_examples": fitting} if fitting else {}), tuple(losses)

    def entry_name(self, entry: JsonObject) -> str | None:
        """The provider's name of an entry."""
        return known_text(entry, "name")

    def schema_of(self, entry: JsonObject) -> JsonSchema | None:
        """The schema of a strict entry."""
        return entry.get("input_schema") if entry.get("strict") is True else None

    def _tool_facts(self, request: ModelRequest, names: Mapping[str, str]) -> JsonObject:
        """`tools` and `tool_choice`, if needed.

        Without tools, calls are disabled; see `gone`.

        Raises:
            ExportError: The choice can't be met.
        """
        exported = self.exported(request)
        if not exported.entries:
            gone = self.gone(request, names)
            return {"tools": gone, "tool_choice": {"type": "none"}} if gone else {}
        entries = list(exported.entries)
        if request.loads_deferred:
            deferred = _names_of_deferred(request, names)
            entries = [_defer(entry) if entry.get("name") in deferred else entry for entry in entries]
        if any(entry.get(_DEFERRED) for entry in entries) and not any(_is_search(each.get("type")) for each in entries):
            entries.insert(0, dict(SEARCH))
        choice = _choice(request, names)
        return {"tools": entries, **({} if choice is None else {"tool_choice": choice})}

    def _add_config(self, body: JsonObject, request: ModelRequest) -> None:
        config = request.config
        forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        thinks = config.reasoning not in (None, "none") and not forced
        if config.reasoning is not None and (thinks or config.reasoning == "none"):
            body.update(passthrough({FAMILY: self.limits.reasoning.get(config.reasoning, {})}, (FAMILY,)))
            budget = object_in(body, "thinking").get("budget_tokens")
            if isinstance(budget, int) and budget >= body["max_tokens"]:
                body["max_tokens"] += budget  # it counts thinking, too, and must be above the budget (public)
        names = {**(_CHANCE if self.limits.sampling and not thinks else {}), "stop": "stop_sequences"}
        body.update(config_facts(config, names))


exporter: Final = cache(Anthropic)
"""Returns the shared exporter of this process, with its cache."""
