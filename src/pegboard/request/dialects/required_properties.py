"""Properties for whatever is required."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.walk import Place
from pegboard.schema.json import is_object
from pegboard.typing import JsonSchema


@where("required")
def required_properties(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Names what is required among the properties, too; nothing is lost.

    A provider that reads nothing but `properties` refuses a name in `required` that isn't there (Gemini), or once the
    object is closed, no call would fit.
    """
    required: list[str] | None = schema.get("required")
    if not required:
        return schema
    properties: dict[str, Any] = schema.get("properties", {})
    missing = [name for name in required if name not in properties]
    if not missing:
        return schema
    others: Any = schema.get("additionalProperties")
    rule: JsonSchema = others if is_object(others) else {}
    return {**schema, "properties": {**properties, **dict.fromkeys(missing, rule)}}
