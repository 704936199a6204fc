from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.limits import CallError, Limits
from pegboard.dispatch.parse import MAX_DEPTH, parse, parse_arguments, take_arguments
from pegboard.schema.json import json_faults
from pegboard.tools.call import ToolCall

ENOUGH = 1_000_000


def json_of(value):
    """A value as text, where Python writes one."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return "{}"


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


@pytest.mark.parametrize("odd", [["list"], 3, None, bytearray(b"{}"), object()])
def test_arguments_of_another_kind_are_refused(make, prepare, odd):
    """The host passes on what a provider's client gave it."""
    work, _ = prepare(make(print))
    work.call = ToolCall("probe", odd)
    with pytest.raises(CallError, match="expected a JSON object"):
        parse(work)


def test_a_mapping_is_taken_as_a_deep_copy(make, prepare):
    """What is judged and approved is what runs, and a tool that changes its arguments changes nobody else's."""
    inner = [1]
    work, _ = prepare(make(print), MappingProxyType({"a": inner}))
    parse(work)
    inner.append(2)
    assert (work.arguments, type(work.arguments), work.parsed) == ({"a": [1]}, dict, True)


def test_the_registrys_limits_are_kept(make, send):
    assert send(make(print), '{"a": 1}', limits=Limits(argument_bytes=4)).result.kind == "invalid_arguments"
    few = Limits(argument_nodes=2)
    assert "more than 2 values" in send(make(print), '{"a": [1, 2]}', limits=few).result.text
    assert "more than 2 values" in send(make(print), {"a": [1, 2]}, limits=few).result.text


@pytest.mark.parametrize(
    ("text", "values"), [("{}", 0), ('{"a": 1}', 1), ('{"a": [1, [], {"b": 2}]}', 5), ('{"a": ",,,,[[[[{"}', 1)]
)
def test_every_value_in_the_arguments_counts(text, values):
    assert parse_arguments(text, most_bytes=ENOUGH, most_nodes=values) == json.loads(text)
    if values:
        with pytest.raises(CallError, match=f"holds more than {values - 1} values"):
            parse_arguments(text, most_bytes=ENOUGH, most_nodes=values - 1)


def test_commas_in_words_are_no_values():
    text = json.dumps({"a": "," * 200_000})
    assert parsed(text) == {"a": "," * 200_000}


@pytest.mark.parametrize("item", ["[]", "{}", "0", '"a,b"', '"\\\\"', '"\\",\\""'])
def test_very_many_values_are_refused_before_they_are_made(monkeypatch, item):
    monkeypatch.setattr("pegboard.dispatch.parse.from_json", lambda *_, **__: pytest.fail("it was parsed"))
    assert reason('{"a":[' + f"{item}," * 150_000 + f"{item}]}}", 10**7) == "(root): it holds more than 100,000 values"


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 400_000, '"' + ",\\" * 300_000, '{"a":' + '"' * 700_001 + "," * 200_000]
)
def test_a_text_that_never_ends_is_looked_through_once(text):
    assert reason(text).startswith("(root): ")


def test_values_in_single_containers_count_too():
    """Fewer commas than values: they are counted once they are there."""
    text = '{"a":[' + "[0]," * 60_000 + "[0]]}"
    assert reason(text) == "(root): it holds more than 100,000 values"


@pytest.mark.parametrize("text", ["x" * 20, b"x" * 20])
def test_what_is_far_too_long_is_refused_before_anything_is_done_with_it(text):
    class Untouchable(type(text)):
        def encode(self, *_):
            raise AssertionError("encoded")

    unit = "characters" if isinstance(text, str) else "bytes"
    assert reason(Untouchable(text), 10) == f"(root): 20 {unit} of JSON, at most 10 bytes are taken"


def test_a_reason_is_cut_short():
    """A duplicate key may be as long as the text."""
    key = "k" * 10_000
    assert len(reason(f'{{"{key}": 1, "{key}": 2}}')) < 300


class Text(str):
    """A host's own kind of text, which says odd things of itself."""

    __slots__ = ()

    def encode(self, *_):
        return b'{"b": 2}'

    def __len__(self):
        return 0

    def __str__(self):
        return '{"c": 3}'


class Bytes(bytes):
    """The same of bytes."""

    def __len__(self):
        return 0

    def __bytes__(self):
        return b'{"c": 3}'


@pytest.mark.parametrize("given_text", [Text('{"a": 1}'), Bytes(b'{"a": 1}')], ids=["str", "bytes"])
def test_text_of_a_type_of_its_own_is_taken_for_what_it_holds(given_text):
    assert take_arguments(given_text, most_bytes=ENOUGH, most_nodes=9) == {"a": 1}
    with pytest.raises(CallError, match="8"):
        take_arguments(given_text, most_bytes=7, most_nodes=9)


class Raising(Mapping):
    """A mapping that is there until one looks."""

    def __init__(self, error):
        self.error = error

    def __getitem__(self, key):
        raise self.error

    def __iter__(self):
        yield "a"

    def __len__(self):
        return 1


@pytest.mark.parametrize("error", [KeyError("gone"), ValueError("secret path"), RecursionError(), StopIteration()])
def test_a_mapping_that_raises_when_it_is_read_is_refused_and_told_to_the_operator(error):
    with pytest.raises(CallError) as caught:
        take_arguments(Raising(error), most_bytes=ENOUGH, most_nodes=9)
    assert caught.value.problems == ("(root): they can't be read",)
    assert "secret" not in caught.value.text
    assert type(error).__name__ in caught.value.detail


def test_several_reasons_are_listed():
    with pytest.raises(CallError) as caught:
        take_arguments({"a": float("nan"), "b": {1}}, most_bytes=ENOUGH, most_nodes=9)
    assert caught.value.text == (
        "The arguments were refused:\n"
        "- a: must be a finite number, got NaN\n"
        "- b: must be JSON (null, boolean, number, string, list, dict), got a Python set\n"
        "Send one JSON object that fits the tool's schema."
    )


# Whatever is given ---------------------------------------------------------------------------------------------------

odd_leaves = st.sampled_from([object(), {1}, b"x", float("nan"), float("inf"), "\ud800", Text("x"), print])
huge_integers = st.sampled_from([4299, 4300, 5000]).map(lambda digits: 10**digits)  # Python writes none of the larger
odd_keys = st.text(max_size=3) | st.integers() | st.none() | st.just(Text("k"))
odd_values = st.recursive(
    json_values | odd_leaves | huge_integers,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(odd_keys, inner, max_size=4),
    max_leaves=8,
)
json_like = st.text('{}[]",:0123456789eE.+-truefalsn \\u\ud800', max_size=40)


@settings(max_examples=150)
@given(st.text(max_size=30) | st.binary(max_size=30) | json_like | odd_values | odd_values.map(json_of))
def test_whatever_is_given_ends_in_a_mapping_or_a_call_error(anything):
    refusal = None
    try:
        arguments = take_arguments(anything, most_bytes=200, most_nodes=20)
    except CallError as error:
        refusal = error
    if refusal is None:
        assert type(arguments) is dict
        assert json_faults(arguments) == ()
    else:
        assert refusal.kind == "invalid_arguments"
        assert refusal.problems


@settings(max_examples=150)
@given(json_like.map(lambda text: f'{{"a":{text}}}') | json_like)
def test_what_both_take_is_what_pythons_own_parser_reads(text):
    try:
        arguments = parsed(text)
    except CallError:
        return
    assert arguments == ({} if not text.strip() else json.loads(text))
