from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.parse import MAX_DEPTH, parse, parse_arguments
from pegboard.dispatch.work import CallError, Limits
from pegboard.tools.call import ToolCall

ENOUGH = 1_000_000

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def parsed(text, most_bytes=ENOUGH):
    return parse_arguments(text, most_bytes=most_bytes)


def reason(text, most_bytes=ENOUGH):
    with pytest.raises(CallError) as caught:
        parsed(text, most_bytes)
    assert caught.value.kind == "invalid_arguments"
    (problem,) = caught.value.problems
    return problem


@settings(max_examples=40)
@given(st.dictionaries(st.text(), json_values))
def test_a_json_object_is_read_as_it_was_written(value):
    assert parsed(json.dumps(value)) == value
    assert parsed(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", b"", b"  "])
def test_blank_means_no_arguments(blank):
    assert parsed(blank) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a": {"b": 1, "b": 1}}', "duplicate key"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": Infinity}', "not JSON"),
        ('{"a": -Infinity}', "not JSON"),
        ('{"a": 1e400}', "a number is too large"),
        ('{"a": [{"b": -1E+400}]}', "a number is too large"),
        ('{"a": 1' + "0" * 400 + ".0}", "a number is too large"),
        ('{"a": 1' + "0" * 250 + "e99}", "a number is too large"),
        ('{"a": 1' + "0" * 5000 + "}", "number out of range"),
        (r'{"a": "\ud800"}', "not JSON"),
        (r'{"a": "\udc00 later"}', "not JSON"),
        ('{"a": "\ud800"}', "lone surrogate"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": "\xed\xa0\x80"}', "not JSON"),
        ('{"a": 1', "not JSON"),
        ('{"a": 1}}', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": 01}', "not JSON"),
        ("\ufeff{}", "not JSON"),
        ('{"a":' + "[" * 100_000, "not JSON"),
        ("[1]", "expected a JSON object, found an array"),
        ('"text"', "expected a JSON object, found a string"),
        ("1", "expected a JSON object, found a number"),
        ("1.5", "expected a JSON object, found a number"),
        ("true", "expected a JSON object, found a boolean"),
        ("null", "expected a JSON object, found null"),
    ],
)
def test_what_is_not_one_clean_json_object_is_refused_with_the_reason(text, why):
    assert why.lower() in reason(text).lower()


def test_text_is_limited_in_bytes_not_characters():
    text = json.dumps({"a": "é" * 10}, ensure_ascii=False)
    assert parsed(text, len(text.encode())) == {"a": "é" * 10}
    assert reason(text, len(text)) == "(root): 29 bytes of JSON, at most 19 are taken"


def nested(levels):
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def test_depth_is_limited():
    assert parsed(nested(MAX_DEPTH))
    assert reason(nested(MAX_DEPTH + 1)) == "(root): nested deeper than 64 levels"
    assert reason('{"a":' * 65 + "{}" + "}" * 65) == "(root): nested deeper than 64 levels"


def test_width_is_no_depth_and_digits_in_words_are_no_number():
    wide = {"a": [[]] * 100, "words": "1" * 400 + " 1e400 {[{[" * 50, "large": 1.7e308}
    assert parsed(json.dumps(wide)) == wide


def test_long_integers_are_taken_up_to_pythons_own_limit():
    assert parsed('{"a": 1' + "0" * 4000 + "}") == {"a": 10**4000}


def test_the_reason_tells_the_model_what_to_send():
    with pytest.raises(CallError, match="Send one JSON object that fits the tool's schema"):
        parsed("[]")


@pytest.mark.parametrize("odd", [["list"], 3, None, bytearray(b"{}")])
def test_arguments_of_another_kind_are_refused(make, prepare, odd):
    """The host passes on what a provider's client gave it."""
    work, _ = prepare(make(print))
    work.call = ToolCall("probe", odd)
    with pytest.raises(CallError, match="expected a JSON object"):
        parse(work)


def test_a_mapping_is_taken_as_a_copy(make, prepare):
    given_arguments = MappingProxyType({"a": 1})
    work, _ = prepare(make(print), given_arguments)
    parse(work)
    assert (work.arguments, type(work.arguments), work.parsed) == ({"a": 1}, dict, False)


def test_the_registrys_limit_is_kept(make, send):
    assert send(make(print), '{"a": 1}', limits=Limits(argument_bytes=4)).result.kind == "invalid_arguments"
