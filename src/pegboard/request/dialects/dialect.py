"""`Dialect`: what a provider takes of JSON Schema, as a row of steps that rewrite a schema for it."""

from __future__ import annotations

from attrs import field, frozen

from pegboard.request.dialects.copied import copied
from pegboard.request.dialects.step import Change, Rewritten, Step
from pegboard.request.dialects.survey import Survey, Surveying
from pegboard.typing import JsonSchema


@frozen
class Dialect:
    """What a provider takes of JSON Schema.

    Attributes:
        name: For people and tables (`"openai-strict"`).
        steps: What rewrites a schema, in this order.
    """

    name: str
    steps: tuple[Step, ...] = field(default=(), repr=False)

    def rewrite(self, schema: JsonSchema) -> Rewritten:
        """The schema as this dialect says it; never raises for what stands in a schema, and ends fast for any.

        The same schema always gives the same text, key for key. Rewriting it again changes nothing more.

        Args:
            schema: JSON Schema of any draft; it is left as it is.

        Returns:
            A schema of its own, and what it lost. A schema that is no JSON, or beyond every bound (128 levels,
            500,000 values), is refused, and stands there as an object of any kind.
        """
        own, fault = copied(schema)
        if fault is not None:
            return Rewritten({"type": "object"}, (Change("", "", fault, refused=True),))
        changes: list[Change] = []
        rewritten = self._stepped(own, changes)
        return Rewritten(own if rewritten is own else _unshared(rewritten), tuple(dict.fromkeys(changes)))

    def _stepped(self, schema: JsonSchema, changes: list[Change]) -> JsonSchema:
        """What the steps come to; one survey serves all steps until one gives another schema."""
        survey: Survey | None = None
        for step in self.steps:
            if isinstance(step, Surveying):
                survey = survey or Survey(schema)
                stepped = step.over(survey)
            else:
                stepped = step(schema)
            changes += stepped.changes
            if stepped.schema is not schema:
                schema, survey = stepped.schema, None
        return schema


def _unshared(schema: JsonSchema) -> JsonSchema:
    """A copy in which nothing stands twice, and nothing of a step's own: steps may write one part at several places."""
    own, _ = copied(schema, bounded=False)
    return own


__all__ = ["Change", "Dialect", "Rewritten", "Step"]
