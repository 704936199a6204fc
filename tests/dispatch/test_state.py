from __future__ import annotations

import ast
import copy
import json
import pickle
from pathlib import Path
from types import MappingProxyType

import attrs
import pytest
from hypothesis import given, strategies as st

import pegboard.dispatch
from pegboard import ReadonlyContext
from pegboard.dispatch.approve import Asking
from pegboard.dispatch.state import (
    BatchPosition,
    CallbackState,
    CallSnapshot,
    CallState,
    Running,
    Runtime,
    Settings,
    plain,
    read_only,
)

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


HARMLESS = {"__getattribute__", "__init__", "__reversed__", "__sizeof__", "copy", "fromkeys"}
CHANGES = [
    *(("dict", name) for name in vars(dict).keys() - vars(MappingProxyType).keys() | {"__ior__"}),
    *(("list", name) for name in vars(list).keys() - vars(tuple).keys()),
]


@pytest.mark.parametrize(("part", "change"), sorted(each for each in CHANGES if each[1] not in HARMLESS))
def test_nothing_in_it_can_be_changed(part, change):
    shown = read_only({"dict": {"a": 5}, "list": [3, 2], "deep": [{"dict": {"b": 1}, "list": [1]}]})
    for place in (shown, shown["deep"][0]):
        with pytest.raises(TypeError, match="arguments are read-only here"):
            getattr(place[part], change)()
    with pytest.raises((TypeError, AttributeError)):
        shown["a"] = 1


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


@pytest.mark.slow
def test_any_depth_is_copied():
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


STATES = ("state", "outer", "inner", "early", "earlier", "later", "call")
"""What variables of a call's state are called."""

A_COPY = "background.py"  # it fills in a new state, for the result that follows

RECORDS = {"asking": {"approve.py", "pending.py"}, "running": {"running.py"}, "record": {"callbacks.py"}}
"""What variables of a stage's record are called, and the files that write it: one, and its base class."""


CLASSES = {"asking": Asking, "running": Running, "record": CallbackState}


def writers(names):
    """The files of dispatch that assign each attribute of a variable with one of these names."""
    files = {}
    for path in Path(pegboard.dispatch.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in (part for each in targets for part in getattr(each, "elts", [each])):
                if isinstance(target, ast.Attribute) and ast.unparse(target.value).split(".")[-1] in names:
                    files.setdefault(target.attr, set()).add(path.name)
    return files


@pytest.mark.slow
def test_each_attribute_of_a_call_is_written_by_one_file():
    """Others return what they have made, or call a method of the state."""
    several = {name: files - {A_COPY} for name, files in writers(STATES).items()}
    assert {name: files for name, files in several.items() if len(files) > 1} == {}


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS)
def test_the_record_of_a_stage_is_written_by_its_own_file_only(record):
    written = writers((record, f"{record}_of(state)"))
    assert {file for files in written.values() for file in files} <= RECORDS[record]
    assert written.keys() <= {each.name for each in attrs.fields(CLASSES[record])}


@pytest.mark.slow
def test_a_position_is_never_changed():
    assert not {field.name for field in attrs.fields(BatchPosition)} & writers(("position",)).keys()


def test_a_call_has_no_other_attributes():
    state = CallState("a", {}, "1", ReadonlyContext(), CallSnapshot(Runtime(), print), Settings())
    with pytest.raises(AttributeError):
        state.other = 1
    assert [name for name in CallState.__slots__ if not name.startswith("_") and not hasattr(state, name)] == []
    assert (state.asking, state.running, state.callbacks) == (None, None, None)
