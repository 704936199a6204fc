from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import re
import types
import uuid
from typing import NamedTuple

import attrs
import pytest
from hypothesis import given

from pegboard.schema.unstructure import to_json_data
from strategies import Colour, Level, UserId, json_values


@attrs.frozen
class Hidden:
    _private: int
    made: int = attrs.field(init=False, default=1)


@dataclasses.dataclass
class Job:
    name: object
    state: int = dataclasses.field(init=False, default=0)


class Point(NamedTuple):
    x: int
    y: object


class Ratio(float):
    __slots__ = ()


@attrs.define
class Loop:
    inner: object = None


@given(json_values())
def test_json_is_unchanged(value):
    assert json.dumps(to_json_data(value)) == json.dumps(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Hidden(1), {"private": 1}),
        (Job([dt.date(2024, 2, 29)]), {"name": ["2024-02-29"]}),
        (Point(1, Point(2, 3)), {"x": 1, "y": {"x": 2, "y": 3}}),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (re.MULTILINE | re.DOTALL, 24),
        (UserId("ann"), "ann"),
        (Ratio(0.5), 0.5),
        (True, True),
        (dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC), "2024-02-29T01:00:00+00:00"),
        (dt.timedelta(days=-1, seconds=1), "-PT23H59M59S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (re.compile("a"), "a"),
        *((each, "aGk=") for each in (b"hi", bytearray(b"hi"), memoryview(b"hi"))),
        ({"b", "a"}, ["a", "b"]),
        (frozenset([1, "a", None]), ["a", 1, None]),
        ((1, 2), [1, 2]),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (
            {False: 1, Colour.RED: 2, Level.HIGH: 3, dt.date(2024, 2, 29): 4},
            {"false": 1, "red": 2, "2": 3, "2024-02-29": 4},
        ),
        ({True: 1}, {"true": 1}),
        ({(2, "a"), (1, "b")}, [[1, "b"], [2, "a"]]),
        (frozenset([frozenset([1])]), [[1]]),
    ],
)
def test_values_are_written_by_their_class(value, expected):
    assert to_json_data(value) == expected


class ArrayScalar:
    """A scalar as NumPy has it."""

    def __init__(self, value, kind, ndim=0):
        self.value, self.dtype, self.ndim = value, types.SimpleNamespace(kind=kind), ndim

    dtype = None

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __bool__(self):
        return bool(self.value)


def test_scalars_of_numpy_are_numbers():
    three, half, yes = ArrayScalar(3, "i"), ArrayScalar(0.5, "f"), ArrayScalar(1, "b")
    assert to_json_data([three, {three: half}, yes, {yes: 1}]) == [3, {"3": 0.5}, True, {"true": 1}]


@pytest.mark.parametrize(
    "value",
    [ArrayScalar(3, "i", ndim=1), ArrayScalar(3, "m"), ArrayScalar(float("nan"), "f"), {ArrayScalar(1, "f"): 1}],
)
def test_arrays_times_and_what_is_no_number_of_json_are_refused(value):
    with pytest.raises((TypeError, ValueError), match=r"tolist|not a JSON number|key of type float"):
        to_json_data(value)


def cyclic():
    loop = Loop()
    loop.inner = [loop]
    return loop


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), TypeError, "(root): builtins.object has no JSON form; return text"),
        ({"a": [1, 2j]}, TypeError, "a[1]: builtins.complex has no JSON form"),
        ((x for x in "a"), TypeError, "(root): builtins.generator has no JSON form"),
        ([float("nan")], ValueError, "[0]: nan is not a JSON number"),
        ({"a": decimal.Decimal("Infinity")}, ValueError, "a: Infinity is not a JSON number"),
        ([re.compile(b"a")], ValueError, "[0]: a pattern of bytes can't be written as text"),
        ({"a": {1: "b", "1": "c"}}, ValueError, "a: two keys are both written as '1'"),
        ({"a": {(1, 2): "b"}}, TypeError, "a: a key of type tuple can't be written as text"),
        ({None: 1}, TypeError, "(root): a key of type NoneType can't be written as text"),
        ({0.5: 1}, TypeError, "(root): a key of type float can't be written as text"),
        (cyclic(), ValueError, "inner[0]: contains itself"),
        (deep(65), ValueError, "nested more than 64 levels deep"),
    ],
)
def test_values_without_a_json_form_are_named_by_path(value, error, message):
    with pytest.raises(error) as caught:
        to_json_data(value)

    assert message in str(caught.value)


def test_an_attribute_that_isnt_set_is_named():
    value = Loop()
    del value.inner

    with pytest.raises(TypeError, match=r"^\[0\]: the attribute inner isn't set"):
        to_json_data([value])


def test_values_are_written_up_to_64_levels():
    assert to_json_data(deep(64)) == deep(64)


def test_a_shared_value_is_not_a_cycle():
    shared = [1]

    assert to_json_data([shared, {"a": shared}]) == [[1], {"a": [1]}]


def test_an_enum_may_have_any_value():
    class Kind(enum.Enum):
        DATE = dt.date(2024, 2, 29)

    assert to_json_data({Kind.DATE: Kind.DATE}) == {"2024-02-29": "2024-02-29"}
