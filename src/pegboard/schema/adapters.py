"""Type adapters: what each kind of type says in JSON Schema."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from attrs import define, field, frozen

from pegboard.schema.text import Notation
from pegboard.typing import JsonSchema

Kinds: TypeAlias = frozenset[type[Any]]
"""Classes of JSON values, taken exactly, as the validator takes them."""

NONE: Final[type[Any]] = type(None)
TEXTS: Final[Kinds] = frozenset({str})
NUMBERS: Final[Kinds] = frozenset({int, float})
ARRAYS: Final[Kinds] = frozenset({list, tuple})
OBJECTS: Final[Kinds] = frozenset({dict})
ALL_KINDS: Final[Kinds] = TEXTS | NUMBERS | ARRAYS | OBJECTS | {bool, NONE}
_NAMES: Final[Mapping[type[Any], str]] = {str: "string", int: "integer", float: "number", bool: "boolean", NONE: "null"}


class TypeAdapter:
    """One type's view of JSON.

    Attributes:
        KINDS: What `kinds` gives, where that is the same for all of the class.
        HASHABLE: What `is_hashable` gives, likewise.
        name: Under which it stands in a schema's `$defs` where it is made of itself; `""` where it can't be.
    """

    __slots__ = ()

    KINDS: ClassVar[Kinds] = ALL_KINDS
    HASHABLE: ClassVar[bool] = True
    name: str = ""

    def kinds(self) -> Kinds:
        """The classes of the JSON values that it may take."""
        return self.KINDS

    def is_hashable(self) -> bool:
        """Whether its Python values can stand in a set."""
        return self.HASHABLE

    def parts(self) -> Sequence[TypeAdapter]:
        """The adapters that it is made of."""
        return ()

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """Its JSON Schema; the caller may add to it."""
        raise NotImplementedError


@define
class SchemaWriter:
    """Writes the schemas of adapters; those of types made of themselves stand aside, in `$defs`.

    Attributes:
        exact: Whether to say more than JSON Schema can to others, so that what is accepted is certainly of the type:
            the range of floats, and formats of our own for types that are written as text.
        definitions: Name -> schema, of the types that are made of themselves.
        formats: Name -> check, of an exact schema.
    """

    exact: bool = False
    definitions: dict[str, JsonSchema] = field(factory=dict[str, JsonSchema])
    formats: dict[str, Callable[[str], bool]] = field(factory=dict[str, Callable[[str], bool]])
    _names: dict[TypeAdapter, str] = field(factory=dict[TypeAdapter, str], init=False)

    def write(self, adapter: TypeAdapter) -> JsonSchema:
        """The schema to stand for `adapter`: a reference where it is made of itself; the caller may add to it."""
        if adapter.name and (adapter in self._names or _is_recursive(adapter)):
            return {"$ref": f"#/$defs/{self._name(adapter)}"}
        return adapter.schema(self)

    def _name(self, adapter: TypeAdapter) -> str:
        if (known := self._names.get(adapter)) is not None:
            return known
        name = self._names[adapter] = self.reserve(adapter.name)  # its place, before those of its parts
        self.definitions[name] = adapter.schema(self)
        return name

    def reserve(self, name: str) -> str:
        """A free name among the definitions, with nothing behind it yet: `name`, or with a number after it."""
        free, number = name, 2
        while free in self.definitions:
            free, number = f"{name}_{number}", number + 1
        self.definitions[free] = {}
        return free


def reach(adapter: TypeAdapter) -> Iterator[TypeAdapter]:
    """`adapter` and every adapter that it is made of, each once."""
    seen: set[int] = set()
    waiting = [adapter]
    while waiting:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting.extend(here.parts())


def _is_recursive(adapter: TypeAdapter) -> bool:
    return any(each is adapter for part in adapter.parts() for each in reach(part))


# Scalars --------------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class ScalarAdapter(TypeAdapter):
    """One of JSON's own scalars.

    Attributes:
        type: JSON Schema's name for it.
        taken: The classes of its JSON values.
        classes: The classes of its Python values, taken exactly: a boolean is no number.
    """

    type: str
    taken: Kinds
    classes: Kinds

    def kinds(self) -> Kinds:
        """Of its JSON values."""
        return self.taken

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """Its type; exactly, a number fits a 64-bit float."""
        if writer.exact and self.type == "number":
            return {"type": "number", "minimum": -sys.float_info.max, "maximum": sys.float_info.max}
        return {"type": self.type}


@frozen(eq=False)
class AnyAdapter(TypeAdapter):
    """`Any` and `object`: JSON as it is."""

    HASHABLE = False

    def schema(self, writer: SchemaWriter) -> JsonSchema:  # noqa: ARG002  (as all have it)
        """Anything."""
        return {}


@frozen(eq=False)
class DerivedAdapter(TypeAdapter):
    """A class derived from `str`, `int` or `float`: made of the scalar by calling the class.

    Attributes:
        scalar: The adapter of the scalar.
        cls: The class.
    """

    scalar: ScalarAdapter
    cls: type[Any]

    def kinds(self) -> Kinds:
        """As the scalar."""
        return self.scalar.taken

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """As the scalar."""
        return self.scalar.schema(writer)


@frozen(eq=False)
class TextAdapter(TypeAdapter):
    """A type that JSON writes as text, which a schema can't validate in full.

    Attributes:
        cls: The class of the values.
        notation: How they are written.
    """

    cls: type[Any]
    notation: Notation

    KINDS = TEXTS

    def is_hashable(self) -> bool:
        """As the class is."""
        return issubclass(self.cls, Hashable)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """A string, with its format."""
        schema: JsonSchema = {"type": "string", **self.notation.schema}
        if writer.exact:
            schema["format"] = f"{self.cls.__module__}.{self.cls.__qualname__}"
            writer.formats[schema["format"]] = self.reads
        return schema

    def reads(self, text: str) -> bool:
        """Whether a text is one of the type's."""
        try:
            self.notation.read(self.cls, text)
        except Exception:  # noqa: BLE001  (`re` raises `RecursionError` and more, `decimal` its own kinds)
            return False
        return True


