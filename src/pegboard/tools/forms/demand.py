"""What can be demanded of a value beyond its type, whoever says it: `Annotated` or a validator of attrs."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from pegboard.schema.problems import counted
from pegboard.tools.forms.array import ListForm, SetForm, TupleForm
from pegboard.tools.forms.choice import ChoiceForm
from pegboard.tools.forms.constraint import ConstrainedForm, Constraint
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.mapping import MappingForm
from pegboard.tools.forms.pattern import Way, linear, portable
from pegboard.tools.forms.scalar import NULL, TEXT, scalar_type
from pegboard.tools.forms.textual import TextualForm

_MAX_EXACT: Final = 2**53
Comparison: TypeAlias = Literal["ge", "gt", "le", "lt"]


class NothingLeftError(Exception):
    """No value of a form meets a demand."""


class Demand:
    """Something that is asked of a value."""

    __slots__ = ()

    def accepts(self, value: Any) -> bool:
        """Whether a Python value meets it; may raise for one that it can't be asked of."""
        raise NotImplementedError

    def constraint(self, form: Form) -> Constraint | None:
        """The demand as it is made of a form's values, or `None` where it says nothing of them."""
        raise NotImplementedError

    def on(self, form: Form) -> Form | None:
        """The form of the values that meet it, or `None` where it says nothing of them.

        Raises:
            NothingLeftError: No value meets it.
        """
        if isinstance(form, ChoiceForm):
            return self._choice(form)
        if form is NULL:
            raise NothingLeftError
        constraint = self.constraint(form.form if isinstance(form, ConstrainedForm) else form)
        return None if constraint is None else ConstrainedForm.of(form, constraint)

    def _choice(self, form: ChoiceForm) -> ChoiceForm:
        left = [each for each in form.choices if self._meets(each.value)]
        if not left:
            raise NothingLeftError
        return ChoiceForm.of(left)

    def _meets(self, value: Any) -> bool:
        try:
            return self.accepts(value)
        except Exception:  # noqa: BLE001  (a comparison may raise anything)
            return False


@frozen
class Bound(Demand):
    """`ge`, `gt`, `le` or `lt` a limit.

    Attributes:
        comparison: Which.
        limit: Anything that the values can be compared with.
    """

    comparison: Comparison
    limit: Any

    def accepts(self, value: Any) -> bool:
        """Compares."""
        return _COMPARISONS[self.comparison].compare(value, self.limit)

    def constraint(self, form: Form) -> Constraint | None:
        """Said by the schema of numbers; asked of dates, decimals and text when they are structured."""
        words = _COMPARISONS[self.comparison]
        number = json_number(self.limit)
        asks = f"must be {words.asks} {self.limit if number is None else number}"
        if scalar_type(form) in ("integer", "number"):
            keywords = {} if number is None else {words.keyword: number}
            return Constraint(asks, self.accepts, keywords, itself)
        if isinstance(form, TextualForm) or (form is TEXT and isinstance(self.limit, str)):
            return Constraint(asks, self.accepts, {})
        return None


@frozen
class _Words:
    compare: Callable[[Any, Any], bool]
    keyword: str
    asks: str


_COMPARISONS: Final[Mapping[Comparison, _Words]] = {
    "ge": _Words(operator.ge, "minimum", "at least"),
    "gt": _Words(operator.gt, "exclusiveMinimum", "more than"),
    "le": _Words(operator.le, "maximum", "at most"),
    "lt": _Words(operator.lt, "exclusiveMaximum", "less than"),
}


@frozen
class Multiple(Demand):
    """A whole multiple of a number, exactly: 0.3 is one of 0.1, as both are written.

    Attributes:
        of: The number, more than 0.
    """

    of: Any

    def accepts(self, value: Any) -> bool:
        """Divides what the numbers say in decimal, as the judge does."""
        if type(value) is int and type(self.of) is int:
            return value % self.of == 0
        from fractions import Fraction

        return Fraction(str(value)) % Fraction(str(self.of)) == 0

    def constraint(self, form: Form) -> Constraint | None:
        """Said by the schema of numbers; asked of decimals when they are structured."""
        number = json_number(self.of)
        asks = f"must be a multiple of {self.of if number is None else number}"
        if scalar_type(form) in ("integer", "number") and number is not None and number > 0:
            return Constraint(asks, self.accepts, {"multipleOf": number}, itself)
        if isinstance(form, TextualForm) and form.cls.__qualname__ == "Decimal":
            return Constraint(asks, self.accepts, {})
        return None


@frozen
class Length(Demand):
    """At least or at most so many characters, items, keys or bytes.

    Attributes:
        way: `"min"` or `"max"`.
        count: How many.
    """

    way: Literal["min", "max"]
    count: int

    def accepts(self, value: Any) -> bool:
        """Counts."""
        return len(value) >= self.count if self.way == "min" else len(value) <= self.count

    def constraint(self, form: Form) -> Constraint | None:
        """Said by the schema of text, arrays and objects; asked of bytes when they are structured."""
        noun, keyword = _noun(form)
        if noun is None:
            return None
        asks = f"must have at {'least' if self.way == 'min' else 'most'} {counted(self.count, noun)}"
        keywords = {f"{self.way}{keyword}": self.count} if keyword else {}
        return Constraint(asks, self.accepts, keywords, len)


def _noun(form: Form) -> tuple[str | None, str]:
    if scalar_type(form) == "string":
        return "character", "Length"
    if isinstance(form, ListForm | SetForm | TupleForm):
        return "item", "Items"
    if isinstance(form, MappingForm):
        return "key", "Properties"
    if isinstance(form, TextualForm) and "contentEncoding" in form.notation.schema:
        return "byte", ""
    return None, ""


@frozen
class Match(Demand):
    """Text that matches a pattern.

    Attributes:
        pattern: The pattern.
        way: Whether it is searched, or has to match from the start, or the whole.
    """

    pattern: re.Pattern[str]
    way: Way

    def accepts(self, value: Any) -> bool:
        """Matches, as Python does."""
        return getattr(self.pattern, self.way)(value) is not None

    def constraint(self, form: Form) -> Constraint | None:
        """Said by the schema where it can say the pattern, and then matched in linear time, as the judge does."""
        if scalar_type(form) != "string":
            return None
        text = portable(self.pattern, self.way)
        judge = None if text is None else linear(text)
        if judge is None:
            return Constraint(f"must match the pattern {self.pattern.pattern}", self.accepts, {})
        return Constraint(f"must match the pattern {text}", judge, {"pattern": text}, itself)


@frozen
class Check(Demand):
    """Any question in Python.

    Attributes:
        function: Value -> whether it is fine.
        asks: `"must be lower case"`.
    """

    function: Callable[[Any], object]
    asks: str

    def accepts(self, value: Any) -> bool:
        """Asks."""
        return bool(self.function(value))

    def constraint(self, form: Form) -> Constraint | None:
        """Asked of all but null when it is structured."""
        return None if form is NULL else Constraint(self.asks, self.accepts, {})


def json_number(value: object) -> int | float | None:
    """A number as JSON writes it, whole ones without a fraction; `None` for what is no JSON number."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else float(value)


def itself(value: Any) -> Any:
    """What is shown of a value that doesn't meet a demand."""
    return value
