"""Proof, by keywords, that one schema takes no value that another refuses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeAlias

from attrs import Factory, define, field

from pegboard.errors import SchemaError
from pegboard.json import canonical_json, is_array, is_object, json_text
from pegboard.schema import NOTES, REFERENCES, References, compiled, schemas, validator_of
from pegboard.typing import JsonSchema
from pegboard_lock.runs import runs_of

_Schemas: TypeAlias = "Sequence[JsonSchema]"
"""Schemas without references and `allOf` that a value must fit all of."""

_MOST_STEPS: Final = 5_000  # about 30 us each
_MOST_LEVELS: Final = 40
_MOST_PARTS: Final = 200  # of one schema with its references and `allOf`
_MOST_MEMBERS: Final = 5_000  # of an enum
_DEFINITIONS: Final = ("$defs", "definitions")
_NO_RULES: Final = frozenset({*NOTES, *REFERENCES, *_DEFINITIONS, "$id", "$schema", "allOf", "discriminator"})
_STRANGE: Final = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"})
_LATEST: Final = "2020-12"
_LATER: Final = frozenset({"dependentRequired", "dependentSchemas", "maxContains", "minContains", "prefixItems"})
_NEIGHBOURS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("additionalItems", "items"), ("additionalItems", "items", "prefixItems")),
    **dict.fromkeys(("contains", "maxContains", "minContains"), ("contains", "maxContains", "minContains")),
    **dict.fromkeys(("else", "if", "then"), ("else", "if", "then")),
    "exclusiveMaximum": ("exclusiveMaximum", "maximum"),
    "exclusiveMinimum": ("exclusiveMinimum", "minimum"),
    "additionalProperties": ("additionalProperties", "patternProperties", "properties"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), ()),  # every keyword beside them
}
"""Keywords that mean something only together, by each of them; another means the same anywhere."""
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("format", "maxLength", "minLength", "pattern"), "string"),
    **dict.fromkeys(("contains", "items", "maxItems", "minItems", "prefixItems", "uniqueItems"), "array"),
    **dict.fromkeys(("additionalProperties", "dependentRequired", "dependentSchemas", "maxProperties"), "object"),
    **dict.fromkeys(("minProperties", "patternProperties", "properties", "propertyNames", "required"), "object"),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"), "integer"),
}
"""The type that a keyword is about; values of other types fit it."""
_LEAST: Final = frozenset({"minItems", "minLength", "minProperties", "minimum"})
_MOST: Final = frozenset({"maxItems", "maxLength", "maxProperties", "maximum"})
_BEYOND: Final = 1_000_000  # a place in an array that no `prefixItems` has


class _UnprovenError(Exception):
    """A schema has what isn't understood here, or there is no more time."""