ANY: Final = AnyAdapter()
NULL: Final = ScalarAdapter("null", frozenset({NONE}), frozenset({NONE}))
BOOLEAN: Final = ScalarAdapter("boolean", frozenset({bool}), frozenset({bool}))
INTEGER: Final = ScalarAdapter("integer", NUMBERS, frozenset({int}))
NUMBER: Final = ScalarAdapter("number", NUMBERS, NUMBERS)
TEXT: Final = ScalarAdapter("string", TEXTS, TEXTS)
SCALARS: Final[Mapping[Any, ScalarAdapter]] = {NONE: NULL, bool: BOOLEAN, int: INTEGER, float: NUMBER, str: TEXT}
"""The adapter of each scalar's own class."""


def scalar_type(adapter: TypeAdapter) -> str:
    """JSON Schema's type of a scalar, or of a class derived from one; `""` for others."""
    if isinstance(adapter, DerivedAdapter):
        adapter = adapter.scalar
    return adapter.type if isinstance(adapter, ScalarAdapter) else ""


# Listed values --------------------------------------------------------------------------------------------------------


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
class ChoiceAdapter(TypeAdapter):
    """`Literal[...]` or an enum.

    Attributes:
        choices: In their order, no two of one JSON value; not empty.
    """

    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> ChoiceAdapter:
        """The adapter of these choices; of two with one JSON value the first stays."""
        first: dict[Hashable, Choice] = {}
        for each in choices:
            first.setdefault(each.key, each)
        return cls(tuple(first.values()))

    def kinds(self) -> Kinds:
        """Of the values; 1 may come as 1.0."""
        types = self._types()
        return types | NUMBERS if types & NUMBERS else types

    def _types(self) -> Kinds:
        return frozenset(cast("type[Any]", type(each.json)) for each in self.choices)

    def schema(self, writer: SchemaWriter) -> JsonSchema:  # noqa: ARG002  (as all have it)
        """The values, and their type where they are all of one."""
        values = [each.json for each in self.choices]
        types = self._types()
        name = "number" if types == NUMBERS else _NAMES[next(iter(types))] if len(types) == 1 else None
        schema: JsonSchema = {"type": name} if name else {}
        return {**schema, "const": values[0]} if len(values) == 1 else {**schema, "enum": values}


@frozen(eq=False)
class FlagAdapter(TypeAdapter):
    """A `Flag` or `IntFlag`: the sum of its bits.

    Attributes:
        cls: The class.
        mask: All its bits.
    """

    cls: type[enum.Flag]
    mask: int

    KINDS = NUMBERS

    def describe(self) -> str:
        """The bits."""
        names = ", ".join(f"{each.value} ({each.name})" for each in self.cls)
        return f"a sum of {names}"

    def schema(self, writer: SchemaWriter) -> JsonSchema:  # noqa: ARG002  (as all have it)
        """An integer that is no larger than all bits; a sum with bits between that are none is refused later."""
        return {"type": "integer", "minimum": 0, "maximum": self.mask, "description": f"Must be {self.describe()}."}
