"""`Bedrock`: exporter for Amazon Bedrock's Converse API, as in `boto3`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from attrs import Factory, define, field

from pegboard import FileContent, LinkContent, ModelRequest, NamedTool, TextContent, ToolResult
from pegboard.json import is_object, json_problems, json_text
from pegboard.messages import CallPart, HostedPart, Part
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_bedrock._bedrock import (
    DEFAULT_LIMITS,
    FAMILY,
    BedrockAnswer,
    BedrockLimits,
    BedrockReader,
    error_of,
)
from pegboard_clients.blocks import Blocks, Role, Wire, content_of, leading_system, turns_of
from pegboard_clients.dialects import READ, UNIONS, Dialect, inline_references, named_definitions, root_object
from pegboard_clients.exporter import BlockExporter
from pegboard_clients.strict import STRICT
from pegboard_clients.wire import (
    Content,
    SentIds,
    admit,
    config_facts,
    decoded,
    known_text,
    merged,
    object_in,
    output_schema,
    parsed_object,
    passthrough,
    render_json,
    render_text,
)

BEDROCK: Final = Dialect("bedrock", (*READ, inline_references("keep"), root_object(*UNIONS), named_definitions))
"""Bedrock Converse, for any model: references inlined, a plain root.

The allowed property names depend on the model; `property_names` is the step for that.
"""

BEDROCK_STRICT: Final = Dialect("bedrock-strict", STRICT)
"""Bedrock's strict tools, which Anthropic validates."""


_S3 = "s3://"


@define(eq=False)
class BedrockMedia:
    """Writer of the media of one request: each document in it needs a unique name."""

    limits: BedrockLimits
    _names: dict[str, int] = field(factory=dict[str, int], init=False)

    def block(self, content: Content, *, in_result: bool) -> JsonObject | None:
        """Content as a native block, or else as text; `None` if that is blank.

        A result can't have sounds.
        """
        limits = self.limits
        kinds = {"document": limits.documents, "image": limits.images, "video": limits.videos}
        kinds = kinds if in_result else {**kinds, "audio": limits.audio}
        content = admit(content, {kind for formats in kinds.values() for kind in formats})
        kind = "" if isinstance(content, TextContent) else content.mime_type or ""
        name, source = content.name if isinstance(content, LinkContent) else "", self._source(content)
        if isinstance(content, FileContent):
            kind, name = kind or "text/plain", content.uri.rstrip("/").rpartition("/")[2]
        member = next((member for member, formats in kinds.items() if kind in formats), None)
        if member is not None and source is not None:
            named = {"name": self._document_name(name)} if member == "document" else {}
            return {member: {"format": kinds[member][kind], **named, "source": source}}
        text = render_text(content)
        return {"text": text} if text.strip() else None

    def _source(self, content: Content) -> JsonObject | None:
        if isinstance(content, LinkContent):
            return {"s3Location": {"uri": content.uri}} if content.uri.startswith(_S3) else None
        if isinstance(content, TextContent):
            return None
        return {"bytes": content.data.encode() if isinstance(content.data, str) else bytes(content.data)}

    def _document_name(self, name: str) -> str:
        """A unique name that the provider accepts (letters, digits, single spaces, `-()[]`; public)."""
        plain = re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9\s()\[\]-]", " ", name)).strip() or "document"
        plain = plain[: self.limits.document_name].rstrip()
        number = self._names.get(plain, 0) + 1
        self._names[plain] = number
        if number == 1:
            return plain
        suffix = f" ({number})"
        return self._document_name(plain[: self.limits.document_name - len(suffix)].rstrip() + suffix)


_NOTHING: Final = "(nothing)"
_FAILED: Final = "The call failed without a message."


def _is_all(content: tuple[Content, ...], data: object) -> bool:
    """Whether the content is nothing but the structured content as text."""
    if not content:
        return True
    text = "".join(each.text for each in content[:1] if isinstance(each, TextContent))
    return len(content) == 1 and bool(text.strip()) and is_object(data) and parsed_object(text) == data


