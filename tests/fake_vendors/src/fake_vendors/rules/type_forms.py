"""A tool for each kind of type that a definition may take: `takes_<form>(value)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from attrs import field, frozen, validators
from typing_extensions import TypeAliasType

from pegboard import Tool
from strategies import (
    CONSTRAINED,
    RECURSIVE,
    SCALARS,
    TEXTUAL,
    Branch,
    Colour,
    Leaf,
    Marker,
    Nested,
    Node,
    container_cases,
)

Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | float | bool | None")


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


class Person(TypedDict):
    name: str
    age: NotRequired[int]


@frozen
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@frozen
class Square:
    side: float
    kind: Literal["square"] = "square"


@frozen
class Checked:
    count: int = field(validator=[validators.ge(1), validators.le(9)])
    code: str = field(validator=validators.matches_re("[a-z]+"))
    ratio: float = field(default=0.5, validator=[validators.gt(0), validators.lt(1)])
    names: list[str] = field(factory=list, validator=validators.max_len(3))
    size: str = field(default="s", validator=validators.in_(["s", "m", "l"]))


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


NAMED: Mapping[str, Any] = {
    "text": str,
    "integer": int,
    "number": float,
    "anything": Any,
    "bytes": bytes,
    "enum": Colour,
    "tuple_of_two": tuple[int, str],
    "tuple_of_objects": tuple[Point, Point],
    "set": set[str],
    "list": list,
    "list_of_objects": list[Point],
    "dict": dict,
    "dict_of_integers": dict[str, int],
    # objects with known keys
    "attrs_class": Point,
    "dataclass": Job,
    "validated_class": Checked,
    # unions
    "optional": int | None,
    "union_of_containers": list[int] | dict[str, int],
    "tagged_union": Circle | Square,
    # made of themselves
    "linked_list": Node,
    "tree": Tree,
    "optional_tree": Tree | None,
    "mutual": Chapter,
    "recursive_union": Leaf | Branch,
    "json": Json,
    "nested_lists": Nested,
    # constraints
    "between": Annotated[int, Marker(ge=1, lt=9)],
    "matching": Annotated[str, Marker(pattern="^[a-c]+$")],
    "link": Annotated[str, {"format": "uri"}],
}
"""Forms that tests name, and such as the shared ones lack."""

SHARED = [*SCALARS, *CONSTRAINED, *RECURSIVE, *TEXTUAL, *container_cases(RECURSIVE[0])]
FORMS: Mapping[str, Any] = {
    **NAMED,
    **{
        f"kind_{number}": case.annotation for number, case in enumerate(SHARED) if case.annotation not in NAMED.values()
    },
}


def taking(form: str, annotation: Any) -> Tool:
    """A tool with one parameter of a type, defined as an author would."""

    def function(value):
        return value

    function.__annotations__ = {"value": annotation, "return": str}
    named = {"name": f"takes_{form}", "description": f"Takes a value: {form}."}
    return Tool.from_function(function, **named, flatten=False, output_schema=None)


TOOLS: tuple[Tool, ...] = tuple(taking(form, annotation) for form, annotation in FORMS.items())
