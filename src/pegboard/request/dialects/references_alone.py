"""References with nothing beside them."""

from __future__ import annotations

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import only
from pegboard.request.dialects.walk import NOTES, Place
from pegboard.typing import JsonSchema


@where("$ref")
def references_alone(schema: JsonSchema, place: Place) -> JsonSchema:
    """Moves a `$ref` that has notes beside it into an `anyOf` of one, so that it stands alone; nothing is lost.

    Rules beside a `$ref` are for `merge_all_of`, which comes before.
    """
    if place.is_root or "$ref" not in schema or len(schema) == 1:
        return schema
    return {"anyOf": [{"$ref": schema["$ref"]}], **only(schema, NOTES)}
