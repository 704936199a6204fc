"""Unions with no rules beside them."""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from pegboard.request.dialects.both_rules import NothingFitsError
from pegboard.request.dialects.bounded import bounded
from pegboard.request.dialects.conjunction import MOST_LEVELS, Conjunction
from pegboard.request.dialects.everywhere import only_with
from pegboard.request.dialects.keyed import distinct, only, without
from pegboard.request.dialects.step import Rewritten
from pegboard.request.dialects.walk import NOTES, Place, here, mapped
from pegboard.request.dialects.words import described
from pegboard.typing import JsonSchema

_STAYS: Final = NOTES | {"anyOf"}


def _calls(schema: JsonSchema, place: Place) -> bool:
    """Whether a union has rules beside it, or could be said with fewer alternatives."""
    return "anyOf" in schema and not place.is_root and (_has_rules(schema) or _simplified(schema) is not schema)


@only_with("anyOf", calls=_calls)
@bounded
def any_of_alone(schema: JsonSchema) -> Rewritten:
    """Moves the rules beside an `anyOf` into each of its alternatives; notes stay beside it. Nothing is lost.

    Alternatives that the rules rule out go, alternatives of alternatives become its own, and one that is left alone
    takes the place of the union. The root keeps what stands beside its `anyOf`, which `root_object` folds.
    """
    spreading = _Spreading(Conjunction(schema.get("$defs", {})))
    return here(schema, lambda root, place: spreading.spread(root, place, ()))


@define
class _Spreading:
    conjunction: Conjunction

    def spread(self, schema: JsonSchema, place: Place, within: tuple[JsonSchema, ...]) -> JsonSchema:
        """The schema, and then each within it: alternatives may have become new ones.

        Args:
            schema: As it is.
            place: Where it stands.
            within: The unions further out whose rules have been moved; kept, so that no other takes an identity over.
        """
        while "anyOf" in schema and not place.is_root and _has_rules(schema):
            again = len(within) > MOST_LEVELS or any(schema is union for union in within)
            within = (*within, schema)
            schema = _simplified(self._cut(schema, place) if again else self._spread(schema, place))
        new = mapped(schema, lambda part, steps: self.spread(part, place.below(steps), within))
        return new if place.is_root else _simplified(new)

    def _cut(self, schema: JsonSchema, place: Place) -> JsonSchema:
        """A union within itself, without the rules beside it."""
        place.lost("anyOf", "a union within itself; the rules beside it are left out")
        return only(schema, _STAYS)

    def _spread(self, schema: JsonSchema, place: Place) -> JsonSchema:
        rules = without(schema, _STAYS)
        members: list[Any] = []
        for index, member in enumerate(schema["anyOf"]):
            try:
                members.append(self.conjunction.of(rules, member, place.below(("anyOf", index))))
            except NothingFitsError:
                continue
        if not members:
            place.lost("anyOf", "contradicts the rules beside it, left out")
            return without(schema, ("anyOf",))
        return {**only(schema, NOTES), "anyOf": members}


def _has_rules(schema: JsonSchema) -> bool:
    return not _STAYS.issuperset(schema)


def _simplified(schema: JsonSchema) -> JsonSchema:
    members: list[Any] | None = schema.get("anyOf")
    if members is None or _has_rules(schema):
        return schema
    flat: list[Any] = []
    for member in members:
        flat += member["anyOf"] if set(member) == {"anyOf"} else [member]
    flat = distinct(flat)
    if len(flat) > 1:
        return schema if len(flat) == len(members) and flat == members else {**schema, "anyOf": flat}
    only_one: JsonSchema = flat[0]
    if "$ref" in only_one:
        return schema
    merged = {**only_one, **only(schema, NOTES)}
    said = only_one.get("description", "")
    return described(merged, said) if "description" in schema and said else merged
