from __future__ import annotations

import asyncio
import copy
import itertools
import json
import sys
import threading
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    CallError,
    CallFault,
    ChangeArguments,
    Later,
    Limits,
    Once,
    Origin,
    PendingCalls,
    Permissions,
    Policy,
    Reshape,
    Rule,
    Tool,
    ToolCall,
    ToolError,
    ToolRegistry,
    ToolsetFunction,
    tool,
    tool_of,
)
from pegboard.callbacks import nonblocking
from pegboard.dispatch import arguments as module
from pegboard.dispatch.arguments import coerce, parse, parse_arguments, parse_call
from pegboard.dispatch.find import unknown_tool_error
from pegboard.events import ArgumentsSoFar, Partial, parse_partial
from pegboard.execution import LocalExecutor
from pegboard.json import MAX_DEPTH, canonical_json, json_problems
from schema_strategies import SCHEMAS, VALUES
from strategies import JSON_TREES, json_values

ENOUGH = 1_000_000


def taken(arguments, **limits):
    """The arguments of a call, once they are parsed."""
    return parse(arguments, Limits(**limits))


def problems(arguments, **limits):
    """The problems for which it refuses them."""
    with pytest.raises(CallError) as caught:
        taken(arguments, **limits)
    assert caught.value.kind == "invalid_arguments"
    return caught.value.problems


@given(json_values())
def test_plain_json_is_copied_as_it_is(value):
    assert taken({"a": value}) == {"a": value}


def test_nothing_of_the_copy_is_the_hosts():
    inner = {"list": [{"deep": 1}]}
    copy = taken(inner)
    assert copy["list"] is not inner["list"]
    assert copy["list"][0] is not inner["list"][0]


def test_a_tuple_is_an_array():
    assert taken({"a": (1, (2,))}) == {"a": [1, [2]]}


@pytest.mark.parametrize("kind", [MappingProxyType, OrderedDict, UserDict, lambda members: defaultdict(list, members)])
def test_the_outermost_may_be_any_mapping(kind):
    copy = taken(kind({"a": [1]}))
    assert (copy, type(copy)) == ({"a": [1]}, dict)


