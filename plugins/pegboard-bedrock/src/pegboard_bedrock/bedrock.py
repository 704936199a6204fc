"""`Bedrock`: exporter for Amazon Bedrock's Converse API, as in `boto3`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from attrs import Factory, define, field

from pegboard import (
    FileContent,
    LinkContent,
    Loss,
    ModelRequest,
    NamedTool,
    TextContent,
    ToolResult,
    ToolSpec,
)
from pegboard.json import is_object, json_problems, json_text
from pegboard.messages import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_bedrock._bedrock import (
    DEFAULT_LIMITS,
    FAMILY,
    BedrockAnswer,
    BedrockLimits,
    BedrockReader,
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
    inline_references,
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
    parsed_object,
    passthrough,
    refusal,
    render_json,
    render_text,
    wire_name,
)

STRICT_SIZE: Final = Counts(optional=24, unions=16)
"""Size limits of a strict schema, and of all in a request together: Anthropic validates them."""

_PROPERTY_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"

BEDROCK: Final = Dialect("bedrock", (*READ, inline_references("keep"), root_object(*UNIONS), named_definitions))
"""Bedrock Converse, for any model: references inlined, a plain root.

The allowed property names depend on the model; `property_names` is the step for that.
"""

BEDROCK_STRICT: Final = Dialect("bedrock-strict", (*CLOSED, property_names(_PROPERTY_NAME), Within(STRICT_SIZE)))
"""Bedrock's strict tools, which Anthropic validates: closed objects without bounds or recursion."""


_S3 = "s3://"


@define(eq=False)
class BedrockMedia:
    """Writer of the media of one request: each document in it needs a unique name.

    Attributes:
        limits: The limits of the provider.
    """

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


_NOTHING: Final = {"text": "(nothing)"}
_FAILED: Final = {"text": "The call failed without a message."}


def _result_blocks(part: ResultPart, use_id: str, media: BedrockMedia) -> Blocks:
    """The result of a call; media of an error follow it, as Anthropic refuses them in one (public)."""
    result = part.result
    content, beside = _result_content(result, media), Blocks()
    if result.is_error:
        content, beside = texts_and_media(content, {"text": f"Of the failed call of {part.name} ({use_id}):"})
    block: JsonObject = {"toolUseId": use_id, "content": content or [dict(_FAILED if result.is_error else _NOTHING)]}
    if result.is_error:
        block["status"] = "error"
    return [{"toolResult": block}, *beside]


def _result_content(result: ToolResult, media: BedrockMedia) -> list[JsonObject]:
    """The content of a result: an object as `json`, everything else as text or media."""
    data = result.structured_content
    if data is not None and _is_all(result.content, data):
        return [{"json": data} if is_object(data) and not json_problems(data) else {"text": render_json(data)}]
    return [block for each in content_of(result) if (block := media.block(each, in_result=True)) is not None]


def _is_all(content: tuple[Content, ...], data: object) -> bool:
    """Whether the content is nothing but the structured content as text."""
    if not content:
        return True
    text = "".join(each.text for each in content[:1] if isinstance(each, TextContent))
    return len(content) == 1 and bool(text.strip()) and is_object(data) and parsed_object(text) == data


KEYS: Final = (FAMILY,)
CACHE_POINT: Final = "cachePoint"
"""The option that sets a cache point after a tool, a part, a message or a request."""


def _followed(entry: JsonObject, point: object, losses: tuple[Loss, ...]) -> Entry:
    behind: JsonObject | None = {CACHE_POINT: point} if isinstance(point, dict) else None
    return Entry(entry, losses, behind)


def _strict_schema(entry: JsonObject) -> JsonSchema | None:
    spec = object_in(entry, "toolSpec")
    schema: Any = object_in(spec, "inputSchema").get("json") if spec.get("strict") is True else None
    return cast("JsonSchema", schema) if isinstance(schema, dict) else None


def _name(entry: JsonObject) -> str | None:
    named: JsonObject = entry.get("toolSpec") or entry.get("systemTool") or {}
    name = named.get("name")
    return name if isinstance(name, str) else None


REFUSED_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
_BESIDE_DOCUMENTS: Final = "The document is attached."


