from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from pegboard.tools.json_text import JsonText, canonical_json, digest_of, json_text

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


def test_text_is_compact_and_in_its_own_order():
    assert json_text({"b": 1, "a": ["ä", None]}) == '{"b":1,"a":["ä",null]}'


def test_text_is_taken_as_it_is():
    text = JsonText('{ "a": 1 }')
    assert json_text(text) is text


def test_a_plain_string_is_a_value():
    assert json_text("{}") == '"{}"'


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}])
def test_numbers_that_json_lacks_are_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(value)


def test_cycles_are_refused():
    value = []
    value.append(value)
    with pytest.raises(ValueError, match="Circular"):
        json_text(value)


def test_values_that_json_cannot_say_are_refused():
    with pytest.raises(TypeError):
        json_text({"a": {1, 2}})


@given(JSON)
def test_text_reads_back(value):
    assert json.loads(json_text(value)) == value


@given(JSON)
def test_canonical_text_is_stable(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    assert json.loads(text) == value


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_the_order_of_keys_makes_no_difference(value):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


@given(st.floats(allow_nan=False, allow_infinity=False).map(float.__trunc__))
def test_equal_numbers_have_one_text(number):
    assert canonical_json([float(number)]) == canonical_json([int(float(number))])


def test_a_number_is_no_boolean():
    assert canonical_json([1, True]) == "[1,true]"


def test_digests_are_the_same_in_every_process():
    value = {"b": [1.0, {"z": None, "ä": "x"}], "a": True}
    code = f"from pegboard.tools.json_text import digest_of; print(digest_of({value!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest_of(value)
    assert digest_of(value).startswith("sha256:")
    assert len(digest_of(value)) == 7 + 64
