"""Steps for `allOf`, `anyOf` and `oneOf`: merge, spread or fold them; and for a root that is a plain object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from attrs import define, field

from pegboard.json import canonical_json, is_object
from pegboard.schema import NOTES, mapped
from pegboard.typing import JsonSchema
from pegboard_clients.dialects.dialect import (
    Place,
    Rewritten,
    Step,
    described,
    distinct,
    everywhere,
    exchanged,
    here,
    in_words,
    into_description,
    only,
    step_for,
    step_if,
    without,
)
from pegboard_clients.dialects.references import named_definitions, target_of, types_of


class NothingFitsError(Exception):
    """No value fits both schemas."""


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, as JSON Schema compares them."""
    return one is other or canonical_json(one) == canonical_json(other)


def member_of(schema: JsonSchema, name: str) -> Any:
    """The schema of one property, by any of the keywords for properties."""
    properties: JsonSchema = schema.get("properties", {})
    if name in properties:
        return properties[name]
    # A pattern may match the name: then anything is accepted here, which is wider.
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def types_of_both(one: Any, other: Any) -> Any:
    """The intersection of two `type` rules; every integer is a number. Raises `NothingFitsError` if it is empty."""
    first, second = ([each] if isinstance(each, str) else list(each) for each in (one, other))
    both = [name for name in first if name in second or (name == "integer" and "number" in second)]
    both += [name for name in second if name == "integer" and "number" in first and name not in both]
    if not both:
        raise NothingFitsError
    return both[0] if len(both) == 1 else both


def values_of_both(one: list[Any], other: list[Any]) -> list[Any]:
    """The intersection of two `enum` rules, in the order of the first. Raises `NothingFitsError` if it is empty."""
    known = {canonical_json(value) for value in other}
    if both := [value for value in one if canonical_json(value) in known]:
        return both
    raise NothingFitsError


_OF_BOTH: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "type": types_of_both,
    "enum": values_of_both,
    "required": lambda one, other: list(dict.fromkeys((*one, *other))),
    "uniqueItems": lambda one, other: one or other,
}
"""Merges two rules of a keyword, by keyword."""


def with_notes(new: JsonSchema, one: JsonSchema, other: JsonSchema) -> JsonSchema:
    """`new` with the notes of both; the first's override the other's, except for descriptions, which are joined."""
    merged = {**new, **{keyword: rule for keyword, rule in other.items() if keyword in NOTES and keyword not in one}}
    merged.update(only(one, NOTES))
    return described(merged, other.get("description", ""))


MOST_MERGED: Final = 5_000
"""Pairs of schemas that one step may merge."""

MOST_LEVELS: Final = 16
"""Depth to which two schemas are merged."""

MOST_PARTS: Final = 100
"""Parts of one `allOf`, with those within it."""

MOST_ALTERNATIVES: Final = 16
"""Alternatives of two merged unions."""

_OBJECT: Final = ("properties", "patternProperties", "additionalProperties")
_TOGETHER: Final = (("if", "then", "else"), ("contains", "minContains", "maxContains"), ("prefixItems", "items"))


