"""The walk itself: each fault that is planted is found, at its place."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NewType, NotRequired, Required, TypeVar

import pydantic
import pytest
from typing_extensions import ReadOnly, TypeAliasType, TypedDict

from fake_vendors.rules.walking import faults

T = TypeVar("T", bound=int)
Name = NewType("Name", str)
Numbers = TypeAliasType("Numbers", list[int] | int)
Pairs = TypeAliasType("Pairs", list[T], type_params=(T,))


class Base(TypedDict):
    a: int
    b: NotRequired[str]


class Derived(Base, total=False):
    c: Required[ReadOnly[str]]
    d: "list[Derived]"  # noqa: UP037  (a text in a text, as SDKs have it)
    e: Annotated[NotRequired[Iterable[Base]], "Some."]


class Cat(TypedDict, total=False):
    kind: Required[Literal["cat"]]
    lives: Required[int]


class Dog(TypedDict, total=False):
    kind: Required[Literal["dog"]]
    owner: str


class Open(TypedDict, total=False):
    a: int


Open.__pydantic_config__ = {"extra": "allow"}


class Colour(enum.Enum):
    RED = "red"


class Inner(pydantic.BaseModel):
    count: int = 0


class Model(pydantic.BaseModel):
    inner: Inner
    name: str = ""


PLANTED = [
    (1, str, ".: expected a text, found int 1"),
    (True, int, ".: expected an integer, found bool True"),
    (1.0, int, ".: expected an integer, found float 1.0"),
    (True, float, ".: expected a number, found bool True"),
    (1, bool, ".: expected a boolean, found int 1"),
    ("x", bytes, ".: expected bytes, found str 'x'"),
    ("", None, ".: expected null, found str ''"),
    ({1}, object, ".: no JSON (Object of type set is not JSON serializable)"),
    (float("nan"), Any, ".: no JSON (Out of range float values"),
    ("c", Literal["a", "b"], ".: expected one of 'a', 'b', found str 'c'"),
    (True, Literal[1], ".: expected one of 1, found bool True"),
    (1.5, str | None, ".: expected str or NoneType, found float 1.5"),
    ("abc", Iterable[str], ".: expected a list, found str 'abc'"),
    (("a",), list[str], ".: expected a list, found tuple ('a',)"),
    (["a", 1], Iterable[str], "[1]: expected a text, found int 1"),
    ([], dict[str, int], ".: expected an object, found list []"),
    ({"a": "b"}, dict[str, int], ".a: expected an integer, found str 'b'"),
    ({1: 1}, dict[str, int], ": its key expected a text, found int 1"),
    (1, Name, ".: expected a text, found int 1"),
    ("x", T, ".: expected an integer, found str 'x'"),
    ([1, "x"], Numbers, "[1]: expected an integer"),
    (["x"], Pairs[int], "[0]: expected an integer, found str 'x'"),
    ("blue", Colour, ".: expected one of 'red', found str 'blue'"),
    ([], Base, ".: expected an object (Base), found list []"),
    ({}, Base, ".: 'a' is missing (Base)"),
    ({"a": 1, "x": 1}, Base, ".: unknown key 'x' (Base)"),
    ({"c": "x"}, Derived, ".: 'a' is missing (Derived)"),
    ({"a": 1}, Derived, ".: 'c' is missing (Derived)"),
    ({"a": 1, "c": 2}, Derived, ".c: expected a text, found int 2"),
    ({"a": 1, "c": "x", "d": [{"a": 1}]}, Derived, ".d[0]: 'c' is missing (Derived)"),
    ({"a": 1, "c": "x", "e": [{"a": 1}, {"a": "x"}]}, Derived, ".e[1].a: expected an integer, found str 'x'"),
    ({"kind": "cat"}, Cat | Dog, ".: 'lives' is missing (Cat)"),
    ({"kind": "dog", "lives": 1}, Cat | Dog, ".: unknown key 'lives' (Dog)"),
    ({"kind": "cat", "lives": 1, "name": "x"}, Cat | Dog, ".: unknown key 'name' (Cat)"),
    ([{"kind": "dog", "owner": 1}], Iterable[Cat | Dog], "[0].owner: expected a text, found int 1"),
    ({"a": "x", "z": 2}, Open, ".a: expected an integer, found str 'x'"),
    ({"inner": {"count": "1"}}, Model, ".inner.count: Input should be a valid integer, found '1'"),
    ({"inner": {"counts": 1}}, Model, ".inner.counts: Extra inputs are not permitted, found 1"),
    ({"inner": {}, "names": 1}, Model, ".names: Extra inputs are not permitted, found 1"),
]


@pytest.mark.parametrize(("value", "annotation", "fault"), PLANTED, ids=str)
def test_a_planted_fault_is_found_at_its_place(value, annotation, fault):
    found = faults(value, annotation)

    assert len(found) == 1
    assert found[0].startswith(fault)


def test_every_fault_is_told_not_only_the_first():
    assert len(faults({"b": 1, "c": 2, "x": 3}, Derived)) == 4


def test_a_form_that_the_walk_does_not_know_is_an_error():
    with pytest.raises(TypeError, match="knows no annotation"):
        faults(1, complex)


# --- the SDKs' own types ---
