"""`ConstrainedForm`: a form of which only some values are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from pegboard.schema.problems import StructureError, shown
from pegboard.tools.forms.form import Form, Hook, WrappedForm, Writer
from pegboard.typing import JsonSchema


@frozen(eq=False)
class Constraint:
    """One demand, as it is made of the values of one form.

    Attributes:
        asks: The demand: `"must be at least 1"`.
        accepts: Whether a value meets it: the JSON value where the schema says the demand, else the Python value.
        keywords: What the schema says of it; `{}` where JSON Schema has no words for it.
        told: Of a value that doesn't meet it: what to show.
    """

    asks: str
    accepts: Callable[[Any], bool]
    keywords: JsonSchema
    told: Callable[[Any], Any] | None = None

    def check(self, value: Any) -> None:
        """Refuses a value that doesn't meet it, and one that it can't be asked of.

        Raises:
            StructureError: With the demand.
        """
        try:
            accepted = self.accepts(value)
        except Exception as error:
            raise StructureError(self.asks) from error
        if not accepted:
            raise StructureError(self.asks if self.told is None else f"{self.asks}, got {shown(self.told(value))}")


@frozen(eq=False)
class ConstrainedForm(WrappedForm):
    """A form of which only some values are taken.

    Attributes:
        form: Of the values; itself not constrained.
        constraints: What is asked of them.
    """

    form: Form
    constraints: tuple[Constraint, ...]

    @classmethod
    def of(cls, form: Form, constraint: Constraint) -> ConstrainedForm:
        """`form` with one demand more."""
        if isinstance(form, ConstrainedForm):
            return cls(form.form, (*form.constraints, constraint))
        return cls(form, (constraint,))

    def converts(self) -> bool:
        """Whether there is a demand for which the schema has no words."""
        return not all(each.keywords for each in self.constraints)

    def schema(self, writer: Writer) -> JsonSchema:
        """The form's, with the keywords of the demands."""
        return with_keywords(writer.write(self.form), (each.keywords for each in self.constraints))

    def structure(self) -> Hook:
        """Structures the value and asks the demands of it, before or after."""
        hook = self.form.structure()
        before = [each.check for each in self.constraints if each.keywords]
        after = [each.check for each in self.constraints if not each.keywords]

        def structure_constrained(value: Any) -> Any:
            made = hook(value)
            for check in before:
                check(value)
            for check in after:
                check(made)
            return made

        return structure_constrained


def with_keywords(schema: JsonSchema, more: Iterable[JsonSchema]) -> JsonSchema:
    """`schema` with more keywords; those that are there with another value stand under `allOf`."""
    merged = dict(schema)
    aside: list[JsonSchema] = []
    for keywords in more:
        if any(merged.get(name, value) != value for name, value in keywords.items()):
            aside.append(dict(keywords))
        else:
            merged.update(keywords)
    return {**merged, "allOf": [*merged.get("allOf", ()), *aside]} if aside else merged
