"""`Gemini`: Google's Gemini API, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from attrs import define, field, frozen

from pegboard import (
    CallPart,
    ExportedTools,
    ExportError,
    HostedPart,
    Loss,
    MediaPart,
    Message,
    ModelConfig,
    ModelRequest,
    ModelResponse,
    NamedTool,
    ReasoningPart,
    ResultPart,
    TextPart,
    ToolCall,
    ToolSpec,
)
from pegboard.dialects import (
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
from pegboard.messages import Part
from pegboard.request.exporter import ResponseReader
from pegboard.request.model_request import ToolChoice
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard.wire import (
    ORIGINAL,
    Entries,
    Entry,
    arguments_object,
    check_choice,
    convert_schema,
    description_of,
    hosted_type,
    in_order,
    known,
    losses_of,
    merged,
    own,
    passthrough,
    refusal,
    render_text,
    sendable,
)
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


PROPERTY_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""What is taken as a property's name."""

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
        plain_enums,
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
                *("minProperties", "maxProperties", "propertyOrdering"),
            }
        ),
        type_lists,
        isolate_any_of,
        nullable,
        string_enums,
        formats(("date-time", "int32", "int64", "float", "double")),
        property_names(PROPERTY_NAME),
        upper_case_types,
    ),
)
"""Gemini's older `parameters` (`google.genai.types.Schema`); no JSON Schema: types in capitals, `nullable`."""


def sdk_arguments(body: JsonMapping) -> JsonObject:
    """The keywords of `client.aio.models.generate_content` and `generate_content_stream`.

    The SDK has all but model and contents in one `config`, the members of `generationConfig` at its top. Its own
    calling of functions is turned off: here, calls are run by the registry.

    Args:
        body: What `Gemini.request` gave; left as it is.

    Returns:
        `{"model", "contents", "config"}`; `model` only where the body has one.
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
"""Native tools whose entry is a list; each provider tool is one item of it."""


@frozen
class SchemaWords:
    """How an exporter says schemas.

    Attributes:
        dialect: What rewrites them.
        parameters: The key of the input schema in a declaration.
        response: The key of the output schema.
        empty: Whether an input schema without properties is said at all: the older subset has no empty object.
    """

    dialect: Dialect
    parameters: str
    response: str
    empty: bool = True


@define(eq=False)
class GeminiTools:
    """Writes tools for Gemini.

    Attributes:
        said: How schemas are said.
        limits: What the provider takes.
        option_keys: What the provider is called in a tool's options, the later over the earlier.
        output_schemas: Whether declarations hold output schemas; the model reads them with every request.
    """

    said: SchemaWords
    limits: GeminiLimits
    option_keys: Sequence[str] = OPTION_KEYS
    output_schemas: bool = False
    written: Entries = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.written = Entries(self._write)

    def exported(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> ExportedTools:
        """The list that a request's `tools` holds: one entry for all functions, then one for each native tool."""
        plain = self.written.exported(specs, strict)
        functions: dict[str, JsonObject] = {}
        native: list[JsonObject] = []
        for entry in plain.entries:
            if "name" in entry:
                functions[entry["name"]] = entry
            else:
                native.append(entry)
        kept = list(functions.values())[: self.limits.functions]
        extra = list(functions)[self.limits.functions :]
        return ExportedTools(
            (*([{FUNCTIONS: kept}] if kept else []), *native),
            (*plain.losses, *(self._one_too_many(name) for name in extra)),
            plain.names.difference(extra),
        )

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Entry:
        """One tool by itself."""
        return self.written.one(spec, strict)

    def _one_too_many(self, name: str) -> Loss:
        what = f"a request may declare {self.limits.functions} functions, and so many stand before it"
        return Loss(name, "/name", "tools", what, refused=True)

    def _write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        return self._native(spec) if spec.kind == "provider" else self._function(spec, strict)

    def _native(self, spec: ToolSpec) -> Entry:
        kind = hosted_type(spec, OPTION_KEYS)
        if kind is None or not kind.isidentifier() or camel(kind) == FUNCTIONS:
            return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is no tool that Gemini hosts")
        key = camel(kind)
        arguments = {**spec.provider_arguments, **passthrough(spec.provider_options, self.option_keys)}
        return Entry({key: [arguments] if key in _LISTS else arguments})

    def _function(self, spec: ToolSpec, strict: bool | None) -> Entry:
        if not self.limits.takes_name(spec.name):
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = convert_schema(spec, self.said.dialect, None, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "description": description_of(spec, examples=True, grammar=True)}
        if self.said.empty or schema.schema.get("properties"):
            entry[self.said.parameters] = schema.schema
        losses = (*schema.losses, *self._add_output(entry, spec.output_schema, spec))
        return Entry({**entry, **passthrough(spec.provider_options, self.option_keys)}, losses)

    def _add_output(self, entry: JsonObject, schema: JsonSchema | None, spec: ToolSpec) -> tuple[Loss, ...]:
        """Says what the tool answers, where that is wanted; an output schema that can't be said is left out."""
        if schema is None or not self.output_schemas:
            return ()
        rewritten = self.said.dialect.rewrite(schema)
        if rewritten.refused:
            faults = "; ".join(f"{change.keyword} {change.what}" for change in rewritten.changes if change.refused)
            return (Loss(spec.name, "/outputSchema", "outputSchema", f"left out: {faults}"),)
        entry[self.said.response] = rewritten.schema
        return losses_of(spec, rewritten.changes, "/outputSchema")


