"""What stands in a schema, found out once for many steps."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from attrs import define, field

from pegboard.request.dialects.step import Change, Rewritten
from pegboard.request.dialects.walk import Place, parts_of
from pegboard.typing import JsonSchema


@define
class Survey:
    """The schemas within a schema, and the keywords that they use.

    Attributes:
        schema: Well formed, or near it; nothing here is changed.
        schemas: It and all within it, each with its place, the innermost first and itself last; one that stands at
            several places is there several times.
        keywords: Those of all of them.
    """

    schema: JsonSchema
    schemas: list[tuple[JsonSchema, Place]] = field(factory=list[tuple[JsonSchema, Place]], init=False)
    keywords: set[str] = field(factory=set[str], init=False)
    _changes: list[Change] = field(factory=list[Change], init=False)
    _untouched: Rewritten = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._add(self.schema, Place(None, (), self._changes))
        self._untouched = Rewritten(self.schema)

    def _add(self, schema: JsonSchema, place: Place) -> None:
        for steps, part in parts_of(schema):
            self._add(part, Place(place, steps, self._changes))
        self.keywords.update(schema)
        self.schemas.append((schema, place))

    def lacks(self, keywords: AbstractSet[str]) -> bool:
        """Whether none of some keywords is used."""
        return self.keywords.isdisjoint(keywords)

    def untouched(self) -> Rewritten:
        """What a step gives that has nothing to do."""
        return self._untouched

    def rewritten(self, schema: JsonSchema) -> Rewritten:
        """What a step gives, with all that was taken down at the places since the last such."""
        if schema is self.schema and not self._changes:
            return self._untouched
        changes = tuple(self._changes)
        self._changes.clear()
        return Rewritten(schema, changes)


class Surveying:
    """A step that works from a survey, which a dialect shares among its steps; called, it makes one of its own."""

    def over(self, survey: Survey) -> Rewritten:
        """The step done to the schema of a survey."""
        raise NotImplementedError

    def __call__(self, schema: JsonSchema) -> Rewritten:
        """The step done to a schema."""
        return self.over(Survey(schema))


__all__ = ["Survey", "Surveying"]