@pytest.mark.parametrize("inner", [MappingProxyType({}), OrderedDict(), UserDict(), {1}, b"", object(), iter(())])
def test_what_is_inside_has_to_be_json_exactly(inner):
    (problem,) = problems({"a": [inner]})
    assert problem.startswith("a[0]: must be JSON")
    assert problem.endswith(f"got a Python {type(inner).__name__}")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "a: must be a finite number, got NaN"),
        (float("-inf"), "a: must be a finite number, got -Infinity"),
        (10**4300, "a: must have at most 4300 digits"),
        (-(10**4300), "a: must have at most 4300 digits"),
        ("\ud800", "a: must not hold lone surrogates"),
        ({"\ud800": 1}, "a: keys must not hold lone surrogates"),
        ({1: 1}, "a: keys must be strings, got one of type int"),
        ({None: 1}, "a: keys must be strings, got one of type NoneType"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_values_that_json_cannot_represent_are_refused_with_their_path(value, why):
    assert problems({"a": value}) == (why,)


def test_the_largest_integers_and_texts_are_taken():
    value = {"a": 10**4300 - 1, "b": "é" * 1000}
    assert taken(value) == value


def nested(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_depth_is_limited():
    """Also far beyond the recursion limit."""
    assert taken(nested(MAX_DEPTH))
    (problem,) = problems(nested(MAX_DEPTH + 1))
    assert problem.endswith("must not be nested more than 64 levels deep")
    assert problems(nested(100_000), argument_nodes=200_000)


def test_values_are_counted_where_they_are_reached():
    """A small value with shared parts may be huge as JSON."""
    wide = [0] * 10
    for _ in range(9):
        wide = [wide] * 10
    assert problems({"a": wide}) == ("(root): it contains more than 100,000 values",)
    assert taken({"a": [1, 2]}, argument_nodes=3) == {"a": [1, 2]}
    assert problems({"a": [1, 2]}, argument_nodes=2) == ("(root): it contains more than 2 values",)


@pytest.mark.parametrize("odd", [None, [], 1, bytearray(b"{}"), object()], ids=lambda odd: type(odd).__name__)
def test_a_value_that_is_not_a_mapping_is_refused_with_its_type(odd):
    assert problems(odd) == (f"(root): expected a JSON object, found {type(odd).__name__}",)


class Odd(Mapping):
    """A mapping with lazy keys and members."""

    def __init__(self, keys, member):
        self.keys_of_it, self.member = keys, member

    def __getitem__(self, key):
        return self.member(key)

    def __iter__(self):
        return self.keys_of_it()

    def __len__(self):
        return len(list(self.keys_of_it()))


def raising(error):
    def look(*_):
        raise error

    return look


def test_a_mapping_without_end_is_read_only_so_far():
    assert problems(Odd(lambda: itertools.repeat("again"), str)) == ("(root): it contains more than 100,000 values",)


# Parse ----------------------------------------------------------------------------------------------------------------


def json_of(value):
    """A value as JSON text, or `{}` if it isn't JSON."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return "{}"


def parsed(text, most_bytes=ENOUGH):
    return parse_arguments(text, most_bytes=most_bytes)


def reason(text, most_bytes=ENOUGH):
    with pytest.raises(CallError) as caught:
        parsed(text, most_bytes)
    assert caught.value.kind == "invalid_arguments"
    (problem,) = caught.value.problems
    return problem


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON_TREES))
def test_a_json_object_is_read_as_it_was_written(value):
    assert parsed(json.dumps(value)) == value
    assert parsed(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", b"", b"  ", "null", b" null"])
def test_blank_means_no_arguments(blank):
    assert parsed(blank) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a": {"b": 1, "b": 1}}', "duplicate key"),
        *((each, "not JSON") for each in ('{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}')),
        ('{"a": 1e400}', "must be a finite number"),
        ('{"a": [{"b": -1E+400}]}', "must be a finite number"),
        ('{"a": 1' + "0" * 400 + ".0}", "must be a finite number"),
        ('{"a": 1' + "0" * 250 + "e99}", "must be a finite number"),
        ('{"a": 1' + "0" * 5000 + "}", "number out of range"),
        (r'{"a": "\ud800"}', "not JSON"),
        (r'{"a": "\udc00 later"}', "not JSON"),
        ('{"a": "\ud800"}', "lone surrogate"),
        *((each, "not JSON") for each in (b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', '{"a": 1', '{"a": 1}}')),
        *((each, "not JSON") for each in ("{'a': 1}", '{"a": 01}', "\ufeff{}", '{"a":' + "[" * 100_000)),
        ("[1]", "expected a JSON object, found an array"),
        ('"text"', 'expected a JSON object, found string "text"'),
        ("1", "expected a JSON object, found number 1"),
        ("1.5", "expected a JSON object, found number 1.5"),
        ("true", "expected a JSON object, found boolean true"),
        ("[null]", "expected a JSON object, found an array"),
    ],
)
def test_what_is_not_one_clean_json_object_is_refused_with_the_reason(text, why):
    assert why.lower() in reason(text).lower()


def test_text_is_limited_in_bytes_not_characters():
    text = json.dumps({"a": "é" * 10}, ensure_ascii=False)
    assert parsed(text, len(text.encode())) == {"a": "é" * 10}
    assert reason(text, len(text)) == "(root): 29 bytes of JSON; the maximum is 19 bytes"


def nested_text(levels):
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def test_the_depth_of_json_text_is_limited():
    assert parsed(nested_text(MAX_DEPTH))
    assert reason(nested_text(MAX_DEPTH + 1)).endswith("must not be nested more than 64 levels deep")
    assert reason('{"a":' * 65 + "{}" + "}" * 65).endswith("must not be nested more than 64 levels deep")


def test_wide_data_and_strings_of_digits_brackets_and_commas_are_accepted():
    wide = {"a": [[]] * 100, "words": "1" * 400 + " 1e400 {[{[" * 50, "commas": "," * 200_000, "large": 1.7e308}
    assert parsed(json.dumps(wide)) == wide


def test_the_registrys_limits_apply_to_arguments(make, send):
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
        with pytest.raises(CallError, match=f"contains more than {values - 1} values"):
            parse_arguments(text, most_bytes=ENOUGH, most_nodes=values - 1)


@pytest.mark.parametrize("item", ["[]", "{}", "0", '"a,b"', '"\\\\"', '"\\",\\""'])
def test_very_many_values_are_refused_before_they_are_made(monkeypatch, item):
    monkeypatch.setattr("pegboard.dispatch.arguments.strict_json", lambda *_, **__: pytest.fail("it was parsed"))
    assert reason('{"a":[' + f"{item}," * 150_000 + f"{item}]}}", 10**7).endswith("more than 100,000 values")


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 400_000, '"' + ",\\" * 300_000, '{"a":' + '"' * 700_001 + "," * 200_000]
)
def test_a_text_that_never_ends_is_looked_through_once(text):
    assert reason(text).startswith("(root): ")


def test_values_in_single_containers_count_too():
    """With fewer commas than values, these are counted after parsing."""
    text = '{"a":[' + "[0]," * 60_000 + "[0]]}"
    assert reason(text) == "(root): it contains more than 100,000 values"


@pytest.mark.parametrize("text", ["x" * 20, b"x" * 20])
def test_what_is_far_too_long_is_refused_before_anything_is_done_with_it(text):
    class Untouchable(type(text)):
        def encode(self, *_):
            raise AssertionError("encoded")

    unit = "characters" if isinstance(text, str) else "bytes"
    assert reason(Untouchable(text), 10) == f"(root): 20 {unit} of JSON; the maximum is 10 bytes"


def test_a_reason_is_cut_short():
    """A duplicate key may be as long as the text."""
    key = "k" * 10_000
    assert len(reason(f'{{"{key}": 1, "{key}": 2}}')) < 300


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    __slots__ = ()


@pytest.mark.parametrize("given_text", [Text('{"a": 1}'), Bytes(b'{"a": 1}')], ids=["str", "bytes"])
def test_text_of_a_type_of_its_own_is_taken_as_any(given_text):
    assert taken(given_text) == {"a": 1}
    with pytest.raises(CallError, match="8"):
        taken(given_text, argument_bytes=7)


@pytest.mark.parametrize("error", [KeyError("gone"), ValueError("secret path"), RecursionError(), StopIteration()])
def test_a_mapping_that_raises_when_it_is_read_is_refused_and_the_operator_learns_why(error):
    with pytest.raises(CallError) as caught:
        taken(Odd(lambda: iter("a"), raising(error)))
    assert caught.value.problems == ("(root): they can't be read",)
    assert "secret" not in caught.value.text
    assert type(error).__name__ in caught.value.detail


def test_several_reasons_are_listed():
    with pytest.raises(CallError) as caught:
        taken({"a": float("nan"), "b": {1}})
    assert caught.value.text == (
        "The arguments were refused:\n"
        "- a: must be a finite number, got NaN\n"
        "- b: must be JSON (null, boolean, number, string, list, dict), got a Python set\n"
        "Send one JSON object that matches the tool's schema."
    )


# Any input -----------------------------------------------------------------------------------------------------------

odd_leaves = st.sampled_from([object(), {1}, b"x", float("nan"), float("inf"), "\ud800", Text("x"), print])
huge_integers = st.sampled_from([4299, 4300, 5000]).map(lambda digits: 10**digits)  # Python writes none of the larger
odd_keys = st.text(max_size=3) | st.integers() | st.none() | st.just(Text("k"))
odd_values = st.recursive(
    JSON_TREES | odd_leaves | huge_integers,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(odd_keys, inner, max_size=4),
    max_leaves=8,
)
json_like = st.text('{}[]",:0123456789eE.+-truefalsn \\u\ud800', max_size=40)


@given(st.text(max_size=30) | st.binary(max_size=30) | json_like | odd_values | odd_values.map(json_of))
def test_any_input_gives_a_mapping_or_a_call_error(anything):
    refusal = None
    try:
        arguments = taken(anything, argument_bytes=200, argument_nodes=20)
    except CallError as error:
        refusal = error
    if refusal is None:
        assert type(arguments) is dict
        assert json_problems(arguments) == ()
    else:
        assert refusal.kind == "invalid_arguments"
        assert refusal.problems


@given(json_like.map(lambda text: f'{{"a":{text}}}') | json_like)
def test_what_both_take_is_what_pythons_own_parser_reads(text):
    try:
        arguments = parsed(text)
    except CallError:
        return
    assert arguments == ({} if text.strip() in ("", "null") else json.loads(text))


# Parse call -----------------------------------------------------------------------------------------------------------


SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}


@pytest.fixture
def tools(make):
    """A finder over two tools: `probe` takes a count, `ping` anything."""
    probe = make(print, name="probe", schema=SCHEMA)
    known = {
        "probe": probe.with_spec(title="Probe it"),
        "ping": make(print, name="ping", origin=Origin("net", toolset="remote")),
    }

    def find(name):
        if name not in known:
            raise unknown_tool_error(name, sorted(known))
        return known[name]

    return find


WHOLE = {"id": "1", "name": "probe", "arguments": {"count": 3}}


@pytest.mark.parametrize(
    "raw",
    [
        WHOLE,
        {"id": "1", "name": "probe", "arguments": '{"count": 3}'},
        {"id": "1", "name": "probe", "input": {"count": 3}},
        {"id": "1", "name": "probe", "args": '{"count": 3}'},
        {"id": 1, "name": "probe", "arguments": b'{"count": 3}'},
        {"type": "call", "unheard": "of", **WHOLE},
        {"type": "tool-call", "toolCallId": "1", "toolName": "probe", "input": {"count": 3}},
        {"id": "1", "type": "function", "function": {"name": "probe", "arguments": '{"count": 3}'}},
        {"type": "function_call", "id": "fc_9", "call_id": "1", "name": "probe", "arguments": '{"count": 3}'},
        {"type": "tool_use", "id": "1", "name": "probe", "input": {"count": 3}},
        {"functionCall": {"id": "1", "name": "probe", "args": {"count": 3}}, "thoughtSignature": "x"},
        {"toolUse": {"toolUseId": "1", "name": "probe", "input": {"count": 3}}},
        MappingProxyType(WHOLE),
        UserDict(WHOLE),
        defaultdict(list, {"id": "1", "name": "probe", "input": {"count": 3}}),
        ToolCall("probe", {"count": 3}, "1"),
        ToolCall("probe", '{"count": 3}', "1"),
        ToolCall("probe", {"count": 3}, "1").to_json(),
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_calls_are_parsed_from_several_formats(tools, raw):
    assert parse_call(raw, tools) == ToolCall("probe", {"count": 3}, "1", title="Probe it")


@pytest.mark.parametrize("raw", [{"name": "ping"}, {"name": "ping", "arguments": None}, {"name": "ping", "args": ""}])
def test_nothing_and_blank_text_are_no_arguments(tools, raw):
    assert parse_call(raw, tools).arguments == {}


@pytest.mark.parametrize(
    ("arguments", "problem", "kept"),
    [
        ("", "count: required, missing", ""),
        ('{"count": 3', "(root): not JSON", '{"count": 3'),
        (b"{", "(root): not JSON", b"{"),
        ('{"count": "3"}', "count: must be an integer", '{"count": "3"}'),
        ({"count": "3"}, "count: must be an integer", {"count": "3"}),
        (MappingProxyType({"count": "3"}), "count: must be an integer", {"count": "3"}),
        ({"count": float("nan")}, "count: must be a finite number", {}),
        ([1], "(root): expected a JSON object, found list", {}),
        (7, "(root): expected a JSON object, found int", {}),
    ],
    ids=str,
)
def test_bad_arguments_mark_the_call_invalid_and_stay_where_they_are_text_or_json(tools, arguments, problem, kept):
    call = parse_call({"id": "1", "name": "probe", "arguments": arguments}, tools)
    assert (call.invalid, call.error.kind, call.id, call.name) == (True, "invalid_arguments", "1", "probe")
    assert call.error.problems[0].startswith(problem)
    assert problem.removeprefix("(root): ") in call.error.text
    assert call.arguments == kept


def test_an_unknown_name_marks_the_call_invalid_with_what_there_is(tools):
    call = parse_call({"id": "1", "name": "prob", "arguments": {"count": 3}}, tools)
    assert (call.error.kind, call.arguments) == ("unknown_tool", {"count": 3})
    assert "Did you mean 'probe'?" in call.error.text


@pytest.mark.parametrize("name", [None, 3, "", ["probe"], {}])
def test_a_call_without_a_name_is_marked_and_keeps_its_id(tools, name):
    call = parse_call({"id": "1", "name": name, "arguments": {"count": 3}}, tools)
    assert (call.id, call.name) == ("1", "")
    assert call.error == CallFault(
        "unknown_tool", "The call has no tool name: a call is an object with name, arguments and id."
    )


@pytest.mark.parametrize("call_id", [None, [1], 1.5, True, 10**5000], ids=lambda value: type(value).__name__)
def test_an_id_that_is_none_is_left_out(tools, call_id):
    call = parse_call({**WHOLE, "id": call_id}, tools)
    assert call.id == ""


class Liar:
    """An object whose `__class__` raises."""

    @property
    def __class__(self):
        raise RuntimeError


def cyclic():
    endless = {"name": "probe"}
    endless["arguments"] = endless
    return endless


@pytest.mark.parametrize(
    "raw",
    [
        *(None, 3, "probe", b"{}", [], [WHOLE], object(), SimpleNamespace(**WHOLE), ToolCall, cyclic()),
        Odd(raising(RuntimeError()), raising(RuntimeError())),
        *(ToolCall(None), ToolCall(3, None, None), ToolCall("probe", object(), 5, title=3)),
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_an_object_that_is_not_a_call_is_parsed_as_an_invalid_one(tools, raw):
    call = parse_call(raw, tools)
    assert type(call) is ToolCall
    assert call.invalid
    assert json.dumps(call.to_json())


def test_an_object_that_lies_about_its_class_is_a_call_marked_invalid(tools):
    text = "This is not a tool call: a call is an object with name, arguments and id."
    assert parse_call(Liar(), tools) == ToolCall("", error=CallFault("unknown_tool", text))
    assert parse_call({**WHOLE, "arguments": Liar()}, tools).invalid


def test_huge_names_and_arguments_are_refused_in_few_words(tools):
    assert len(parse_call({"name": "x" * 1_000_000}, tools).error.text) < 300
    assert len(parse_call({"name": "probe", "arguments": "x" * 10_000_000}, tools).error.text) < 300


# Marked calls --------------------------------------------------------------------------------------------------------

EXECUTED = {"id": "1", "name": "web_search", "arguments": "not JSON", "providerExecuted": True}


def test_a_call_that_the_provider_has_executed_is_not_judged(tools):
    call = parse_call({**EXECUTED, "providerMetadata": {"signature": "abc"}, "title": "Searched"}, tools)
    assert (call.provider_executed, call.invalid, call.arguments, call.title) == (True, False, "not JSON", "Searched")
    assert call.provider_metadata == {"signature": "abc"}


def test_the_providers_metadata_is_the_same_object(tools):
    metadata = object()
    for raw in ({**WHOLE, "providerMetadata": metadata}, ToolCall("probe", {"count": 3}, provider_metadata=metadata)):
        assert parse_call(raw, tools).provider_metadata is metadata


def test_a_call_that_is_marked_keeps_its_mark(tools):
    """An exporter marks the calls of an answer that was cut off."""
    cut_off = CallFault("cut_off", "The answer was cut off.")
    assert parse_call(ToolCall("probe", '{"cou', error=cut_off), tools).error == cut_off
    assert parse_call({**WHOLE, "error": cut_off.to_json()}, tools).error == cut_off
    assert parse_call({**WHOLE, "error": "bad"}, tools).error.kind == "invalid_arguments"


@pytest.mark.parametrize("flag", [1, "true", [True]])
def test_flags_are_only_what_json_calls_true(tools, flag):
    call = parse_call({**WHOLE, "providerExecuted": flag, "dynamic": flag}, tools)
    assert (call.provider_executed, call.dynamic) == (False, False)


# Validation by the tool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", ["tool", "registry"])
def test_arguments_that_dispatch_may_convert_are_valid_as_they_are(make, allowed):
    policy = Policy(coerce=True) if allowed == "tool" else Policy()
    tool = make(print, schema=SCHEMA, policy=policy)
    limits = Limits(coerce=allowed == "registry")
    call = parse_call({"name": "probe", "arguments": {"count": "3"}}, lambda _: tool, limits)
    assert (call.invalid, call.arguments) == (False, {"count": "3"})
    assert parse_call({"name": "probe", "arguments": {"count": "x"}}, lambda _: tool, limits).invalid


@pytest.mark.parametrize("given", ['"{\\"count\\": 3}"', b' "{\\"count\\": 3}"'])
def test_arguments_that_were_encoded_twice_are_read_only_where_dispatch_may_convert(make, send, given):
    tool, lenient = make(lambda count: count, schema=SCHEMA), Limits(coerce=True)
    state = send(tool, given, limits=lenient)
    assert (state.arguments, state.coercions) == ({"count": 3}, ("(root): string -> object",))
    assert not parse_call({"name": "probe", "arguments": given}, lambda _: tool, lenient).invalid
    assert send(tool, given).result.kind == "invalid_arguments"
    assert send(tool, '"[1]"', limits=lenient).result.kind == "invalid_arguments"


def test_the_limits_hold(tools):
    (problem,) = parse_call(WHOLE, tools, Limits(argument_nodes=0)).error.problems
    assert problem == "(root): it contains more than 0 values"


def test_a_finder_that_fails_costs_only_the_call(make):
    def find(name):
        raise RuntimeError("the registry failed")

    call = parse_call(WHOLE, find)
    assert call.error == CallFault("tool_failure", "probe can't be called: RuntimeError.")


def test_the_tools_of_a_request_are_asked(make):
    registry = ToolRegistry(where="not name:hidden")
    registry.register(make(print, name="probe", schema=SCHEMA), make(print, name="hidden"))
    registry.register(ToolsetFunction("remote", lambda _: [make(print, name="ping")]))
    resolved = asyncio.run(registry.resolve())
    assert not registry.parse(WHOLE, resolved).invalid
    assert registry.parse({"name": "ping"}, resolved).dynamic
    assert registry.parse({"name": "hidden"}, resolved).error.kind == "not_offered"
    assert registry.parse({"name": "nothing"}, resolved).error.kind == "unknown_tool"


scraps = st.sampled_from(["name", "arguments", "id", "input", "title", "error", "providerExecuted", "dynamic"])
raws = st.dictionaries(scraps, json_values() | st.just("probe") | st.binary(max_size=5), max_size=6) | json_values()


@given(raws)
def test_any_json_is_parsed_as_a_serializable_call(raw):
    def find(name):
        raise unknown_tool_error(name, ["probe"])

    call = parse_call(raw, find)
    assert json.loads(json.dumps(call.to_json()))["name"] == call.name
    assert call.invalid or call.provider_executed


# Partial --------------------------------------------------------------------------------------------------------------


objects = st.dictionaries(st.text(max_size=4), json_values(), max_size=4)


def number_of(value):
    """How many values it has."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of, inside))


@given(objects, st.booleans(), st.booleans())
def test_each_beginning_can_be_shown_and_the_last_is_what_the_strict_parser_reads(value, escaped, as_bytes):
    text = json.dumps(value, ensure_ascii=escaped)
    if as_bytes:
        text = text.encode()
    places = 0
    for end in range(len(text)):
        shown = parse_partial(text[:end])
        assert (type(shown.value), shown.complete) == (dict, False)
        assert number_of(shown.value) >= places, "what was shown is gone"
        places = number_of(shown.value)
    assert parse_partial(text) == Partial(parse_arguments(text, most_bytes=1_000_000), complete=True)


@given(st.text(max_size=30) | st.binary(max_size=30) | st.text('{}[]":,0123eE.-tru\\\ud800', max_size=30))
def test_anything_can_be_shown_and_is_complete_where_the_strict_parser_takes_it(text):
    shown = parse_partial(text)
    try:
        read = parse_arguments(text, most_bytes=1_000_000)
    except CallError:
        assert not shown.complete
    else:
        assert shown == Partial(read, complete=bool(text.strip()))
    assert json.dumps(shown.value, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((each, {}) for each in ("", "{", '{"pa', '{"path"', '{"path": ')),
        ('{"path": "src/ma', {"path": "src/ma"}),
        *((each, {"path": "a"}) for each in ('{"path": "a\\', '{"path": "a\\u00e', '{"path": "a\\ud83d\\ude')),
        (b'{"path": "a\xc3', {"path": "a"}),
        ('{"n": 12', {"n": 12}),
        ('{"n": 1.', {"n": 1}),
        ('{"n": 1.5e-', {"n": 1.5}),
        ('{"n": -', {}),
        ('{"n": "1.', {"n": "1."}),
        ('{"n": ["\\"2e', {"n": ['"2e']}),
        ('{"n": tr', {}),
        ('{"n": [1, {"a": "b', {"n": [1, {"a": "b"}]}),
        ('{"n": 1, "m', {"n": 1}),
    ],
)
def test_what_has_come_is_shown_as_far_as_it_goes(text, value):
    assert parse_partial(text) == Partial(value)


@pytest.mark.parametrize(
    "text", ["[1", '"a', "nul", "12", "x", '{"a": 1e400', '{"a": NaN', "{'a", '{"a": "\ud800', None, 3, []]
)
def test_text_that_is_not_an_object_gives_no_partial_arguments(text):
    assert parse_partial(text) == Partial({})


def test_what_is_beyond_the_limits_is_not_shown():
    assert parse_partial('{"a": "bcd', most_bytes=9) == Partial({})
    assert parse_partial('{"a": [1, 2', most_nodes=2) == Partial({})
    assert parse_partial('{"a": [1, 2, 3, 4', most_nodes=2) == Partial({})
    assert parse_partial('{"a":' + "[" * 100) == Partial({})
    assert parse_partial('{"a":' + "[" * 100_000) == Partial({})


def test_a_duplicate_key_is_shown_but_never_complete():
    assert parse_partial('{"a": 1, "a": 2}') == Partial({"a": 2})


# Piece by piece ------------------------------------------------------------------------------------------------------


def cut(text, length):
    return [text[start : start + length] for start in range(0, len(text), length)]


def test_bytes_may_be_cut_inside_a_character():
    so_far = ArgumentsSoFar()
    for piece in cut('{"name": "Zoë 🙂"}'.encode(), 1):
        so_far.feed(piece)
        assert so_far.partial
    assert so_far.partial == Partial({"name": "Zoë 🙂"}, complete=True)


@pytest.fixture
def read(monkeypatch):
    """The lengths of the texts that were read."""
    lengths = []

    def counting(text, **limits):
        lengths.append(len(text))
        return parse_partial(text, **limits)

    monkeypatch.setattr(module, "parse_partial", counting)
    return lengths


def test_nothing_is_read_before_it_is_asked_for_nor_twice(read):
    so_far = ArgumentsSoFar()
    for piece in cut('{"a": "bcd"}', 3):
        so_far.feed(piece)
    assert read == []
    assert so_far.partial is so_far.partial
    assert read == [12]


def test_looking_after_each_piece_of_a_long_text_reads_in_proportion_to_it(read):
    text = json.dumps({"text": "word " * 40_000})
    so_far = ArgumentsSoFar()
    behind = 0
    for piece in cut(text, 40):
        so_far.feed(piece)
        shown = so_far.partial.value.get("text", "")
        behind = max(behind, 1 - (len(shown) + 20) / len(so_far.text))
    assert sum(read) < 20 * len(text)
    assert behind < 1 / 16
    assert so_far.exact() == Partial(json.loads(text), complete=True)


def test_short_arguments_are_never_behind():
    text = json.dumps({"text": "x" * 4000})
    so_far = ArgumentsSoFar()
    for piece in cut(text, 100):
        so_far.feed(piece)
        assert so_far.partial == so_far.exact()
    assert so_far.partial.complete


def test_the_buffer_stores_at_most_one_byte_over_the_limit():
    so_far = ArgumentsSoFar(most_bytes=10)
    for _ in range(100):
        so_far.feed('{"a": "bcd')
    assert len(so_far.text) == 11
    with pytest.raises(CallError, match="11 bytes"):
        parse_arguments(so_far.text, most_bytes=10)
    assert so_far.partial == Partial({})


# Validate -------------------------------------------------------------------------------------------------------------


BAD_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["fast", "exact"]},
        "filters": {"type": "array", "items": {"type": "object", "properties": {"value": {"type": "number"}}}},
    },
    "required": ["query"],
    "additionalProperties": False,
}
BAD = {"limit": 5000, "mode": "sideways", "filters": [{"value": "high"}], "extra": 1}
PLACES = ("query", "limit", "mode", "filters[0].value", "extra")


