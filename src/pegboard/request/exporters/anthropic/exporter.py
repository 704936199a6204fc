"""`Anthropic`: the messages API, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard.messages.response import ModelResponse
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.alternating.conversation import leading_system, turns_of
from pegboard.request.exporters.alternating.strict_budget import StrictBudget
from pegboard.request.exporters.anthropic.answer import AnthropicAnswer, answered
from pegboard.request.exporters.anthropic.blocks import REFUSED_IN_IDS, AnthropicWire
from pegboard.request.exporters.anthropic.errors import error_of
from pegboard.request.exporters.anthropic.limits import DEFAULT_LIMITS, FAMILY, AnthropicLimits
from pegboard.request.exporters.anthropic.offered import Offered
from pegboard.request.exporters.anthropic.reader import AnthropicReader
from pegboard.request.exporters.anthropic.tools import KEYS, anthropic_tools
from pegboard.request.exporters.body import merged
from pegboard.request.exporters.calls.made_calls import MadeCalls, strict_schemas
from pegboard.request.exporters.calls.sent_ids import SentIds
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.untrusted import object_in, objects_in
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

_CHANCE: Final = ("temperature", "top_p")


@define(eq=False)
class Anthropic:
    """The messages API: bodies as the SDK's `messages.create` takes them, answers as `model_dump()` gives them.

    Attributes:
        limits: What the provider takes.
    """

    limits: AnthropicLimits = DEFAULT_LIMITS
    name: str = field(default=FAMILY, init=False)
    _tools: StrictBudget = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tools = anthropic_tools(self.limits)

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of `tools`; deferred ones plainly, for without a request nobody searches them."""
        return self._tools.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._tools.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body.

        A seed has no place in it, nor `temperature` and `top_p` but for models that take them (`limits.sampling`), and
        then not while they think. Where a call is forced a model can't think (public), so that isn't asked for.

        Raises:
            ExportError: There is nothing to say, or the tool choice can't be met.
        """
        offered = Offered.of(request, self._tools)
        lead, messages = leading_system(request.messages)
        ids = SentIds(REFUSED_IN_IDS, self.limits.call_id)
        body: JsonObject = {} if request.model is None else {"model": request.model}
        body["max_tokens"] = request.config.max_output_tokens or self.limits.max_tokens
        system = "\n\n".join(part for part in (request.system, *lead) if part)
        if system.strip():
            body["system"] = system
        body["messages"] = turns_of(messages, AnthropicWire(ids, self.limits, offered.names))
        body.update(offered.said(request))
        self._add_config(body, request)
        return merged(body, passed(request.config.provider_options, KEYS))

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """An answer.

        Raises:
            ModelError: It is no answer, or the provider's error.
        """
        body = object_in({"body": raw}, "body")  # what a client got may be anything
        if not isinstance(body.get("content"), list):
            raise error_of(body)
        answer = self._answer(request)()
        return answered(body, answer, answer.parts(objects_in(body, "content")))

    def reader(self, request: ModelRequest | None = None) -> AnthropicReader:
        """What reads the events of a stream."""
        return AnthropicReader(self._answer(request), self.limits, self._names(request))

    def _names(self, request: ModelRequest | None) -> dict[str, str]:
        return {called: name for name, called in self._tools.names_of(request).items()}

    def _answer(self, request: ModelRequest | None) -> Callable[[], AnthropicAnswer]:
        names, schemas = self._names(request), strict_schemas(request)
        return lambda: AnthropicAnswer(MadeCalls(FAMILY, schemas, names, self.limits.argument_text))

    def _add_config(self, body: JsonObject, request: ModelRequest) -> None:
        config = request.config
        forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        thinks = config.reasoning not in (None, "none") and not forced
        if config.reasoning is not None and (thinks or config.reasoning == "none"):
            body.update(passed({FAMILY: self.limits.reasoning.get(config.reasoning, {})}, KEYS))
        chance = {name: getattr(config, name) for name in _CHANCE if self.limits.sampling and not thinks}
        body.update({name: value for name, value in chance.items() if value is not None})
        if config.stop:
            body["stop_sequences"] = list(config.stop)


__all__ = ["Anthropic"]
