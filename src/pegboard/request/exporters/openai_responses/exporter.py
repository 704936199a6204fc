"""`OpenAIResponses`: OpenAI's responses, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from pegboard.messages.response import ModelResponse
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.calls.made_calls import strict_schemas
from pegboard.request.exporters.openai.limits import RESPONSES, Limits
from pegboard.request.exporters.openai_responses.answer import ResponsesAnswers
from pegboard.request.exporters.openai_responses.body import responses_body
from pegboard.request.exporters.openai_responses.items import ToolOfType
from pegboard.request.exporters.openai_responses.listing import listed
from pegboard.request.exporters.openai_responses.reader import ResponsesReader
from pegboard.request.exporters.openai_responses.tools import FAMILY, ResponsesWriter
from pegboard.request.exporters.passed import hosted_type
from pegboard.request.exporters.written import WrittenTools
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject


@define(eq=False, kw_only=True)
class OpenAIResponses:
    """Writes requests for OpenAI's responses.

    The whole conversation goes with each request: items under their ids, reasoning with its encrypted content where it
    came with that. With the option `store` false, nothing is said that the provider would have to look up; left out,
    the provider decides whether it keeps answers.

    Options of tools and requests stand under `"openai"` and, stronger, under its own name. A tool's option `namespace`
    puts it into one; the request's option `allowed_tools` (names) leaves the list as it is and lets the model choose
    among these; all other options go into the entry or the body as they are.

    Attributes:
        name: What it is found by, and where its own facts of calls and parts stand.
        limits: What the provider takes.
        custom_tools: Whether its models know tools that take free text; where not, they become functions.
    """

    name: str = "openai-responses"
    limits: Limits = RESPONSES
    custom_tools: bool = True
    _written: WrittenTools = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._written = WrittenTools(ResponsesWriter(self.limits, self.custom_tools, (FAMILY, self.name)))

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions, custom tools, namespaces, and tools that OpenAI hosts."""
        return listed(self._written, specs, strict, self.limits.tools).exported

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /responses`, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs = [tool.spec for tool in request.offered]
        strict, most = request.config.strict, self.limits.tools
        tools = listed(self._written, specs, strict, most, deferred=request.loads_deferred)
        return responses_body(request, tools, self.limits, self.name)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """A `response`, read.

        Raises:
            ModelError: It is no response, or the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponsesReader:
        """What reads the events of a streamed response."""
        return ResponsesReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ResponsesAnswers:
        return ResponsesAnswers(self.name, strict_schemas(request), self._of_type(request), self.limits)

    def _of_type(self, request: ModelRequest | None) -> ToolOfType:
        def find(types: tuple[str, ...]) -> str | None:
            for tool in () if request is None else request.offered:
                if tool.spec.kind == "provider" and hosted_type(tool.spec, (FAMILY, self.name)) in types:
                    return tool.spec.name
            return None

        return find


__all__ = ["OpenAIResponses"]