def never(**_):
    raise AssertionError("the tool ran")


@pytest.mark.parametrize("given", [BAD, json.dumps(BAD)], ids=["mapping", "text"])
def test_all_errors_are_listed_each_with_its_path_and_the_tool_does_not_run(make, send, given):
    state = send(make(never, schema=BAD_SCHEMA), given)
    assert state.result.kind == "invalid_arguments"
    listed = state.result.text.splitlines()
    assert listed[0] == "Invalid arguments for probe:"
    assert listed[-1] == "Correct them and call the tool again."
    for place in PLACES:
        assert any(place in line for line in listed[1:-1]), place


@pytest.mark.parametrize("limit", ["25", True, 25.5, None])
def test_nothing_is_coerced(make, send, limit):
    assert send(make(never, schema=BAD_SCHEMA), {"query": "q", "limit": limit}).result.kind == "invalid_arguments"


def test_no_more_than_twenty_errors_are_listed(make, send):
    arguments = {f"extra_{number}": 1 for number in range(50)}
    result = send(make(never, schema=BAD_SCHEMA), arguments).result
    assert len([line for line in result.text.splitlines() if line.startswith("- ")]) <= 20


def test_blank_arguments_mean_none_and_are_validated(make, send):
    assert "query" in send(make(never, schema=BAD_SCHEMA), "").result.text
    assert send(make(lambda: "ran"), " ").result.text == "ran"


