"""The forms of values that are listed: `Literal` and enums; and of flags, which are made of listed bits."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, cast

from attrs import frozen

from pegboard.schema.problems import StructureError, listed
from pegboard.tools.forms.form import NONE, NUMBERS, OWN_DEPTH, TEXTS, Form, Hook, Kinds, Writer, mismatch
from pegboard.typing import JsonSchema

_NAMES: Final[Mapping[type[Any], str]] = {str: "string", int: "integer", float: "number", bool: "boolean", NONE: "null"}


@frozen
class Choice:
    """One listed value.

    Attributes:
        json: How JSON writes it: a scalar.
        value: What Python has for it.
    """

    json: Any
    value: Any

    @property
    def key(self) -> Hashable:
        """The same for equal JSON scalars only: 1 and 1.0 are one number, true is another value."""
        return (type(self.json) is bool, self.json)


@frozen(eq=False)
class ChoiceForm(Form):
    """`Literal[...]` or an enum.

    Attributes:
        choices: In their order, no two of one JSON value; not empty.
    """

    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> ChoiceForm:
        """The form of these choices; of two with one JSON value the first stays."""
        first: dict[Hashable, Choice] = {}
        for each in choices:
            first.setdefault(each.key, each)
        return cls(tuple(first.values()))

    def wanted(self) -> str:
        """The values."""
        values = [each.json for each in self.choices]
        return listed(values) if len(values) == 1 else f"one of {listed(values)}"

    def kinds(self) -> Kinds:
        """Of the values; 1 may come as 1.0."""
        types = self._types()
        return types | NUMBERS if types & NUMBERS else types

    def converts(self) -> bool:
        """Makes an enum's members, and 1 of 1.0."""
        return self.writes() or bool(self.kinds() & NUMBERS)

    def writes(self) -> bool:
        """Where there are an enum's members."""
        return any(isinstance(each.value, enum.Enum) for each in self.choices)

    def _types(self) -> Kinds:
        return frozenset(cast("type[Any]", type(each.json)) for each in self.choices)

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """The values, and their type where they are all of one."""
        values = [each.json for each in self.choices]
        types = self._types()
        name = "number" if types == NUMBERS else _NAMES[next(iter(types))] if len(types) == 1 else None
        schema: JsonSchema = {"type": name} if name else {}
        return {**schema, "const": values[0]} if len(values) == 1 else {**schema, "enum": values}

    def structure(self) -> Hook:
        """Takes a listed value and no other."""
        kinds, asks = self.kinds(), f"must be {self.wanted()}"
        if kinds == TEXTS:
            return self._structure_text(asks)
        table = {each.key: each.value for each in self.choices}

        def structure_choice(value: Any) -> Any:
            if type(value) in kinds and (key := (type(value) is bool, value)) in table:
                return table[key]
            raise StructureError(asks)

        return structure_choice

    def _structure_text(self, asks: str) -> Hook:
        table = {each.json: each.value for each in self.choices}

        def structure_choice(value: Any) -> Any:
            if type(value) is str and value in table:
                return table[value]
            raise StructureError(asks)

        return structure_choice

    def unstructure(self) -> Hook | None:
        """Enum members by value."""
        return _unstructure_choice if self.writes() else None

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """The values themselves."""
        return any(type(value) is type(each.value) and value == each.value for each in self.choices)


@frozen(eq=False)
class FlagForm(Form):
    """A `Flag` or `IntFlag`: the sum of its bits.

    Attributes:
        cls: The class.
        mask: All its bits.
    """

    cls: type[enum.Flag]
    mask: int

    def kinds(self) -> Kinds:
        """An integer, which may come as 1.0."""
        return NUMBERS

    def wanted(self) -> str:
        """The bits."""
        names = ", ".join(f"{each.value} ({each.name})" for each in self.cls)
        return f"a sum of {names}"

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """An integer that is no larger than all bits; bits that are left out between are told when structuring."""
        return {"type": "integer", "minimum": 0, "maximum": self.mask, "description": f"Must be {self.wanted()}."}

    def structure(self) -> Hook:
        """Takes an integer of known bits."""
        cls, mask, wanted = self.cls, self.mask, self.wanted()

        def structure_flag(value: Any) -> Any:
            if type(value) is float and value.is_integer():
                value = int(value)
            if type(value) is not int or value & ~mask:
                raise mismatch(value, wanted)
            return cls(value)

        return structure_flag

    def unstructure(self) -> Hook | None:
        """The sum."""
        return _unstructure_choice

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """Members and their combinations."""
        return isinstance(value, self.cls)


def _unstructure_choice(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value
