"""`MCP`: exporter for the tool list of an MCP server."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NoReturn

from attrs import define, field

from pegboard import Loss, ToolSpec
from pegboard.errors import ExportError
from pegboard.typing import JsonObject, JsonSchema
from pegboard_clients.dialects.dialect import Dialect
from pegboard_clients.dialects.keywords import modern_draft, well_formed
from pegboard_clients.dialects.references import named_definitions
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire.entries import (
    Entry,
    convert_schema,
    description_of,
    losses_of,
    passthrough,
    refusal,
)

EDIT_HINT: Final = "pegboard/editHint"
"""The key of `edit_hint` in `_meta`: MCP has no such annotation, and requires a prefix on foreign keys."""

DIALECT: Final = Dialect("mcp", (modern_draft, well_formed, named_definitions))
"""JSON Schema 2020-12, MCP's default for a schema without `$schema`; no references outside of the schema."""


@define(eq=False)
class MCP(BaseExporter):
    """Exporter of tool lists in the form of `tools/list` (MCP 2025-11-25, server/tools).

    `name`, `title`, `description`, `inputSchema`, `outputSchema`, `annotations` and `_meta`, each if the tool has it.
    Clients don't enforce schemas, so there is no strict form.
    """

    name: str = field(default="mcp", init=False)

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry in the answer to `tools/list`."""
        if spec.kind == "provider":
            return refusal(spec, "/providerId", "providerId", "a model provider hosts it; an MCP server can't run it")
        schema = convert_schema(spec, DIALECT, None, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        output, losses = _output(spec)
        hint = spec.annotations.edit_hint
        facts: JsonObject = {
            "name": spec.name,
            "title": spec.title,
            "description": description_of(spec, examples=True, grammar=True),
            "inputSchema": {**schema.schema, "type": "object"},  # MCP requires it
            "outputSchema": output,
            "annotations": {key: fact for key, fact in spec.annotations.to_json().items() if key != "editHint"},
            "_meta": spec.meta if hint is None else {**spec.meta, EDIT_HINT: hint},
        }
        facts = {name: fact for name, fact in facts.items() if fact not in (None, "", {})}
        return Entry({**facts, **passthrough(spec.provider_options, ("mcp",))}, (*schema.losses, *losses))

    def request(self, *_given: Any, **_named: Any) -> NoReturn:
        """Raises an `ExportError`, as `response` and `reader` do: the format is for listings only."""
        raise ExportError("it only lists tools; no model takes requests in this format", exporter=self.name)

    response = reader = request


def _output(spec: ToolSpec) -> tuple[JsonSchema | None, tuple[Loss, ...]]:
    """The output schema if it is an object's: MCP takes no other."""
    own = spec.output_schema
    if own is None:
        return None, ()
    rewritten = DIALECT.rewrite(own)
    if rewritten.refused or rewritten.schema.get("type") != "object":
        what = "left out: it must be the schema of an object"
        return None, (Loss(spec.name, "/outputSchema", "outputSchema", what),)
    return rewritten.schema, losses_of(spec, rewritten.changes, "/outputSchema")


mcp: Final = cache(MCP)
"""Returns the shared exporter of this process, with its cache."""
