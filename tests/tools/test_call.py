"""What a person answered, and to what."""

from __future__ import annotations

import json
import random

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard.tools.call import MOST_EARLIER, REMOVED, Actions, CallFault, Confirmation, ToolCall, merged

json_objects = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5))

faults = st.builds(
    CallFault,
    st.sampled_from(["unknown_tool", "invalid_arguments", "cut_off"]),
    st.text(max_size=20),
    st.lists(st.text(max_size=10), max_size=3).map(tuple),
)

calls = st.builds(
    ToolCall,
    st.text(max_size=10),
    st.text(max_size=20) | json_objects,
    st.text(max_size=10),
    title=st.none() | st.text(max_size=10),
    dynamic=st.booleans(),
    error=st.none() | faults,
    provider_executed=st.booleans(),
    provider_metadata=st.none() | json_objects,
)


def test_a_call_needs_only_its_name():
    assert ToolCall("ping") == ToolCall("ping", {}, "")
    assert ToolCall("ping").arguments is not ToolCall("ping").arguments


def test_a_call_is_invalid_where_it_has_an_error():
    assert not ToolCall("ping").invalid
    assert ToolCall("ping", error=CallFault("unknown_tool", "No such tool.")).invalid


def test_all_that_is_set_is_written():
    call = ToolCall(
        "ping",
        '{"a": 1}',
        "1",
        title="Ping",
        dynamic=True,
        error=CallFault("invalid_arguments", "Wrong.", ("a: wrong",)),
        provider_executed=True,
        provider_metadata={"signature": "x"},
    )
    assert call.to_json() == {
        "id": "1",
        "name": "ping",
        "arguments": '{"a": 1}',
        "title": "Ping",
        "dynamic": True,
        "error": {"kind": "invalid_arguments", "text": "Wrong.", "problems": ["a: wrong"]},
        "providerExecuted": True,
        "providerMetadata": {"signature": "x"},
    }


@given(calls)
def test_a_call_survives_the_wire(call):
    assert ToolCall.from_json(json.loads(json.dumps(call.to_json()))) == call


def test_the_providers_metadata_is_given_back_as_it_came():
    metadata = object()
    assert ToolCall("ping", provider_metadata=metadata).to_json()["providerMetadata"] is metadata


@pytest.mark.parametrize(
    ("arguments", "written"), [(b'{"a": "\xff"}', '{"a": "\\xff"}'), ('{"a": "\ud800"}', '{"a": "\\ud800"}')]
)
def test_arguments_that_are_no_unicode_are_escaped_and_stay_refused(arguments, written):
    """Replaced by U+FFFD they would become valid JSON, which they were not."""
    assert ToolCall("ping", arguments).to_json()["arguments"] == written


def test_names_that_are_no_unicode_can_be_written():
    data = ToolCall("p\ud800", id="\udfff", error=CallFault("unknown_tool", "\ud800?")).to_json()
    assert json.dumps(data, ensure_ascii=False).encode()
    assert (data["name"], data["id"]) == ("p\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "call: must be an object, got list"),
        ({}, "name: missing"),
        ({"name": 3}, "name: must be a text, got int"),
        ({"name": "x", "id": 3}, "id: must be a text, got int"),
        ({"name": "x", "arguments": []}, "arguments: must be a text or an object, got list"),
        ({"name": "x", "title": 3}, "title: must be a text, got int"),
        ({"name": "x", "dynamic": 1}, "dynamic: must be a boolean, got int"),
        ({"name": "x", "providerExecuted": "yes"}, "providerExecuted: must be a boolean, got str"),
        ({"name": "x", "error": "bad"}, "error: must be an object, got str"),
        ({"name": "x", "error": {}}, "error.kind: missing"),
        ({"name": "x", "error": {"kind": "odd", "text": ""}}, "error.kind: must be one of unknown_tool, not_offered, "),
        ({"name": "x", "error": {"kind": "limit", "text": 1}}, "error.text: must be a text, got int"),
        (
            {"name": "x", "error": {"kind": "limit", "text": "", "problems": [1]}},
            "error.problems\\[0\\]: must be a text, got int",
        ),
    ],
)
def test_what_is_no_call_is_refused_by_its_key(data, why):
    with pytest.raises(ValueError, match="^" + why):
        ToolCall.from_json(data)


def test_other_keys_are_passed_over():
    assert ToolCall.from_json({"name": "x", "later": 1}) == ToolCall("x")


KEYS = st.sampled_from(["a", "b", "user:c", "app:d"])
VALUES = st.one_of(st.just(REMOVED), st.none(), st.booleans(), st.integers(), st.lists(st.text(max_size=3), max_size=2))

ACTIONS = st.builds(
    Actions,
    state_delta=st.dictionaries(KEYS, VALUES, max_size=3),
    artifact_delta=st.dictionaries(st.sampled_from(["x.txt", "user:y"]), st.integers(1, 9)),
    transfer_to=st.sampled_from([None, "writer", "planner"]),
    escalate=st.booleans(),
    skip_summarization=st.booleans(),
)


