"""Faults that pydantic and the SDKs' own strictness let pass: each that is planted is found, at its place."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired, Required

import pydantic
import pytest
from typing_extensions import TypedDict

from fake_vendors.rules.sdk_types import faults


class Base(TypedDict):
    a: int
    b: NotRequired[str]


class Derived(Base, total=False):
    c: Required[str]
    d: "list[Derived]"  # noqa: UP037  (a text in a text, as SDKs have it)
    e: Annotated[NotRequired[Iterable[Base]], "Some."]


class Cat(TypedDict, total=False):
    kind: Required[Literal["cat"]]
    lives: Required[dict[str, int]]


class Dog(TypedDict, total=False):
    kind: Required[Literal["dog"]]


class Open(TypedDict, total=False):
    a: int


Open.__pydantic_config__ = {"extra": "allow"}


class Colour(enum.Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value):
        warnings.warn("no such colour", stacklevel=1)  # older pydantic hands over no value
        return cls.RED


class Answer(pydantic.BaseModel, extra="allow"):
    count: int = 0


PLANTED = [
    ({1}, object, ".: no JSON (Object of type set is not JSON serializable)"),
    (float("nan"), Any, ".: no JSON (Out of range float values"),
    (True, int, ".: Input should be a valid integer, found True"),
    ("1", int, ".: Input should be a valid integer, found '1'"),
    ("abc", Iterable[str], ".: Input should be a valid array, found 'abc'"),
    (["a", 1], Iterable[str], "[1]: Input should be a valid string, found 1"),
    ("blue", Colour, ".: no such colour"),
    ({"a": 1, "x": 1}, Base, ".x: Extra inputs are not permitted, found 1"),
    ({"c": "x"}, Derived, ".a: Field required"),
    ({"a": 1, "c": "x", "d": [{"a": 1}]}, Derived, ".d[0].c: Field required"),
    ({"a": 1, "c": "x", "e": [{"a": 1}, {"a": "x"}]}, Derived, ".e[1].a: Input should be a valid integer"),
    ({"kind": "cat", "lives": {"a": "x"}}, Cat | Dog, ".Cat.lives.a: Input should be a valid integer"),
    ({"a": "x", "z": 2}, Open, ".a: Input should be a valid integer"),
    ({"count": 1}, Answer, ".: Cannot check"),
]


@pytest.mark.parametrize(("value", "annotation", "fault"), PLANTED, ids=str)
def test_a_planted_fault_is_found_at_its_place(value, annotation, fault):
    assert faults(value, annotation)[0].startswith(fault)


def test_an_open_type_takes_other_keys():
    assert faults({"a": 1, "z": 2}, Open) == []
