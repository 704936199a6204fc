"""`oneOf` said as `anyOf`."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import exchanged, without
from pegboard.request.dialects.loosened import types_of
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described
from pegboard.typing import JsonSchema


@where("oneOf")
def one_of_to_any_of(schema: JsonSchema, place: Place) -> JsonSchema:
    """Says `oneOf` as `anyOf`, which also takes what fits several.

    Nothing is lost where the alternatives exclude each other by their types, or by a `const` or `enum` of a property
    that each requires. Beside an `anyOf`, both become parts of `allOf`.
    """
    members = schema.get("oneOf")
    if members is None:
        return schema
    if not _exclusive(members):
        place.lost("oneOf", "said as anyOf: values that fit several alternatives are taken")
        schema = described(schema, "Exactly one of the alternatives.")
    if "anyOf" not in schema:
        return exchanged(schema, "oneOf", "anyOf", members)
    parts: list[Any] = [*schema.get("allOf", ()), {"anyOf": members}]
    return {**without(schema, ("oneOf", "allOf")), "allOf": parts}


def _exclusive(members: list[Any]) -> bool:
    if not all(isinstance(member, dict) for member in members):
        return len(members) == 1
    return len(members) == 1 or _by_types(members) or _by_tag(members)


def _by_types(members: list[JsonSchema]) -> bool:
    seen: set[str] = set()
    for member in members:
        types = types_of(member, {})
        wider = {"number" if name == "integer" else name for name in types or ()}
        if types is None or seen & wider:
            return False
        seen |= wider
    return True


def _by_tag(members: list[JsonSchema]) -> bool:
    """Whether one property, required by each of them as an object, tells them apart."""
    if any(member.get("type") != "object" for member in members):
        return False
    shared = set(members[0].get("required", ())).intersection(*(member.get("required", ()) for member in members))
    return any(_tells_apart(name, members) for name in sorted(shared))


def _tells_apart(name: str, members: list[JsonSchema]) -> bool:
    seen: set[str] = set()
    for member in members:
        rule = member.get("properties", {}).get(name)
        values = _texts(rule) if isinstance(rule, dict) else None  # pyright: ignore[reportUnknownArgumentType]
        if not values or seen & values:
            return False
        seen |= values
    return True


def _texts(rule: JsonSchema) -> set[str] | None:
    values: list[Any] = [rule["const"]] if "const" in rule else rule.get("enum", [])
    return set(values) if all(isinstance(value, str) for value in values) else None
