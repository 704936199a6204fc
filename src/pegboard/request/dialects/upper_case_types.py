"""Types as the protocol behind Gemini's own schema names them."""

from __future__ import annotations

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema


@where("type")
def upper_case_types(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes `"string"` as `"STRING"` (`google.genai.types.Type`)."""
    name = schema.get("type")
    return {**schema, "type": name.upper()} if isinstance(name, str) else schema
