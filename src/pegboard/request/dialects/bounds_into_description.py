"""Bounds that a provider doesn't read, told in the description."""

from __future__ import annotations

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import exchanged, without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema


def bounds_into_description(*keywords: str) -> Step:
    """The step that tells some keywords in the description instead.

    Args:
        keywords: Those that the provider doesn't read (`"minimum"`, `"maxLength"`).
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        moved = [keyword for keyword in keywords if keyword in schema]
        if not moved:
            return schema
        for keyword in moved:
            place.lost(keyword, "moved into the description")
        return described(without(schema, moved), *(told(keyword, schema) for keyword in moved))

    return where(*keywords)(visit)


def least_items(most: int) -> Step:
    """The step that keeps `minItems` up to a number, and tells a larger one in the description.

    Args:
        most: The largest that the provider reads; a larger bound is said as this one.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if schema.get("minItems", 0) <= most:
            return schema
        place.lost("minItems", f"said as {most}, and told in the description")
        return described({**schema, "minItems": most}, told("minItems", schema))

    return where("minItems")(visit)


@where("exclusiveMinimum", "exclusiveMaximum")
def whole_bounds(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Says exclusive bounds of integers as inclusive ones: more than 3 is at least 4. Nothing is lost."""
    if schema.get("type") != "integer":
        return schema
    for exclusive, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        limit = schema.get(exclusive)
        if isinstance(limit, int):
            tighter = max if step == 1 else min
            schema = exchanged(schema, exclusive, bound, tighter(limit + step, schema.get(bound, limit + step)))
    return schema
