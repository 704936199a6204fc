"""`Gemini`: exporter for Google's Gemini API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from attrs import define, field

from pegboard import (
    ExportedTools,
    Loss,
    Message,
    ModelConfig,
    ModelRequest,
    ModelResponse,
    NamedTool,
    ToolCall,
    ToolSpec,
)
from pegboard.errors import ExportError
from pegboard.messages import CallPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.request import ResponseReader, ToolChoice
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.conversation import OrderedConversation
from pegboard_clients.dialects import (
    READ,
    SHAPE,
    SIMPLE,
    Dialect,
    Place,
    any_value,
    arrays_need_items,
    boolean_schemas,
    everywhere,
    formats,
    inline_references,
    isolate_any_of,
    isolate_references,
    named_definitions,
    nullable,
    one_of_to_any_of,
    only_keywords,
    plain_enums,
    property_names,
    string_enums,
    tuple_items,
    type_lists,
    typed_enums,
    whole_bounds,
)
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire import (
    Entry,
    arguments_object,
    check_choice,
    config_facts,
    convert_schema,
    description_of,
    hosted_type,
    losses_of,
    merged,
    output_schema,
    passthrough,
    refusal,
    render_text,
    wire_name,
    without_empty,
)
from pegboard_clients.wire.entries import INPUT, ConvertedSchema
from pegboard_google._gemini import (
    DEFAULT_LIMITS,
    FAMILY,
    OPTION_KEYS,
    GeminiLimits,
    beside,
    camel,
    is_own,
    media_part,
    response_part,
)
from pegboard_google._gemini_answers import GeminiReader, response_of


@everywhere
def upper_case_types(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes `"string"` as `"STRING"` (`google.genai.types.Type`)."""
    name = schema.get("type")
    return {**schema, "type": name.upper()} if isinstance(name, str) else schema


_OF_TYPE: Final = {
    **dict.fromkeys(("properties", "required", "propertyOrdering", "minProperties", "maxProperties"), "object"),
    **dict.fromkeys(("items", "minItems", "maxItems"), "array"),
}


