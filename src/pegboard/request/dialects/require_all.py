"""Objects that require all that they name."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.nullable import or_null
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("properties")
def require_all(schema: JsonSchema, place: Place) -> JsonSchema:
    """Requires every property; one that was optional may be null instead (`without_added_nulls` is the way back)."""
    properties: dict[str, Any] | None = schema.get("properties")
    if properties is None:
        return schema
    required: list[str] = schema.get("required", [])
    for name in required:
        if name not in properties:
            place.refused("required", f"{name} is required, but not among the properties")
    members = {name: part if name in required else or_null(part) for name, part in properties.items()}
    unchanged = schema.get("required") == list(properties) and all(
        members[name] is properties[name] for name in members
    )
    return schema if unchanged else {**schema, "properties": members, "required": list(properties)}