@define
class Conjunction:
    """Merges schemas, within limits: what can't be merged is dropped from the second and recorded as lost.

    Dropping a part of a conjunction only widens it.

    Attributes:
        definitions: The targets of references, by name.
        left: The number of pairs that may still be merged.
    """

    definitions: Mapping[str, JsonSchema]
    left: int = MOST_MERGED
    _open: set[tuple[int, int]] = field(factory=set[tuple[int, int]], init=False)

    def of(self, one: Any, other: Any, place: Place, level: int = 0) -> Any:
        """The conjunction of two schemas; notes and order of keywords are the first's where they differ.

        Raises:
            NothingFitsError: They contradict each other.
        """
        if one is False or other is False:
            raise NothingFitsError
        if other is True:
            return one
        if one is True or not one:
            return other
        if not other or same(one, other):
            return one
        if not without(other, NOTES) or not without(one, NOTES):
            return with_notes({**without(one, NOTES), **without(other, NOTES)}, one, other)
        pair = (id(one), id(other))
        self.left -= 1
        if self.left < 0 or level > MOST_LEVELS or pair in self._open:
            place.lost("allOf", "too large to merge; only a part of it is left")
            return one
        self._open.add(pair)
        try:
            return self._merge_flat(self.flat(one, place, level), self.flat(other, place, level), place, level)
        finally:
            self._open.discard(pair)

    def flat(self, schema: JsonSchema, place: Place, level: int = 0) -> JsonSchema:
        """A schema without `allOf` and without a reference at its root.

        Raises:
            NothingFitsError: Its parts contradict each other.
        """
        own = without(schema, ("allOf", "$ref"))
        parts: list[JsonSchema] = []
        seen: list[JsonSchema] = []
        self._gather(schema, parts, seen)
        for part in parts:
            self.left -= 1
            own = self._merge_flat(own, part, place, level) if self.left >= 0 else own
        if self.left < 0:
            place.lost("allOf", "too large to merge; only a part of it is left")
        return own

    def flat_or_lost(self, schema: JsonSchema, place: Place) -> JsonSchema:
        """As `flat`, but drops parts that contradict each other."""
        try:
            return self.flat(schema, place)
        except NothingFitsError:
            place.lost("allOf", "its parts contradict each other; left out")
            return without(schema, ("allOf", "$ref"))

    def _gather(self, schema: JsonSchema, parts: list[JsonSchema], seen: list[JsonSchema]) -> None:
        """Collects the parts of a schema's reference and `allOf`, recursively, each once."""
        if any(part is False for part in schema.get("allOf", ())):
            raise NothingFitsError
        inner = _objects(schema.get("allOf", ()))
        target = target_of(schema, self.definitions)
        if target is not None:
            inner.insert(0, target)
        for part in inner:
            if any(part is known for known in seen) or len(seen) >= MOST_PARTS:
                continue
            seen.append(part)
            parts.append(without(part, ("allOf", "$ref")))
            self._gather(part, parts, seen)

    def _merge_flat(self, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> JsonSchema:
        new = dict(one)
        left_out: list[str] = []
        self._merge_members(new, one, other, place, level)
        for keyword in without(other, NOTES.union(_OBJECT)):
            # Keywords that only mean something together are merged together, or not at all.
            group = next((each for each in _TOGETHER if keyword in each), (keyword,))
            mine, its = only(one, group), only(other, group)
            if keyword != next(iter(its)) or same(mine, its):
                continue
            merged = self._rule(mine, its, place, level) if mine else its
            if merged is None:
                left_out.append(keyword)
                place.lost(keyword, "two rules can't be merged; the second is moved into the description")
            else:
                new.update(merged)
        return described(with_notes(new, one, other), *(in_words(keyword, other) for keyword in left_out))

    def _rule(self, mine: JsonSchema, its: JsonSchema, place: Place, level: int) -> JsonSchema | None:
        """Merges two rules of one keyword, or of a group; `None` if they can't be merged."""
        keyword = next(iter(its))
        if mine.keys() != its.keys() or len(its) > 1:
            return None
        one, other = mine[keyword], its[keyword]
        if keyword == "const":
            raise NothingFitsError
        if keyword in _OF_BOTH:
            return {keyword: _OF_BOTH[keyword](one, other)}
        if keyword == "anyOf" and len(one) * len(other) <= MOST_ALTERNATIVES:
            pairs = [self._both(first, second, place, level) for first in one for second in other]
            if not (possible := [pair for pair in pairs if pair is not False]):
                raise NothingFitsError
            return {keyword: distinct(possible)}
        both = self._both(one, other, place, level) if keyword in ("items", "propertyNames") else False
        return None if both is False else {keyword: both}

    def _both(self, one: Any, other: Any, place: Place, level: int) -> Any:
        """The conjunction of two schemas or booleans; `False` if nothing fits both."""
        try:
            return self.of(one, other, place, level + 1)
        except NothingFitsError:
            return False

    def _merge_members(self, new: JsonSchema, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> None:
        if all(keyword not in other for keyword in _OBJECT):
            return
        if all(keyword not in one for keyword in _OBJECT):
            new.update(only(other, _OBJECT))
            return
        names = dict.fromkeys((*one.get("properties", ()), *other.get("properties", ())))
        properties: JsonSchema = {}
        for name in names:
            member = self._both(member_of(one, name), member_of(other, name), place.below(("properties", name)), level)
            if member is not False:
                properties[name] = member
            elif name in (*one.get("required", ()), *other.get("required", ())):
                raise NothingFitsError
        if names:
            new["properties"] = properties
        self._merge_others(new, one, other, place, level)

    def _merge_others(self, new: JsonSchema, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> None:
        """Merges `additionalProperties` and `patternProperties`, as far as possible."""
        patterns = {**other.get("patternProperties", {}), **one.get("patternProperties", {})}
        if patterns:
            new["patternProperties"] = patterns
        if "additionalProperties" in other or "additionalProperties" in one:
            mine, its = (each.get("additionalProperties", True) for each in (one, other))
            new["additionalProperties"] = self._both(mine, its, place.below(("additionalProperties",)), level)
        if patterns and not ("patternProperties" in one and "additionalProperties" not in other):
            place.lost("patternProperties", "merged with other rules; it may accept more")


@step_for("allOf", "$ref")
def merge_all_of(schema: JsonSchema) -> Rewritten:
    """Merges the parts of `allOf`, and a `$ref` with rules next to it, into one schema.

    A `$ref` with only notes next to it stays. Of rules that can't be merged (two patterns, two conditions) the first
    stays, and the second goes into the description.
    """
    conjunction = Conjunction(schema.get("$defs", {}))

    def merge(schema: JsonSchema, place: Place, within: tuple[int, ...]) -> JsonSchema:
        """Merges the schema, and then each within it; `within` holds the ids of the schemas being merged around it."""
        if "allOf" in schema or ("$ref" in schema and without(schema, NOTES | {"$ref", "$defs"})):
            if id(schema) in within or len(within) >= MOST_LEVELS:
                return _cut_off(schema, place)
            within = (*within, id(schema))
            schema = _only_reference(schema) or conjunction.flat_or_lost(schema, place)
        return mapped(schema, lambda part, steps: merge(part, place.below(steps), within))

    return here(schema, lambda root, place: merge(root, place, ()))


def _cut_off(schema: JsonSchema, place: Place) -> JsonSchema:
    """The replacement for a schema that is merged within itself: one of its parts."""
    place.lost("allOf", "merged with itself recursively; only a part of it is left")
    references = [part["$ref"] for part in (schema, *_objects(schema.get("allOf", ()))) if "$ref" in part]
    return {"$ref": references[0], **only(schema, NOTES)} if references else without(schema, ("allOf",))


def _objects(parts: Iterable[Any]) -> list[JsonSchema]:
    """The schemas of a list that aren't `True` or `False`."""
    return [part for part in parts if is_object(part)]


def _only_reference(schema: JsonSchema) -> JsonSchema | None:
    """The schema as a reference with notes, if it is no more than that."""
    parts: list[JsonSchema] = [without(schema, ("allOf",)), *_objects(schema.get("allOf", ()))]
    ruling = [part for part in parts if without(part, NOTES | {"$defs"})]
    if len(ruling) != 1 or set(without(ruling[0], NOTES)) != {"$ref"}:
        return None
    notes: JsonSchema = {}
    for part in reversed(parts):
        notes.update(only(part, NOTES))
    return {"$ref": ruling[0]["$ref"], **notes, **only(schema, ("$defs",))}


_STAYS: Final = NOTES | {"anyOf"}


@step_if(lambda parts: any(_has_rules(part) or _simplify(part) is not part for part in parts if "anyOf" in part))
def isolate_any_of(schema: JsonSchema) -> Rewritten:
    """Moves the rules next to an `anyOf` into each of its alternatives; notes stay.

    Lossless, unless the union is recursive, or all its alternatives contradict the rules.

    Contradicting alternatives are dropped, nested unions flattened, and a union of one is replaced by its member. The
    root's `anyOf` is left to `root_object`.
    """
    conjunction = Conjunction(schema.get("$defs", {}))

    def spread(schema: JsonSchema, place: Place, within: tuple[JsonSchema, ...]) -> JsonSchema:
        """Spreads the schema, and then each within it: its alternatives may be new ones.

        `within` are the unions around it that have been spread; references to them, so that no id is reused.
        """
        while "anyOf" in schema and not place.is_root and _has_rules(schema):
            again = len(within) > MOST_LEVELS or any(schema is union for union in within)
            within = (*within, schema)
            if again:
                place.lost("anyOf", "a recursive union; the rules next to it are left out")
            schema = _simplify(only(schema, _STAYS) if again else _spread(schema, place, conjunction))
        new = mapped(schema, lambda part, steps: spread(part, place.below(steps), within))
        return new if place.is_root else _simplify(new)

    return here(schema, lambda root, place: spread(root, place, ()))


def _spread(schema: JsonSchema, place: Place, conjunction: Conjunction) -> JsonSchema:
    rules = without(schema, _STAYS)
    members: list[Any] = []
    for index, member in enumerate(schema["anyOf"]):
        with suppress(NothingFitsError):
            members.append(conjunction.of(rules, member, place.below(("anyOf", index))))
    if not members:
        place.lost("anyOf", "contradicts the rules next to it, left out")
        return without(schema, ("anyOf",))
    return {**only(schema, NOTES), "anyOf": members}


def _has_rules(schema: JsonSchema) -> bool:
    return not _STAYS.issuperset(schema)


def _simplify(schema: JsonSchema) -> JsonSchema:
    members: list[Any] | None = schema.get("anyOf")
    if members is None or _has_rules(schema):
        return schema
    flat: list[Any] = []
    for member in members:
        flat += member["anyOf"] if is_object(member) and set(member) == {"anyOf"} else [member]
    flat = distinct(flat)
    if len(flat) > 1:
        return schema if len(flat) == len(members) and flat == members else {**schema, "anyOf": flat}
    only_one: Any = flat[0]
    if not is_object(only_one) or "$ref" in only_one:
        return schema
    return with_notes(only_one, schema, only_one)


@step_for("oneOf")
@everywhere
def one_of_to_any_of(schema: JsonSchema, place: Place) -> JsonSchema:
    """Writes `oneOf` as `anyOf`, which also accepts what fits several alternatives.

    Lossless if the alternatives exclude each other by their types. Next to an `anyOf`, both become parts of `allOf`.
    """
    members = schema.get("oneOf")
    if members is None:
        return schema
    if len(members) != 1 and not (all(map(is_object, members)) and _are_apart(members)):
        place.lost("oneOf", "written as anyOf: values that fit several alternatives are accepted")
        schema = described(schema, "Exactly one of the alternatives.")
    if "anyOf" not in schema:
        return exchanged(schema, "oneOf", "anyOf", members)
    parts: list[Any] = [*schema.get("allOf", ()), {"anyOf": members}]
    return {**without(schema, ("oneOf", "allOf")), "allOf": parts}


def _are_apart(members: list[JsonSchema]) -> bool:
    """Whether the types of all are known and disjoint."""
    seen: set[str] = set()
    for member in members:
        types = {"number" if name == "integer" else name for name in types_of(member, {}) or ()}
        if not types or not seen.isdisjoint(types):
            return False
        seen |= types
    return True


UNIONS = ("anyOf", "oneOf")


def root_object(*unwanted: str) -> Step:
    """The step that makes the root an object, without some keywords there.

    A reference at the root is inlined, `allOf` merged, and the alternatives of `anyOf` and `oneOf` folded into one
    object that has the properties of all and requires what all require; other keywords go into the description.
    Arguments are always objects, so other types at the root are no loss. A property that only some alternatives have
    gets their rules, though others may accept more.

    Args:
        unwanted: Keywords that the provider accepts below the root only (`"anyOf"`, `"enum"`).
    """

    def fold(schema: JsonSchema) -> Rewritten:
        if schema.get("type") == "object" and not any(keyword in schema for keyword in (*unwanted, "$ref")):
            return Rewritten(schema)
        named = named_definitions(schema)
        folding = _Folding(unwanted, Conjunction(named.schema.get("$defs", {})))
        folded = here(named.schema, folding.fold)
        return Rewritten(folded.schema, named.changes + folded.changes)

    return fold


@define
class _Folding:
    unwanted: tuple[str, ...]
    conjunction: Conjunction

    def fold(self, schema: JsonSchema, place: Place) -> JsonSchema:
        if "$ref" in schema or ("allOf" in self.unwanted and "allOf" in schema):
            schema = self.conjunction.flat_or_lost(schema, place)
        if "object" not in _types(schema):
            place.refused("type", "arguments are an object, which the root doesn't allow")
        if schema.get("type") != "object":
            schema = {"type": "object", **without(schema, ("type",))}
        for keyword in UNIONS:
            if keyword in self.unwanted and keyword in schema:
                schema = self._unite(schema, keyword, place)
        others = [keyword for keyword in self.unwanted if keyword in schema]
        what = "not accepted at the root, moved into the description"
        return into_description(schema, place, others, what) if others else schema

    def _unite(self, schema: JsonSchema, keyword: str, place: Place) -> JsonSchema:
        members = [self._member(part, place) for part in schema[keyword]]
        objects = [part for part in members if part is not None and "object" in _types(part)]
        base = without(schema, (keyword,))
        place.lost(keyword, "not accepted at the root; its alternatives are written as one object")
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
        # Alternatives without it leave the root's own rule as it is.
        if len(rules) < count or True in kinds or not kinds or not isinstance(own[name], dict):
            return own[name]
        try:
            return self.conjunction.of(own[name], union, place.below(("properties", name)))
        except NothingFitsError:
            return own[name]


def _types(schema: JsonSchema) -> list[Any]:
    types: Any = schema.get("type", "object")
    return types if isinstance(types, list) else [types]  # pyright: ignore[reportUnknownVariableType]


def _needs(objects: list[JsonSchema], common: set[str]) -> str:
    """A sentence on what each alternative requires, if they differ."""
    sets = [[name for name in part.get("required", ()) if name not in common] for part in objects]
    if not all(sets):
        return ""
    ways = list(dict.fromkeys(" with ".join(names) for names in sets))
    return f"Needs {ways[0] if len(ways) == 1 else 'one of: ' + '; '.join(ways)}."
