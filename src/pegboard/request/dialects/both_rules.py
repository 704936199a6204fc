"""What two rules of one keyword come to, where both have to hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pegboard.request.dialects.keyed import only
from pegboard.request.dialects.walk import NOTES
from pegboard.request.dialects.words import described
from pegboard.schema.json import canonical_json
from pegboard.typing import JsonSchema

CANNOT: Final = object()
"""What a merge gives where one rule can't say both."""

MERGES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "required": lambda one, other: list(dict.fromkeys((*one, *other))),
    "uniqueItems": lambda one, other: one or other,
    "multipleOf": lambda one, other: (
        math.lcm(one, other) if isinstance(one, int) and isinstance(other, int) else CANNOT
    ),
    "dependentRequired": lambda one, other: {
        name: list(dict.fromkeys((*one.get(name, ()), *other.get(name, ())))) for name in {**one, **other}
    },
    "not": lambda one, other: {"anyOf": [one, other]},
}
"""What makes one rule of two, by keyword; it gives `CANNOT` where none does."""


class NothingFitsError(Exception):
    """No value fits both schemas."""


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, as JSON Schema compares them."""
    return one is other or canonical_json(one) == canonical_json(other)


def member_of(schema: JsonSchema, name: str) -> Any:
    """What a schema says of one property."""
    properties: JsonSchema = schema.get("properties", {})
    if name in properties:
        return properties[name]
    # A pattern may fit the name: then nothing is said of it here, which takes more.
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def item_of(schema: JsonSchema, index: int) -> Any:
    """What a schema says of the item at one position."""
    first: list[Any] = schema.get("prefixItems", [])
    return first[index] if index < len(first) else schema.get("items", True)


def types_of_both(one: Any, other: Any) -> Any:
    """The types that two rules of `type` share; every integer is a number.

    Raises:
        NothingFitsError: They share none.
    """
    first, second = ([each] if isinstance(each, str) else list(each) for each in (one, other))
    both = [name for name in first if name in second or (name == "integer" and "number" in second)]
    both += [name for name in second if name == "integer" and "number" in first and name not in both]
    if not both:
        raise NothingFitsError
    return both[0] if len(both) == 1 else both


def values_of_both(one: list[Any], other: list[Any]) -> list[Any]:
    """The values that two rules of `enum` share, in the order of the first.

    Raises:
        NothingFitsError: They share none.
    """
    known = {canonical_json(value) for value in other}
    both = [value for value in one if canonical_json(value) in known]
    if not both:
        raise NothingFitsError
    return both


def fitting(schema: JsonSchema) -> JsonSchema:
    """The same, unless its bounds already say that nothing fits."""
    for least, most in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if least in schema and most in schema and schema[least] > schema[most] and "type" in schema:
            kinds = {"minimum": ("integer", "number"), "minLength": ("string",), "minItems": ("array",)}[least]
            if schema["type"] in kinds:
                raise NothingFitsError
    return schema


def with_notes(new: JsonSchema, one: JsonSchema, other: JsonSchema) -> JsonSchema:
    """The notes of both; where both have one, the first's, but for descriptions, which both stand."""
    merged = {**new, **{keyword: rule for keyword, rule in other.items() if keyword in NOTES and keyword not in one}}
    merged.update(only(one, NOTES))
    said, also = one.get("description"), other.get("description")
    return described(merged, also) if said and also else merged
