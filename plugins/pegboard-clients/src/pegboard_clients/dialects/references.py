"""Steps for references: inline, name or isolate them; and the replacement for a schema that is cut off."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field

from pegboard.json import is_object
from pegboard.schema import NOTES, REFERENCES, References, Steps, mapped, recursive_definitions, type_of
from pegboard.typing import JsonSchema
from pegboard_clients.dialects.dialect import (
    Place,
    Rewritten,
    Step,
    described,
    everywhere,
    only,
    step_for,
    walked,
    without,
)

PREFIX: Final = "#/$defs/"
"""The prefix of every reference after `named_definitions`; a definition's name follows."""

MOST_SCHEMAS: Final = 20_000
"""Visited schemas after which no further definitions are added."""

ASIDE: Final = frozenset({"$defs", "definitions", "$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor"})
"""Keywords that only serve references; `named_definitions` removes all of them but the root's `$defs`."""

_OUTSIDE_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@step_for(*REFERENCES, *ASIDE)
def named_definitions(schema: JsonSchema) -> Rewritten:
    """Points every reference to a definition in the root's `$defs`, which then has only what is referred to.

    References by pointer, anchor or `$id` would break as soon as a step moves something. A definition that is used
    several times is written once. A reference without a target in the schema is left out: nothing is ever fetched.
    """
    return _Naming(References(schema)).rewritten()


@define
class _Naming:
    """The definitions found so far, by the identity of their schemas, in order."""

    references: References
    names: dict[int, str] = field(factory=dict[int, str])
    waiting: list[tuple[str, JsonSchema]] = field(factory=list[tuple[str, JsonSchema]])
    taken: set[str] = field(factory=set[str])
    seen: int = 0

    def rewritten(self) -> Rewritten:
        place = Place()
        root = walked(without(self.references.root, ("$defs", "definitions")), place, self.visit)
        definitions: dict[str, JsonSchema] = {}
        for name, target in self.waiting:  # grows as the definitions are gone through
            below = place.below(("$defs", name))
            definitions[name] = walked(without(target, ASIDE), below, self.visit)
        return Rewritten({**root, "$defs": definitions} if definitions else root, tuple(place.changes))

    def visit(self, schema: JsonSchema, place: Place) -> JsonSchema:
        self.seen += 1
        for keyword in REFERENCES:
            if keyword in schema:
                schema = self._point(schema, keyword, place)
        return schema if ASIDE.isdisjoint(schema) else without(schema, ASIDE)

    def _point(self, schema: JsonSchema, keyword: str, place: Place) -> JsonSchema:
        reference = schema[keyword]
        target = self.references.target(reference) if isinstance(reference, str) else None
        rest = without(schema, (keyword,))
        if target is None:
            place.lost(keyword, "its target isn't in the schema, left out")
            return rest
        if isinstance(target, bool):
            return rest if target else {**rest, "not": {}}
        if not is_object(target) or (self.seen > MOST_SCHEMAS and id(target) not in self.names):
            place.lost(keyword, "its target isn't a schema, or the schema is too large; left out")
            return rest
        pointer = PREFIX + self._name(target, reference)
        return {
            ("$ref" if key == keyword else key): pointer if key == keyword else rule for key, rule in schema.items()
        }

    def _name(self, target: JsonSchema, reference: str) -> str:
        known = self.names.get(id(target))
        if known is not None:
            return known
        wanted = _OUTSIDE_NAMES.sub("_", reference.rpartition("/")[2].lstrip("#")) or "root"
        name, count = wanted, 2
        while name in self.taken:
            name, count = f"{wanted}_{count}", count + 1
        self.taken.add(name)
        self.names[id(target)] = name
        self.waiting.append((name, target))
        return name


def target_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema | None:
    """The target of a schema's `$ref`, once all references point to `$defs`; `None` if it has none."""
    reference = schema.get("$ref")
    return definitions.get(reference.removeprefix(PREFIX)) if isinstance(reference, str) else None


_MOST_HOPS: Final = 16
_STAYS: Final = ("title", "description")


def types_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema], hops: int = _MOST_HOPS) -> list[str] | None:
    """The types that a schema allows, in the order in which it names them; `None` if it may be any.

    Its references point to `definitions`, by name; `hops` limits the references and alternatives that are followed.
    """
    declared = schema.get("type")
    if declared is not None:
        return [declared] if isinstance(declared, str) else list(declared)
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return list(dict.fromkeys(type_of(value) for value in values))
    if hops == 0:
        return None
    if (target := target_of(schema, definitions)) is not None:
        return types_of(target, definitions, hops - 1)
    members: list[Any] = schema.get("anyOf") or schema.get("oneOf") or []
    share = (hops - 1) // max(len(members), 1)  # no more hops in all than there were
    found = [types_of(member, definitions, share) if is_object(member) else None for member in members]
    if not found or None in found:
        return None
    return list(dict.fromkeys(name for names in found for name in names or ()))


