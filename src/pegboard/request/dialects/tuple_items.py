"""`prefixItems` said by `items`."""

from __future__ import annotations

from typing import Any

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import distinct, without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema


def tuple_items(*, closed: bool = False) -> Step:
    """The step that says `prefixItems` as `items` of any of their schemas, and tells the order in the description.

    Nothing is lost where all are the same.

    Args:
        closed: Whether items beyond the first ones are ruled out where nothing is said of them; else they make
            `items` take anything.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        first: list[Any] | None = schema.get("prefixItems")
        if first is None:
            return schema
        new = without(schema, ("prefixItems", "items"))
        members = list(first)
        if schema.get("maxItems", len(first) + 1) > len(first):
            if "items" in schema or not closed:
                members.append(schema.get("items", {}))
            else:
                new["maxItems"] = len(first)
        kinds = distinct(members)
        if len(kinds) > 1 or new.get("maxItems") != schema.get("maxItems"):
            place.lost("prefixItems", "the order of its items is moved into the description")
            new = described(new, told("prefixItems", schema))
        return {**new, "items": _any(kinds)}

    return where("prefixItems")(visit)


def _any(kinds: list[Any]) -> JsonSchema:
    if len(kinds) == 1:
        return kinds[0]
    return {} if {} in kinds else {"anyOf": kinds}
