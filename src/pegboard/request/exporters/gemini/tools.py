"""`GeminiTools`: tools as Gemini lists them, all functions in one entry, each native tool in one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define, field, frozen

from pegboard.request.dialects.dialect import Dialect
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.fitted import described, fitted, losses_of
from pegboard.request.exporters.gemini.limits import OPTION_KEYS, GeminiLimits
from pegboard.request.exporters.gemini.wire_words import camel
from pegboard.request.exporters.passed import hosted_type, passed
from pegboard.request.exporters.written import Written, WrittenTools, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject, JsonSchema

FUNCTIONS: Final = "functionDeclarations"
_LISTS: Final = frozenset({"mcpServers"})
"""Native tools whose entry is a list; each provider tool is one item of it."""


@frozen
class Said:
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

    said: Said
    limits: GeminiLimits
    option_keys: Sequence[str] = OPTION_KEYS
    output_schemas: bool = False
    written: WrittenTools = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.written = WrittenTools(self._write)

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

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Written:
        """One tool by itself."""
        return self.written.one(spec, strict)

    def _one_too_many(self, name: str) -> Loss:
        what = f"a request may declare {self.limits.functions} functions, and so many stand before it"
        return Loss(name, "/name", "tools", what, refused=True)

    def _write(self, spec: ToolSpec, strict: bool | None) -> Written:
        return self._native(spec) if spec.kind == "provider" else self._function(spec, strict)

    def _native(self, spec: ToolSpec) -> Written:
        kind = hosted_type(spec, OPTION_KEYS)
        if kind is None or not kind.isidentifier() or camel(kind) == FUNCTIONS:
            return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is no tool that Gemini hosts")
        key = camel(kind)
        arguments = {**spec.provider_arguments, **passed(spec.provider_options, self.option_keys)}
        return Written({key: [arguments] if key in _LISTS else arguments})

    def _function(self, spec: ToolSpec, strict: bool | None) -> Written:
        if not self.limits.takes_name(spec.name):
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = fitted(spec, self.said.dialect, None, strict)
        if schema.refused:
            return Written(None, schema.losses)
        entry: JsonObject = {"name": spec.name, "description": described(spec, examples=True, grammar=True)}
        if self.said.empty or schema.schema.get("properties"):
            entry[self.said.parameters] = schema.schema
        losses = (*schema.losses, *self._add_output(entry, spec.output_schema, spec))
        return Written({**entry, **passed(spec.provider_options, self.option_keys)}, losses)

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


__all__ = ["FUNCTIONS", "GeminiTools", "Said"]
