from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, strategies as st

from fake_vendors.rules.samples import json_values, nested
from pegboard import ModelConfig, ModelRequest, Tool, ToolCall
from pegboard.messages import Message
from pegboard.toolsets import resolve_tools
from pegboard_clients.wire.ids import (
    ARGUMENTS_TOO_LONG,
    CALL_CUT_OFF,
    NO_NAME,
    MadeCalls,
    SentIds,
    called_before,
    shown,
    strict_schemas,
    wire_name,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
SURROGATES = re.compile("[\ud800-\udfff]")


@pytest.fixture
def calls():
    return MadeCalls("p", names={"bash": "shell"})


def test_a_call_is_made_as_it_came(calls):
    call = calls.call("weather", {"city": "Oslo"}, "c1", {"caller": "x"})

    assert (call.name, call.arguments, call.id, call.error) == ("weather", {"city": "Oslo"}, "c1", None)
    assert call.provider_metadata == {"p": {"caller": "x"}}


def test_a_call_without_id_gets_the_next_that_is_free(calls):
    made = [calls.call("t", {}, own, {}).id for own in ("call_1", None, 3, "")]

    assert made == ["call_1", "call_1_2", "call_2", "call_3"]


def test_a_duplicate_id_gets_a_number_and_the_original_is_stored(calls):
    first, second, third = (calls.call("t", {}, "same", {}) for _ in range(3))

    assert [first.id, second.id, third.id] == ["same", "same_2", "same_3"]
    assert first.provider_metadata is None
    assert second.provider_metadata == {"p": {"original_id": "same"}}
    unwritable = calls.call("t", {}, "c\ud800", {})
    assert (unwritable.id, unwritable.provider_metadata) == ("c\ufffd", None)


@pytest.mark.parametrize("name", [None, "", 3, ["x"]])
def test_a_call_without_name_is_invalid_and_not_lost(calls, name):
    call = calls.call(name, {"a": 1}, "c1", {})

    assert (call.name, call.error, call.arguments) == ("", NO_NAME, {"a": 1})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, {}),
        ("{", "{"),
        ([1], "[1]"),
        (3, "3"),
        (float("nan"), "NaN"),
        ({"a": 1}, {"a": 1}),
        ({"a": b"x"}, '{"a": "b\'x\'"}'),
        ({"a": "\ud800"}, '{"a": "\\ud800"}'),
        ({(1, 2): 3}, "<dict>"),
    ],
)
def test_arguments_are_kept_as_they_came(calls, given, kept):
    assert calls.call("t", given, "c1", {}).arguments == kept


def test_a_tool_of_the_providers_is_called_by_its_name_here(calls):
    assert calls.call("bash", {}, "c1", {}).name == "shell"


def test_a_fault_marks_the_call(calls):
    assert calls.call("t", "{", "c1", {}, CALL_CUT_OFF).error == CALL_CUT_OFF


def request_with(strict, by_default=None):
    tools = asyncio.run(resolve_tools([Tool.from_schema("t", SCHEMA, strict=strict)], ()))
    return ModelRequest("x", tools=tools, config=ModelConfig(strict=by_default))


@pytest.mark.parametrize("arguments", [{"a": "x", "b": None}, '{"a": "x", "b": null}'])
def test_nulls_that_a_strict_schema_asked_for_are_taken_away(arguments):
    strict = MadeCalls("p", strict_schemas(request_with(strict=True)))
    by_default = MadeCalls("p", strict_schemas(request_with(strict=None, by_default=True)))

    assert strict.call("t", arguments, "1", {}).arguments == {"a": "x"}
    assert by_default.call("t", arguments, "1", {}).arguments == {"a": "x"}


@pytest.mark.parametrize("request_", [None, ModelRequest("x"), request_with(strict=False, by_default=True)])
def test_nulls_of_other_calls_stay(request_):
    calls = MadeCalls("p", strict_schemas(request_))

    assert calls.call("t", {"a": "x", "b": None}, "1", {}).arguments == {"a": "x", "b": None}


@pytest.mark.parametrize("arguments", ['{"a": "x"}', "{", "[null]"])
def test_text_stays_text_where_nothing_is_to_be_taken_away(arguments):
    calls = MadeCalls("p", strict_schemas(request_with(strict=True)))

    assert calls.call("t", arguments, "1", {}).arguments == arguments


def test_many_calls_of_one_id_take_linear_time(calls):
    made = {calls.call("t", {}, "same", {}).id for _ in range(20_000)}

    assert len(made) == 20_000


def made(arguments, **options):
    return MadeCalls("p", **options).call("t", arguments, "c", {})


@pytest.mark.parametrize("given_", [nested(500), float("nan"), {"a": [{"b": float("inf")}]}, {"a": 10**5000}, [1], 3])
def test_arguments_that_are_no_object_mark_the_call_and_are_kept(given_):
    call = made(given_)

    assert call.error.kind == "invalid_arguments"
    assert isinstance(call.arguments, str)
    assert ToolCall.from_json(call.to_json()).name == "t"


@pytest.mark.slow
def test_arguments_without_end_are_read_up_to_their_bound():
    shared = ["x"]
    for _ in range(60):
        shared = [shared, shared]

    assert len(made({"a": shared}, most=10_000).arguments) == 10_000


