"""`Gemini` and `GeminiSchema`: the exporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import define, field

from pegboard.errors import ExportError
from pegboard.messages.message import Message
from pegboard.messages.response import ModelResponse
from pegboard.request.dialects.providers import GEMINI_JSON_SCHEMA, GEMINI_SCHEMA
from pegboard.request.exporter import ExportedTools, ResponseReader
from pegboard.request.exporters.body import known, merged
from pegboard.request.exporters.gemini.answer import response_of
from pegboard.request.exporters.gemini.config import generation_config, tool_config
from pegboard.request.exporters.gemini.contents import Conversation
from pegboard.request.exporters.gemini.limits import DEFAULT_LIMITS, OPTION_KEYS, GeminiLimits
from pegboard.request.exporters.gemini.reader import GeminiReader
from pegboard.request.exporters.gemini.tools import GeminiTools, Said
from pegboard.request.exporters.passed import passed
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

_JSON_SCHEMA: Final = Said(GEMINI_JSON_SCHEMA, "parametersJsonSchema", "responseJsonSchema")
_SCHEMA: Final = Said(GEMINI_SCHEMA, "parameters", "response", empty=False)


@define(eq=False)
class Gemini:
    """Writes `generateContent` requests of the Gemini API and of Vertex AI, and reads their answers.

    Bodies are those of the REST API, in camel case; `sdk.sdk_arguments` makes of one what `google-genai` takes.
    Answers are the JSON of a `GenerateContentResponse`; of the SDK's own model any `model_dump()` will do.

    Attributes:
        limits: What the provider takes.
        output_schemas: Whether functions are declared with their output schemas.
    """

    name: ClassVar[str] = "gemini"
    said: ClassVar[Said] = _JSON_SCHEMA
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
        return merged(known(facts), passed(request.config.provider_options, self.option_keys))

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:  # noqa: ARG002  as `Exporter` has it: nothing is written strictly
        """An answer, from the JSON of a `GenerateContentResponse`.

        Raises:
            ModelError: It is no answer, or the provider's error.
        """
        return response_of(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """What reads a streamed answer, whose chunks are each a `GenerateContentResponse`."""
        return GeminiReader()


class GeminiSchema(Gemini):
    """The same with the older subset of schemas (`parameters`), for models and proxies that take no JSON Schema."""

    name: ClassVar[str] = "gemini-schema"
    said: ClassVar[Said] = _SCHEMA
    option_keys: ClassVar[tuple[str, ...]] = (*OPTION_KEYS, "gemini-schema")


def _parted(request: ModelRequest) -> tuple[str, tuple[Message, ...]]:
    """What stands before the conversation, and the conversation: system messages at its beginning belong to the first.

    Gemini knows no system in the midst of a conversation: there it is the user's.
    """
    messages = request.messages
    start = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    texts = (request.system, *(message.text for message in messages[:start]))
    return "\n\n".join(text for text in texts if text), messages[start:]


__all__ = ["Gemini", "GeminiSchema"]
