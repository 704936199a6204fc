"""Objects that take no other keys than those they name."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("type", "properties")
def close_objects(schema: JsonSchema, place: Place) -> JsonSchema:
    """Closes every object: `"additionalProperties": false`, and `properties` where there are none.

    That an object said nothing of other keys is lost by it; one that welcomes them is for `free_form_maps`, which
    comes before.
    """
    if not is_object_schema(schema) or (schema.get("additionalProperties") is False and "properties" in schema):
        return schema
    if "additionalProperties" not in schema:
        place.lost("additionalProperties", "closed: no other keys can be given")
    return (
        {"properties": {}, **schema, "additionalProperties": False}
        if "properties" not in schema
        else {
            **schema,
            "additionalProperties": False,
        }
    )


def is_object_schema(schema: JsonSchema) -> bool:
    """Whether a schema is one for objects, among others maybe."""
    types: Any = schema.get("type")
    return types == "object" or "properties" in schema or (isinstance(types, list) and "object" in types)
