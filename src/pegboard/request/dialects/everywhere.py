"""Steps by what they look at: every schema, those with some keywords, or the whole where something calls for it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from pegboard.request.dialects.step import Rewritten, Step
from pegboard.request.dialects.survey import Survey, Surveying
from pegboard.request.dialects.walk import Place, Steps, Visit, with_parts
from pegboard.typing import JsonSchema


@frozen
class Everywhere(Surveying):
    """The step that visits every schema within a schema, definitions too, the innermost first.

    Attributes:
        visit: Gets a schema whose parts have been visited; gives it back where nothing is to be done, else a new
            one. It changes nothing that it is given.
        keywords: Without one of these, a visit has nothing to do; none where it may always have.
    """

    visit: Visit
    keywords: frozenset[str] = frozenset()

    def over(self, survey: Survey) -> Rewritten:
        """The step done to the schema of a survey."""
        if self.keywords and survey.lacks(self.keywords):
            return survey.untouched()
        visit = self.visit
        new = survey.schema
        changed: dict[int, list[tuple[Steps, JsonSchema]]] = {}  # the new parts, by the identity of the place around
        for schema, place in survey.schemas:
            parts = changed.pop(id(place), None) if changed else None
            own = schema if parts is None else with_parts(schema, parts)
            new = visit(own, place)
            if new is not schema and place.above is not None:
                changed.setdefault(id(place.above), []).append((place.steps, new))
        return survey.rewritten(new)


def everywhere(visit: Visit) -> Step:
    """The step that visits every schema within a schema."""
    return Everywhere(visit)


def where(*keywords: str) -> Callable[[Visit], Step]:
    """Makes the step that visits every schema within a schema where one of some keywords is used.

    Args:
        keywords: Without one of these, the visit gives back what it gets, and takes nothing down.
    """
    return lambda visit: Everywhere(visit, frozenset(keywords))


@frozen
class OnlyWith(Surveying):
    """A step that is left out where nothing in the schema calls for it.

    Attributes:
        step: It gives back a schema that nothing calls in, and takes nothing down.
        keywords: One of these is used wherever something calls.
        calls: Whether a schema with one of them calls, or one within it.
    """

    step: Step
    keywords: frozenset[str]
    calls: Callable[[JsonSchema, Place], bool]

    def over(self, survey: Survey) -> Rewritten:
        """The step done to the schema of a survey."""
        if survey.lacks(self.keywords) or not any(self.calls(schema, place) for schema, place in survey.schemas):
            return survey.untouched()
        return self.step(survey.schema)


def only_with(*keywords: str, calls: Callable[[JsonSchema, Place], bool] | None = None) -> Callable[[Step], Step]:
    """Leaves a step out wherever nothing in the schema calls for it.

    Args:
        keywords: One of these is used wherever something calls for it.
        calls: Whether one schema calls for it; any that uses one of the keywords where nothing is given.
    """
    heeded = frozenset(keywords)
    return lambda step: OnlyWith(step, heeded, calls or (lambda schema, _place: not heeded.isdisjoint(schema)))


__all__ = ["Everywhere", "OnlyWith", "everywhere", "only_with", "where"]