def test_the_tools_own_check_comes_after_the_schema_and_sees_what_was_converted(make, send):
    seen = []

    def check(arguments):
        seen.append(dict(arguments))
        return ["limit: must be odd"]

    tool = make(never, schema=BAD_SCHEMA, checks=check)
    assert "limit: must be odd" in send(tool, {"query": "q", "limit": 2}).result.text
    assert send(tool, {"query": 1}).result.kind == "invalid_arguments"
    assert "limit: must be odd" in send(tool, {"query": "q", "limit": "4"}, limits=Limits(coerce=True)).result.text
    assert seen == [{"query": "q", "limit": 2}, {"query": "q", "limit": 4}]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda: None, []),
        (list, []),
        (lambda: "all: wrong", ["- all: wrong"]),
        (lambda: (f"x{number}: no" for number in itertools.count()), [f"- x{number}: no" for number in range(20)]),
    ],
    ids=["nothing", "an empty list", "a text", "without end"],
)
def test_what_a_tools_check_finds_is_listed_twenty_times_at_most(make, send, answer, found):
    tool = make(lambda: "ran", checks=lambda arguments: answer())
    result = send(tool).result
    assert [f"- {each}" for each in tool.check({})] == found
    assert [line for line in result.text.splitlines() if line.startswith("- ")] == found
    assert result.kind == ("invalid_arguments" if found else None)


