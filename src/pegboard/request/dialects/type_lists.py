"""Lists of types said as `anyOf`."""

from __future__ import annotations

from typing import Any, Final

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import exchanged, only, without
from pegboard.request.dialects.loosened import type_of_value
from pegboard.request.dialects.walk import NOTES, Place
from pegboard.schema.json import is_array
from pegboard.typing import JsonSchema

_NUMBER: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
KEYWORDS: Final = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": frozenset(
        {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"}
    ),
    "object": frozenset(
        {
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
        }
    ),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""The keywords that say something of values of one type only."""

_OF_SOME_TYPE: Final = frozenset[str]().union(*KEYWORDS.values())


@where("type")
def type_lists(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Says `{"type": ["string", "null"], ...}` as an `anyOf` of one schema a type; nothing is lost.

    Each takes the keywords that concern its type, and the values of `enum` that are of it.
    """
    types: Any = schema.get("type")
    if not is_array(types):
        return schema
    if len(types) == 1:
        return {**schema, "type": types[0]}
    if "anyOf" in schema:
        return schema
    if "number" in types:
        types = [name for name in types if name != "integer"]
    members = [member for name in types if (member := _of_type(name, schema)) is not None]
    if len(members) <= 1:
        return {**only(schema, NOTES), **(members[0] if members else {"enum": []})}
    kept = exchanged(schema, "type", "anyOf", members)
    return without(kept, _OF_SOME_TYPE | {"enum"})


def _of_type(name: str, schema: JsonSchema) -> JsonSchema | None:
    member: JsonSchema = {"type": name, **only(schema, KEYWORDS[name])}
    if "enum" in schema:
        member["enum"] = [value for value in schema["enum"] if is_of(value, name)]
        if not member["enum"]:
            return None
    return without(member, ("enum",)) if name == "null" else member


def is_of(value: Any, name: str) -> bool:
    """Whether a JSON value is of a type; every integer is a number, and 1.0 an integer."""
    found = type_of_value(value)
    if name == "integer" and found == "number":
        return float(value).is_integer()
    return found == name or (name == "number" and found == "integer")
