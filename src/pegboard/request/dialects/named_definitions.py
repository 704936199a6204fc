"""References that all point to `$defs` at the root, whatever they were written as."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from pegboard.request.dialects.everywhere import only_with
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.step import Rewritten
from pegboard.request.dialects.walk import Place, walked
from pegboard.schema.json import is_object
from pegboard.schema.references import REFERENCES, References
from pegboard.typing import JsonSchema

PREFIX: Final = "#/$defs/"
"""What every reference begins with after this step; a definition's name follows."""

MOST_SCHEMAS: Final = 20_000
"""Schemas to go through before no further definition is made of what a reference points to elsewhere."""

ASIDE: Final = frozenset({"$defs", "definitions", "$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor"})
"""Keywords that only references need, at their places; all are gone after this step but the root's `$defs`."""

_OUTSIDE_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@only_with(*ASIDE, *REFERENCES)
def named_definitions(schema: JsonSchema) -> Rewritten:
    """Points every reference to a definition in the root's `$defs`, and leaves there what is referred to.

    References by pointer, anchor or `$id` would break as soon as a step moves something. What several places share
    is written once. A reference that points nowhere in the schema is left out: nothing is ever fetched.
    """
    return _Naming(References(schema)).rewritten()


@define
class _Naming:
    """The definitions found so far.

    Attributes:
        references: Of the schema as it is.
        names: Of the definitions, by the identity of what they are made of.
        waiting: Definitions, in the order in which they were found.
        taken: The names given.
        seen: How many schemas have been gone through.
    """

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
        ordered = self._in_order(definitions)
        return Rewritten({**root, "$defs": ordered} if ordered else root, tuple(place.changes))

    def visit(self, schema: JsonSchema, place: Place) -> JsonSchema:
        self.seen += 1
        for keyword in REFERENCES:
            if keyword in schema:
                schema = self._pointed(schema, keyword, place)
        return schema if ASIDE.isdisjoint(schema) else without(schema, ASIDE)

    def _pointed(self, schema: JsonSchema, keyword: str, place: Place) -> JsonSchema:
        reference = schema[keyword]
        target = self.references.target(reference) if isinstance(reference, str) else None
        rest = without(schema, (keyword,))
        if target is None:
            place.lost(keyword, "points to nothing in the schema, left out")
            return rest
        if isinstance(target, bool):
            return rest if target else {**rest, "not": {}}
        if not is_object(target) or (self.seen > MOST_SCHEMAS and id(target) not in self.names):
            place.lost(keyword, "leads to too much to be written out, left out")
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

    def _in_order(self, definitions: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
        """The definitions as the schema had them in its own, and then the others."""
        own: dict[str, Any] = {**self._own("definitions"), **self._own("$defs")}
        first = [name for part in own.values() if (name := self.names.get(id(part))) is not None]
        return {name: definitions[name] for name in dict.fromkeys((*first, *definitions))}

    def _own(self, keyword: str) -> dict[str, Any]:
        found = self.references.root.get(keyword)
        return found if is_object(found) else {}


def target_of(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema | None:
    """What the `$ref` of a schema points to, once every reference is one to `$defs`; `None` where it has none."""
    reference = schema.get("$ref")
    return definitions.get(reference.removeprefix(PREFIX)) if isinstance(reference, str) else None


def name_in(reference: str) -> str:
    """The name of the definition that a reference points to, once every reference is one to `$defs`."""
    return reference.removeprefix(PREFIX)
