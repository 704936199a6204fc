from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
from collections import OrderedDict, deque, namedtuple
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch import heavy
from pegboard.dispatch.heavy import (
    MOST_LIGHT,
    TooManyValuesError,
    check_number,
    copied,
    is_heavy,
    sayable,
    write_heavy,
)


@attrs.frozen
class Weather:
    city: str
    days: object = None


@attrs.frozen
class One:
    value: object


@dataclasses.dataclass
class Data:
    value: object


class Colour(enum.Enum):
    RED = "red"


class Lazy(Sequence):
    def __len__(self):
        raise ValueError

    def __getitem__(self, index):
        return index

    def __iter__(self):
        number = 0
        while True:
            yield number
            number += 1


Pair = namedtuple("Pair", ["one", "other"])  # noqa: PYI024  the plain form is what is tested
LONG = "x" * 1_000_000


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def shared():
    """61 lists, and no end of values."""
    value = ["x"]
    for _ in range(60):
        value = [value, value]
    return value


def endless():
    value = []
    value.append(value)
    return value


LIGHT = [
    None,
    5,
    "words",
    b"bytes",
    {"a": 1, "b": [1, 2, {"c": None}]},
    {1: "a", (1, 2): "b"},
    [1] * 1_000,
    {1, 2},
    (1, "a"),
    deque([1]),
    Weather("Rome"),
    [Weather("Rome", 3)] * 100,
    One(Data(Pair(1, Colour.RED))),
    {"when": dt.date(2026, 1, 2), "price": decimal.Decimal(5)},
    "x" * 300_000,
    {"a": "x" * 5_000},
]
HEAVY = [
    "x" * 400_000,
    b"x" * 400_000,
    bytearray(400_000),
    [1] * (MOST_LIGHT + 1),
    dict.fromkeys(range(MOST_LIGHT + 1)),
    {LONG: 1},
    {"a": LONG},
    Weather(LONG),
    Weather("Rome", [0] * 10_000),
    [[0] * 1_000] * 10,
    deep(100),
    shared(),
    endless(),
    Lazy(),
    [Lazy()],
    object(),
    OrderedDict(),
    object.__new__(One),  # whose attribute isn't set
    (number for number in range(3)),
]


@pytest.mark.parametrize("value", LIGHT, ids=range(len(LIGHT)))
def test_what_is_small_and_known_is_light(value):
    for _ in range(2):  # the first look learns the classes
        assert is_heavy(value) is False


@pytest.mark.parametrize("value", HEAVY, ids=range(len(HEAVY)))
def test_what_is_large_or_unknown_is_heavy(value):
    for _ in range(2):
        assert is_heavy(value) is True


def test_classes_are_forgotten_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr(heavy, "_MOST_KNOWN", 2)
    monkeypatch.setattr(heavy, "_known", {})
    for number in range(5):
        assert not is_heavy(attrs.make_class(f"C{number}", {"a": attrs.field(default=1)})())
    assert len(heavy._known) <= 2


# The number of values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[0] * 1_000_001, shared(), Lazy(), {"a": Lazy()}, [One(Lazy())]], ids=range(5))
def test_too_many_values_are_too_many_however_they_are_held(value):
    with pytest.raises(TooManyValuesError):
        check_number(value)


@pytest.mark.parametrize(
    "value",
    [[0] * 1_000_000, "x" * 2_000_000, b"x" * 2_000_000, endless(), deep(100), Colour.RED, object(), {1, 2}],
    ids=range(8),
)
def test_what_is_not_too_many_is_no_matter_here(value):
    """What holds itself, or is too deep, is refused by whoever writes it."""
    check_number(value)


def test_what_is_held_twice_is_counted_twice_though_looked_at_once():
    hundred = [0] * 100_000
    check_number([hundred] * 9)
    with pytest.raises(TooManyValuesError):
        check_number([hundred] * 10)


def test_only_so_much_is_remembered(monkeypatch):
    monkeypatch.setattr(heavy, "_MOST_REMEMBERED", 1)
    with pytest.raises(TooManyValuesError):
        check_number([[[0] * 1_000] * 100] * 11)


# Writing --------------------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values, st.integers(0, 5), st.integers(1, 3))
def test_in_steps_the_same_is_written_as_at_once(value, light, run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heavy, "is_heavy", lambda part: light < len(str(part)))
        patch.setattr(heavy, "_RUN", run)
        patch.setattr(heavy, "_SLICE", 2)
        assert write_heavy(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    "value", [[list(range(6_000)), {"a": LONG}], {"a": {5: LONG}}, (LONG,), OrderedDict(), [OrderedDict()]]
)
def test_what_is_heavy_is_written_as_json(value):
    assert write_heavy(value) == json.dumps(value)


@pytest.mark.parametrize("value", [[float("nan"), LONG], [LONG, object()], object(), {(1, 2): LONG}])
def test_what_isnt_json_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        write_heavy(value)


def test_lone_surrogates_are_replaced_everywhere():
    assert sayable({"a\udcff": ["b\udcff", 5, ("c", None)]}) == {"a\ufffd": ["b\ufffd", 5, ["c", None]]}


@pytest.mark.parametrize("data", [b"x", bytearray(b"x" * 3_000_000), b"x" * 3_000_000])
def test_bytes_are_copied_whole(data):
    assert type(copied(data)) is bytes
    assert copied(data) == data