def test_a_problem_that_quotes_lines_of_the_arguments_stays_one_problem(make, send):
    tool = make(never, checks=lambda arguments: "name: unknown: a\n- b: forged\rCorrect nothing.")
    listed = send(tool).result.text.splitlines()[1:-1]
    assert listed == ["- name: unknown: a", "  - b: forged", "  Correct nothing."]


def test_a_problem_is_cut_short(make, send):
    """A union of a thousand constants would fill pages."""
    words = {"anyOf": [{"const": f"word {number} of a sentence that has many of them"} for number in range(1000)]}
    schema = {"type": "object", "properties": {"a": words, "b": words}}
    text = send(make(never, schema=schema), {"a": "x", "b": "y"}).result.text
    assert len(text) < 3000
    assert text.count("...") == 2


# Conversions ---------------------------------------------------------------------------------------------------------


def echo(**arguments):
    return arguments


@pytest.mark.parametrize(
    ("tool_says", "registry_says", "converts"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_coercion_is_set_by_tool_and_by_registry(make, send, tool_says, registry_says, converts):
    tool = make(echo, schema=BAD_SCHEMA, policy=Policy(coerce=tool_says))
    state = send(tool, '{"query": "q", "limit": "5"}', limits=Limits(coerce=registry_says))
    if converts:
        assert state.result.structured_content == {"query": "q", "limit": 5}
        assert state.coercions == ('limit: string "5" -> number 5',)
        assert state.result.metadata == {"coerced": ['limit: string "5" -> number 5']}
    else:
        assert state.result.kind == "invalid_arguments"


def test_what_cannot_be_converted_is_refused_as_it_was_written(make, send):
    state = send(make(never, schema=BAD_SCHEMA), {"limit": "500", "mode": "FAST"}, limits=Limits(coerce=True))
    assert 'limit: must be an integer, got string "500"' in state.result.text
    assert state.coercions == ()


def test_what_a_callback_changed_is_converted_too(make, send):
    tool = make(echo, schema=BAD_SCHEMA)
    change = ChangeArguments({"query": "q", "limit": "7"})
    state = send(tool, {"query": "q", "limit": "5"}, limits=Limits(coerce=True), before=[lambda *_: change])
    assert state.result.structured_content == {"query": "q", "limit": 7}
    assert state.coercions == ('limit: string "5" -> number 5', 'limit: string "7" -> number 7')


def test_a_tool_may_word_what_is_wrong_itself(make, send):
    tool = make(never, schema=BAD_SCHEMA, format_validation_error=lambda problems: f"{len(problems)} things are wrong")
    result = send(tool, BAD).result
    assert (result.kind, result.text) == ("invalid_arguments", "5 things are wrong")


def test_wording_that_fails_falls_back_to_ours_and_the_operator_learns_why(make, send):
    tool = make(never, schema=BAD_SCHEMA, format_validation_error=lambda problems: 1 / 0)
    result = send(tool, BAD).result
    assert result.kind == "invalid_arguments"
    assert "limit" in result.text
    assert "ZeroDivisionError" in result.detail


# Checks and wording of a tool may block -------------------------------------------------------------------------------


def threads_of(make, send, arguments, **facts):
    """The result of a call, and whether each function of the tool ran on the main thread."""
    ran = []

    def note(given):
        ran.append(threading.current_thread() is threading.main_thread())
        return ["(root): no"] if isinstance(given, dict) else "in my words"

    tool = make(echo, schema=BAD_SCHEMA, **{name: nonblocking(note) if fast else note for name, fast in facts.items()})
    return send(tool, arguments).result, ran


@pytest.mark.parametrize("fast", [False, True])
def test_a_tools_check_and_wording_run_off_the_loop_unless_they_are_quick(make, send, fast):
    result, ran = threads_of(make, send, {"query": "q"}, checks=fast)
    assert (result.kind, ran) == ("invalid_arguments", [fast])
    result, ran = threads_of(make, send, {"query": 1}, format_validation_error=fast)
    assert (result.text, ran) == ("in my words", [fast])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("checks", ({"query": "q"}, "tool_failure", "check of the arguments took longer than 0.01 s")),
        ("format_validation_error", ({"query": 1}, "invalid_arguments", "Invalid arguments for probe:\n- query:")),
    ],
)
def test_a_check_or_wording_that_hangs_costs_no_more_than_its_time(make, send, facts, expected):
    go, (arguments, kind, text) = threading.Event(), expected
    tool = make(never, schema=BAD_SCHEMA, **{facts: lambda _given: go.wait()})
    result = send(tool, arguments, limits=Limits(callback_timeout=0.01)).result
    go.set()
    assert result.kind == kind
    assert text in result.text