@define(eq=False)
class BedrockWire:
    """Writer of the blocks of one request.

    Attributes:
        ids: The ids of its calls.
        limits: The limits of the provider.
        names: The tools' names at the provider, where they differ.
    """

    ids: SentIds
    limits: BedrockLimits
    names: Mapping[str, str] = field(factory=dict[str, str])
    family: str = field(default=FAMILY, init=False)
    _media: BedrockMedia = field(default=Factory(lambda self: BedrockMedia(self.limits), takes_self=True), init=False)

    def blocks(self, part: Part, role: Role) -> Blocks:
        """The blocks of a part, with the cache point of its options."""
        blocks = self._blocks(part, role)
        if blocks:
            self.mark(blocks, _metadata_of(part))
        return blocks

    def text(self, text: str) -> JsonObject:
        """A text block."""
        return {"text": text}

    def mark(self, blocks: Blocks, metadata: JsonMapping) -> None:
        """Adds a cache point, if the options have one."""
        point = passthrough(metadata, (FAMILY,)).get(CACHE_POINT)
        if isinstance(point, dict):
            blocks.append({CACHE_POINT: point})

    def is_result(self, block: JsonObject) -> bool:
        """Whether it is the result of a call."""
        return "toolResult" in block

    def is_thought(self, block: JsonObject) -> bool:
        """Whether it is reasoning."""
        return "reasoningContent" in block

    def completed(self, turn: JsonObject, *, last: bool) -> None:
        """Adds the text that documents require; strips the end of a final turn of the assistant (public)."""
        content: Blocks = turn["content"]
        if any("document" in block for block in content) and not any("text" in block for block in content):
            content.append(self.text(_BESIDE_DOCUMENTS))
        if last and turn["role"] == "assistant" and "text" in content[-1]:
            content[-1]["text"] = content[-1]["text"].rstrip()

    def _blocks(self, part: Part, role: Role) -> Blocks:
        if isinstance(part, TextPart):
            return self._text(part, role)
        if isinstance(part, MediaPart):
            return self._shown(part, role)
        if isinstance(part, CallPart):
            return self._call(part)
        if isinstance(part, ResultPart):
            return self._result(part)
        return _thought(part) if isinstance(part, ReasoningPart) else _hosted(part)

    def _text(self, part: TextPart, role: Role) -> Blocks:
        if not part.text.strip():  # blank text is refused (public)
            return []
        citations = written_citations(part.citations) if role == "assistant" else []
        if citations:
            return [{"citationsContent": {"content": [self.text(part.text)], "citations": citations}}]
        return [self.text(part.text)]

    def _shown(self, part: MediaPart, role: Role) -> Blocks:
        if role == "assistant":  # only the user may send media
            return [self.text(render_text(part.content))]
        block = self._media.block(part.content, in_result=False)
        return [] if block is None else [block]

    def _call(self, part: CallPart) -> Blocks:
        call = part.call
        if call.provider_executed:  # of another provider; this one's are hosted parts
            return []
        use = {
            "toolUseId": self.ids.call(call.id),
            "name": wire_name(self.names.get(call.name, call.name), self.limits.name),
            "input": arguments_object(call),
        }
        return [{"toolUse": use}]

    def _result(self, part: ResultPart) -> Blocks:
        use_id = self.ids.result(part.call_id)
        if use_id is not None:
            return _result_blocks(part, use_id, self._media)
        content = _result_content(part.result, self._media)
        shown = [self.text(render_json(block["json"])) if "json" in block else block for block in content]
        return [self.text(f"A result of {part.name or 'a tool'}:"), *shown]


def _thought(part: ReasoningPart) -> Blocks:
    """Reasoning, unchanged; without a signature it would be refused, and is left out."""
    own = passthrough(part.provider_metadata, (FAMILY,))
    redacted, signature = own.get("redacted"), own.get("signature")
    if isinstance(redacted, str):
        try:
            return [{"reasoningContent": {"redactedContent": base64.b64decode(redacted, validate=True)}}]
        except (binascii.Error, ValueError):
            return []
    if isinstance(signature, str) and signature:
        return [{"reasoningContent": {"reasoningText": {"text": part.text, "signature": signature}}}]
    return []


def _hosted(part: HostedPart) -> Blocks:
    return [dict(part.data)] if len(part.data) == 1 else []