def widen(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """A schema of the same types and notes, for arrays of any items and objects of any keys."""
    types = types_of(schema, definitions)
    loose: JsonSchema = {}
    if types:
        loose["type"] = types[0] if len(types) == 1 else types
        if "array" in types:
            loose["items"] = {}
    return {**loose, **only(schema, _STAYS)}


Cycles: TypeAlias = Literal["keep", "keep_optional", "loosen", "refuse"]
"""How to handle a recursive type: keep the reference; keep it below properties that aren't required and loosen it
elsewhere (Gemini); loosen it to any value of its type; refuse it."""

MOST_INLINED: Final = 2_000
"""Inlined schemas; further references are loosened."""

MOST_LEVELS: Final = 40
"""Nesting depth of inlined schemas; deeper references are loosened."""


def inline_references(cycles: Cycles = "loosen") -> Step:
    """The step that inlines references, and drops `$defs`.

    Args:
        cycles: How to handle recursive definitions.

    Returns:
        A step. References beyond `MOST_INLINED` schemas, or deeper than `MOST_LEVELS`, are loosened.
    """

    @step_for(*REFERENCES, *ASIDE)
    def inline(schema: JsonSchema) -> Rewritten:
        named = named_definitions(schema)
        if "$defs" not in named.schema:
            return named
        inlined = _Inlining(cycles, named.schema["$defs"]).rewritten(named.schema)
        return Rewritten(inlined.schema, named.changes + inlined.changes)

    return inline


@define
class _At:
    """Position of a schema: the definitions being inlined around it, its level, and whether it is optional."""

    place: Place
    within: tuple[str, ...] = ()
    level: int = 0
    optional: bool = False


@define
class _Inlining:
    cycles: Cycles
    definitions: dict[str, JsonSchema]
    left: int = MOST_INLINED
    kept: dict[str, None] = field(factory=dict[str, None])
    cyclic: frozenset[str] = frozenset()

    def rewritten(self, root: JsonSchema) -> Rewritten:
        self.cyclic = recursive_definitions(self.definitions)
        place = Place()
        schema = self._inline(without(root, ("$defs",)), _At(place))
        written: dict[str, JsonSchema] = {}
        while waiting := [name for name in self.kept if name not in written]:
            for name in waiting:
                at = _At(place.below(("$defs", name)), (name,))
                written[name] = self._inline(self.definitions[name], at)
        own = {name: written[name] for name in self.definitions if name in written}
        return Rewritten({**schema, "$defs": own} if own else schema, tuple(place.changes))

    def _inline(self, schema: JsonSchema, at: _At) -> JsonSchema:
        if at.within:
            self.left -= 1
        if (target := target_of(schema, self.definitions)) is not None:
            return self._follow(schema, target, at)
        optional_names = frozenset(schema.get("properties", ())).difference(schema.get("required", ()))
        return mapped(schema, lambda part, steps: self._inline(part, _below(at, steps, optional_names)))

    def _follow(self, schema: JsonSchema, target: JsonSchema, at: _At) -> JsonSchema:
        name = schema["$ref"].removeprefix(PREFIX)
        beside = without(schema, ("$ref",))
        if name in self.cyclic and (self.cycles == "keep" or (self.cycles == "keep_optional" and at.optional)):
            self.kept[name] = None
            return schema if not beside else {"$ref": schema["$ref"], **self._inline_beside(beside, at)}
        if self.left < 0 or at.level >= MOST_LEVELS:
            at.place.lost("$ref", "too large or too deep to inline; any value of its type is accepted")
            return {**widen(target, self.definitions), **only(beside, NOTES)}
        if name in at.within:
            return self._cut(name, target, beside, at)
        inlined = self._inline(target, _At(at.place, (*at.within, name), at.level + 1, at.optional))
        return _join(inlined, self._inline_beside(beside, at))

    def _inline_beside(self, beside: JsonSchema, at: _At) -> JsonSchema:
        return self._inline(beside, at) if beside else beside

    def _cut(self, name: str, target: JsonSchema, beside: JsonSchema, at: _At) -> JsonSchema:
        """The replacement for a recursive reference."""
        if self.cycles == "refuse":
            at.place.refused("$ref", f"{name} is recursive")
        else:
            at.place.lost("$ref", f"{name} is recursive; within it, any value of its type is accepted")
        again = described(widen(target, self.definitions), f"Of the same form as the {name} around it.")
        return {**again, **only(beside, NOTES - {"description"})}


def _below(at: _At, steps: Steps, optional_names: frozenset[str | int]) -> _At:
    optional = at.optional or (steps[0] == "properties" and steps[1] in optional_names)
    return _At(at.place.below(steps), at.within, at.level + bool(at.within), optional)


def _join(target: JsonSchema, beside: JsonSchema) -> JsonSchema:
    """The target joined with the siblings of its reference: their notes override its own, their rules apply too."""
    rules, notes = without(beside, NOTES), only(beside, NOTES)
    return {**notes, "allOf": [target, rules]} if rules else {**target, **notes}


@step_for("$ref")
@everywhere
def isolate_references(schema: JsonSchema, place: Place) -> JsonSchema:
    """Moves a `$ref` with notes next to it into an `anyOf` of one; lossless.

    Rules next to a `$ref` are for `merge_all_of`, which comes before.
    """
    if place.is_root or "$ref" not in schema or len(schema) == 1:
        return schema
    return {"anyOf": [{"$ref": schema["$ref"]}], **only(schema, NOTES)}