# Large arguments of heavy schemas -------------------------------------------------------------------------------------


def test_arguments_that_a_heavy_schema_cannot_judge_in_good_time_are_refused_at_once(make, send):
    tool = make(never, schema={"type": "object", "properties": {"text": {"pattern": "a[ab]{300}d"}}})
    result = send(tool, {"text": "ab" * 300_000}).result
    assert result.kind == "invalid_arguments"
    assert "too large for its schema; send at most" in result.text


def test_a_refusal_looks_at_nothing_that_no_schema_describes(make):
    """What was parsed is JSON: it enters the same functions, however much was sent."""
    registry = ToolRegistry()
    registry.register(make(never, schema={"type": "object", "required": ["missing"]}))
    entered = []

    def profile(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("pegboard."):
            entered.append(frame.f_code.co_qualname)

    async def refuse(text):
        sys.setprofile(profile)
        try:
            return await registry.call("probe", text)
        finally:
            sys.setprofile(None)

    def functions_of(items):
        entered.clear()
        assert asyncio.run(refuse(json.dumps({"given": ["x"] * items}))).kind == "invalid_arguments"
        return entered.copy()

    functions_of(1)  # imports and compiles
    assert functions_of(100) == functions_of(1) != []


# What is converted, and what not --------------------------------------------------------------------------------------

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
INTEGERS = {"type": "array", "items": INTEGER}
MAYBE_INTEGER = {"anyOf": [INTEGER, {"type": "null"}]}


def tool_for(schema, **more):
    return Tool.from_schema(
        "probe", {"type": "object", "properties": {"a": schema}, "additionalProperties": False, **more}
    )


def converted(schema, value, **more):
    """What the property `a` of this schema makes of a value."""
    return coerce(tool_for(schema, **more), {"a": value})


@pytest.mark.parametrize(
    ("schema", "value", "becomes"),
    [
        (INTEGER, "42", 42),
        (INTEGER, "-7", -7),
        (INTEGER, " 42 ", 42),
        (INTEGER, "42.0", 42.0),
        (NUMBER, "1.5", 1.5),
        (NUMBER, "1e3", 1000.0),
        (FLAG, "true", True),
        (FLAG, "false", False),
        ({"type": "null"}, "null", None),
        (MAYBE_INTEGER, "null", None),
        (MAYBE_INTEGER, "5", 5),
        ({"type": ["integer", "null"]}, "5", 5),
        (TEXT, 42, "42"),
        (TEXT, -(10**30), "-1" + "0" * 30),
        (TEXTS, '["x", "y"]', ["x", "y"]),
        (TEXTS, "[1, 2]", ["1", "2"]),
        (TEXTS, "x", ["x"]),
        (TEXTS, 1, ["1"]),
        (INTEGERS, "5", [5]),
        (INTEGERS, ["5", 6], [5, 6]),
        ({"type": "array", "prefixItems": [INTEGER], "items": TEXT}, ["1", 2], [1, "2"]),
        ({"type": "object", "properties": {"b": INTEGER}}, '{"b": "3"}', {"b": 3}),
        ({"type": "object", "additionalProperties": INTEGER}, {"x": "3"}, {"x": 3}),
        ({"enum": ["fast", "Exact"]}, "FAST", "fast"),
        ({"enum": ["fast"], "type": "string"}, "Fast", "fast"),
        ({"enum": [1, 2, "x"]}, "2", 2),
        *((each, "3", 3) for each in ({"const": 3}, {"allOf": [INTEGER, {"minimum": 1}]}, {"$ref": "#/$defs/count"})),
        ({"anyOf": [{"$ref": "#/$defs/count"}, {"$ref": "#/$defs/count"}]}, "3", 3),
        ({"oneOf": [FLAG, INTEGER]}, "true", True),
        ({"anyOf": [INTEGER, NUMBER]}, "42", 42),
        ({"anyOf": [INTEGER, INTEGERS]}, "42", 42),
        ({"anyOf": [TEXTS, INTEGERS]}, "[1]", [1]),
    ],
    ids=json.dumps,
)
def test_what_is_converted(schema, value, becomes):
    given_value = repr(value)
    result = converted(schema, value, **{"$defs": {"count": INTEGER}})
    assert result is not None
    assert repr(result[0]) == repr({"a": becomes})
    assert result[1]
    assert repr(value) == given_value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *((INTEGER, each) for each in ("42.5", "forty-two", "0x10", "1,000", "007", "+5", "1" * 5000, 42.5, True)),
        *((INTEGER, each) for each in (None, [42], "")),
        (NUMBER, "NaN"),
        (NUMBER, "1e400"),
        *((FLAG, each) for each in ("True", "yes", 1, 0)),
        *((TEXT, each) for each in (1.5, True, ["x"], {})),
        (TEXTS, "[1.5]"),
        (INTEGERS, ["5", "six"]),
        ({"type": "object"}, "{'b': 3}"),
        ({"type": "object"}, '{"b": 1, "b": 2}'),
        ({"enum": ["AB", "ab"]}, "Ab"),
        ({"enum": ["fast"]}, "faster"),
        ({"anyOf": [{"const": "AB"}, {"const": "ab"}]}, "Ab"),
        ({**INTEGER, "minimum": 10}, "5"),
        ({"not": TEXT}, "5"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_what_is_not_converted(schema, value):
    """Lossy or ambiguous conversions are refused."""
    assert converted(schema, value, required=["a"]) is None


def test_null_for_what_may_be_left_out_is_left_out():
    assert converted(INTEGER, None) == ({}, ("a: null -> left out",))
    assert converted(MAYBE_INTEGER, None) == ({"a": None}, ())


def test_every_change_is_listed_by_its_place():
    schema = {"type": "object", "properties": {"rows": INTEGERS, "on": FLAG}}
    result = converted(schema, {"rows": ["1", 2, "3"], "on": "true"})
    assert result == (
        {"a": {"rows": [1, 2, 3], "on": True}},
        (
            'a.rows[0]: string "1" -> number 1',
            'a.rows[2]: string "3" -> number 3',
            'a.on: string "true" -> boolean true',
        ),
    )


def test_changes_without_number_are_counted():
    result = converted(INTEGERS, [str(number) for number in range(30)])
    assert (len(result[1]), result[1][-1]) == (21, "and 10 more")


def test_a_long_value_is_listed_in_few_characters():
    (change,) = converted(TEXTS, "x" * 10_000)[1]
    assert len(change) < 100


def test_one_place_that_cannot_be_mended_leaves_all_as_it_is():
    tool = Tool.from_schema("probe", {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}})
    assert coerce(tool, {"a": "1", "b": "x"}) is None
    assert converted(INTEGER, "1", required=["a", "b"]) is None


def test_unknown_keys_are_not_taken_away():
    assert coerce(tool_for(INTEGER), {"a": "1", "z": 1}) is None


def test_recursive_schemas_are_followed():
    node = {"type": "object", "properties": {"value": INTEGER, "next": {"$ref": "#/$defs/node"}}}
    result = converted(
        {"$ref": "#/$defs/node"},
        {"value": "1", "next": {"value": "2", "next": None}},
        **{"$defs": {"node": node}},
    )
    assert result[0] == {"a": {"value": 1, "next": {"value": 2}}}


def test_a_value_that_would_be_wrapped_without_end_is_left():
    """An array of such arrays, and so on, never holds a string."""
    endless = {"type": "array", "items": {"$ref": "#/$defs/endless"}}
    assert converted({"$ref": "#/$defs/endless"}, "x", **{"$defs": {"endless": endless}}) is None


DRAFT_7, DRAFT_2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("draft", "schema", "value", "becomes"),
    [
        (DRAFT_7, {"$ref": "#/definitions/count", "type": "string"}, "1", {"a": 1}),
        (DRAFT_2020, {"$ref": "#/definitions/count", "type": "string"}, "1", None),
        (DRAFT_7, {"type": "array", "items": [INTEGER], "additionalItems": TEXT}, ["1", 2], {"a": [1, "2"]}),
    ],
)
def test_the_draft_decides_on_siblings_of_a_reference_and_on_items(draft, schema, value, becomes):
    result = converted(schema, value, **{"$schema": draft, "definitions": {"count": INTEGER}})
    assert (result and result[0]) == becomes


