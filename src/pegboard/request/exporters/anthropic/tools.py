"""`anthropic_tools`: tools as Anthropic lists them."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from attrs import frozen

from pegboard.errors import SchemaError
from pegboard.request.dialects.providers import ANTHROPIC, ANTHROPIC_STRICT
from pegboard.request.exporters.alternating.strict_budget import StrictBudget
from pegboard.request.exporters.anthropic.limits import FAMILY, AnthropicLimits
from pegboard.request.exporters.anthropic.server_tools import is_toolset, server_tool_name
from pegboard.request.exporters.fitted import described, fitted
from pegboard.request.exporters.passed import hosted_type, passed
from pegboard.request.exporters.written import Written, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject, JsonSchema

KEYS: Final = (FAMILY,)


def anthropic_tools(limits: AnthropicLimits) -> StrictBudget:
    """What writes the list of a request, tools beyond what may be strict in one plainly.

    Args:
        limits: What the provider takes.
    """
    return StrictBudget(AnthropicWriter(limits), _strict_schema, _name, limits.strict)


@frozen
class AnthropicWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
    """

    limits: AnthropicLimits

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Written:
        """The tool's entry."""
        return self._server_tool(spec) if spec.kind == "provider" else self._custom(spec, strict)

    def _server_tool(self, spec: ToolSpec) -> Written:
        kind = hosted_type(spec, KEYS)
        name = None if kind is None else server_tool_name(kind)
        if kind is None or name is None:
            return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is no tool that Anthropic brings")
        entry: JsonObject = {"type": kind} if is_toolset(kind) else {"type": kind, "name": name}
        return Written({**entry, **spec.provider_arguments, **passed(spec.provider_options, KEYS)})

    def _custom(self, spec: ToolSpec, strict: bool | None) -> Written:
        if re.fullmatch(self.limits.name, spec.name, re.ASCII) is None:
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = fitted(spec, ANTHROPIC, ANTHROPIC_STRICT, strict)
        if schema.refused:
            return Written(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "input_schema": schema.schema}
        description = described(spec, grammar=True)
        if description.strip():
            entry["description"] = description
        if schema.strict:
            entry["strict"] = True
        losses = (*schema.losses, *_add_examples(entry, spec, schema.schema))
        return Written({**entry, **passed(spec.provider_options, KEYS)}, losses)


def _add_examples(entry: JsonObject, spec: ToolSpec, schema: JsonSchema) -> tuple[Loss, ...]:
    """Says the examples that fit the schema as it is exported: one that doesn't fails the whole request (public)."""
    if not spec.examples:
        return ()
    from pegboard.schema.json import json_text
    from pegboard.schema.validator import validator_of

    examples = spec.examples
    try:
        validator = validator_of(json_text(schema))
    except SchemaError as error:
        return (Loss(spec.name, "/examples", "examples", f"left out: {error}"),)
    fitting = [example for example in examples if not validator.problems(example)]
    if fitting:
        entry["input_examples"] = fitting
    what = "left out: it doesn't fit the schema as exported"
    return tuple(
        Loss(spec.name, f"/examples/{at}", "examples", what) for at, each in enumerate(examples) if each not in fitting
    )


def _strict_schema(entry: JsonObject) -> JsonSchema | None:
    schema: Any = entry.get("input_schema") if entry.get("strict") is True else None
    return cast("JsonSchema", schema) if isinstance(schema, dict) else None


def _name(entry: JsonObject) -> str | None:
    name = entry.get("name")
    return name if isinstance(name, str) else None


__all__ = ["KEYS", "anthropic_tools"]
