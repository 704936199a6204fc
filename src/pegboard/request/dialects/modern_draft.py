"""Schemas of drafts 4 to 2019-09, said as draft 2020-12 says them."""

from __future__ import annotations

from typing import Final

from pegboard.request.dialects.everywhere import everywhere, only_with
from pegboard.request.dialects.keyed import exchanged, only, without
from pegboard.request.dialects.step import Rewritten
from pegboard.request.dialects.walk import NOTES, Place
from pegboard.schema.json import is_array, is_object
from pegboard.schema.references import References
from pegboard.typing import JsonSchema

_OLD: Final = frozenset({"$schema", "$ref", "id", "dependencies", "exclusiveMinimum", "exclusiveMaximum"})
_CURRENT: Final = "2020-12"
_BESIDE_A_REFERENCE: Final = NOTES | {"$ref", "$defs", "definitions", "$id", "$schema"}


def _calls(schema: JsonSchema, _place: Place) -> bool:
    return is_array(schema.get("items")) or not _OLD.isdisjoint(schema)


@only_with("items", *_OLD, calls=_calls)
def modern_draft(schema: JsonSchema) -> Rewritten:
    """Says what older drafts say otherwise as draft 2020-12 does; nothing is lost.

    These are lists under `items` with `additionalItems`, `dependencies`, exclusive bounds that are true or false,
    `id`, and what stands hidden beside a `$ref`. A `$schema` that names another draft goes.
    """
    hides = References(schema).legacy
    own = everywhere(lambda part, _place: _modern(part, hides=hides))(schema).schema
    return Rewritten(own if _CURRENT in str(own.get("$schema", _CURRENT)) else without(own, {"$schema"}))


def _modern(schema: JsonSchema, *, hides: bool) -> JsonSchema:
    if hides and isinstance(schema.get("$ref"), str):
        schema = only(schema, _BESIDE_A_REFERENCE)
    if hides and isinstance(schema.get("id"), str):
        schema = without(schema, {"id"})
    for change in (_with_prefix, _with_dependents, _with_lower_bound, _with_upper_bound):
        schema = change(schema)
    return schema


def _with_prefix(schema: JsonSchema) -> JsonSchema:
    first = schema.get("items")
    if not is_array(first):
        return schema
    rest = schema.get("additionalItems", True)
    schema = without(exchanged(schema, "items", "prefixItems", first), {"additionalItems"})
    if not first:
        schema = without(schema, {"prefixItems"})
    return schema if rest is True else {**schema, "items": rest}


def _with_dependents(schema: JsonSchema) -> JsonSchema:
    both = schema.get("dependencies")
    if not is_object(both):
        return schema
    names = {name: rule for name, rule in both.items() if is_array(rule)}
    others = {name: rule for name, rule in both.items() if not is_array(rule)}
    schema = without(schema, {"dependencies"})
    if names:
        schema["dependentRequired"] = names
    if others:
        schema["dependentSchemas"] = others
    return schema


def _with_lower_bound(schema: JsonSchema) -> JsonSchema:
    return _with_bound(schema, "exclusiveMinimum", "minimum")


def _with_upper_bound(schema: JsonSchema) -> JsonSchema:
    return _with_bound(schema, "exclusiveMaximum", "maximum")


def _with_bound(schema: JsonSchema, exclusive: str, bound: str) -> JsonSchema:
    """Draft 4 says of `minimum` whether it is exclusive; later drafts have two keywords."""
    flag = schema.get(exclusive)
    if not isinstance(flag, bool):
        return schema
    schema = without(schema, {exclusive})
    return exchanged(schema, bound, exclusive, schema[bound]) if flag and bound in schema else schema
