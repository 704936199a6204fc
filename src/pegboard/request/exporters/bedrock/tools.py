"""`bedrock_tools`: tools as Converse lists them."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from attrs import frozen

from pegboard.request.dialects.providers import BEDROCK, BEDROCK_STRICT
from pegboard.request.exporters.alternating.strict_budget import Followed, StrictBudget
from pegboard.request.exporters.bedrock.limits import FAMILY, BedrockLimits
from pegboard.request.exporters.fitted import described, fitted
from pegboard.request.exporters.passed import hosted_type, passed
from pegboard.request.exporters.untrusted import object_in
from pegboard.request.exporters.written import Written, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject, JsonSchema

KEYS: Final = (FAMILY,)
CACHE_POINT: Final = "cachePoint"
"""The option by which a tool, a part, a message or a request is followed by such a point."""


def bedrock_tools(limits: BedrockLimits) -> StrictBudget:
    """What writes the list of a request, tools beyond what may be strict in one plainly.

    Args:
        limits: What the provider takes.
    """
    return StrictBudget(BedrockWriter(limits), _strict_schema, _name, limits.strict)


@frozen
class BedrockWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
    """

    limits: BedrockLimits

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Written:
        """The tool's entry."""
        return self._system_tool(spec) if spec.kind == "provider" else self._spec(spec, strict)

    def _system_tool(self, spec: ToolSpec) -> Written:
        kind = hosted_type(spec, KEYS)
        if kind is None or re.fullmatch(self.limits.name, kind) is None:
            return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is no tool that Bedrock hosts")
        options = passed(spec.provider_options, KEYS)
        point = options.pop(CACHE_POINT, None)
        return _followed({"systemTool": {"name": kind, **spec.provider_arguments, **options}}, point, ())

    def _spec(self, spec: ToolSpec, strict: bool | None) -> Written:
        if re.fullmatch(self.limits.name, spec.name) is None:
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = fitted(spec, BEDROCK, BEDROCK_STRICT, strict)
        if schema.refused:
            return Written(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "inputSchema": {"json": schema.schema}}
        description = described(spec, examples=True, grammar=True)
        if description.strip():
            entry["description"] = description
        if schema.strict:
            entry["strict"] = True
        options = passed(spec.provider_options, KEYS)
        point = options.pop(CACHE_POINT, None)
        return _followed({"toolSpec": {**entry, **options}}, point, schema.losses)


def _followed(entry: JsonObject, point: object, losses: tuple[Loss, ...]) -> Followed:
    behind: JsonObject | None = {CACHE_POINT: point} if isinstance(point, dict) else None
    return Followed(entry, losses, behind)


def _strict_schema(entry: JsonObject) -> JsonSchema | None:
    spec = object_in(entry, "toolSpec")
    schema: Any = object_in(spec, "inputSchema").get("json") if spec.get("strict") is True else None
    return cast("JsonSchema", schema) if isinstance(schema, dict) else None


def _name(entry: JsonObject) -> str | None:
    named: JsonObject = entry.get("toolSpec") or entry.get("systemTool") or {}
    name = named.get("name")
    return name if isinstance(name, str) else None


__all__ = ["CACHE_POINT", "KEYS", "bedrock_tools"]