def test_arguments_that_are_too_long_are_cut_and_mark_the_call():
    call = made("x" * 101, most=100)

    assert (call.error, len(call.arguments)) == (ARGUMENTS_TOO_LONG, 100)
    assert made("x" * 100, most=100).error is None


def test_free_text_is_the_input():
    calls = MadeCalls("p", most=3)

    assert calls.freeform("t", "abc", "c", {"type": "custom"}).arguments == {"input": "abc"}
    assert calls.freeform("t", None, "c", {}).arguments == {"input": ""}
    assert calls.freeform("t", 7, "c", {}).arguments == {"input": "7"}
    assert calls.freeform("t", {"input": "x"}, "c", {}).arguments == {"input": "x"}
    endless = calls.freeform("t", "abcd", "c", {})
    assert (endless.arguments, endless.error) == ({"input": "abc"}, ARGUMENTS_TOO_LONG)


def test_nulls_that_a_schema_takes_itself_stay():
    either = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}}
    schemas = {"t": either}.get

    assert made('{"a": null, "b": null}', schemas=schemas).arguments == {"b": None}
    assert made('{"b": null}', schemas=schemas).arguments == '{"b": null}'
    assert made('{"a": null', schemas=schemas).arguments == '{"a": null'


def test_arguments_are_shown_as_text():
    assert [shown(each) for each in ("{", {"a": 1})] == ["{", '{"a":1}']


@given(st.lists(st.tuples(json_values, json_values, json_values), max_size=5))
def test_any_values_become_calls_with_unique_ids(given_calls):
    own = MadeCalls("p")
    calls_ = [own.call(*each, {}) for each in given_calls]

    assert len({call.id for call in calls_}) == len(given_calls)
    for call in calls_:
        assert type(call).from_json(call.to_json()).name == call.name


def test_names_that_the_provider_refuses_are_mapped():
    assert wire_name("9-a_B") == "9-a_B"
    made = [wire_name(name) for name in ("", "a.b", "a/b", "x" * 65)]
    assert len(set(made)) == 4
    assert all(0 < len(name) <= 64 for name in made)


def test_a_provider_may_take_other_names():
    assert wire_name("a.b", "[a-z.]+") == "a.b"
    assert wire_name("a.b\n", "[a-z.]+") != "a.b\n"


def test_a_conversation_has_called_each_tool_once_and_none_that_its_provider_ran():
    calls = [ToolCall("a"), ToolCall("a"), ToolCall("b.c"), ToolCall("d", provider_executed=True)]

    assert called_before([Message.user("x"), Message.assistant("y", *calls)]) == ["a", wire_name("b.c")]


REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
ANY_ID = st.text(max_size=8) | st.sampled_from(["call_1", "call_1_2", "a" * 50, "a" * 40, "\ud800", ""])


@pytest.fixture
def ids():
    return SentIds(REFUSED, 64)


def test_an_id_that_it_does_not_take_is_mapped_the_same_for_call_and_result(ids):
    mapped = ids.call("fc|1")

    assert re.fullmatch(r"fc_1_[0-9a-f]{10}", mapped)
    assert ids.result("fc|1") == mapped


def test_ids_that_look_alike_once_mapped_stay_apart(ids):
    assert len({ids.call(own) for own in ("a b", "a.b", "a_b", "", "x" * 65, "x" * 66)}) == 6


def test_an_id_that_comes_again_in_a_later_turn_gets_a_number(ids):
    ids.call("call_0")
    ids.turn()

    assert ids.call("call_0") == "call_0_2"
    assert ids.result("call_0") == "call_0_2"


def test_a_result_of_no_open_call_has_no_id(ids):
    ids.call("a")
    ids.turn()

    assert ids.result("a") is None
    assert ids.result("b") is None


def test_a_number_that_another_has_is_passed_over(ids):
    assert [ids.call(own) for own in ("a", "a_2", "a", "a_2")] == ["a", "a_2", "a_3", "a_2_2"]


def test_a_number_finds_room_in_a_long_id():
    ids = SentIds(REFUSED, 8)

    assert [ids.call("a" * 8) for _ in range(3)] == ["a" * 8, "aaaaaa_2", "aaaaaa_3"]


def test_ids_that_hold_what_utf8_cant_say_are_mapped():
    ids = SentIds(SURROGATES, 40)

    assert re.fullmatch(r"a__[0-9a-f]{10}", ids.call("a\ud800"))
    assert ids.call("a|b") == "a|b"


@given(st.lists(st.text(max_size=70), max_size=30))
def test_every_call_has_an_id_of_its_own_that_the_provider_takes(own):
    ids = SentIds(REFUSED, 64)

    made = [ids.call(each) for each in own]

    assert len(set(made)) == len(own)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in made)
    assert [ids.result(each) for each in own] == made


@given(st.lists(ANY_ID, max_size=20), st.integers(30, 64))
def test_a_longer_conversation_begins_with_the_same_ids(own, most):
    ids, shorter = SentIds(SURROGATES, most), SentIds(SURROGATES, most)
    made = [ids.call(each) for each in own]

    assert len(set(made)) == len(made)
    assert all(0 < len(each) <= most for each in made)
    assert [shorter.call(each) for each in own[:3]] == made[:3]
    assert sorted((ids.result(each) for each in own), key=made.index) == made


def test_many_sent_ids_take_linear_time(ids):
    assert len({ids.call("call_0") for _ in range(20_000)}) == 20_000
