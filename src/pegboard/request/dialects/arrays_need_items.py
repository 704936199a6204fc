"""Arrays that say what their items are."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("type")
def arrays_need_items(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Gives arrays without `items` items of any kind, which is what they have; OpenAI and Gemini ask for it."""
    types: Any = schema.get("type")
    if "items" in schema or (types != "array" and not (isinstance(types, list) and "array" in types)):
        return schema
    return {**schema, "items": {}}