@pytest.mark.parametrize(
    "facts",
    [
        {"state_delta": {"a": REMOVED}},
        {"artifact_delta": {"a": 1}},
        {"transfer_to": ""},
        {"escalate": True},
        {"skip_summarization": True},
    ],
)
def test_anything_that_is_asked_for_counts(facts):
    assert not Actions(**facts).is_empty


def test_the_last_calls_change_stands_and_conflicts_are_named():
    first = Actions({"a": 1, "b": 1}, {"f": 2}, "writer", escalate=True)
    second = Actions({"b": REMOVED, "c": 3}, {"f": 1, "g": 1}, None, skip_summarization=True)
    assert merged([first, second]) == Actions(
        {"a": 1, "b": REMOVED, "c": 3},
        {"f": 2, "g": 1},
        "writer",
        escalate=True,
        skip_summarization=True,
        conflicts=("b",),
    )
    assert merged([second, first]).state_delta["b"] == 1


def test_of_two_agents_to_go_on_the_last_calls_stands():
    assert merged([Actions(transfer_to="a"), Actions(transfer_to="b"), Actions()]).transfer_to == "b"


@given(st.lists(ACTIONS, max_size=5), st.randoms())
def test_merging_does_not_depend_on_who_ended_first(calls, chance: random.Random):
    """Each call puts its actions in its own place; in which order they get there changes nothing."""
    ending = list(range(len(calls)))
    chance.shuffle(ending)
    places = {}
    for index in ending:
        places[index] = calls[index]
    together = merged(places[index] for index in sorted(places))
    assert together == merged(calls)
    assert json.dumps(together.to_json()) == json.dumps(merged(calls).to_json())


@given(st.lists(ACTIONS, max_size=4), st.dictionaries(KEYS, st.integers()))
def test_a_merged_delta_does_to_a_state_what_the_calls_would_one_by_one(calls, state):
    at_once, one_by_one = dict(state), dict(state)
    merged(calls).apply_to(at_once)
    for call in calls:
        call.apply_to(one_by_one)
    assert at_once == one_by_one


@given(ACTIONS)
def test_actions_survive_json(actions):
    actions = attrs.evolve(actions, conflicts=("a", "b"))
    assert Actions.from_json(json.loads(json.dumps(actions.to_json()))) == actions


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"state_delta": []}, "state_delta: must be an object, got list"),
        ({"state_delta": {"a": [float("nan")]}}, r"state_delta: a\[0\]: must be a finite number"),
        ({"state_removed": "a"}, "state_removed: must be an array, got str"),
        ({"state_removed": [1]}, r"state_removed\[0\]: must be a text, got int"),
        ({"artifact_delta": {"f": True}}, "artifact_delta.f: must be a version number"),
        ({"artifact_delta": {1: 1}}, r'artifact_delta\["1"\]: must be a version number'),
        ({"transfer_to": 1}, "transfer_to: must be a text, got int"),
        ({"escalate": 1}, "escalate: must be a boolean, got int"),
        ({"conflicts": [None]}, r"conflicts\[0\]: must be a text, got NoneType"),
    ],
)
def test_what_is_no_actions_is_refused_by_name(data, place):
    with pytest.raises(ValueError, match=place):
        Actions.from_json(data)


def test_an_answer_counts_for_its_own_question_only():
    answer = Confirmation("Overwrite a?", confirmed=True)
    assert answer.to_question("Overwrite a?") is answer
    assert answer.to_question("Overwrite b?") is None
    assert answer.to_permission("edit", ["a"]) is None


def test_an_answer_to_a_permission_counts_for_what_it_named():
    """All of the patterns, or fewer; never for a question."""
    answer = Confirmation(confirmed=True, permission="edit", patterns=["a", "b"])
    assert answer.to_permission("edit", ["b"]) is answer
    assert answer.to_permission("edit", ["b", "c"]) is None
    assert answer.to_permission("bash", ["b"]) is None
    assert answer.to_question("") is None


def test_earlier_answers_count_too():
    """The latest to the same question first."""
    first, second = Confirmation("1", confirmed=True), Confirmation("2", confirmed=False)
    again = Confirmation("1", confirmed=False).after(second.after([first]).history())
    assert again.to_question("2") == second
    assert again.to_question("1").confirmed is False
    assert [one.hint for one in again.history()] == ["1", "2", "1"]
    assert all(one.earlier == () for one in again.history())


def test_history_is_bounded():
    answer = Confirmation("x").after([Confirmation(str(number)) for number in range(100)])
    assert len(answer.earlier) == MOST_EARLIER
    assert answer.earlier[0].hint == "0"


def test_json_says_what_there_is():
    assert Confirmation("h").to_json() == {"hint": "h", "confirmed": False}
    full = Confirmation("h", confirmed=True, payload={"n": 1}, feedback="do it", permission="edit", patterns=("a",))
    assert full.to_json() == {
        "hint": "h",
        "confirmed": True,
        "payload": {"n": 1},
        "feedback": "do it",
        "permission": "edit",
        "patterns": ["a"],
    }


def test_removed_says_what_it_is():
    assert repr(REMOVED) == "REMOVED"
