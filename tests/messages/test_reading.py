from __future__ import annotations

import pytest
from hypothesis import given

from pegboard.messages.message import _below, _integer, _needed, flag, items, mapping, members, text
from strategies import json_values

KINDS = {text: "a", _integer: 1, flag: True}


@pytest.mark.parametrize(("read", "value"), KINDS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_each_reads_its_own_kind_and_gives_the_default_for_nothing(read, value):
    assert read({"x": value}, "x", None) == value
    assert read({"x": None}, "x", "default") == "default"
    assert read({}, "x", "default") == "default"
    for other in ("a", 1, True, 1.5, [], {}):
        if type(other) is not type(value):
            with pytest.raises(ValueError, match=r"^x: must be .*, got "):
                read({"x": other}, "x", None)


def test_objects_and_arrays_are_empty_where_they_are_missing():
    assert (mapping({}, "x"), items({}, "x")) == ({}, [])
    assert (mapping({"x": {"a": 1}}, "x"), items({"x": [1]}, "x")) == ({"a": 1}, [1])
    with pytest.raises(ValueError, match="x: must be an object, got list"):
        mapping({"x": []}, "x")
    with pytest.raises(ValueError, match="x: must be an array, got dict"):
        items({"x": {}}, "x")


def test_what_is_needed_must_be_there():
    assert _needed({"x": ""}, "x") == ""
    for data in ({}, {"x": None}):
        with pytest.raises(ValueError, match="x: missing"):
            _needed(data, "x")


def test_below_puts_the_path_in_front():
    with pytest.raises(ValueError, match=r"^parts\[1\]\.text: missing$"), _below("parts[1]"):
        raise ValueError("text: missing")


@given(json_values())
def test_nothing_but_an_object_has_members(value):
    if isinstance(value, dict):
        assert members(value, "it") is value
    else:
        with pytest.raises(ValueError, match="it: must be an object"):
            members(value, "it")
