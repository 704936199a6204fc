"""`allOf` said as one schema."""

from __future__ import annotations

from attrs import define

from pegboard.request.dialects.both_rules import NothingFitsError
from pegboard.request.dialects.bounded import bounded
from pegboard.request.dialects.conjunction import MOST_LEVELS, Conjunction
from pegboard.request.dialects.everywhere import only_with
from pegboard.request.dialects.keyed import only, without
from pegboard.request.dialects.step import Rewritten
from pegboard.request.dialects.walk import NOTES, Place, here, mapped
from pegboard.typing import JsonSchema


@only_with("allOf", "$ref")
@bounded
def merge_all_of(schema: JsonSchema) -> Rewritten:
    """Merges the parts of `allOf`, and what stands beside a `$ref`, into one schema.

    Notes alone beside a `$ref` stay there. What can't be merged (two patterns, two conditions) is said of the first
    part only and goes into the description.
    """
    merging = _Merging(Conjunction(schema.get("$defs", {})))
    return here(schema, lambda root, place: merging.merged(root, place, ()))


@define
class _Merging:
    conjunction: Conjunction

    def merged(self, schema: JsonSchema, place: Place, within: tuple[int, ...]) -> JsonSchema:
        """The schema merged, and then each within it; `within` holds what is being merged further out."""
        if "allOf" in schema or ("$ref" in schema and without(schema, NOTES | {"$ref", "$defs"})):
            within, own = (*within, id(schema)), schema
            again = id(schema) in within[:-1] or len(within) > MOST_LEVELS
            schema = self._cut(schema, place) if again else self._flat(schema, place)
            if schema is not own and again:
                return schema
        return mapped(schema, lambda part, steps: self.merged(part, place.below(steps), within))

    def _flat(self, schema: JsonSchema, place: Place) -> JsonSchema:
        reference = _only_reference(schema)
        if reference is not None:
            return reference
        try:
            return self.conjunction.flat(schema, place)
        except NothingFitsError:
            place.lost("allOf", "its parts contradict each other; left out")
            return without(schema, ("allOf", "$ref"))

    def _cut(self, schema: JsonSchema, place: Place) -> JsonSchema:
        """What stands for a schema that is merged within itself: one of its parts."""
        place.lost("allOf", "merged with itself without end; only a part of it is said")
        references = [part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part]
        return {"$ref": references[0], **only(schema, NOTES)} if references else without(schema, ("allOf",))


def _only_reference(schema: JsonSchema) -> JsonSchema | None:
    """The schema as a reference with notes beside it, if it is no more than that."""
    parts: list[JsonSchema] = [without(schema, ("allOf",)), *schema.get("allOf", ())]
    ruling = [part for part in parts if without(part, NOTES | {"$defs"})]
    if len(ruling) != 1 or set(without(ruling[0], NOTES)) != {"$ref"}:
        return None
    notes: JsonSchema = {}
    for part in reversed(parts):
        notes.update(only(part, NOTES))
    return {"$ref": ruling[0]["$ref"], **notes, **only(schema, ("$defs",))}
