"""A bound round steps that can make a schema larger."""

from __future__ import annotations

from typing import Any, Final

from pegboard.request.dialects.keyed import only
from pegboard.request.dialects.loosened import loosened
from pegboard.request.dialects.step import Change, Rewritten, Step
from pegboard.request.dialects.walk import NOTES
from pegboard.schema.json import is_array, is_object
from pegboard.typing import JsonSchema

MOST_VALUES: Final = 50_000
"""JSON values that a step may make of a smaller schema."""

_STAYS: Final = NOTES | {"type", "required"}


def bounded(step: Step) -> Step:
    """The step; where what it makes is larger than `MOST_VALUES` and than what it got, a schema that says less.

    That one still names the properties at the root with their types and notes, and nothing within them.
    """

    def within_bounds(schema: JsonSchema) -> Rewritten:
        rewritten = step(schema)
        if rewritten.schema is schema or size_of(rewritten.schema) <= max(MOST_VALUES, size_of(schema)):
            return rewritten
        what = "comes to too much once written out; only the properties at the root are told"
        return Rewritten(_outline(schema), (*rewritten.changes, Change("", "$defs", what)))

    within_bounds.__doc__ = step.__doc__
    return within_bounds


def size_of(schema: Any) -> int:
    """How many JSON values there are, each counted as often as it stands there; linear in those that are shared."""
    return _size(schema, {})


def _size(value: Any, known: dict[int, int]) -> int:
    items: Any = value.values() if is_object(value) else value
    if not is_object(value) and not is_array(value):
        return 1
    size = known.get(id(value))
    if size is None:
        size = known[id(value)] = 1 + sum(_size(item, known) for item in items)
    return size


def _outline(schema: JsonSchema) -> JsonSchema:
    definitions: JsonSchema = schema.get("$defs", {})
    properties: JsonSchema = schema.get("properties", {})
    named = {name: loosened(part, definitions) for name, part in properties.items() if is_object(part)}
    return {**only(schema, _STAYS), "type": "object", "properties": named}


__all__ = ["MOST_VALUES", "bounded", "size_of"]
