"""Only names of properties that a provider takes."""

from __future__ import annotations

import re
from typing import Any, Final

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema

ANTHROPIC_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"
"""What the Messages API takes as a property's name."""

GEMINI_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""What the Gemini API takes as a property's name."""


def property_names(pattern: str) -> Step:
    """The step that leaves out optional properties whose names a provider doesn't take, and refuses required ones.

    A request with such a name fails as a whole, with all its other tools.

    Args:
        pattern: What a whole name has to match.
    """
    takes = re.compile(pattern).fullmatch

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        properties: dict[str, Any] = schema.get("properties", {})
        if all(map(takes, properties)):
            return schema
        strange = [name for name in properties if takes(name) is None]
        for name in strange:
            _take_down(name, place.below(("properties", name)), required=name in schema.get("required", ()))
        new = {**schema, "properties": without(properties, strange)}
        if "required" in schema:
            new["required"] = [name for name in schema["required"] if name not in strange]
        return new

    return where("properties")(visit)


def _take_down(name: str, place: Place, *, required: bool) -> None:
    if required:
        place.refused("properties", f"the provider takes no property named {name!r}, and it is required")
    else:
        place.lost("properties", f"the provider takes no property named {name!r}; left out")
