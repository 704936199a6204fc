"""`Ollama`: the exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import define, field

from pegboard.errors import ExportError
from pegboard.messages.response import ModelResponse
from pegboard.request.exporter import ExportedTools, ResponseReader
from pegboard.request.exporters.body import known, merged
from pegboard.request.exporters.choices import check_choice
from pegboard.request.exporters.ollama.answer import OllamaReader, response_of
from pegboard.request.exporters.ollama.messages import Conversation
from pegboard.request.exporters.ollama.tools import FAMILY, written
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.written import WrittenTools
from pegboard.request.loss import Loss
from pegboard.request.model_config import ModelConfig
from pegboard.request.model_request import ModelRequest
from pegboard.request.tool_choice import NamedTool, ToolChoice
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

_OPTIONS: Final = (
    ("max_output_tokens", "num_predict"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("seed", "seed"),
)


@define(eq=False)
class Ollama:
    """Writes requests of Ollama's `/api/chat`, and reads their answers.

    Ollama has no word for what a model must call: a request that requires a call offers the tools, or only the one
    that is named, and says so in the system's words.
    """

    name: ClassVar[str] = FAMILY
    _tools: WrittenTools = field(factory=lambda: WrittenTools(written), init=False)

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of a request: `{"type": "function", "function": {...}}` for each."""
        return self._tools.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._tools.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body; `stream` isn't in it, as it is for the client to say.

        Raises:
            ExportError: There is nothing to say, or a tool must be called that isn't there.
        """
        tools, order = self._offered(request)
        system = "\n\n".join(text for text in (request.system, order) if text)
        messages = Conversation([{"role": "system", "content": system}] if system else []).add(request.messages)
        if len(messages) == bool(system):
            raise ExportError("there is nothing to answer: no message says anything", exporter=self.name)
        facts = {
            "model": request.model,
            "messages": messages,
            "tools": tools,
            "options": _options(request.config),
            "think": _think(request.config),
        }
        return merged(known(facts), passed(request.config.provider_options, (FAMILY,)))

    def _offered(self, request: ModelRequest) -> tuple[list[JsonObject], str]:
        """The tools, and what is said of calling them.

        Raises:
            ExportError: A tool must be called that isn't there.
        """
        exported = self.tools([tool.spec for tool in request.offered], strict=request.config.strict)
        choice: ToolChoice = request.tool_choice
        check_choice(choice, exported.names, FAMILY)
        if choice == "none":
            return [], ""
        if isinstance(choice, NamedTool):
            named = [entry for entry in exported.entries if entry["function"]["name"] == choice.name]
            return named, f"Answer by calling the tool {choice.name}."
        return list(exported.entries), "Answer by calling a tool." if choice == "required" else ""

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:  # noqa: ARG002  as `Exporter` has it: nothing is written strictly
        """An answer, from its body.

        Raises:
            ModelError: It is no answer, or the provider's error.
        """
        return response_of(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """What reads a streamed answer, line by line."""
        return OllamaReader()


def _options(config: ModelConfig) -> JsonObject:
    said: JsonObject = {wire: value for name, wire in _OPTIONS if (value := getattr(config, name)) is not None}
    return {**said, "stop": list(config.stop)} if config.stop else said


def _think(config: ModelConfig) -> bool | str | None:
    return False if config.reasoning == "none" else config.reasoning


__all__ = ["Ollama"]
