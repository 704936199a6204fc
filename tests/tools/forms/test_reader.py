from __future__ import annotations

import collections
import dataclasses
import enum
import json
import re
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self

import pytest
from attrs import frozen
from typing_extensions import TypeAliasType

from pegboard.errors import DefinitionError, SchemaError
from pegboard.tools.schema import schema_of
from strategies import Marker, Nested

Endless = TypeAliasType("Endless", "Endless | int")
Lost = TypeAliasType("Lost", "list[Nowhere]")  # noqa: F821  (that is the point)


class Empty(enum.Enum):
    pass


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class Job:
    name: str


class Duck:
    ge = 1


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


@frozen
class AbstractShape(Shape):
    size: int


@frozen
class Unresolved:
    x: Nowhere  # noqa: F821  (that is the point)


class Custom:
    def __init__(self, value):
        self.value = value


@frozen(init=False)
class OwnInit:
    x: int

    def __init__(self, other):
        self.__attrs_init__(other)


@frozen
class Outer:
    inner: list[dict[str, Custom]]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (complex, "complex has no JSON Schema. Pass input_schema=..., or use two floats or text instead."),
        (Custom, "Custom has no JSON Schema. Pass input_schema=..., or use an attrs class"),
        (Callable[[int], int], "or use the name of what is called"),
        (Iterator[int], "or use a list instead"),
        (collections.defaultdict[str, int], "or use a dict instead"),
        (type[int], "type[int] has no JSON Schema"),
        (typing.NoReturn, "NoReturn has no JSON Schema"),
        (json, "has no JSON Schema"),
        (re.Pattern[bytes], "Pattern[bytes] has no JSON Schema"),
        (AbstractShape, "AbstractShape is abstract. Use a union of the classes that are meant."),
        (Unresolved, "the fields of Unresolved can't be read: name 'Nowhere' is not defined."),
        (OwnInit, "its constructor takes (other), its fields are (x)"),
        (list["Nowhere"], "isn't resolved"),  # noqa: F821
        (Self, "Self has no JSON Schema"),
        (Endless, "Endless stands for itself without end"),
        (Lost, "Lost can't be resolved: name 'Nowhere' is not defined"),
        (dict[tuple[int, int], int], "its keys can't be written as text"),
        (dict[Literal[1, "1"], int], "its keys can't be written as text"),
        (dict[None, int], "its keys can't be written as text"),
        (dict[Annotated[float, Marker(ge=1)], int], "its keys can't be written as text"),
        (set[list[int]], "the items of a set must be hashable"),
        (set[dict[str, int]], "the items of a set must be hashable"),
        (set[Nested], "the items of a set must be hashable"),
        (set, "the items of a set must be hashable"),
        (set[Job], "the items of a set must be hashable"),
        (tuple[int, *tuple[str, ...]], "a tuple of fixed and other items"),
        (Literal[b"x"], "b'x' has no JSON form"),
        (Empty, "Empty has no members"),
        (Odd, "the value of Odd.PAIR has no JSON form"),
        (Annotated[typing.Any, Marker(ge=1)], "can't be asked of a value that must be JSON"),
        (Annotated[bool, Marker(ge=1)], "can't be asked of a value that must be a boolean"),
        (Annotated[int, Marker(min_length=1)], "can't be asked of a value that must be an integer"),
        (Annotated[int, Marker(pattern="a")], "can't be asked of a value that must be an integer"),
        (Annotated[bool, Marker(multiple_of=2)], "can't be asked of a value that must be a boolean"),
        (Annotated[Literal["a"], Marker(min_length=2)], "leaves no value"),
        (Annotated[str, Marker(pattern="(")], "the pattern '(' can't be compiled"),
        (Annotated[bool, Duck()], "Duck can't be asked of"),
        (Annotated[Custom, {"type": "string"}], "Custom has no JSON Schema"),
    ],
)
def test_what_json_schema_cant_say_is_refused_with_what_to_do(annotation, says):
    with pytest.raises(DefinitionError) as caught:
        schema_of(annotation, tool="work", path="thing")

    assert str(caught.value).startswith("tool 'work': 'thing")
    assert says in str(caught.value)
    assert caught.value.tool == "work"
    assert caught.value.hint


def test_the_refusal_names_the_path_of_the_part_at_fault():
    with pytest.raises(DefinitionError) as caught:
        schema_of(list[Outer], tool="work", path="things")

    assert caught.value.parameter == "things[].inner[].*"
    assert caught.value.annotation is Custom


def test_a_schema_beside_the_type_that_is_none_is_refused():
    with pytest.raises(SchemaError, match="the mapping beside thing is refused"):
        schema_of(Annotated[int, {"minimum": "x"}], tool="work", path="thing")
