"""`Form`: one type's view of JSON, with its schema, its way into Python and its way back side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from pegboard.schema.problems import StructureError, kind_shown
from pegboard.typing import JsonSchema

Hook: TypeAlias = Callable[[Any], Any]
"""Structures (JSON into Python) or unstructures (back)."""

Kinds: TypeAlias = frozenset[type[Any]]
"""Classes of JSON values, taken exactly, as the judge takes them."""

OWN_DEPTH: Final = 3
"""How far a union looks into a value to find its member."""

NONE: Final[type[Any]] = type(None)
TEXTS: Final[Kinds] = frozenset({str})
NUMBERS: Final[Kinds] = frozenset({int, float})
ARRAYS: Final[Kinds] = frozenset({list, tuple})
OBJECTS: Final[Kinds] = frozenset({dict})
ALL_KINDS: Final[Kinds] = TEXTS | NUMBERS | ARRAYS | OBJECTS | {bool, NONE}


class Writer(Protocol):
    """Writes the schemas of the forms that a form is made of."""

    def write(self, form: Form) -> JsonSchema:
        """The schema to stand for `form`, a reference where it is made of itself; the caller may add to it."""
        ...


class Form:
    """One type's view of JSON."""

    __slots__ = ()

    def wanted(self) -> str:
        """What a value must be, for messages: `"must be {wanted}"`."""
        raise NotImplementedError

    def kinds(self) -> Kinds:
        """The classes of the JSON values that it may take."""
        raise NotImplementedError

    def converts(self) -> bool:
        """Whether structuring gives anything else than the JSON value, or checks what the schema doesn't say.

        Speaks of the form itself, not of its parts.
        """
        return True

    def writes(self) -> bool:
        """Whether unstructuring gives anything else than the Python value; of the form itself."""
        return True

    def is_hashable(self) -> bool:
        """Whether its Python values can stand in a set."""
        return True

    def parts(self) -> Sequence[Form]:
        """The forms that it is made of."""
        return ()

    def schema(self, writer: Writer) -> JsonSchema:
        """Its JSON Schema; the caller may add to it."""
        raise NotImplementedError

    def structure(self) -> Hook:
        """Makes what takes the values that the schema takes, and raises `StructureError` for all others."""
        raise NotImplementedError

    def unstructure(self) -> Hook | None:
        """Makes what turns a Python value into JSON data; `None` where the value is JSON data already.

        The hook may raise anything for a value of another type.
        """
        raise NotImplementedError

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Whether a Python value looks like one of the type's; a union asks this to find its member.

        Args:
            value: Any value.
            depth: How many levels of containers to look into: unions of what is made of itself could take forever.
        """
        raise NotImplementedError


class WrappedForm(Form):
    """A form that differs from another in one thing.

    Attributes:
        form: The other.
    """

    __slots__ = ()

    form: Form

    def wanted(self) -> str:
        """As the other."""
        return self.form.wanted()

    def kinds(self) -> Kinds:
        """As the other."""
        return self.form.kinds()

    def converts(self) -> bool:
        """Nothing more than the other."""
        return False

    def writes(self) -> bool:
        """Nothing more than the other."""
        return False

    def is_hashable(self) -> bool:
        """As the other."""
        return self.form.is_hashable()

    def parts(self) -> Sequence[Form]:
        """The other."""
        return (self.form,)

    def schema(self, writer: Writer) -> JsonSchema:
        """As the other."""
        return writer.write(self.form)

    def structure(self) -> Hook:
        """As the other."""
        return self.form.structure()

    def unstructure(self) -> Hook | None:
        """As the other."""
        return self.form.unstructure()

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """As the other."""
        return self.form.owns(value, depth)


def reach(form: Form) -> Iterator[Form]:
    """`form` and every form that it is made of, each once."""
    seen: set[int] = set()
    waiting = [form]
    while waiting:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting.extend(here.parts())


def is_identity(form: Form) -> bool:
    """Whether a JSON value that the schema takes already is the Python value."""
    return not any(each.converts() for each in reach(form))


def is_plain(form: Form) -> bool:
    """Whether a Python value of the type already is JSON data."""
    return not any(each.writes() for each in reach(form))


def is_recursive(form: Form) -> bool:
    """Whether a form is made of itself."""
    return any(each is form for part in form.parts() for each in reach(part))


def mismatch(value: object, wanted: str) -> StructureError:
    """The error for a value of another type, in the words in which the judge puts it."""
    found = kind_shown(value) if type(value) in ALL_KINDS else f"a Python {type(value).__name__}"
    return StructureError(f"must be {wanted}, got {found}")
