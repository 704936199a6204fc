"""References replaced by what they point to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from attrs import define, field

from pegboard.request.dialects.bounded import bounded
from pegboard.request.dialects.everywhere import only_with
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.loosened import loosened
from pegboard.request.dialects.named_definitions import ASIDE, PREFIX, name_in, named_definitions, target_of
from pegboard.request.dialects.step import Rewritten, Step
from pegboard.request.dialects.walk import NOTES, Place, Steps, mapped
from pegboard.request.dialects.words import described
from pegboard.schema.references import REFERENCES, schemas
from pegboard.typing import JsonSchema

Cycles: TypeAlias = Literal["keep", "keep_optional", "loosen", "refuse"]
"""What to do with a type that is made of itself: keep the reference; keep it below properties that aren't required
and loosen it elsewhere (Gemini); loosen it to a value of its type of which nothing more is said; refuse it."""

MOST_INLINED: Final = 2_000
"""Schemas that all references of a schema may come to, written out; what is beyond is loosened."""

MOST_LEVELS: Final = 40
"""Schemas within schemas that may be reached by references; what is deeper is loosened."""


def inline_references(cycles: Cycles = "loosen") -> Step:
    """The step that replaces references by what they point to, and leaves `$defs` out.

    Args:
        cycles: What to do with a definition that is made of itself.

    Returns:
        A step. What would come to more than `MOST_INLINED` schemas, or lie deeper than `MOST_LEVELS`, is loosened.
    """

    @only_with(*ASIDE, *REFERENCES)
    @bounded
    def inline(schema: JsonSchema) -> Rewritten:
        named = named_definitions(schema)
        if "$defs" not in named.schema:
            return named
        inlined = _Inlining(cycles, named.schema["$defs"]).rewritten(named.schema)
        return Rewritten(inlined.schema, named.changes + inlined.changes)

    return inline


@define
class _At:
    """How a schema was reached: the definitions written out round it, its level, and whether it may be left out."""

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
        self.cyclic = _cyclic(self.definitions)
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
            return self._followed(schema, target, at)
        optional_names = self._optional(schema)
        return mapped(schema, lambda part, steps: self._inline(part, _below(at, steps, optional_names)))

    def _optional(self, schema: JsonSchema) -> frozenset[str | int]:
        return frozenset(schema.get("properties", ())).difference(schema.get("required", ()))

    def _followed(self, schema: JsonSchema, target: JsonSchema, at: _At) -> JsonSchema:
        name = name_in(schema["$ref"])
        beside = without(schema, ("$ref",))
        if name in self.cyclic and (self.cycles == "keep" or (self.cycles == "keep_optional" and at.optional)):
            self.kept[name] = None
            return schema if not beside else {"$ref": schema["$ref"], **self._inline_beside(beside, at)}
        if self.left < 0 or at.level >= MOST_LEVELS:
            at.place.lost("$ref", "leads to too much to be written out; any value of its type is taken")
            return {**loosened(target, self.definitions), **_notes(beside)}
        if name in at.within:
            return self._cut(name, target, beside, at)
        inlined = self._inline(target, _At(at.place, (*at.within, name), at.level + 1, at.optional))
        return _joined(inlined, self._inline_beside(beside, at))

    def _inline_beside(self, beside: JsonSchema, at: _At) -> JsonSchema:
        return self._inline(beside, at) if beside else beside

    def _cut(self, name: str, target: JsonSchema, beside: JsonSchema, at: _At) -> JsonSchema:
        """What stands for a type within itself."""
        if self.cycles == "refuse":
            at.place.refused("$ref", f"{name} is made of itself")
        else:
            at.place.lost("$ref", f"{name} is made of itself; within it, any value of its type is taken")
        again = described(loosened(target, self.definitions), f"Of the same form as the {name} around it.")
        return {**again, **without(_notes(beside), ("description",))}


def _below(at: _At, steps: Steps, optional_names: frozenset[str | int]) -> _At:
    optional = at.optional or (steps[0] == "properties" and steps[1] in optional_names)
    return _At(at.place.below(steps), at.within, at.level + bool(at.within), optional)


def _notes(beside: JsonSchema) -> JsonSchema:
    return {keyword: rule for keyword, rule in beside.items() if keyword in NOTES}


def _joined(target: JsonSchema, beside: JsonSchema) -> JsonSchema:
    """The target with what stood beside the reference: notes go before its own, rules hold as well."""
    if not beside:
        return target
    rules = without(beside, NOTES)
    own = {**target, **_notes(beside)}
    if not rules:
        return own
    if set(rules).isdisjoint(target) and not _reads_others(rules) and not _reads_others(target):
        return {**own, **rules}
    return {**_notes(beside), "allOf": [target, rules]}


def _reads_others(schema: JsonSchema) -> bool:
    """Whether some rule depends on others beside it, so that what is put beside it changes what it means."""
    reading = {"additionalProperties", "items", "unevaluatedProperties", "unevaluatedItems", "if", "then", "else"}
    reading |= {"contains", "minContains", "maxContains", "$ref"}
    return not reading.isdisjoint(schema)


def _cyclic(definitions: Mapping[str, JsonSchema]) -> frozenset[str]:
    """The definitions made of themselves, and those between two such: what is left once all ends are taken away."""
    leads = {name: _references(part) & definitions.keys() for name, part in definitions.items()}
    led: dict[str, set[str]] = {name: set() for name in definitions}
    for name, targets in leads.items():
        for target in targets:
            led[target].add(name)
    return _without_ends(_without_ends(frozenset(definitions), leads, led), led, leads)


def _without_ends(names: frozenset[str], leads: Mapping[str, set[str]], led: Mapping[str, set[str]]) -> frozenset[str]:
    """The names that lead on without end among themselves."""
    onward = {name: len(leads[name] & names) for name in names}
    ends = [name for name, count in onward.items() if count == 0]
    for end in ends:  # grows as new ends are found
        for name in led[end] & names:
            onward[name] -= 1
            if onward[name] == 0:
                ends.append(name)
    return names.difference(ends)


def _references(schema: JsonSchema) -> set[str]:
    """The names of the definitions that a schema refers to."""
    return {part["$ref"].removeprefix(PREFIX) for part in schemas(schema) if isinstance(part.get("$ref"), str)}
