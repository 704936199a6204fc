from __future__ import annotations

import enum
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from pegboard.json import (
    MAX_DEPTH,
    JsonText,
    canonical_json,
    digest_of,
    is_small,
    json_problems,
    json_text,
    list_text,
    problem,
    short_json,
    surrogate_fault,
)
from strategies import JSON_TREES


def test_text_is_compact_and_in_its_own_order():
    assert json_text({"b": 1, "a": ["ä", None]}) == '{"b":1,"a":["ä",null]}'


def test_a_json_text_is_unchanged_and_a_plain_string_is_a_value():
    text = JsonText('{ "a": 1 }')
    assert json_text(text) is text
    assert json_text("{}") == '"{}"'


CYCLE = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "error"),
    [(math.nan, ValueError), ({"a": math.inf}, ValueError), (CYCLE, ValueError), ({1, 2}, TypeError)],
)
def test_values_without_a_json_form_are_refused(value, error):
    with pytest.raises(error):
        json_text(value)


@given(JSON_TREES)
def test_text_parses_to_the_same_value(value):
    assert json.loads(json_text(value)) == value


@given(JSON_TREES)
def test_canonical_text_is_stable(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    assert json.loads(text) == value


@given(st.dictionaries(st.text(max_size=5), JSON_TREES, max_size=5))
def test_the_order_of_keys_makes_no_difference(value):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


@given(st.floats(allow_nan=False, allow_infinity=False).map(float.__trunc__))
def test_equal_numbers_have_one_text(number):
    assert canonical_json([float(number), True]) == canonical_json([int(float(number)), True]) != canonical_json([1, 1])


def test_digests_are_the_same_in_every_process():
    value = {"b": [1.0, {"z": None, "ä": "x"}], "a": True}
    code = f"from pegboard.json import digest_of; print(digest_of({value!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest_of(value)
    assert digest_of(value).startswith("sha256:")
    assert len(digest_of(value)) == 7 + 64


class Colour(enum.StrEnum):
    RED = "red"


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(JSON_TREES)
def test_parsed_json_has_no_faults(value):
    assert json_problems(json.loads(json.dumps(value))) == json_problems((10**4300 - 1,)) == ()


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": [1, math.nan]}, "a[1]: must be a finite number, got NaN"),
        ({"a": -math.inf}, "a: must be a finite number, got -Infinity"),
        ({"a": {1: 2}}, "a: keys must be strings, got one of type int"),
        ({"a": {"\ud800": 2}}, "a: keys must not hold lone surrogates"),
        ({"a": "\udc00"}, "a: must not hold lone surrogates"),
        ({"a": 10**4300}, "a: must have at most 4300 digits"),
        ({"a": {1, 2}}, "a: must be JSON (null, boolean, number, string, list, dict), got a Python set"),
        ([b"x"], "[0]: must be JSON (null, boolean, number, string, list, dict), got a Python bytes"),
        ([Colour.RED], "[0]: must be JSON (null, boolean, number, string, list, dict), got a Python Colour"),
    ],
)
def test_faults_have_a_path(value, fault):
    assert json_problems(value) == (fault,)


def test_depth_is_bounded():
    assert json_problems(nested(MAX_DEPTH)) == ()
    assert json_problems(nested(MAX_DEPTH + 1))[0].endswith("must not be nested more than 64 levels deep")


def test_a_cycle_is_reported_where_it_closes():
    value = {"a": [1]}
    value["a"].append(value)
    assert json_problems(value) == ("a[1]: must not contain itself",)


def test_heavily_shared_parts_are_refused_in_bounded_time():
    """Forty levels of two references each would be 2**40 values."""
    value = []
    for _ in range(40):
        value = [value, value]
    assert json_problems(value) == ("(root): must hold at most 500000 values",)


def test_at_most_twenty_faults_are_listed():
    assert len(json_problems([b""] * 100)) == 20


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": "\u00e9"}', None),
        ('{"a": ["\ud800"]}', "a[0]: must not hold lone surrogates"),
        ('{"\ud800": 1}', "(root): keys must not hold lone surrogates"),
        ("\ud800", "it must not hold lone surrogates"),
        ("[" * 80 + '"\ud800"' + "]" * 80, "it must not hold lone surrogates"),
    ],
    ids=range(5),
)
def test_lone_surrogates_are_found_in_a_text(text, fault):
    assert surrogate_fault(text) == fault


@pytest.mark.parametrize(
    ("value", "small"),
    [
        ("x" * 10_000, True),
        ("x" * 10_001, False),
        ([0] * 999, True),
        ([0] * 1_000, False),
        ({str(index): index for index in range(499)}, True),
        ({str(index): index for index in range(500)}, False),
        ([[[{"a": "x" * 5_000}], ("x" * 5_001,)]], False),
    ],
)
def test_a_small_value_has_a_thousand_values_and_ten_thousand_characters(value, small):
    assert is_small(value) is small


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "(root): bad"),
        (("limit",), "limit: bad"),
        (("filters", 0, "value"), "filters[0].value: bad"),
        ((3, "a"), "[3].a: bad"),
        (("odd key", "a.b"), '["odd key"]["a.b"]: bad'),
        (("a", "class"), "a.class: bad"),
    ],
)
def test_a_problem_is_its_path_and_reason(path, text):
    assert problem(path, "bad") == text


def test_a_long_name_in_a_path_is_cut_short():
    assert len(problem(("k" * 1000,), "bad")) < 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ("zwölf", '"zwölf"'),
        ("a\n\x00b", '"a\\n\\u0000b"'),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ([1], "an array"),
        ((1,), "an array"),
        ({"a": 1}, "an object"),
    ],
)
def test_values_are_shown_as_json(value, text):
    assert short_json(value) == text


@pytest.mark.parametrize("value", ["x" * 1000, 10**200])
def test_long_values_are_cut_short(value):
    assert len(short_json(value)) < 70
    assert "..." in short_json(value)


def test_long_lists_of_options_are_cut_and_counted():
    assert list_text([1, "a", None]) == '1, "a", null'
    assert list_text(range(25)).endswith("18, 19 and 5 more")