@everywhere
def keywords_of_type(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Drops keywords of objects and arrays from schemas of other types, where they have no effect."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds or all(_OF_TYPE.get(word, kinds[0]) in kinds for word in schema):
        return schema
    return {word: value for word, value in schema.items() if _OF_TYPE.get(word, kinds[0]) in kinds}


@everywhere
def null_apart(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes an `enum` with null as an `anyOf` of the other values and the type null."""
    if "enum" not in schema or None not in schema["enum"]:
        return schema
    rest = {word: value for word, value in schema.items() if word not in ("enum", "type")}
    values = [value for value in schema["enum"] if value is not None]
    kinds: list[str] = schema["type"] if isinstance(schema.get("type"), list) else []
    others = [kind for kind in kinds if kind != "null"]
    kind: JsonObject = {"type": others[0] if len(others) == 1 else others} if others else {}
    null: JsonSchema = {"type": "null"}
    return {**rest, "anyOf": [{**kind, "enum": values}, null]} if values else {**rest, **null}


@everywhere
def no_empty_description(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Drops a blank description."""
    description = schema.get("description")
    if not isinstance(description, str) or description.strip():
        return schema
    return {word: value for word, value in schema.items() if word != "description"}


PROPERTY_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""The property names that the provider accepts."""

_GEMINI_READS: Final = {
    *SHAPE,
    *("$ref", "$defs", "format", "prefixItems", "minItems", "maxItems", "minimum", "maximum"),
    *("additionalProperties", "propertyOrdering"),
}

GEMINI_JSON_SCHEMA: Final = Dialect(
    "gemini",
    (
        *READ,
        boolean_schemas,
        inline_references("keep_optional"),
        one_of_to_any_of,
        *SIMPLE,
        whole_bounds,
        typed_enums,
        null_apart,
        plain_enums,
        no_empty_description,
        only_keywords(_GEMINI_READS),
        isolate_any_of,
        arrays_need_items,
        isolate_references,
        property_names(PROPERTY_NAME),
        named_definitions,
    ),
)
"""Gemini's `parametersJsonSchema` (`google.genai.types.JSONSchema`): recursion only below optional properties."""

GEMINI_SCHEMA: Final = Dialect(
    "gemini-schema",
    (
        *READ,
        boolean_schemas,
        inline_references("loosen"),
        keywords_of_type,  # so that nothing below them is reported as lost; references are resolved
        one_of_to_any_of,
        *SIMPLE,
        tuple_items(),
        whole_bounds,
        typed_enums,
        arrays_need_items,
        any_value,
        only_keywords(
            {
                *SHAPE,
                *(
                    "default",
                    "format",
                    "pattern",
                    "minLength",
                    "maxLength",
                    "minItems",
                    "maxItems",
                    "minimum",
                    "maximum",
                ),
                *("minProperties", "maxProperties", "propertyOrdering", "nullable"),
            }
        ),
        type_lists,
        isolate_any_of,
        nullable,
        string_enums,
        formats(("date-time", "int32", "int64", "float", "double")),
        property_names(PROPERTY_NAME),
        keywords_of_type,
        no_empty_description,
        upper_case_types,
    ),
)
"""Gemini's older `parameters` (`google.genai.types.Schema`); no JSON Schema: types in capitals, `nullable`."""


def sdk_arguments(body: JsonMapping) -> JsonObject:
    """The keywords of `client.aio.models.generate_content` and `generate_content_stream`.

    The SDK has all but model and contents in one `config`, with the members of `generationConfig` at its top. Its
    automatic function calling is turned off: the registry runs calls.

    Args:
        body: The result of `Gemini.request`; not changed.

    Returns:
        `{"model", "contents", "config"}`; `model` only if the body has one.
    """
    config: dict[str, Any] = {"automaticFunctionCalling": {"disable": True}}
    arguments: JsonObject = {}
    for key, value in body.items():
        if key in ("model", "contents"):
            arguments[key] = value
        elif key == "generationConfig":
            config.update(value)
        else:
            config[key] = value
    return {**arguments, "config": config}


FUNCTIONS: Final = "functionDeclarations"
_LISTS: Final = frozenset({"mcpServers"})
"""Native tools whose entry is a list with one item per tool."""


_CONFIG: Final = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop": "stopSequences",
}
_BUDGETS: Final = {"none": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking budgets for models before Gemini 3, which have no levels."""
_LEVELS: Final = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


def _generation_config(config: ModelConfig, model: str | None, limits: GeminiLimits) -> JsonObject:
    """`generationConfig`; empty by default."""
    facts = config_facts(config, _CONFIG)
    if config.reasoning is not None:
        facts["thinkingConfig"] = _thinking(config.reasoning, dated=limits.is_dated(model))
    return facts


def _thinking(reasoning: str, *, dated: bool) -> JsonObject:
    amount: JsonObject = {"thinkingBudget": _BUDGETS[reasoning]} if dated else {"thinkingLevel": _LEVELS[reasoning]}
    return amount if reasoning == "none" else {**amount, "includeThoughts": True}


def _tool_config(choice: ToolChoice, exported: ExportedTools, *, strict: bool | None, exporter: str) -> JsonObject:
    """`toolConfig`; empty by default.

    Strictness is one of the modes: `VALIDATED` enforces the schemas.

    Raises:
        ExportError: The tool choice can't be met.
    """
    functions = [function["name"] for entry in exported.entries for function in entry.get(FUNCTIONS, ())]
    check_choice(choice, functions, exporter)
    exported.warn(exporter)
    facts = without_empty({"functionCallingConfig": _calling(choice, functions, strict=bool(strict))})
    if functions and len(exported.entries) > 1:
        # Required for native tools together with functions.
        facts["includeServerSideToolInvocations"] = True
    return facts


def _calling(choice: ToolChoice, functions: Sequence[str], *, strict: bool) -> JsonObject:
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice == "required":
        return {"mode": "ANY"}
    if not functions:
        return {}
    if choice == "none":
        return {"mode": "NONE"}
    return {"mode": "VALIDATED"} if strict else {}


_SIGNATURE: Final = "thoughtSignature"


@define(eq=False)
class Conversation(OrderedConversation):
    """Writer of messages as contents.

    Attributes:
        limits: The limits of the provider.
        unvalidated: The signature for calls of other providers, or `None`.
    """

    family = FAMILY

    limits: GeminiLimits
    unvalidated: str | None = None

    def speak(self, message: Message) -> None:
        """Writes a message of the model."""
        self._add("model", self._answer_of(message))

    def hear(self, role: str, parts: Sequence[Part]) -> None:  # noqa: ARG002  all are the user's
        """Writes parts as the user's."""
        self.answer_calls()
        self._add("user", [written for part in parts if (written := self._part(part)) is not None])

    def answer(self, results: Sequence[tuple[ResultPart, str]]) -> None:
        """Writes results."""
        named = ((wire_name(part.name, self.limits.name), wire_id, part.result) for part, wire_id in results)
        self.written.append({"role": "user", "parts": [response_part(*each, self.limits) for each in named]})

    def _add(self, role: str, parts: list[JsonObject]) -> None:
        if not parts:
            return
        last = self.written[-1] if self.written else None
        if last is not None and last["role"] == role and "functionResponse" not in last["parts"][0]:
            last["parts"] += parts
        else:
            self.written.append({"role": role, "parts": parts})

    def _answer_of(self, message: Message) -> list[JsonObject]:
        """A model's turn; the first call of another provider gets the `unvalidated` signature."""
        parts = [written for part in message.parts if (written := self._part(part)) is not None]
        first = next((call for call in message.calls if not call.provider_executed), None)
        if first is not None and self.unvalidated is not None and not is_own(first.provider_metadata):
            calling = next(part for part in parts if "functionCall" in part)
            calling[_SIGNATURE] = self.unvalidated
        return parts

    def _part(self, part: Part) -> JsonObject | None:
        """One part; `None` if it isn't sent to Gemini."""
        if isinstance(part, TextPart):  # an empty text is only sent with metadata
            carried = beside(part.provider_metadata)
            return {"text": part.text, **carried} if part.text or carried else None
        if isinstance(part, MediaPart):
            return {**media_part(part.content, self.limits), **beside(part.provider_metadata)}
        if isinstance(part, CallPart):
            return None if part.call.provider_executed else self._call(part.call)
        if isinstance(part, ResultPart):
            return {"text": f"[result of {part.name}]\n" + "\n".join(map(render_text, part.result.content))}
        if isinstance(part, ReasoningPart):
            ours = is_own(part.provider_metadata)
            return {"text": part.text, "thought": True, **beside(part.provider_metadata)} if ours else None
        return dict(part.data) if part.provider == FAMILY else None

    def _call(self, call: ToolCall) -> JsonObject:
        written: JsonObject = {"name": wire_name(call.name, self.limits.name), "args": arguments_object(call)}
        if wire_id := self.wire_id(call):
            written["id"] = wire_id
        return {"functionCall": written, **beside(call.provider_metadata)}


@define(eq=False)
class Gemini(BaseExporter):
    """Exporter for `generateContent` of the Gemini API and Vertex AI.

    Bodies are those of the REST API, in camel case; `sdk_arguments` converts one for `google-genai`. Answers are the
    JSON of a `GenerateContentResponse`, such as the SDK's `model_dump()`.

    Attributes:
        limits: The limits of the provider.
        output_schemas: Whether functions are declared with their output schemas.
    """

    name: str = field(default="gemini", init=False)
    dialect: ClassVar[Dialect] = GEMINI_JSON_SCHEMA
    keys: ClassVar[tuple[str, str]] = ("parametersJsonSchema", "responseJsonSchema")  # of the input schema, the output
    response_key: ClassVar[str] = "responseJsonSchema"  # of a whole answer's schema
    option_keys: ClassVar[tuple[str, ...]] = OPTION_KEYS  # the later over the earlier

    limits: GeminiLimits = DEFAULT_LIMITS
    output_schemas: bool = False

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of a request: `{"functionDeclarations": [...]}` for all functions, an entry for each native tool."""
        return self._export(specs, strict, mixes=self.limits.mixes)

    def _export(self, specs: Sequence[ToolSpec], strict: bool | None, *, mixes: bool) -> ExportedTools:
        plain = self._entries.exported(specs, strict)
        functions = {entry["name"]: entry for entry in plain.entries if "name" in entry}
        kept = list(functions.values())[: self.limits.functions]
        extra = list(functions)[self.limits.functions :]
        what = f"a request may declare {self.limits.functions} functions, and as many are before it"
        losses = [Loss(name, "/name", "tools", what, refused=True) for name in extra]
        native = [entry for entry in plain.entries if "name" not in entry]
        if kept and native and not mixes:
            alone = sorted(plain.names.difference(functions))
            what = "models before Gemini 3 don't support Google's tools together with functions"
            losses += [Loss(name, "/providerId", "providerId", what, refused=True) for name in alone]
            native, extra = [], [*extra, *alone]
        entries = (*([{FUNCTIONS: kept}] if kept else []), *native)
        return ExportedTools(entries, (*plain.losses, *losses), plain.names.difference(extra))

    def tools_of(self, request: ModelRequest) -> ExportedTools:
        """As `tools`, for the model of a request: before Gemini 3, functions leave no room for Google's tools."""
        mixes = self.limits.mixes and not self.limits.is_dated(request.model)
        return self._export([tool.spec for tool in request.offered], request.config.strict, mixes=mixes)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `models/MODEL:generateContent`, plus the model's name under `model`.

        Tools that can't be sent to the provider are left out; `tools_of` lists them, and each is logged once.

        Raises:
            ExportError: There is nothing to send, or the tool choice can't be met.
        """
        dated = self.limits.is_dated(request.model)
        exported = self.tools_of(request)
        before, messages = _split(request)
        unvalidated = None if dated else self.limits.unvalidated
        contents = Conversation(self.limits, unvalidated).write(messages)
        if not contents:
            raise ExportError("there is nothing to send: no message has any content", exporter=self.name)
        facts = {
            "model": request.model,
            "systemInstruction": {"parts": [{"text": before}]} if before else None,
            "contents": contents,
            "tools": list(exported.entries),
            "toolConfig": _tool_config(request.tool_choice, exported, strict=request.config.strict, exporter=self.name),
            "generationConfig": _generation_config(request.config, request.model, self.limits),
        }
        body = merged(without_empty(facts), self.response_format(request) or {})
        return merged(body, passthrough(request.config.provider_options, self.option_keys))

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """Members of `generationConfig`; `None` if there are none for the request's `output`.

        Models before Gemini 3 don't support a schema together with tools.
        """
        schema = output_schema(request, self.dialect)
        if schema is None or (request.offered and self.limits.is_dated(request.model)):
            return None
        return {"generationConfig": {"responseMimeType": "application/json", self.response_key: schema}}

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:  # noqa: ARG002  as `Exporter` has it: nothing is written strictly
        """Parses an answer, the JSON of a `GenerateContentResponse`.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        return response_of(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """A parser for a streamed answer, whose chunks are each a `GenerateContentResponse`."""
        return GeminiReader()

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry, a function declaration or a native tool."""
        options = passthrough(spec.provider_options, self.option_keys)
        if spec.kind == "provider":
            kind = hosted_type(spec, OPTION_KEYS)
            if kind is None or not kind.isidentifier() or camel(kind) == FUNCTIONS:
                return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is not one of Gemini's tools")
            arguments = {**spec.provider_arguments, **options}
            return Entry({camel(kind): [arguments] if camel(kind) in _LISTS else arguments})
        if not self.limits.takes_name(spec.name):
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = convert_schema(spec, self.dialect, None, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        description = description_of(spec, examples=True, grammar=True)
        entry: JsonObject = {"name": spec.name, **without_empty({"description": description.strip() and description})}
        losses = (*self._add_parameters(entry, schema, spec), *self._add_output(entry, spec.output_schema, spec))
        return Entry({**entry, **options}, losses)

    def _add_parameters(self, entry: JsonObject, schema: ConvertedSchema, _spec: ToolSpec) -> tuple[Loss, ...]:
        entry[self.keys[0]] = schema.schema
        return schema.losses

    def _add_output(self, entry: JsonObject, schema: JsonSchema | None, spec: ToolSpec) -> tuple[Loss, ...]:
        """Adds the output schema, if `output_schemas`; one that can't be converted is left out."""
        if schema is None or not self.output_schemas:
            return ()
        rewritten = self.dialect.rewrite(schema)
        if rewritten.refused:
            faults = "; ".join(f"{change.keyword} {change.what}" for change in rewritten.changes if change.refused)
            return (Loss(spec.name, "/outputSchema", "outputSchema", f"left out: {faults}"),)
        entry[self.keys[1]] = rewritten.schema
        return losses_of(spec, rewritten.changes, "/outputSchema")


@define(eq=False)
class GeminiSchema(Gemini):
    """`Gemini` with the older subset of schemas (`parameters`), for models and proxies without JSON Schema."""

    name: str = field(default="gemini-schema", init=False)
    dialect: ClassVar[Dialect] = GEMINI_SCHEMA
    keys: ClassVar[tuple[str, str]] = ("parameters", "response")
    response_key: ClassVar[str] = "responseSchema"
    option_keys: ClassVar[tuple[str, ...]] = (*OPTION_KEYS, "gemini-schema")

    def _add_parameters(self, entry: JsonObject, schema: ConvertedSchema, spec: ToolSpec) -> tuple[Loss, ...]:
        """Adds none for a tool without properties: they aren't allowed to be empty."""
        if schema.schema.get("properties"):
            return super()._add_parameters(entry, schema, spec)
        if spec.input_schema.get("additionalProperties") is False:
            return ()
        what = "left out: parameters without properties aren't allowed, so that the model gives no arguments"
        return (Loss(spec.name, INPUT, "properties", what), *(loss for loss in schema.losses if loss.path != INPUT))


def _split(request: ModelRequest) -> tuple[str, tuple[Message, ...]]:
    """The system prompt and the conversation; system messages at its beginning belong to the former.

    Gemini has no later system messages: these become the user's.
    """
    messages = request.messages
    start = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    texts = (request.system, *(message.text for message in messages[:start]))
    return "\n\n".join(text for text in texts if text), messages[start:]


exporter: Final = cache(Gemini)
"""Returns the shared exporter of this process, with its cache."""


@cache
def earlier_exporter() -> Gemini:
    """The exporter for models before Gemini 3, which support functions or Google's tools, not both."""
    return Gemini(GeminiLimits(mixes=False))


schema_exporter: Final = cache(GeminiSchema)
"""Likewise for the older subset of schemas."""
