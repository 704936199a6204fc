"""Values of any type, where every schema has to name one."""

from __future__ import annotations

from typing import Final

from pegboard.request.dialects.everywhere import everywhere
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema

_WITHIN: Final = ("string", "number", "boolean", "object", "null")
_ALL: Final = ("string", "number", "boolean", "object", "array", "null")


@everywhere
def any_value(schema: JsonSchema, place: Place) -> JsonSchema:
    """Names all types where a schema names none; a list within a list of anything is lost by it."""
    if not {"type", "anyOf", "$ref", "enum"}.isdisjoint(schema):
        return schema
    new = {**schema, "type": list(_ALL)}
    if "items" not in schema:
        place.lost("type", "any value is told by all types; lists within its lists are left out")
        new["items"] = {"type": list(_WITHIN)}
    return new
