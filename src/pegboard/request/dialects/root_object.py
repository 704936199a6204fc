"""A root that is plainly an object."""

from __future__ import annotations

from typing import Any

from attrs import define

from pegboard.request.dialects.both_rules import NothingFitsError
from pegboard.request.dialects.bounded import bounded
from pegboard.request.dialects.conjunction import Conjunction
from pegboard.request.dialects.keyed import distinct, without
from pegboard.request.dialects.named_definitions import named_definitions
from pegboard.request.dialects.step import Rewritten, Step
from pegboard.request.dialects.walk import Place, here
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema

UNIONS = ("anyOf", "oneOf")


def root_object(*unwanted: str) -> Step:
    """The step that makes the root an object, without some keywords there.

    A reference at the root is written out, `allOf` merged, and the alternatives of `anyOf` and `oneOf` folded into
    one object that names the properties of all and requires what all require; others go into the description.
    Arguments are always objects, so a root that takes other values too loses nothing. A property that only some
    alternatives name is told as they tell it, though others may take more.

    Args:
        unwanted: Keywords that the provider takes below the root only (`"anyOf"`, `"enum"`).
    """

    @bounded
    def fold(schema: JsonSchema) -> Rewritten:
        if schema.get("type") == "object" and not any(keyword in schema for keyword in (*unwanted, "$ref")):
            return Rewritten(schema)
        named = named_definitions(schema)
        folding = _Folding(unwanted, Conjunction(named.schema.get("$defs", {})))
        folded = here(named.schema, folding.folded)
        return Rewritten(folded.schema, named.changes + folded.changes)

    return fold


@define
class _Folding:
    unwanted: tuple[str, ...]
    conjunction: Conjunction

    def folded(self, schema: JsonSchema, place: Place) -> JsonSchema:
        schema = _as_object(self._flat(schema, place), place)
        for keyword in UNIONS:
            if keyword in self.unwanted and keyword in schema:
                schema = self._united(schema, keyword, place)
        others = [keyword for keyword in self.unwanted if keyword in schema]
        for keyword in others:
            place.lost(keyword, "not taken at the root, moved into the description")
        return described(without(schema, others), *(told(keyword, schema) for keyword in others)) if others else schema

    def _flat(self, schema: JsonSchema, place: Place) -> JsonSchema:
        if "$ref" not in schema and ("allOf" not in self.unwanted or "allOf" not in schema):
            return schema
        try:
            return self.conjunction.flat(schema, place)
        except NothingFitsError:
            place.lost("allOf", "its parts contradict each other; left out")
            return without(schema, ("allOf", "$ref"))

    def _united(self, schema: JsonSchema, keyword: str, place: Place) -> JsonSchema:
        members = [self._member(part, place) for part in schema[keyword]]
        objects = [part for part in members if part is not None and "object" in _types(part)]
        base = without(schema, (keyword,))
        place.lost(keyword, "not taken at the root; its alternatives are told as one object")
        if not objects:
            return base
        new = {**base, "properties": self._properties(base, objects, place)}
        common = set(objects[0].get("required", ())).intersection(*(part.get("required", ()) for part in objects))
        first: list[str] = [name for name in objects[0].get("required", ()) if name in common]
        if required := list(dict.fromkeys((*base.get("required", ()), *first))):
            new["required"] = required
        if "additionalProperties" not in base and all(part.get("additionalProperties") is False for part in objects):
            new["additionalProperties"] = False
        return described(new, *(part.get("description", "") for part in objects), _needs(objects, set(required)))

    def _member(self, part: Any, place: Place) -> JsonSchema | None:
        if not isinstance(part, dict):
            return {} if part else None
        try:
            return self.conjunction.flat(part, place)  # pyright: ignore[reportUnknownArgumentType]
        except NothingFitsError:
            return None

    def _properties(self, base: JsonSchema, objects: list[JsonSchema], place: Place) -> JsonSchema:
        own: JsonSchema = base.get("properties", {})
        closed = base.get("additionalProperties") is False and "patternProperties" not in base
        found: dict[str, list[Any]] = {name: [] for name in own}
        for part in objects:
            for name, rule in part.get("properties", {}).items():
                if name in own or not closed:
                    found.setdefault(name, []).append(rule)
        return {name: self._property(name, own, rules, len(objects), place) for name, rules in found.items()}

    def _property(self, name: str, own: JsonSchema, rules: list[Any], count: int, place: Place) -> Any:
        kinds = [rule for rule in distinct(rules) if rule is not False]
        union: Any = kinds[0] if len(kinds) == 1 else {"anyOf": [rule for rule in kinds if rule is not True]}
        if name not in own:
            return {} if True in kinds or not kinds else union
        # Alternatives that don't name it leave the root's own rule alone.
        if len(rules) < count or True in kinds or not kinds or not isinstance(own[name], dict):
            return own[name]
        try:
            return self.conjunction.of(own[name], union, place.below(("properties", name)))
        except NothingFitsError:
            return own[name]


def _as_object(schema: JsonSchema, place: Place) -> JsonSchema:
    if "object" not in _types(schema):
        place.refused("type", "arguments are an object, which the root doesn't take")
    return schema if schema.get("type") == "object" else {"type": "object", **without(schema, ("type",))}


def _types(schema: JsonSchema) -> list[Any]:
    types: Any = schema.get("type", "object")
    return types if isinstance(types, list) else [types]  # pyright: ignore[reportUnknownVariableType]


def _needs(objects: list[JsonSchema], common: set[str]) -> str:
    """What the alternatives require each, where they differ in it."""
    sets = [[name for name in part.get("required", ()) if name not in common] for part in objects]
    if not all(sets):
        return ""
    ways = list(dict.fromkeys(" with ".join(names) for names in sets))
    return f"Needs {ways[0] if len(ways) == 1 else 'one of: ' + '; '.join(ways)}."
