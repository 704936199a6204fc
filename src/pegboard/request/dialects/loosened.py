"""What stands for a schema that is left out: something that takes at least what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.request.dialects.keyed import only
from pegboard.request.dialects.named_definitions import target_of
from pegboard.schema.json import is_object
from pegboard.typing import JsonSchema

_MOST_HOPS: Final = 16
_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}
_STAYS: Final = ("title", "description")


def type_of_value(value: Any) -> str:
    """The type that JSON Schema has for a JSON value; `"number"` for all numbers but integers."""
    return _NAMES.get(cast("type[Any]", type(value)), "null")


def types_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema], hops: int = _MOST_HOPS) -> list[str] | None:
    """The types that a schema can take, in the order in which it names them; `None` where that may be any.

    Args:
        schema: Any, its references pointing to `definitions`.
        definitions: By name.
        hops: How many references and alternatives may be followed.
    """
    declared = schema.get("type")
    if declared is not None:
        return [declared] if isinstance(declared, str) else list(declared)
    if "const" in schema:
        return [type_of_value(schema["const"])]
    if "enum" in schema:
        return list(dict.fromkeys(type_of_value(value) for value in schema["enum"]))
    if hops == 0:
        return None
    return _types_within(schema, definitions, hops)


def _types_within(schema: JsonSchema, definitions: Mapping[str, JsonSchema], hops: int) -> list[str] | None:
    target = target_of(schema, definitions)
    if target is not None:
        return types_of(target, definitions, hops - 1)
    members: list[Any] = schema.get("anyOf") or schema.get("oneOf") or []
    share = (hops - 1) // max(len(members), 1)  # no more hops in all than there were
    found = [types_of(member, definitions, share) if is_object(member) else None for member in members]
    if not found or None in found:
        return None
    return list(dict.fromkeys(name for names in found for name in names or ()))


def loosened(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """A schema of the same types and notes that says nothing of what is within.

    An array takes any items, an object any keys.
    """
    types = types_of(schema, definitions)
    loose: JsonSchema = {}
    if types:
        loose["type"] = types[0] if len(types) == 1 else types
        if "array" in types:
            loose["items"] = {}
    return {**loose, **only(schema, _STAYS)}
