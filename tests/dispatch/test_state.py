from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.state import plain, read_only

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@given(objects)
def test_it_equals_what_it_shows(arguments):
    shown = read_only(arguments)
    assert shown == arguments
    assert json.dumps(dict(shown)) == json.dumps(arguments)


@given(objects)
def test_a_copy_is_plain_and_may_be_changed(arguments):
    shown = dict(read_only(arguments))
    for made in (copy.deepcopy(shown), pickle.loads(pickle.dumps(shown)), plain(shown)):
        assert made == arguments
        assert {type(part) for part in parts_of(made)} <= {dict, list, str, int, bool, type(None)}


def parts_of(value):
    yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(member)


CHANGES = [
    lambda arguments: arguments.update(a=1),
    lambda arguments: arguments.__setitem__("a", 1),
    lambda arguments: arguments["dict"].__setitem__("a", 1),
    lambda arguments: arguments["dict"].__delitem__("a"),
    lambda arguments: arguments["dict"].update(a=1),
    lambda arguments: arguments["dict"].setdefault("c", 1),
    lambda arguments: arguments["dict"].pop("a"),
    lambda arguments: arguments["dict"].popitem(),
    lambda arguments: arguments["dict"].clear(),
    lambda arguments: arguments["dict"].__ior__({"a": 1}),
    lambda arguments: arguments["list"].__setitem__(0, 1),
    lambda arguments: arguments["list"].__delitem__(0),
    lambda arguments: arguments["list"].__iadd__([1]),
    lambda arguments: arguments["list"].__imul__(2),
    lambda arguments: arguments["list"].append(1),
    lambda arguments: arguments["list"].extend([1]),
    lambda arguments: arguments["list"].insert(0, 1),
    lambda arguments: arguments["list"].remove(3),
    lambda arguments: arguments["list"].pop(),
    lambda arguments: arguments["list"].clear(),
    lambda arguments: arguments["list"].sort(),
    lambda arguments: arguments["list"].reverse(),
    lambda arguments: arguments["dict"]["b"][0].__setitem__("c", 1),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_nothing_in_it_can_be_changed(change):
    arguments = {"dict": {"a": 5, "b": [{"c": None}]}, "list": [3, 2]}
    before = copy.deepcopy(arguments)
    with pytest.raises((TypeError, AttributeError)):
        change(read_only(arguments))
    assert arguments == before


def test_what_changes_underneath_later_isnt_seen():
    arguments = {"list": [1]}
    shown, copied = read_only(arguments), plain(arguments)
    arguments["list"].append(2)
    assert shown["list"] == copied["list"] == [1]


def test_flat_arguments_are_shown_without_a_copy():
    arguments = {"a": 1}
    shown = read_only(arguments)
    arguments["a"] = 2
    assert shown["a"] == 2


def test_depth_is_no_matter():
    value = read_only({"a": nested(100_000)})["a"]
    for _ in range(100_000):
        (value,) = value
    assert value == []


def test_what_holds_itself_holds_its_own_copy():
    loop = {"a": {}}
    loop["a"]["a"] = loop["a"]
    copied = plain(loop)["a"]
    assert copied["a"] is copied
    assert copied is not loop["a"]


def test_what_is_shared_without_end_is_copied_once():
    value = [1]
    for _ in range(60):
        value = [value, value]
    copied = plain({"a": value})["a"]
    assert copied[0] is copied[1]


def test_a_tuple_is_an_array_and_anything_else_stays_what_it_is():
    thing = object()
    assert plain({"a": ({"b": thing},)}) == {"a": [{"b": thing}]}
