"""Objects whose keys nobody knows beforehand."""

from __future__ import annotations

from pegboard.request.dialects.close_objects import is_object_schema
from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("type", "properties")
def free_form_maps(schema: JsonSchema, place: Place) -> JsonSchema:
    """Refuses objects that welcome other keys than they name: closed, they couldn't be filled.

    Those are objects with `additionalProperties` that isn't false, and, below the root, open ones that name none. An
    open root that names none is a tool without parameters.
    """
    if not is_object_schema(schema) or schema.get("additionalProperties") is False:
        return schema
    if "additionalProperties" in schema:
        place.refused("additionalProperties", "keys of any name can't be told strictly")
    elif not schema.get("properties") and not place.is_root:
        place.refused("properties", "an object of which no key is named can't be told strictly")
    return schema