CACHE_POINT: Final = "cachePoint"
"""The option that sets a cache point after a tool, a part, a message or a request."""


REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
_CITED: Final = ("title", "source", "sourceContent", "location")
_BESIDE_DOCUMENTS: Final = "The document is attached."


@define(eq=False)
class BedrockWire(Wire[BedrockLimits]):
    """Writer of the blocks of one request."""

    family = FAMILY
    _documents: BedrockMedia = field(
        default=Factory(lambda self: BedrockMedia(self.limits), takes_self=True), init=False
    )

    def blocks(self, part: Part, role: Role) -> Blocks:
        """The blocks of a part, with the cache point of its options."""
        blocks = super().blocks(part, role)
        if blocks and not isinstance(part, HostedPart):
            self.mark(blocks, part.call.provider_metadata if isinstance(part, CallPart) else part.provider_metadata)
        return blocks

    def text(self, text: str) -> JsonObject:
        """A text block."""
        return {"text": text}

    def cited(self, text: str, citations: Blocks) -> JsonObject:
        """A text block with citations."""
        return {"citationsContent": {"content": [self.text(text)], "citations": citations}}

    def citation(self, own: JsonMapping) -> JsonObject:
        """A citation as the provider accepts it."""
        return {key: own[key] for key in _CITED if own.get(key) is not None}

    def media(self, content: Content) -> JsonObject | None:
        """A content of the user's."""
        return self._documents.block(content, in_result=False)

    def call(self, call_id: str, name: str, arguments: JsonObject) -> JsonObject:
        """A call."""
        return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}

    def content(self, result: ToolResult, options: JsonMapping) -> Blocks:  # noqa: ARG002  as `Wire` has it
        """The content of a result: an object as `json`, everything else as text or media."""
        data = result.structured_content
        if data is not None and _is_all(result.content, data):
            return [{"json": data} if is_object(data) and not json_problems(data) else self.text(render_json(data))]
        blocks = (self._documents.block(each, in_result=True) for each in content_of(result))
        return [block for block in blocks if block is not None]

    def result(self, result: ToolResult, use_id: str, content: Blocks) -> JsonObject:
        """The result of a call, which mustn't be empty."""
        block: JsonObject = {"toolUseId": use_id, "content": content or [self.text(_NOTHING)]}
        if result.is_error:
            block = {"toolUseId": use_id, "content": content or [self.text(_FAILED)], "status": "error"}
        return {"toolResult": block}

    def thought(self, text: str, signature: str) -> JsonObject:
        """Reasoning."""
        return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}

    def redacted(self, data: str) -> JsonObject | None:
        """Reasoning that only the provider can read."""
        content = decoded(data)
        return None if content is None else {"reasoningContent": {"redactedContent": content}}

    def hosted(self, data: JsonMapping) -> JsonObject | None:
        """A block of the provider's own tools."""
        return dict(data) if len(data) == 1 else None

    def mark(self, blocks: Blocks, metadata: object) -> None:
        """Adds a cache point, if the options have one."""
        point = self.options(metadata).get(CACHE_POINT)
        if isinstance(point, dict):
            blocks.append({CACHE_POINT: point})

    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""
        return "toolResult" in block

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return "reasoningContent" in block

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Adds the text that documents require."""
        content: Blocks = turn["content"]
        if any("document" in block for block in content) and not any("text" in block for block in content):
            content.append(self.text(_BESIDE_DOCUMENTS))
        super().completed(turn, last=last)


_INFERENCE: Final = {
    "max_output_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}


@define(eq=False)
class Bedrock(BlockExporter[BedrockLimits]):
    """Exporter for Converse: bodies for `boto3`'s `converse` and `converse_stream`, and their answers and events.

    Attributes:
        limits: The limits of the provider.
    """

    vendor = "Bedrock"
    dialects = (BEDROCK, BEDROCK_STRICT)
    answers = BedrockAnswer
    readers = BedrockReader
    error = staticmethod(error_of)

    limits: BedrockLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body: keyword arguments, media as bytes.

        It has no seed and no `parallel_calls`; options of a model go under `additionalModelRequestFields`, by provider
        options. The option `cachePoint` sets a cache point after the system prompt.

        Raises:
            ExportError: There is nothing to send, or the tool choice can't be met.
        """
        lead, messages = leading_system(request.messages)
        names = self.names(request)
        wire = BedrockWire(SentIds(REFUSED_IN_IDS, self.limits.call_id), self.limits, names)
        options = passthrough(request.config.provider_options, (FAMILY,))
        body: JsonObject = {} if request.model is None else {"modelId": request.model}
        body["messages"] = turns_of(messages, wire)
        body.update(_system(request, lead, options.pop(CACHE_POINT, None)))
        body.update(self._config(request))
        config = self._tool_config(request, names)
        if config:
            body["toolConfig"] = config
        return merged(merged(body, self.response_format(request) or {}), options)

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `outputConfig`; `None` if there is none for the request's `output`."""
        schema = output_schema(request, BEDROCK, BEDROCK_STRICT)
        if schema is None or request.output is None or not _FORMATS.search(request.model or ""):
            return None
        form = {"name": request.output.name, "schema": str(json_text(schema))}
        return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": form}}}}

    def message_in(self, body: JsonMapping) -> JsonMapping:
        """The object of an answer's body that has the blocks."""
        return object_in(object_in(body, "output"), "message")

    def declaration(self, name: str, schema: JsonSchema, facts: JsonObject) -> JsonObject:
        """The entry of a function."""
        return {"toolSpec": {"name": name, "inputSchema": {"json": schema}, **facts}}

    def hosted(self, kind: str, facts: JsonObject) -> JsonObject | None:
        """The entry of one of the provider's own tools."""
        return None if re.fullmatch(self.limits.name, kind) is None else {"systemTool": {"name": kind, **facts}}

    def behind(self, options: JsonObject) -> JsonObject | None:
        """The cache point behind a tool, if its options have one."""
        point = options.pop(CACHE_POINT, None)
        return {CACHE_POINT: point} if isinstance(point, dict) else None

    def entry_name(self, entry: JsonObject) -> str | None:
        """The provider's name of an entry."""
        return known_text(object_in(entry, "toolSpec") or object_in(entry, "systemTool"), "name")

    def schema_of(self, entry: JsonObject) -> JsonSchema | None:
        """The schema of a strict entry."""
        spec = object_in(entry, "toolSpec")
        return object_in(spec, "inputSchema").get("json") if spec.get("strict") is True else None

    def _config(self, request: ModelRequest) -> JsonObject:
        config = request.config
        inference = config_facts(config, _INFERENCE)
        thinking = passthrough({FAMILY: self.limits.reasoning.get(config.reasoning or "", {})}, (FAMILY,))
        return {**thinking, **({"inferenceConfig": inference} if inference else {})}

    def _tool_config(self, request: ModelRequest, names: Mapping[str, str]) -> JsonObject:
        """The tools and the tool choice, if needed.

        There is no choice "none": tools are left out instead, unless there were calls; see `gone`.
        """
        exported, choice = self.exported(request), request.tool_choice
        gone = self.gone(request, names)
        tools = list(exported.entries) or gone
        if not tools or (choice == "none" and not gone):
            return {}
        if isinstance(choice, NamedTool):
            return {"tools": tools, "toolChoice": {"tool": {"name": names.get(choice.name, choice.name)}}}
        return {"tools": tools, "toolChoice": {"any": {}}} if choice == "required" else {"tools": tools}


def _system(request: ModelRequest, lead: Sequence[str], point: object) -> JsonObject:
    texts: list[JsonObject] = [{"text": part} for part in (request.system, *lead) if part.strip()]
    if texts and isinstance(point, dict):
        texts.append({CACHE_POINT: point})
    return {"system": texts} if texts else {}


_FORMATS: Final = re.compile(r"claude-[a-z]+-(4-([5-9]|\d\d)(?!\d)|([5-9]|\d\d)(?!\d))")
"""https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: Anthropic's models since 4.5."""


exporter: Final = cache(Bedrock)
"""Returns the shared exporter of this process, with its cache."""