_PLAIN: Final = (
    ("max_output_tokens", "maxOutputTokens"),
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("seed", "seed"),
)
_BUDGETS: Final = {"none": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens that models before Gemini 3 may think, which know no levels."""
_LEVELS: Final = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


def generation_config(config: ModelConfig, model: str | None, limits: GeminiLimits) -> JsonObject:
    """`generationConfig`; empty where nothing is asked."""
    said: JsonObject = {wire: value for name, wire in _PLAIN if (value := getattr(config, name)) is not None}
    if config.stop:
        said["stopSequences"] = list(config.stop)
    if config.reasoning is not None:
        said["thinkingConfig"] = _thinking(config.reasoning, dated=limits.is_dated(model))
    return said


def _thinking(reasoning: str, *, dated: bool) -> JsonObject:
    amount: JsonObject = {"thinkingBudget": _BUDGETS[reasoning]} if dated else {"thinkingLevel": _LEVELS[reasoning]}
    return amount if reasoning == "none" else {**amount, "includeThoughts": True}


def tool_config(choice: ToolChoice, exported: ExportedTools, *, strict: bool | None, exporter: str) -> JsonObject:
    """`toolConfig`; empty where the provider's own behaviour is what is asked.

    Strictness is one of the modes: `VALIDATED` holds the model's calls to the schemas.

    Args:
        choice: Whether the model may, must or must not call.
        exported: The tools in the request.
        strict: Whether the provider shall hold calls to the schemas.
        exporter: For errors.

    Raises:
        ExportError: A tool must be called that isn't among the functions, or any, where there is none.
    """
    functions = [function["name"] for entry in exported.entries for function in entry.get(FUNCTIONS, ())]
    said: JsonObject = {}
    check_choice(choice, functions, exporter)
    calling = _calling(choice, functions, strict=bool(strict))
    if calling:
        said["functionCallingConfig"] = calling
    if functions and len(exported.entries) > 1:
        # Gemini takes native tools beside functions only where it may tell of its own calls.
        said["includeServerSideToolInvocations"] = True
    return said


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
class Conversation:
    """Writes messages as contents; the results of one turn's calls stand together, in the order of the calls.

    Attributes:
        limits: What the provider takes.
        unvalidated: The signature for calls of other providers, or `None`.
        contents: What has been written.
    """

    limits: GeminiLimits
    unvalidated: str | None = None
    contents: list[JsonObject] = field(factory=list[JsonObject])
    _calls: list[str] = field(factory=list[str])
    _wire_ids: dict[str, str] = field(factory=dict[str, str])
    _answers: list[ResultPart] = field(factory=list[ResultPart])

    def add(self, messages: Iterable[Message]) -> list[JsonObject]:
        """Writes messages, and gives all contents so far."""
        for message in messages:
            if message.role == "assistant":
                self._answered()
                self._speak("model", self._said(message))
            else:
                self._hear(message)
        self._answered()
        return self.contents

    def _hear(self, message: Message) -> None:
        """What comes from this side: results wait until all of the turn's have come, anything else is the user's."""
        results = message.results if message.role == "tool" else ()
        self._answers += results
        if len(results) < len(message.parts):
            self._answered()
            rest = [part for part in message.parts if not (results and isinstance(part, ResultPart))]
            self._speak("user", [said for part in rest if (said := self._part(part)) is not None])

    def _speak(self, role: str, parts: list[JsonObject]) -> None:
        if not parts:
            return
        last = self.contents[-1] if self.contents else None
        if last is not None and last["role"] == role and "functionResponse" not in last["parts"][0]:
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _said(self, message: Message) -> list[JsonObject]:
        """A model's turn; the first of calls that another provider's model has made says that it isn't validated."""
        said = [written for part in message.parts if (written := self._part(part)) is not None]
        first = next((call for call in message.calls if not call.provider_executed), None)
        if first is not None and self.unvalidated is not None and not is_own(first.provider_metadata):
            calling = next(part for part in said if "functionCall" in part)
            calling[_SIGNATURE] = self.unvalidated
        return said

    def _part(self, part: Part) -> JsonObject | None:
        """One part; `None` where Gemini has nothing to hear of it."""
        if isinstance(part, TextPart):
            return _text(part.text, beside(part.provider_metadata))
        if isinstance(part, MediaPart):
            return {**media_part(part.content), **beside(part.provider_metadata)}
        if isinstance(part, CallPart):
            return None if part.call.provider_executed else self._call(part.call)
        if isinstance(part, ResultPart):
            return {"text": f"[result of {part.name}]\n" + "\n".join(map(render_text, part.result.content))}
        if isinstance(part, ReasoningPart):
            ours = is_own(part.provider_metadata)
            return {"text": part.text, "thought": True, **beside(part.provider_metadata)} if ours else None
        return _hosted(part)

    def _call(self, call: ToolCall) -> JsonObject:
        wire_id: Any = own(call.provider_metadata, FAMILY).get(ORIGINAL, call.id)
        self._wire_ids[call.id] = wire_id if isinstance(wire_id, str) else ""
        self._calls.append(call.id)
        said: JsonObject = {"name": sendable(call.name, self.limits.name), "args": arguments_object(call)}
        if self._wire_ids[call.id]:
            said["id"] = self._wire_ids[call.id]
        return {"functionCall": said, **beside(call.provider_metadata)}

    def _answered(self) -> None:
        """Writes the results that have come, in the order of their calls."""
        if self._answers:
            ordered = in_order(self._answers, self._calls)
            self.contents.append({"role": "user", "parts": [self._answer(part) for part in ordered]})
            self._answers = []
            self._calls = []

    def _answer(self, part: ResultPart) -> JsonObject:
        wire_id = self._wire_ids.get(part.call_id, part.call_id)
        return response_part(sendable(part.name, self.limits.name), wire_id, part.result, self.limits)


def _text(text: str, carried: JsonObject) -> JsonObject | None:
    """A text; an empty one only where it carries something that has to go back."""
    return {"text": text, **carried} if text or carried else None


def _hosted(part: HostedPart) -> JsonObject | None:
    return dict(part.data) if part.provider == FAMILY else None


_JSON_SCHEMA: Final = SchemaWords(GEMINI_JSON_SCHEMA, "parametersJsonSchema", "responseJsonSchema")
_SCHEMA: Final = SchemaWords(GEMINI_SCHEMA, "parameters", "response", empty=False)


@define(eq=False)
class Gemini:
    """Writes `generateContent` requests of the Gemini API and of Vertex AI, and reads their answers.

    Bodies are those of the REST API, in camel case; `sdk.sdk_arguments` makes of one what `google-genai` takes.
    Answers are the JSON of a `GenerateContentResponse`; of the SDK's own model any `model_dump()` will do.

    Attributes:
        limits: What the provider takes.
        output_schemas: Whether functions are declared with their output schemas.
    """

    name: str = field(default="gemini", init=False)
    said: ClassVar[SchemaWords] = _JSON_SCHEMA
    option_keys: ClassVar[tuple[str, ...]] = OPTION_KEYS

    limits: GeminiLimits = DEFAULT_LIMITS
    output_schemas: bool = False
    _tools: GeminiTools = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tools = GeminiTools(self.said, self.limits, self.option_keys, self.output_schemas)

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of a request: `{"functionDeclarations": [...]}` for all functions, an entry for each native tool."""
        return self._tools.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._tools.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `models/MODEL:generateContent`; the model's name stands beside it under `model`.

        Raises:
            ExportError: There is nothing to say, or a tool must be called that isn't there.
        """
        exported = self.tools([tool.spec for tool in request.offered], strict=request.config.strict)
        before, messages = _parted(request)
        unvalidated = None if self.limits.is_dated(request.model) else self.limits.unvalidated
        contents = Conversation(self.limits, unvalidated).add(messages)
        if not contents:
            raise ExportError("there is nothing to answer: no message says anything", exporter=self.name)
        facts = {
            "model": request.model,
            "systemInstruction": {"parts": [{"text": before}]} if before else None,
            "contents": contents,
            "tools": list(exported.entries),
            "toolConfig": tool_config(request.tool_choice, exported, strict=request.config.strict, exporter=self.name),
            "generationConfig": generation_config(request.config, request.model, self.limits),
        }
        return merged(known(facts), passthrough(request.config.provider_options, self.option_keys))

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:  # noqa: ARG002  as `Exporter` has it: nothing is written strictly
        """An answer, from the JSON of a `GenerateContentResponse`.

        Raises:
            ModelError: It is no answer, or the provider's error.
        """
        return response_of(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """What reads a streamed answer, whose chunks are each a `GenerateContentResponse`."""
        return GeminiReader()


@define(eq=False)
class GeminiSchema(Gemini):
    """The same with the older subset of schemas (`parameters`), for models and proxies that take no JSON Schema."""

    name: str = field(default="gemini-schema", init=False)
    said: ClassVar[SchemaWords] = _SCHEMA
    option_keys: ClassVar[tuple[str, ...]] = (*OPTION_KEYS, "gemini-schema")


def _parted(request: ModelRequest) -> tuple[str, tuple[Message, ...]]:
    """What stands before the conversation, and the conversation: system messages at its beginning belong to the first.

    Gemini knows no system in the midst of a conversation: there it is the user's.
    """
    messages = request.messages
    start = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    texts = (request.system, *(message.text for message in messages[:start]))
    return "\n\n".join(text for text in texts if text), messages[start:]


@cache
def exporter() -> Gemini:
    """The one of this process, which keeps what it has written."""
    return Gemini()


@cache
def schema_exporter() -> GeminiSchema:
    """The one of this process, which keeps what it has written."""
    return GeminiSchema()


__all__ = [
    "GEMINI_JSON_SCHEMA",
    "GEMINI_SCHEMA",
    "Gemini",
    "GeminiSchema",
    "exporter",
    "schema_exporter",
    "sdk_arguments",
    "upper_case_types",
]
