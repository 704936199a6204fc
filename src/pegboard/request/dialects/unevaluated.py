"""`unevaluatedProperties` and `unevaluatedItems` said by their simpler kin."""

from __future__ import annotations

from typing import Final

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import exchanged, without
from pegboard.request.dialects.walk import Place
from pegboard.typing import JsonSchema

_ELSEWHERE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref", "contains")


@where("unevaluatedProperties", "unevaluatedItems")
def unevaluated(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Says `unevaluatedProperties` as `additionalProperties`, and `unevaluatedItems` as `items`.

    That is the same where no other schema speaks of the same value; elsewhere it stays. Where the simpler keyword
    stands already, nothing is left unevaluated, and the other goes.
    """
    for keyword, simple in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if keyword in schema and simple in schema:
            schema = without(schema, (keyword,))
        elif keyword in schema and not any(other in schema for other in _ELSEWHERE):
            schema = _said(schema, keyword, simple)
    return schema


def _said(schema: JsonSchema, keyword: str, simple: str) -> JsonSchema:
    rule = schema[keyword]
    if keyword == "unevaluatedProperties" or not isinstance(rule, bool):
        return exchanged(schema, keyword, simple, rule)
    schema = without(schema, (keyword,))
    if rule:
        return schema
    most = len(schema.get("prefixItems", ()))
    return {**schema, "maxItems": min(schema.get("maxItems", most), most)}
