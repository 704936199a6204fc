"""`patternProperties` said by `additionalProperties`."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import distinct, without
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema


@where("patternProperties")
def pattern_properties(schema: JsonSchema, place: Place) -> JsonSchema:
    """Lets any other key hold what a pattern's keys may hold, and tells the patterns in the description.

    Leaving patterns out alone would refuse their keys wherever `additionalProperties` is false.
    """
    patterns = schema.get("patternProperties")
    if patterns is None:
        return schema
    rest = schema.get("additionalProperties", True)
    new = described(without(schema, ("patternProperties", "additionalProperties")), told("patternProperties", schema))
    if patterns:
        place.lost("patternProperties", "which keys hold what is moved into the description")
    members: list[Any] = distinct([*patterns.values(), *([] if isinstance(rest, bool) else [rest])])
    if rest is True or {} in members:
        return {**new, "additionalProperties": True}
    if not members:
        return {**new, "additionalProperties": rest}
    return {**new, "additionalProperties": members[0] if len(members) == 1 else {"anyOf": members}}
