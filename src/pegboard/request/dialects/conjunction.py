"""Two schemas as one that takes what both take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from pegboard.request.dialects.both_rules import (
    CANNOT,
    MERGES,
    NothingFitsError,
    fitting,
    item_of,
    member_of,
    same,
    types_of_both,
    values_of_both,
    with_notes,
)
from pegboard.request.dialects.keyed import distinct, only, without
from pegboard.request.dialects.named_definitions import target_of
from pegboard.request.dialects.walk import NOTES, Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema

MOST_MERGED: Final = 5_000
"""Pairs of schemas that one step may merge."""

MOST_LEVELS: Final = 16
"""How deep two schemas are merged."""

MOST_PARTS: Final = 100
"""Parts that one `allOf`, with those within it, may have."""

MOST_ALTERNATIVES: Final = 16
"""Alternatives that two unions may come to."""

_OBJECT: Final = ("properties", "patternProperties", "additionalProperties")
_ARRAY: Final = ("prefixItems", "items")
_TOGETHER: Final = (
    ("if", "then", "else"),
    ("contains", "minContains", "maxContains"),
    ("unevaluatedProperties",),
    ("unevaluatedItems",),
)


@define
class Conjunction:
    """Merges schemas, within bounds: what can't be merged is left out of the second and taken down as lost.

    Leaving one side of a conjunction out takes more values, never fewer.

    Attributes:
        definitions: What references point to, by name.
        left: How many pairs may still be merged.
    """

    definitions: Mapping[str, JsonSchema]
    left: int = MOST_MERGED
    _open: set[tuple[int, int]] = field(factory=set[tuple[int, int]], init=False)

    def of(self, one: JsonSchema, other: JsonSchema, place: Place, level: int = 0) -> JsonSchema:
        """A schema that takes what both take.

        Args:
            one: Its notes go first, its order of keywords is kept.
            other: The second.
            place: Where losses are taken down.
            level: How deep the two lie below what was first merged.

        Raises:
            NothingFitsError: No value can fit both.
        """
        if not other or same(one, other):
            return one
        if not one:
            return other
        if not without(other, NOTES) or not without(one, NOTES):
            return with_notes({**without(one, NOTES), **without(other, NOTES)}, one, other)
        pair = (id(one), id(other))
        self.left -= 1
        if self.left < 0 or level > MOST_LEVELS or pair in self._open:
            place.lost("allOf", "too much to be merged; only a part of it is said")
            return one
        self._open.add(pair)
        try:
            return self._merged(self.flat(one, place, level), self.flat(other, place, level), place, level)
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
            own = self._merged(own, part, place, level) if self.left >= 0 else own
        if self.left < 0:
            place.lost("allOf", "too much to be merged; only a part of it is said")
        return own

    def _gather(self, schema: JsonSchema, parts: list[JsonSchema], seen: list[JsonSchema]) -> None:
        """What a schema's reference and `allOf` come to, each without any; one within itself is left out."""
        inner: list[JsonSchema] = [part for part in schema.get("allOf", ()) if isinstance(part, dict)]
        target = target_of(schema, self.definitions)
        if target is not None:
            inner.insert(0, target)
        for part in inner:
            if any(part is known for known in seen) or len(seen) >= MOST_PARTS:
                continue
            seen.append(part)
            parts.append(without(part, ("allOf", "$ref")))
            self._gather(part, parts, seen)

    def _merged(self, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> JsonSchema:
        new = dict(one)
        left_out: list[str] = []
        self._merge_members(new, one, other, place, level)
        self._merge_items(new, one, other, place, level)
        self._merge_together(new, other, left_out)
        handled = {*_OBJECT, *_ARRAY, *NOTES, *(keyword for group in _TOGETHER for keyword in group)}
        for keyword, rule in other.items():
            if keyword in handled or (keyword in new and same(new[keyword], rule)):
                continue
            merged = self._rule(keyword, new, rule, place, level) if keyword in new else rule
            if merged is CANNOT:
                left_out.append(keyword)
            else:
                new[keyword] = merged
        for keyword in left_out:
            place.lost(keyword, "stands twice and can't be merged; moved into the description")
        return described(fitting(with_notes(new, one, other)), *(told(keyword, other) for keyword in left_out))

    def _rule(self, keyword: str, new: JsonSchema, rule: Any, place: Place, level: int) -> Any:
        if keyword == "type":
            return types_of_both(new["type"], rule)
        if keyword == "enum":
            return values_of_both(new["enum"], rule)
        if keyword == "const":
            raise NothingFitsError
        if keyword == "propertyNames":
            return self.of(new[keyword], rule, place, level + 1)
        if keyword == "anyOf":
            return self._alternatives(new["anyOf"], rule, place, level)
        merge = MERGES.get(keyword)
        return merge(new[keyword], rule) if merge else CANNOT

    def _alternatives(self, one: list[Any], other: list[Any], place: Place, level: int) -> Any:
        if len(one) * len(other) > MOST_ALTERNATIVES:
            return CANNOT
        pairs = [self._possible(first, second, place, level) for first in one for second in other]
        possible = [pair for pair in pairs if pair is not None]
        if not possible:
            raise NothingFitsError
        return distinct(possible)

    def _possible(self, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> JsonSchema | None:
        try:
            return self.of(one, other, place, level + 1)
        except NothingFitsError:
            return None

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
        """`additionalProperties` and `patternProperties` of both, as far as they can be merged."""
        patterns = {**other.get("patternProperties", {}), **one.get("patternProperties", {})}
        if patterns:
            new["patternProperties"] = patterns
        if "additionalProperties" in other or "additionalProperties" in one:
            rest = self._both(
                one.get("additionalProperties", True),
                other.get("additionalProperties", True),
                place.below(("additionalProperties",)),
                level,
            )
            new["additionalProperties"] = rest
        if patterns and not ("patternProperties" in one and "additionalProperties" not in other):
            place.lost("patternProperties", "merged with other rules; it may take more")

    def _merge_items(self, new: JsonSchema, one: JsonSchema, other: JsonSchema, place: Place, level: int) -> None:
        if all(keyword not in other for keyword in _ARRAY):
            return
        length = max(len(one.get("prefixItems", ())), len(other.get("prefixItems", ())))
        first = [
            self._both(item_of(one, at), item_of(other, at), place.below(("prefixItems", at)), level)
            for at in range(length)
        ]
        rest = self._both(one.get("items", True), other.get("items", True), place.below(("items",)), level)
        for keyword in _ARRAY:
            new.pop(keyword, None)
        if False in (*first, rest):
            most = (*first, rest).index(False)
            new["maxItems"] = min(new.get("maxItems", most), other.get("maxItems", most), most)
            first = first[:most]
        if first:
            new["prefixItems"] = first
        if isinstance(rest, dict):
            new["items"] = rest

    def _both(self, one: Any, other: Any, place: Place, level: int) -> Any:
        """Two schemas, booleans among them, as one; `False` where nothing fits both."""
        if one is False or other is False:
            return False
        if one is True or other is True:
            return other if one is True else one
        possible = self._possible(one, other, place, level)
        return False if possible is None else possible

    def _merge_together(self, new: JsonSchema, other: JsonSchema, left_out: list[str]) -> None:
        """Keywords that mean something only together go over together, or not at all."""
        for group in _TOGETHER:
            added = only(other, group)
            if not added or same(added, only(new, group)):
                continue
            if any(keyword in new for keyword in group):
                left_out.append(next(iter(added)))
            else:
                new.update(added)