def test_keywords_that_hold_nonsense_change_nothing():
    """A draft that doesn't know a keyword lets it hold anything."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"type": "integer", "prefixItems": 3, "const": {"odd": 1}, "examples": 1}},
        "required": ["b"],
    }
    assert coerce(Tool.from_schema("probe", schema), {"a": "1"}) is None


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": object()}, {1: "1"}])
def test_values_that_are_not_json_are_not_converted(odd):
    assert coerce(tool_for(INTEGER), odd) is None


def test_texts_within_texts_end():
    """Each level is read once: what it holds may be as deep as arguments may be, and no deeper."""
    text = "5"
    for _ in range(8):
        text = json.dumps([text])
    deep = {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/deep"}, INTEGER]}}
    result = converted({"$ref": "#/$defs/deep"}, text, **{"$defs": {"deep": deep}})
    assert result is None or canonical_json(result[0]).count("[") == 8
    far = "[" * 100 + "]" * 100
    assert converted({"type": "array"}, far) is None


def test_the_budget_holds():
    """A union whose members all want to read a long text gives up; it never takes long."""
    long_text = json.dumps(["x" * 900_000])
    many = {"anyOf": [{"type": "object", "required": [f"k{number}"]} for number in range(50)]}
    assert converted(many, long_text) is None


# Laws ----------------------------------------------------------------------------------------------------------------


def spoilt(value):
    """The same JSON with some of it written as text."""
    if isinstance(value, dict):
        return st.fixed_dictionaries({key: spoilt(item) for key, item in value.items()})
    inside = st.lists(st.nothing()) if value == [] else st.just(value)
    if isinstance(value, list) and value:
        inside = st.tuples(*map(spoilt, value)).map(list)
    return inside | inside.map(json.dumps)


@given(SCHEMAS, VALUES.flatmap(spoilt))
def test_only_what_the_schema_takes_is_given_back_and_what_was_valid_is_the_same(schema, value):
    tool = tool_for(schema)
    arguments = {"a": value}
    before = copy.deepcopy(arguments)
    result = coerce(tool, arguments)
    assert arguments == before
    if tool.validator.accepts(arguments):
        assert result is not None
        assert result[0] is arguments
        assert result[1] == ()
    elif result is not None:
        assert tool.validator.problems(result[0]) == ()
        assert result[1]


# Preparation by the tool ----------------------------------------------------------------------------------------------


def counting(**options):
    """A tool whose preparation isn't idempotent, and the arguments that it has got."""
    seen = []

    def prepare_arguments(arguments):
        seen.append(dict(arguments))
        return {"paths": [f"{path}!" for path in (*arguments.get("paths", ()), *arguments.pop("path", "").split())]}

    @tool(prepare_arguments=prepare_arguments, **options)
    def show(paths: list[str]) -> str:
        """Shows paths."""
        return " ".join(paths)

    return show, seen


def test_arguments_are_prepared_once_on_a_copy_before_they_are_validated():
    show, seen = counting()
    given = {"path": "a b"}
    registry = ToolRegistry()
    registry.register(show)
    assert registry.call_sync("show", given).text == "a! b!"
    assert registry.call_sync("show", '{"path": "c"}').text == "c!"
    assert (given, seen) == ({"path": "a b"}, [{"path": "a b"}, {"path": "c"}])
    assert registry.call_sync("show", {"paths": [1]}).text == "1!"


