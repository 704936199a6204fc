"""A tool for each form of type that a definition may take: `takes_<form>(value)`."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypedDict, TypeVar

import attrs
from attrs import field, frozen, validators
from typing_extensions import TypeAliasType

from pegboard import Tool
from strategies import Marker

T = TypeVar("T")
UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | float | bool | None")
Nested = TypeAliasType("Nested", "int | list[Nested]")


class Colour(enum.Enum):
    """What a thing looks like."""

    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Mixed(enum.Enum):
    TEXT = "t"
    NUMBER = 3
    FLAG = False
    NOTHING = None


class Slug(str):
    __slots__ = ()


@frozen
class Point:
    """A place.

    Attributes:
        x: To the right.
        y: Upwards.
    """

    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list, metadata={"description": "Labels."})
    priority: int | None = None


class Pair(NamedTuple):
    left: str
    right: str = ""


class Person(TypedDict):
    name: str
    age: NotRequired[int]


class Loose(TypedDict, total=False):
    key: Required[str]
    note: Annotated[str, "Anything to add."]


@frozen
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@frozen
class Square:
    side: float
    kind: Literal["square"] = "square"


@frozen
class Shelf:
    places: list[Point]
    owner: Person
    shapes: tuple[Circle | Square, ...] = ()


@frozen
class Checked:
    count: int = field(validator=[validators.ge(1), validators.le(9)])
    code: str = field(validator=validators.matches_re("[a-z]+"))
    ratio: float = field(default=0.5, validator=[validators.gt(0), validators.lt(1)])
    names: list[str] = field(factory=list, validator=validators.max_len(3))
    size: str = field(default="s", validator=validators.in_(["s", "m", "l"]))


@frozen
class Box(Generic[T]):
    item: T
    more: list[T] = field(factory=list)


@frozen
class Node:
    """A list, link by link."""

    value: int
    next: Node | None = None


@frozen
class Tree:
    value: int
    children: list[Tree] = field(factory=list)


@frozen
class Chapter:
    title: str
    pages: list[Page] = field(factory=list)


@frozen
class Page:
    text: str
    chapter: Chapter | None = None


class Folder(TypedDict):
    name: str
    folders: NotRequired[list[Folder]]


@dataclasses.dataclass(frozen=True)
class Leaf:
    kind: Literal["leaf"]
    size: Annotated[int, Marker(ge=0)]


@dataclasses.dataclass(frozen=True)
class Branch:
    kind: Literal["branch"]
    parts: tuple[Leaf | Branch, ...] = ()


@attrs.define
class Empty:
    """Nothing at all."""


FORMS: Mapping[str, Any] = {
    # scalars
    "text": str,
    "integer": int,
    "number": float,
    "flag": bool,
    "nothing": type(None),
    "anything": Any,
    "object": object,
    "bytes": bytes,
    "new_type": UserId,
    "text_class": Slug,
    # values that are listed
    "literal_of_one": Literal["a"],
    "literal_of_texts": Literal["a", "b"],
    "literal_of_numbers": Literal[1, 2],
    "literal_of_all": Literal["a", 1, True, None],  # noqa: PYI061  (the mix is the point)
    "literal_true": Literal[True],
    "enum": Colour,
    "int_enum": Level,
    "str_enum": Word,
    "mixed_enum": Mixed,
    # text with a meaning
    "datetime": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "duration": dt.timedelta,
    "uuid": uuid.UUID,
    "decimal": decimal.Decimal,
    "path": pathlib.Path,
    "pattern": re.Pattern[str],
    # containers
    "list": list,
    "list_of_integers": list[int],
    "list_of_lists": list[list[float]],
    "list_of_anything": list[Any],
    "sequence": Sequence[str],
    "iterable": Iterable[bool],
    "deque": collections.deque[int],
    "tuple": tuple,
    "tuple_of_any_length": tuple[int, ...],
    "tuple_of_two": tuple[int, str],
    "tuple_of_none": tuple[()],
    "tuple_of_objects": tuple[Point, Point],
    "set": set[str],
    "frozenset": frozenset[Colour],
    "list_of_enums": list[Colour],
    "list_of_objects": list[Point],
    "dict": dict,
    "dict_of_integers": dict[str, int],
    "dict_of_lists": dict[str, list[str]],
    "dict_of_anything": dict[str, Any],
    "dict_by_enum": dict[Colour, int],
    "dict_by_integer": dict[int, str],
    "dict_by_uuid": dict[uuid.UUID, int],
    "dict_of_objects": Mapping[str, Point],
    # objects with known keys
    "attrs_class": Point,
    "dataclass": Job,
    "named_tuple": Pair,
    "typed_dict": Person,
    "loose_typed_dict": Loose,
    "nested_classes": Shelf,
    "generic_class": Box[int],
    "generic_of_class": Box[Point],
    "validated_class": Checked,
    "empty_class": Empty,
    # unions
    "optional": int | None,
    "optional_list": list[str] | None,
    "optional_object": Point | None,
    "optional_enum": Colour | None,
    "union_of_scalars": int | str,
    "union_of_three": int | str | bool | None,
    "union_of_containers": list[int] | dict[str, int],
    "tagged_union": Circle | Square,
    "optional_tagged_union": Circle | Square | None,
    "untagged_union": Point | Person,
    "list_of_tagged_union": list[Circle | Square],
    # made of themselves
    "linked_list": Node,
    "tree": Tree,
    "optional_tree": Tree | None,
    "list_of_trees": list[Tree],
    "mutual": Chapter,
    "folders": Folder,
    "recursive_union": Leaf | Branch,
    "json": Json,
    "nested_lists": Nested,
    # constraints
    "described": Annotated[int, "How many."],
    "at_least": Annotated[int, Marker(ge=1)],
    "between": Annotated[int, Marker(ge=1, lt=9)],
    "above": Annotated[float, Marker(gt=0.5, le=9.0)],
    "multiple": Annotated[int, {"minimum": 1, "multipleOf": 5}],
    "short": Annotated[str, Marker(min_length=1, max_length=3), "Short."],
    "matching": Annotated[str, Marker(pattern="^[a-c]+$")],
    "some": Annotated[list[int], Marker(min_length=1, max_length=4)],
    "two_at_least": Annotated[list[str], Marker(min_length=2)],
    "bounded_items": list[Annotated[int, Marker(ge=0)]],
    "bounded_mapping": Annotated[dict[str, int], Marker(min_length=1, max_length=2)],
    "address": Annotated[str, {"format": "email"}, "Where to write to."],
    "link": Annotated[str, {"format": "uri"}],
    "described_object": Annotated[Point, "Where it is."],
    "described_node": Annotated[Node, "The first link."],
}


def taking(form: str, annotation: Any) -> Tool:
    """A tool with one parameter of a type, defined as an author would."""

    def function(value):
        return value

    function.__annotations__ = {"value": annotation, "return": str}
    named = {"name": f"takes_{form}", "description": f"Takes a value: {form}."}
    return Tool.from_function(function, **named, flatten=False, output_schema=None)


TOOLS: tuple[Tool, ...] = tuple(taking(form, annotation) for form, annotation in FORMS.items())
