from __future__ import annotations

import asyncio
import json
from collections import UserDict, defaultdict
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from pegboard import ToolRegistry, ToolsetFunction
from pegboard.dispatch.find import unknown
from pegboard.dispatch.limits import Limits
from pegboard.dispatch.parse_call import parse_call
from pegboard.tools.call import CallFault, ToolCall
from pegboard.tools.origin import Origin, Policy
from strategies import json_values

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
            raise unknown(name, sorted(known))
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
        MappingProxyType(WHOLE),
        UserDict(WHOLE),
        defaultdict(list, {"id": "1", "name": "probe", "input": {"count": 3}}),
        ToolCall("probe", {"count": 3}, "1"),
        ToolCall("probe", '{"count": 3}', "1"),
        ToolCall("probe", {"count": 3}, "1").to_json(),
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_a_call_comes_in_several_shapes(tools, raw):
    assert parse_call(raw, tools) == ToolCall("probe", {"count": 3}, "1", title="Probe it")


@pytest.mark.parametrize("raw", [{"name": "ping"}, {"name": "ping", "arguments": None}, {"name": "ping", "args": ""}])
def test_nothing_and_blank_text_are_no_arguments(tools, raw):
    assert parse_call(raw, tools).arguments == {}


def test_a_tool_of_a_toolset_makes_the_call_dynamic(tools):
    assert parse_call({"name": "ping"}, tools).dynamic
    assert not parse_call(WHOLE, tools).dynamic


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("", "count: required, missing"),
        ('{"count": 3', "(root): not JSON"),
        ('{"count": "3"}', "count: must be an integer"),
        ({"count": "3"}, "count: must be an integer"),
        ({"count": float("nan")}, "count: must be a finite number"),
        ([1], "(root): expected a JSON object, found an array"),
        (7, "(root): expected a JSON object, found a number"),
    ],
    ids=str,
)
def test_bad_arguments_mark_the_call_invalid_with_what_is_wrong(tools, arguments, problem):
    call = parse_call({"id": "1", "name": "probe", "arguments": arguments}, tools)
    assert (call.invalid, call.error.kind, call.id, call.name) == (True, "invalid_arguments", "1", "probe")
    assert call.error.problems[0].startswith(problem)
    assert problem.removeprefix("(root): ") in call.error.text


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"count": 3', '{"count": 3'),
        (b"{", b"{"),
        ({"count": "3"}, {"count": "3"}),
        (MappingProxyType({"count": "3"}), {"count": "3"}),
        ({"count": float("nan")}, {}),
        ([1], {}),
    ],
    ids=str,
)
def test_an_invalid_call_keeps_what_was_written_where_it_is_text_or_json(tools, arguments, kept):
    assert parse_call({"name": "probe", "arguments": arguments}, tools).arguments == kept


def test_an_unknown_name_marks_the_call_invalid_with_what_there_is(tools):
    call = parse_call({"id": "1", "name": "prob", "arguments": {"count": 3}}, tools)
    assert (call.error.kind, call.arguments) == ("unknown_tool", {"count": 3})
    assert "Did you mean 'probe'?" in call.error.text


@pytest.mark.parametrize("name", [None, 3, "", ["probe"], {}])
def test_a_call_without_a_name_is_marked_and_keeps_its_id(tools, name):
    call = parse_call({"id": "1", "name": name, "arguments": {"count": 3}}, tools)
    assert (call.id, call.name) == ("1", "")
    assert call.error == CallFault(
        "unknown_tool", "The call names no tool: a call is an object with name, arguments and id."
    )


@pytest.mark.parametrize("call_id", [None, [1], 1.5, True, 10**5000], ids=lambda value: type(value).__name__)
def test_an_id_that_is_none_is_left_out(tools, call_id):
    call = parse_call({**WHOLE, "id": call_id}, tools)
    assert call.id == "" or call.invalid


class Broken(Mapping):
    """A mapping that can't be looked at."""

    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        raise RuntimeError


class Liar:
    """An object that raises even for its class."""

    @property
    def __class__(self):
        raise RuntimeError


def cyclic():
    endless = {"name": "probe"}
    endless["arguments"] = endless
    return endless


