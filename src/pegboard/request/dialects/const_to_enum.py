"""`const` said as `enum`."""

from __future__ import annotations

from pegboard.request.dialects.both_rules import same
from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import exchanged, without
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("const")
def const_to_enum(schema: JsonSchema, place: Place) -> JsonSchema:
    """Says `const` as an `enum` of one value; nothing is lost, unless an `enum` beside it doesn't have the value."""
    if "const" not in schema:
        return schema
    only = schema["const"]
    if "enum" in schema and not any(same(only, value) for value in schema["enum"]):
        place.lost("const", "contradicts the enum beside it, left out")
        return without(schema, ("const",))
    return exchanged(schema, "const", "enum", [only])
