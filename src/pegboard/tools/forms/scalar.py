"""The forms of JSON's own scalars, of classes derived from them, and of anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.form import ALL_KINDS, NONE, NUMBERS, OWN_DEPTH, TEXTS, Form, Hook, Kinds, Writer, mismatch
from pegboard.tools.forms.json_data import to_json_data
from pegboard.tools.forms.refusal import refused_by
from pegboard.typing import JsonSchema

_INFINITY: Final = float("inf")


@frozen(eq=False)
class ScalarForm(Form):
    """One of JSON's own scalars.

    Attributes:
        type: JSON Schema's name for it.
        noun: What a value must be.
        taken: The classes of its JSON values.
        classes: The classes of its Python values.
        hook: Takes its values and refuses others.
        is_converted: Whether some JSON values of it become others.
    """

    type: str
    noun: str
    taken: Kinds
    classes: Kinds
    hook: Hook
    is_converted: bool = False

    def wanted(self) -> str:
        """Its noun."""
        return self.noun

    def kinds(self) -> Kinds:
        """Of its JSON values."""
        return self.taken

    def converts(self) -> bool:
        """Numbers: 1.0 becomes 1, and 3 becomes 3.0."""
        return self.is_converted

    def writes(self) -> bool:
        """Nothing to do."""
        return False

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """Its type."""
        return {"type": self.type}

    def structure(self) -> Hook:
        """Its hook."""
        return self.hook

    def unstructure(self) -> Hook | None:
        """Nothing to do."""
        return None

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """By exact class: a boolean is no number, and a member of an enum derived from `str` no text."""
        return type(value) in self.classes


@frozen(eq=False)
class AnyForm(Form):
    """`Any` and `object`: JSON as it is; back by what the value turns out to be."""

    def wanted(self) -> str:
        """Anything."""
        return "JSON"

    def kinds(self) -> Kinds:
        """All."""
        return ALL_KINDS

    def converts(self) -> bool:
        """Nothing."""
        return False

    def is_hashable(self) -> bool:
        """An array or object is not."""
        return False

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """Anything."""
        return {}

    def structure(self) -> Hook:
        """The value itself."""
        return _structure_anything

    def unstructure(self) -> Hook | None:
        """By the value's own class."""
        return to_json_data

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """Every value."""
        return True


@frozen(eq=False)
class DerivedForm(Form):
    """A class derived from `str`, `int` or `float`: made of the scalar by calling the class.

    Attributes:
        scalar: The form of the scalar.
        cls: The class.
    """

    scalar: ScalarForm
    cls: type[Any]

    def wanted(self) -> str:
        """As the scalar."""
        return self.scalar.noun

    def kinds(self) -> Kinds:
        """As the scalar."""
        return self.scalar.taken

    def schema(self, writer: Writer) -> JsonSchema:
        """As the scalar."""
        return self.scalar.schema(writer)

    def structure(self) -> Hook:
        """Structures the scalar, then calls the class."""
        hook, cls = self.scalar.hook, self.cls

        def structure_derived(value: Any) -> Any:
            scalar = hook(value)
            try:
                return cls(scalar)
            except Exception as error:
                raise refused_by(cls, error) from error

        return structure_derived

    def unstructure(self) -> Hook | None:
        """The bare scalar, whatever the class makes of `str()` and its kin."""
        return _BARE[self.scalar.type]

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """Instances of the class."""
        return isinstance(value, self.cls)


def scalar_type(form: Form) -> str:
    """JSON Schema's type of the form of a scalar, or of a class derived from it; `""` for other forms."""
    if isinstance(form, DerivedForm):
        form = form.scalar
    return form.type if isinstance(form, ScalarForm) else ""


def _structure_anything(value: Any) -> Any:
    return value


def _structure_none(value: Any) -> None:
    if value is not None:
        raise mismatch(value, "null")


def _structure_boolean(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise mismatch(value, "a boolean")


def _structure_integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise mismatch(value, "an integer")


def _structure_number(value: Any) -> float:
    if type(value) is float and -_INFINITY < value < _INFINITY:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise StructureError("must be a number that fits a 64-bit float") from None
    raise mismatch(value, "a finite number" if type(value) is float else "a number")


def _structure_text(value: Any) -> str:
    if type(value) is str:
        return value
    raise mismatch(value, "a string")


_BARE: Final[Mapping[str, Hook]] = {"string": str.__str__, "integer": int.__int__, "number": float.__float__}
_BOOLEANS: Final[Kinds] = frozenset({bool})
_NONES: Final[Kinds] = frozenset({NONE})
ANY: Final = AnyForm()
NULL: Final = ScalarForm("null", "null", _NONES, _NONES, _structure_none)
BOOLEAN: Final = ScalarForm("boolean", "a boolean", _BOOLEANS, _BOOLEANS, _structure_boolean)
INTEGER: Final = ScalarForm("integer", "an integer", NUMBERS, frozenset({int}), _structure_integer, is_converted=True)
NUMBER: Final = ScalarForm("number", "a number", NUMBERS, NUMBERS, _structure_number, is_converted=True)
TEXT: Final = ScalarForm("string", "a string", TEXTS, TEXTS, _structure_text)
SCALARS: Final[Mapping[Any, ScalarForm]] = {NONE: NULL, bool: BOOLEAN, int: INTEGER, float: NUMBER, str: TEXT}
"""The form of each scalar's own class."""
