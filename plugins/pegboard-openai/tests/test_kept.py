from __future__ import annotations

from fake_vendors.rules.samples import nested
from pegboard_openai._openai import without_nulls


def test_an_item_is_kept_without_what_the_sdk_made_null():
    item = {"id": "x", "a": None, "code": None, "b": [{"c": None, "d": 1}], "arguments": {"x": None}}
    assert without_nulls(item) == {"id": "x", "code": None, "b": [{"d": 1}], "arguments": {"x": None}}


def test_a_list_of_lists_is_kept_too():
    assert without_nulls({"a": [[{"b": None}, None], 1]}) == {"a": [[{}, None], 1]}


def test_what_is_beyond_all_bounds_isnt_kept():
    assert without_nulls(nested(500)) is None


def test_what_is_kept_is_a_copy():
    item = {"a": {"b": [1]}}
    copy = without_nulls(item)
    copy["a"]["b"].append(2)
    assert item == {"a": {"b": [1]}}