def _metadata_of(part: Part) -> JsonMapping:
    if isinstance(part, CallPart):
        metadata: Any = part.call.provider_metadata
        return cast("JsonMapping", metadata) if isinstance(metadata, Mapping) else {}
    return {} if isinstance(part, HostedPart) else part.provider_metadata


_INFERENCE: Final = {"max_output_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}


FORMAT: Final = BlockFormat(
    FAMILY,
    entry_name=_name,
    schema_of=_strict_schema,
    message_in=lambda body: object_in(object_in(body, "output"), "message"),
    answer=BedrockAnswer,
    response=answered,
    error=error_of,
)


@define(eq=False)
class Bedrock(BlockExporter[BedrockLimits, BedrockAnswer]):
    """Exporter for Converse: bodies for `boto3`'s `converse` and `converse_stream`, and their answers and events.

    Attributes:
        limits: The limits of the provider.
    """

    limits: BedrockLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)
    format: BlockFormat[BedrockAnswer] = field(default=FORMAT, init=False, repr=False)

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
        options = passthrough(request.config.provider_options, KEYS)
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

    def reader(self, request: ModelRequest | None = None) -> BedrockReader:
        """A parser for the events of a stream."""
        return BedrockReader(self.answer(request), self.limits, self.own_names(request))

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry."""
        options = passthrough(spec.provider_options, KEYS)
        point = options.pop(CACHE_POINT, None)
        if spec.kind == "provider":
            kind = hosted_type(spec, KEYS)
            if kind is None or re.fullmatch(self.limits.name, kind) is None:
                return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is not one of Bedrock's tools")
            return _followed({"systemTool": {"name": kind, **spec.provider_arguments, **options}}, point, ())
        if re.fullmatch(self.limits.name, spec.name) is None:
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = convert_schema(spec, BEDROCK, BEDROCK_STRICT, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "inputSchema": {"json": schema.schema}}
        description = description_of(spec, examples=True, grammar=True)
        if description.strip():
            entry["description"] = description
        if schema.strict:
            entry["strict"] = True
        return _followed({"toolSpec": {**entry, **options}}, point, schema.losses)

    def _config(self, request: ModelRequest) -> JsonObject:
        config = request.config
        inference = {key: getattr(config, name) for name, key in _INFERENCE.items()}
        inference = {key: value for key, value in inference.items() if value is not None}
        if config.stop:
            inference["stopSequences"] = list(config.stop)
        thinking = passthrough({FAMILY: self.limits.reasoning.get(config.reasoning or "", {})}, KEYS)
        return {**thinking, **({"inferenceConfig": inference} if inference else {})}

    def _tool_config(self, request: ModelRequest, names: Mapping[str, str]) -> JsonObject:
        """The tools and the tool choice, if needed.

        There is no choice "none": tools are left out instead. But a conversation with calls is refused without tools
        (public): then they are listed, or placeholders for the called ones.
        """
        exported, choice = self.exported(request), request.tool_choice
        called = called_before(request.messages)
        if choice == "none" and not called:
            return {}
        tools = list(exported.entries) or [_gone(names.get(name, name)) for name in called]
        if not tools:
            return {}
        if isinstance(choice, NamedTool):
            return {"tools": tools, "toolChoice": {"tool": {"name": names.get(choice.name, choice.name)}}}
        return {"tools": tools, "toolChoice": {"any": {}}} if choice == "required" else {"tools": tools}


def _system(request: ModelRequest, lead: Sequence[str], point: object) -> JsonObject:
    texts: list[JsonObject] = [{"text": part} for part in (request.system, *lead) if part.strip()]
    if texts and isinstance(point, dict):
        texts.append({CACHE_POINT: point})
    return {"system": texts} if texts else {}


def _gone(name: str) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {}}
    return {"toolSpec": {"name": name, "description": "No longer available.", "inputSchema": {"json": schema}}}


_FORMATS: Final = re.compile(r"claude-[a-z]+-(4-([5-9]|\d\d)(?!\d)|([5-9]|\d\d)(?!\d))")
"""https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: Anthropic's models since 4.5."""


@cache
def exporter() -> Bedrock:
    """The shared exporter of this process, with its cache."""
    return Bedrock()