def test_prepared_arguments_are_converted_and_validated():
    def prepare_arguments(arguments):
        return {"count": arguments["number"]}

    @tool(prepare_arguments=prepare_arguments, coerce=True)
    def double(count: int) -> int:
        """Doubles."""
        return 2 * count

    registry = ToolRegistry()
    registry.register(double)
    assert registry.call_sync("double", {"number": "2"}).structured_content == {"result": 4}
    result = registry.call_sync("double", {"number": "x"})
    assert (result.kind, "count: must be" in result.text) == ("invalid_arguments", True)


def fail(_):
    raise RuntimeError("secret")


def exit_early(_):
    raise SystemExit


def contain_itself(arguments):
    arguments["paths"] = arguments
    return arguments


@pytest.mark.parametrize(
    "prepare_arguments",
    [fail, exit_early, lambda _: None, lambda _: "{}", lambda _: {"paths": {1}}, lambda _: {1: 2}, contain_itself],
    ids=["an error", "an exit", "nothing", "text", "no JSON", "no text as a key", "a cycle"],
)
def test_arguments_that_cant_be_prepared_are_invalid_and_nothing_runs(prepare_arguments, make, send):
    result = send(make(never, prepare_arguments=prepare_arguments), {}).result
    assert result.kind == "invalid_arguments"
    assert ": it can't read them.\nCorrect them" in result.text
    assert ("secret" in f"{result.detail}") is (prepare_arguments is fail)


def test_a_preparation_can_say_what_is_wrong(make, send):
    def prepare_arguments(arguments):
        raise ToolError("Give path or paths, not both.")

    result = send(make(never, prepare_arguments=prepare_arguments), {}).result
    assert result.kind == "invalid_arguments"
    assert ": Give path or paths, not both.\nCorrect them" in result.text


def test_a_preparation_that_fails_leaves_the_arguments_as_they_were(make):
    seen, registry = [], ToolRegistry()

    def prepare_arguments(arguments):
        arguments["path"]["name"] = arguments.pop("other")
        raise ValueError

    def on_error(arguments):
        seen.append(arguments)

    registry.register(make(never, prepare_arguments=prepare_arguments))
    registry.add_callback("on_tool_error", on_error)
    result = registry.call_sync("probe", '{"path": {"name": "a"}, "other": {}}')
    assert (result.kind, seen) == ("invalid_arguments", [{"path": {"name": "a"}, "other": {}}])


@pytest.mark.parametrize("arguments", [{"path": 1}, {"other": ""}], ids=["the preparation fails", "they are invalid"])
def test_repaired_arguments_are_not_prepared_again(arguments):
    show, seen = counting(check=lambda given: [] if given["paths"] else ["paths: it is empty"])
    registry = ToolRegistry()
    registry.register(show)
    registry.add_callback("repair_call", lambda: {"paths": ["mended"]})
    assert registry.call_sync("show", arguments).text == "mended"
    assert seen == [arguments]


def test_another_tool_that_a_repair_calls_prepares_its_arguments():
    show, seen = counting()
    other, of_other = counting(name="other")
    registry = ToolRegistry()
    registry.register(show, other)
    registry.add_callback("repair_call", lambda: ToolCall("other", {"path": "a"}, "1"))
    assert registry.call_sync("show", {"path": 1}).text == "a!"
    assert (seen, of_other) == ([{"path": 1}], [{"path": "a"}])


def test_a_preparation_that_takes_too_long_ends_the_call(make, send):
    is_over = threading.Event()
    tool = make(never, prepare_arguments=lambda arguments: arguments if is_over.wait(60) else {})
    result = send(tool, {}, limits=Limits(callback_timeout=0.05, grace=0.05)).result
    is_over.set()
    assert (result.kind, "preparing its arguments took longer than 0.05 s" in result.text) == ("tool_failure", True)


async def test_prepared_arguments_are_what_a_person_and_rules_see_also_after_a_restart():
    show, seen = counting(permission="read", permission_arguments={"paths": "text"})
    registry = ToolRegistry(permissions=Permissions([Rule("read", "*", "ask"), Rule("read", "safe!", "allow")]))
    registry.register(show)
    asked = []
    registry.approver = lambda request, _: asked.append(request.arguments) or Later()
    assert (await registry.call("show", {"path": "safe"})).text == "safe!"
    decision = await registry.decide("show", {"path": "safe"})
    assert decision.action == "allow"
    outcome = await registry.dispatch([ToolCall("show", {"path": "other"}, "1")])
    assert asked == [{"paths": ["other!"]}]
    pending = PendingCalls.from_json(json.loads(json.dumps(outcome.pending.to_json())))
    resumed = await registry.resume(pending, {call.id: Once() for call in pending})
    assert resumed.results[0].text == "other!"
    assert seen == [{"path": "safe"}] * 2 + [{"path": "other"}]


def test_a_call_that_its_tool_prepares_is_left_to_dispatch():
    show, seen = counting()
    call = parse_call({"name": "show", "arguments": {"path": "a"}, "id": "1"}, {"show": tool_of(show)}.__getitem__)
    assert (call.error, call.arguments, seen) == (None, {"path": "a"}, [])


def test_a_reshaped_tool_prepares_by_its_own_names():
    show, seen = counting()
    registry = ToolRegistry()
    registry.register(ToolsetFunction("own", lambda: [show]).reshaped({"show": Reshape(rename={"paths": "files"})}))
    assert registry.call_sync("show", {"files": ["a"], "path": "b"}).text == "a! b!"
    assert seen == [{"paths": ["a"], "path": "b"}]


@pytest.mark.parametrize("name", ["paths", "path"])
def test_a_reshaped_tool_prepares_no_argument_that_is_hidden_or_renamed(name):
    seen = []

    def prepare_arguments(arguments):
        seen.append(arguments)
        return arguments

    @tool(prepare_arguments=prepare_arguments)
    def show(path: str, paths: str = "") -> str:
        """Shows paths."""
        return path + paths

    registry = ToolRegistry()
    reshape = Reshape(hide={"paths": "!"}, rename={"path": "file"})
    registry.register(ToolsetFunction("own", lambda: [show]).reshaped({"show": reshape}))
    result = registry.call_sync("show", {"file": "a", name: "b"})
    assert (result.kind, f"{name}: " in result.text, seen) == ("invalid_arguments", True, [])
    assert registry.call_sync("show", {"file": "a"}).text == "a!"
    assert seen == [{"path": "a"}]


def test_arguments_are_prepared_before_an_executor_gets_them():
    show, seen = counting(executor="far")
    registry = ToolRegistry()
    registry.register(show)
    here = tool_of(show).evolve(policy=Policy())
    registry.add("executors", "far", LocalExecutor([here], permissions=Permissions(mode="bypass")))
    assert registry.call_sync("show", {"path": "a"}).text == "a!"
    assert seen == [{"path": "a"}]
