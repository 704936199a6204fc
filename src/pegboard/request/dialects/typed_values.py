"""Schemas that say of which type their values are."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import everywhere, where
from pegboard.request.dialects.loosened import types_of
from pegboard.request.dialects.type_lists import KEYWORDS
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("enum")
def typed_enums(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Says the types of the values of an `enum`; nothing is lost."""
    if "type" in schema or not schema.get("enum"):
        return schema
    types: Any = types_of(schema, {})
    return {"type": types[0] if len(types) == 1 else types, **schema}


@everywhere
def typed_values(schema: JsonSchema, place: Place) -> JsonSchema:
    """Says the type that the other keywords speak of, where none is said; refuses a schema that takes any value."""
    if not {"type", "anyOf", "$ref", "enum"}.isdisjoint(schema):
        return schema
    spoken_of = [name for name in ("string", "number", "array", "object") if not KEYWORDS[name].isdisjoint(schema)]
    if len(spoken_of) == 1:
        place.lost("type", f"not said; taken to be {spoken_of[0]}")
        return {"type": spoken_of[0], **schema}
    place.refused("type", "a value of any type can't be told strictly")
    return schema


@where("enum")
def simple_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Refuses `enum` with objects or arrays among its values."""
    if "enum" in schema and any(isinstance(value, (dict, list)) for value in schema["enum"]):
        place.refused("enum", "objects and arrays as values can't be told strictly")
    return schema
