"""Only the formats that a provider knows."""

from __future__ import annotations

from collections.abc import Collection

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema


def formats(known: Collection[str]) -> Step:
    """The step that tells formats that a provider doesn't know in the description.

    Args:
        known: Those that stay.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if "format" not in schema or schema["format"] in known:
            return schema
        place.lost("format", "not known to the provider, moved into the description")
        return described(without(schema, ("format",)), told("format", schema))

    return where("format")(visit)