@define(eq=False)
class Proof:
    """Search for a proof that each value of one schema is one of another. What has no proof may be so all the same.

    Attributes:
        one: The schema that may take no more.
        other: The other one.
        deadline: When to end the search, by `time.monotonic`.
    """

    one: JsonSchema
    other: JsonSchema
    deadline: float | None = None
    _left: int = field(default=_MOST_STEPS, init=False)
    _ones: References = field(default=Factory(lambda self: References(self.one), takes_self=True), init=False)
    _others: References = field(default=Factory(lambda self: References(self.other), takes_self=True), init=False)
    _has_same_definitions: bool = field(default=False, init=False)
    _assumed: set[str] = field(factory=set[str], init=False)  # pairs of recursive schemas that are being compared

    def is_found(self) -> bool:
        """Whether there is a proof."""
        roots = (self.one, self.other)
        try:
            if self.one.get("$schema") != self.other.get("$schema") or any(map(_is_strange, roots)):
                return False
            for root in roots:
                compiled(json_text(root))  # raises for a pattern that no engine runs, which isn't asserted then
            definitions = [canonical_json([root.get(key) for key in _DEFINITIONS]) for root in roots]
            self._has_same_definitions = definitions[0] == definitions[1] and all(map(_refers_to_definitions, roots))
            return self._is_within(self.one, self.other, 0)
        except (_UnprovenError, SchemaError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            return False

    def _is_within(self, one: Any, other: Any, level: int) -> bool:
        """Whether each value of a part of one schema is one of a part of the other."""
        if one is False or other is True or self._is_same(one, other):
            return True
        if not (is_object(one) and is_object(other) and "$ref" in one and "$ref" in other):
            return self._are_within(self._parts(self._ones, one), self._parts(self._others, other), level)
        pair = canonical_json([one, other])
        if pair in self._assumed:
            return True
        self._assumed.add(pair)
        try:
            return self._are_within(self._parts(self._ones, one), self._parts(self._others, other), level)
        finally:
            self._assumed.discard(pair)

    def _are_within(self, ones: _Schemas, others: _Schemas, level: int) -> bool:
        self._left -= 1
        if self._left < 0 or level > _MOST_LEVELS or (self.deadline is not None and time.monotonic() > self.deadline):
            raise _UnprovenError
        if (
            not others
            or _types_of(ones) == set()
            or ((members := _members(ones)) is not None and self._take_all(others, members))
        ):
            return True
        if all(self._is_implied(ones, key, each, level + 1) for each in others for key in each):
            return True
        return any(
            all(self._are_within([*rest, *self._parts(self._ones, each)], others, level + 1) for each in alternatives)
            for alternatives, rest in _splits(ones)
        )

    def _is_same(self, one: Any, other: Any) -> bool:
        text = canonical_json(one)
        return text == canonical_json(other) and (self._has_same_definitions or '"$' not in text)

    def _parts(self, references: References, schema: Any) -> _Schemas:
        """A schema with its references and what is in `allOf`, one by one."""
        found: list[JsonSchema] = []
        waiting = [schema]
        for part in waiting:  # grows as parts are found
            if len(waiting) > _MOST_PARTS:
                raise _UnprovenError
            if part is True:
                continue
            targets = [] if part is False else [*references.targets(part)]
            if not all(is_object(each) or isinstance(each, bool) for each in targets):
                raise _UnprovenError
            waiting += targets
            if targets and references.legacy:  # a reference disables its siblings
                continue
            if part is False or part.get("not") in ({}, True):
                return [{"enum": []}]
            waiting += part.get("allOf", ())
            found += [{"enum": [part["const"]]}] if "const" in part else []
            found.append({key: rule for key, rule in part.items() if key not in _NO_RULES and key != "const"})
        return [each for each in found if each]

    def _take_all(self, others: _Schemas, values: Sequence[Any]) -> bool:
        """Whether schemas of the other side take all values."""
        if not _refers_to_definitions(self.other):
            return not values
        kept = {key: self.other[key] for key in ("$schema", *_DEFINITIONS) if key in self.other}
        return all(map(validator_of(json_text({**kept, "allOf": others})).accepts, values))

    def _is_implied(self, ones: _Schemas, key: str, other: JsonSchema, level: int) -> bool:
        """Whether schemas imply one keyword of another."""
        rule, types = other[key], _types_of(ones)
        if types is not None and key in _KINDS and _KINDS[key] not in types:
            return True
        together = _NEIGHBOURS.get(key, (key,))
        if together and any(
            key in each and all(self._is_same(each.get(name), other.get(name)) for name in together) for each in ones
        ):
            return True
        judge = self._judges.get(key)
        return _is_bound_implied(ones, key, rule) if judge is None else judge(self, ones, rule, other, level)

    # Each of these says whether `ones` imply one keyword of `other`, whose value is `rule`.

    def _type(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        types = _types_of(ones)
        return types is not None and types <= _names_of_types(rule)

    def _enum(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        return any(_texts(each) <= _texts(rule) for each in _rules(ones, "enum"))

    def _pattern(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        wanted = runs_of(rule)
        if wanted is None:
            return False
        least, most = max(_rules(ones, "minLength"), default=0), min(_rules(ones, "maxLength"), default=math.inf)
        own = filter(None, map(runs_of, _rules(ones, "pattern")))
        return any(each.limit(least, most).is_within(wanted) for each in own)

    def _multiple(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        return any(Fraction(str(each)) % Fraction(str(rule)) == 0 for each in _rules(ones, "multipleOf"))

    def _required(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        return {*rule} <= _required_names(ones)

    def _unique(self, _ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        return rule is False

    def _any_of(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        return any(self._are_within(ones, self._parts(self._others, each), level) for each in rule)

    def _one_of(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        parts = [self._parts(self._others, each) for each in rule]
        return any(
            all(self._are_apart(each, part, level) for part in parts if part is not each)
            for each in parts
            if self._are_within(ones, each, level)
        )

    def _not(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        back = Proof(self.other, self.one, self.deadline)
        back._left, back._has_same_definitions = self._left // 2, self._has_same_definitions
        self._left //= 2
        if any(back._is_within(rule, each, level) for each in _rules(ones, "not")):
            return True
        return self._are_apart(ones, self._parts(self._others, rule), level, self._ones)

    def _if(self, ones: _Schemas, rule: Any, other: JsonSchema, level: int) -> bool:
        then, otherwise = (other.get(key, True) for key in ("then", "else"))
        for each in ones:  # one with the same condition
            if "if" in each and self._is_same(each["if"], rule):
                pairs = (each.get("then", True), then), (each.get("else", True), otherwise)
                if all(self._is_within(*pair, level) for pair in pairs):
                    return True
        return all(self._are_within(ones, self._parts(self._others, each), level) for each in (then, otherwise))

    def _nothing(self, _ones: _Schemas, _rule: Any, _other: JsonSchema, _level: int) -> bool:
        return True  # `if` or `contains` judges it

    def _properties(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        return all(self._is_within(_property(ones, name), part, level) for name, part in rule.items())

    def _pattern_properties(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        names = _closed_names(ones)
        for pattern, part in rule.items():
            given = [each[pattern] for each in _rules(ones, "patternProperties") if pattern in each]
            if not given and names is None:
                return False
            parts = [_all_of(given)] if given else [_property(ones, name) for name in names or ()]
            if not all(self._is_within(each, part, level) for each in parts):
                return False
        return True

    def _additional_properties(self, ones: _Schemas, rule: Any, other: JsonSchema, level: int) -> bool:
        named, patterns = (other.get(key, {}) for key in ("properties", "patternProperties"))
        for each in ones:
            parts = [_property(ones, name) for name in each.get("properties", {}) if name not in named]
            parts += [part for name, part in each.get("patternProperties", {}).items() if name not in patterns]
            parts.append(each.get("additionalProperties", True))
            if all(self._is_within(part, rule, level) for part in parts):
                return True
        return False

    def _property_names(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        names = _closed_names(ones)
        closed = [] if names is None else [{"enum": names}]
        return any(self._is_within(each, rule, level) for each in (*_rules(ones, "propertyNames"), *closed))

    def _dependent(self, ones: _Schemas, rule: Any, _other: JsonSchema, _level: int) -> bool:
        given, required = _rules(ones, "dependentRequired"), _required_names(ones)
        return all(
            _property(ones, name) is False or {*needed} <= required.union(*(each.get(name, ()) for each in given))
            for name, needed in rule.items()
        )

    def _prefix(self, ones: _Schemas, rule: Any, _other: JsonSchema, level: int) -> bool:
        return all(self._is_within(_item(ones, place), part, level) for place, part in enumerate(rule))

    def _items(self, ones: _Schemas, rule: Any, other: JsonSchema, level: int) -> bool:
        if is_array(rule) or "additionalItems" in other:
            return False
        last = max((len(each) for each in _rules(ones, "prefixItems")), default=0)
        places = (*range(len(other.get("prefixItems", ())), last), _BEYOND)
        return all(self._is_within(_item(ones, place), rule, level) for place in places)

    def _contains(self, ones: _Schemas, rule: Any, other: JsonSchema, level: int) -> bool:
        least = other.get("minContains", 1)
        given = [each["contains"] for each in ones if "contains" in each and each.get("minContains", 1) >= least]
        return least == 0 or any(self._is_within(each, rule, level) for each in given)

    def _most_contained(self, ones: _Schemas, rule: Any, other: JsonSchema, _level: int) -> bool:
        same = [each for each in ones if self._is_same(each.get("contains"), other.get("contains"))]
        return "contains" not in other or any(each <= rule for each in _rules(same, "maxContains"))

    def _are_apart(self, ones: _Schemas, others: _Schemas, level: int, of_ones: References | None = None) -> bool:
        """Whether no value fits both, which are parts of the other schema; the first may be of the one instead."""
        pair, sources = (ones, others), (of_ones or self._others, self._others)
        if level > _MOST_LEVELS:
            return False
        for read in (_types_of, _texts_of_members):
            one, other = map(read, pair)
            if one is not None and other is not None and one.isdisjoint(other):
                return True
        if any(_types_of(each) != {"object"} for each in pair):
            return False
        names = _required_names(ones) & _required_names(others)
        for name in names:
            one, other = (self._parts(of, _property(each, name)) for of, each in zip(sources, pair, strict=True))
            if self._are_apart(one, other, level + 1, of_ones):
                return True
        return False

    _judges: ClassVar[Mapping[str, Callable[..., bool]]] = {
        "additionalProperties": _additional_properties,
        "anyOf": _any_of,
        "contains": _contains,
        "dependentRequired": _dependent,
        "else": _nothing,
        "enum": _enum,
        "if": _if,
        "items": _items,
        "maxContains": _most_contained,
        "minContains": _nothing,
        "multipleOf": _multiple,
        "not": _not,
        "oneOf": _one_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "prefixItems": _prefix,
        "properties": _properties,
        "propertyNames": _property_names,
        "required": _required,
        "then": _nothing,
        "type": _type,
        "uniqueItems": _unique,
    }
    """What judges a keyword; the rest are bounds."""


def _is_strange(root: JsonSchema) -> bool:
    """Whether a schema has other names for its parts than their places, or keywords that its draft doesn't have."""
    draft = str(root.get("$schema", _LATEST))
    strange = _STRANGE if _LATEST in draft else _STRANGE | _LATER
    is_early = "draft-04" in draft or "draft-06" in draft
    return is_early or any(strange & each.keys() or ("$id" in each and each is not root) for each in schemas(root))


def _refers_to_definitions(root: JsonSchema) -> bool:
    """Whether all references are to definitions, and not to other parts."""
    references = (each["$ref"] for each in schemas(root) if "$ref" in each)
    return all(each.startswith(("#/$defs/", "#/definitions/")) for each in references)


def _names_of_types(rule: Any) -> set[str]:
    names: set[str] = {rule} if isinstance(rule, str) else {*rule}
    return names | {"integer"} if "number" in names else names


def _types_of(schemas: _Schemas) -> set[str] | None:
    """The types that all of these schemas allow; `None` for any."""
    found = [_names_of_types(each["type"]) for each in schemas if "type" in each]
    return found[0].intersection(*found[1:]) if found else None


def _texts(values: Iterable[Any]) -> set[str]:
    return {canonical_json(each) for each in values}


def _members(schemas: _Schemas) -> Sequence[Any] | None:
    """The values of the shortest `enum`, if one isn't too long."""
    found = min((each["enum"] for each in schemas if "enum" in each), key=len, default=None)
    return found if found is not None and len(found) <= _MOST_MEMBERS else None


def _texts_of_members(schemas: _Schemas) -> set[str] | None:
    values = _members(schemas)
    return None if values is None else _texts(values)


def _rules(schemas: _Schemas, key: str) -> list[Any]:
    return [each[key] for each in schemas if key in each]


def _required_names(schemas: _Schemas) -> set[str]:
    return {name for each in schemas for name in each.get("required", ())}


def _closed_names(schemas: _Schemas) -> Sequence[str] | None:
    """The names of the properties of a closed object; `None` for another."""
    closed = (each for each in schemas if each.get("additionalProperties") is False and "patternProperties" not in each)
    return next(([*each.get("properties", ())] for each in closed), None)


def _property(schemas: _Schemas, name: str) -> JsonSchema | bool:
    """The schema of a property of values that fit all of these."""
    parts: list[Any] = []
    for each in schemas:
        others = True if "patternProperties" in each else each.get("additionalProperties", True)
        parts.append(each.get("properties", {}).get(name, others))
    return _all_of(parts)


def _item(schemas: _Schemas, place: int) -> JsonSchema | bool:
    """The schema of the item at one place of arrays that fit all of these."""
    parts: list[Any] = []
    for each in schemas:
        first, rule = each.get("prefixItems", ()), each.get("items", True)
        parts.append(first[place] if place < len(first) else True if is_array(rule) else rule)
    return _all_of(parts)


def _all_of(parts: Sequence[Any]) -> JsonSchema | bool:
    rest = [each for each in parts if each is not True]
    if any(each is False for each in rest):
        return False
    return True if not rest else rest[0] if len(rest) == 1 else {"allOf": rest}


def _splits(schemas: _Schemas) -> Iterator[tuple[Sequence[Any], _Schemas]]:
    """Alternatives of which each value fits one, with the rest of the schemas."""
    for each in schemas:
        for key in ("anyOf", "oneOf", "type"):
            alternatives: Any = each.get(key)
            if is_array(alternatives) and len(alternatives) > 1:
                kinds = ({"type": name} for name in alternatives) if key == "type" else alternatives
                rest = [{name: rule for name, rule in each.items() if name != key}]
                yield [*kinds], [*rest, *(other for other in schemas if other is not each)]


def _is_bound_implied(ones: _Schemas, key: str, bound: Any) -> bool:
    """Whether schemas imply a bound of another; `False` for any other keyword."""
    plain = key.removeprefix("exclusive")
    plain = plain[0].lower() + plain[1:]
    if plain not in _LEAST | _MOST or type(bound) not in (int, float):
        return key != plain and bound is False  # of draft 4
    sign = 1 if plain in _LEAST else -1
    names = plain, f"exclusive{plain[0].upper()}{plain[1:]}"
    own, beyond = ([sign * each[name] for each in ones if type(each.get(name)) in (int, float)] for name in names)
    is_met = any(each >= sign * bound for each in beyond)
    return is_met or any(each > sign * bound or (key == plain and each == sign * bound) for each in own)
