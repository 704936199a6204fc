"""Null as OpenAPI 3.0 says it: by a flag."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import only, without
from pegboard.request.dialects.walk import NOTES, Place
from pegboard.request.dialects.words import described
from pegboard.typing import JsonSchema


@where("anyOf")
def nullable(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Says the alternative `{"type": "null"}` as `"nullable": true`; nothing is lost.

    One alternative that is left takes the place of the union.
    """
    members: list[Any] | None = schema.get("anyOf")
    if members is None or not any(_is_null(member) for member in members):
        return schema
    others = [member for member in members if not _is_null(member)]
    if not others:
        return {**without(schema, ("anyOf",)), "type": "null"}
    rest: JsonSchema = {"anyOf": others}
    if len(others) == 1:
        rest = others[0]
        if "description" in schema and "description" in rest:
            rest = {**rest, **described(only(schema, ("description",)), rest["description"])}
            schema = without(schema, ("description",))
    return {**rest, **only(schema, NOTES), **without(schema, NOTES | {"anyOf"}), "nullable": True}


def _is_null(member: JsonSchema) -> bool:
    return member.get("type") == "null"


def or_null(schema: JsonSchema) -> JsonSchema:
    """A schema that takes null besides what `schema` takes; itself where it takes null already."""
    if takes_null(schema):
        return schema
    if "$ref" in schema or ("anyOf" in schema and len(without(schema, NOTES | {"anyOf"})) > 0):
        return {"anyOf": [without(schema, NOTES), {"type": "null"}], **only(schema, NOTES)}
    new = dict(schema)
    if "anyOf" in schema:
        new["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if "type" in schema:
        types: Any = schema["type"]
        names: list[Any] = [types] if isinstance(types, str) else types
        new["type"] = [*names, *(["null"] if "null" not in names else [])]
    if "enum" in schema and None not in schema["enum"]:
        new["enum"] = [*schema["enum"], None]
    return new


def takes_null(schema: JsonSchema) -> bool:
    """Whether a schema of the simple keywords (`type`, `enum`, `anyOf`) takes null; a reference counts as not."""
    if "$ref" in schema:
        return False
    types: Any = schema.get("type", "null")
    names: list[Any] = [types] if isinstance(types, str) else types
    if "null" not in names or None not in schema.get("enum", (None,)):
        return False
    return "anyOf" not in schema or any(takes_null(member) for member in schema["anyOf"])
