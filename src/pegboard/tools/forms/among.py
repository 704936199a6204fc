"""`Among`: one of some options, which makes a choice of a scalar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard.tools.forms.choice import Choice, ChoiceForm
from pegboard.tools.forms.constraint import Constraint
from pegboard.tools.forms.demand import Demand, NothingLeftError, itself, json_number
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.scalar import NULL, ScalarForm, scalar_type

_Choices: TypeAlias = Iterable[tuple[Any, Any]]


@frozen
class Among(Demand):
    """One of some options.

    Attributes:
        options: In a fixed order.
    """

    options: tuple[Any, ...]

    def accepts(self, value: Any) -> bool:
        """Looks it up."""
        return value in self.options

    def on(self, form: Form) -> Form | None:
        """Scalars become a choice of those options that they can be."""
        if form is NULL and None in self.options:
            return form
        if not isinstance(form, ScalarForm) or form is NULL:
            return super().on(form)
        choices = [Choice(json, value) for option in self.options for json, value in _OPTIONS[form.type](option)]
        if not choices:
            raise NothingLeftError
        return ChoiceForm.of(choices)

    def constraint(self, form: Form) -> Constraint | None:
        """Said by the schema of a scalar with other constraints."""
        make = _OPTIONS.get(scalar_type(form))
        options = [] if make is None else [json for option in self.options for json, _ in make(option)]
        if not options:
            return None
        return Constraint(f"must be one of {', '.join(map(repr, options))}", self.accepts, {"enum": options}, itself)


def _texts(option: Any) -> _Choices:
    return [(option, option)] if type(option) is str else []


def _integers(option: Any) -> _Choices:
    number = json_number(option)
    return [(int(number), int(number))] if number is not None and number == int(number) else []


def _numbers(option: Any) -> _Choices:
    number = json_number(option)
    return [] if number is None else [(number, float(number))]


def _booleans(option: Any) -> _Choices:
    return [(bool(option), bool(option))] if option in (0, 1) else []


_OPTIONS: Final[Mapping[str, Callable[[Any], _Choices]]] = {
    "string": _texts,
    "integer": _integers,
    "number": _numbers,
    "boolean": _booleans,
}
