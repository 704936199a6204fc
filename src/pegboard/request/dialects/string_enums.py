"""Values of `enum` that a provider doesn't list, told in the description."""

from __future__ import annotations

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema


@where("enum")
def string_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Tells an `enum` with other values than strings, or with an empty one, in the description."""
    if "enum" not in schema or (schema["enum"] and all(value and isinstance(value, str) for value in schema["enum"])):
        return schema
    place.lost("enum", "only strings can be listed; moved into the description")
    return described(without(schema, ("enum",)), told("enum", schema))


@where("enum")
def plain_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Tells an `enum` with booleans, objects or arrays in the description; the others are strings, numbers, null.

    What `google.genai.types` says of Gemini's JSON Schema: "`enum` (for strings and numbers)".
    """
    if "enum" not in schema or not any(isinstance(value, (bool, dict, list)) for value in schema["enum"]):
        return schema
    place.lost("enum", "only strings and numbers can be listed; moved into the description")
    return described(without(schema, ("enum",)), told("enum", schema))