@pytest.mark.parametrize(
    "raw",
    [None, 3, "probe", b"{}", [], [WHOLE], object(), SimpleNamespace(**WHOLE), Broken(), ToolCall, cyclic()],
    ids=lambda raw: type(raw).__name__,
)
def test_what_is_no_call_is_a_call_marked_invalid(tools, raw):
    call = parse_call(raw, tools)
    assert type(call) is ToolCall
    assert call.invalid
    assert json.dumps(call.to_json())


def test_an_object_that_lies_about_its_class_is_a_call_marked_invalid(tools):
    text = "This is no call of a tool: a call is an object with name, arguments and id."
    assert parse_call(Liar(), tools) == ToolCall("", error=CallFault("unknown_tool", text))
    assert parse_call({**WHOLE, "arguments": Liar()}, tools).invalid


@pytest.mark.parametrize("raw", [ToolCall(None), ToolCall(3, None, None), ToolCall("probe", object(), 5, title=3)])
def test_a_tool_call_made_of_nonsense_is_marked_too(tools, raw):
    call = parse_call(raw, tools)
    assert call.invalid
    assert json.dumps(call.to_json())


def test_huge_names_and_arguments_are_refused_in_few_words(tools):
    assert len(parse_call({"name": "x" * 1_000_000}, tools).error.text) < 300
    assert len(parse_call({"name": "probe", "arguments": "x" * 10_000_000}, tools).error.text) < 300


# What is marked ------------------------------------------------------------------------------------------------------

EXECUTED = {"id": "1", "name": "web_search", "arguments": "not JSON", "providerExecuted": True}


def test_a_call_that_the_provider_has_executed_is_judged_by_nobody(tools):
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


def test_a_mark_that_cannot_be_read_is_a_mark(tools):
    assert parse_call({**WHOLE, "error": "bad"}, tools).error.kind == "invalid_arguments"


@pytest.mark.parametrize("flag", [1, "true", [True]])
def test_flags_are_only_what_json_calls_true(tools, flag):
    call = parse_call({**WHOLE, "providerExecuted": flag, "dynamic": flag}, tools)
    assert (call.provider_executed, call.dynamic) == (False, False)


# What it is judged by ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", ["tool", "registry"])
def test_arguments_that_dispatch_may_convert_are_valid_as_they_are(make, allowed):
    policy = Policy(coerce=True) if allowed == "tool" else Policy()
    tool = make(print, schema=SCHEMA, policy=policy)
    limits = Limits(coerce=allowed == "registry")
    call = parse_call({"name": "probe", "arguments": {"count": "3"}}, lambda _: tool, limits)
    assert (call.invalid, call.arguments) == (False, {"count": "3"})
    assert parse_call({"name": "probe", "arguments": {"count": "x"}}, lambda _: tool, limits).invalid


def test_the_limits_hold(tools):
    assert parse_call(WHOLE, tools, Limits(argument_nodes=0)).error.problems == ("(root): holds more than 0 values",)


def test_a_finder_that_fails_costs_only_the_call(make):
    def find(name):
        raise RuntimeError("the board fell down")

    call = parse_call(WHOLE, find)
    assert call.error == CallFault("tool_failure", "probe can't be called: RuntimeError.")


def test_the_tools_of_a_request_are_asked(make):
    registry = ToolRegistry(where="not name:hidden")
    registry.register(make(print, name="probe", schema=SCHEMA), make(print, name="hidden"))
    registry.register(ToolsetFunction("remote", lambda _: [make(print, name="ping")]))
    resolved = asyncio.run(registry.resolve())
    assert not parse_call(WHOLE, resolved).invalid
    assert parse_call({"name": "ping"}, resolved).dynamic
    assert parse_call({"name": "hidden"}, resolved).error.kind == "not_offered"
    assert parse_call({"name": "nothing"}, resolved).error.kind == "unknown_tool"


scraps = st.sampled_from(["name", "arguments", "id", "input", "title", "error", "providerExecuted", "dynamic"])
raws = st.dictionaries(scraps, json_values() | st.just("probe") | st.binary(max_size=5), max_size=6) | json_values()


@settings(max_examples=100)
@given(raws)
def test_whatever_json_holds_becomes_a_call_that_can_be_written(raw):
    def find(name):
        raise unknown(name, ["probe"])

    call = parse_call(raw, find)
    assert json.loads(json.dumps(call.to_json()))["name"] == call.name
    assert call.invalid or call.provider_executed
