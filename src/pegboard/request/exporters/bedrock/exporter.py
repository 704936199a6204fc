"""`Bedrock`: Converse, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import ModelResponse
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.alternating.conversation import leading_system, turns_of
from pegboard.request.exporters.alternating.strict_budget import StrictBudget
from pegboard.request.exporters.bedrock.answer import BedrockAnswer, answered
from pegboard.request.exporters.bedrock.blocks import REFUSED_IN_IDS, BedrockWire
from pegboard.request.exporters.bedrock.errors import error_of
from pegboard.request.exporters.bedrock.limits import DEFAULT_LIMITS, FAMILY, BedrockLimits
from pegboard.request.exporters.bedrock.reader import BedrockReader
from pegboard.request.exporters.bedrock.tools import CACHE_POINT, KEYS, bedrock_tools
from pegboard.request.exporters.body import merged
from pegboard.request.exporters.calls.made_calls import MadeCalls, strict_schemas
from pegboard.request.exporters.calls.said_names import called_before
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.choices import check_choice
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.untrusted import object_in, objects_in
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.request.tool_choice import NamedTool
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

_INFERENCE: Final = {"max_output_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}


@define(eq=False)
class Bedrock:
    """Converse: bodies as `boto3`'s `converse` and `converse_stream` take them, answers and events as it gives them.

    Attributes:
        limits: What the provider takes.
    """

    limits: BedrockLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)
    _tools: StrictBudget = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tools = bedrock_tools(self.limits)

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of `toolConfig.tools`."""
        return self._tools.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._tools.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body: keyword arguments, media as bytes.

        A seed and `parallel_calls` have no place in it; what a model takes of them goes under
        `additionalModelRequestFields`, by provider options. The option `cachePoint` ends what is cached of the system.

        Raises:
            ExportError: There is nothing to say, or the tool choice can't be met.
        """
        lead, messages = leading_system(request.messages)
        names = self._tools.names_of(request)
        wire = BedrockWire(SentIds(REFUSED_IN_IDS, self.limits.call_id), self.limits, names)
        options = passed(request.config.provider_options, KEYS)
        body: JsonObject = {} if request.model is None else {"modelId": request.model}
        body["messages"] = turns_of(messages, wire)
        body.update(_system(request, lead, options.pop(CACHE_POINT, None)))
        body.update(self._config(request))
        config = self._tool_config(request, names)
        if config:
            body["toolConfig"] = config
        return merged(body, options)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """An answer.

        Raises:
            ModelError: It is no answer, or the provider's error (`ClientError.response`).
        """
        body = object_in({"body": raw}, "body")  # what a client got may be anything
        message = object_in(object_in(body, "output"), "message")
        if not isinstance(message.get("content"), list):
            raise error_of(body)
        answer = self._answer(request)()
        return answered(body, answer, answer.parts(objects_in(message, "content")))

    def reader(self, request: ModelRequest | None = None) -> BedrockReader:
        """What reads the events of a stream."""
        return BedrockReader(self._answer(request), self.limits, self._own_names(request))

    def _answer(self, request: ModelRequest | None) -> Callable[[], BedrockAnswer]:
        names, schemas = self._own_names(request), strict_schemas(request)
        return lambda: BedrockAnswer(MadeCalls(FAMILY, schemas, names, self.limits.argument_text))

    def _own_names(self, request: ModelRequest | None) -> dict[str, str]:
        return {called: name for name, called in self._tools.names_of(request).items()}

    def _config(self, request: ModelRequest) -> JsonObject:
        config = request.config
        inference = {key: getattr(config, name) for name, key in _INFERENCE.items()}
        inference = {key: value for key, value in inference.items() if value is not None}
        if config.stop:
            inference["stopSequences"] = list(config.stop)
        thinking = passed({FAMILY: self.limits.reasoning.get(config.reasoning or "", {})}, KEYS)
        return {**thinking, **({"inferenceConfig": inference} if inference else {})}

    def _tool_config(self, request: ModelRequest, names: Mapping[str, str]) -> JsonObject:
        """The tools and the choice, as far as they have to be said.

        There is no word for "none": tools are left out then. But a conversation that holds calls is refused without
        tools (public), so that those are listed then, and those it called where none are offered.
        """
        exported = self._tools.exported([tool.spec for tool in request.offered], request.config.strict)
        choice = request.tool_choice
        check_choice(choice, exported.names, FAMILY)
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
    said: list[JsonObject] = [{"text": part} for part in (request.system, *lead) if part.strip()]
    if said and isinstance(point, dict):
        said.append({CACHE_POINT: point})
    return {"system": said} if said else {}


def _gone(name: str) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {}}
    return {"toolSpec": {"name": name, "description": "No longer available.", "inputSchema": {"json": schema}}}


__all__ = ["Bedrock"]
