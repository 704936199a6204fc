"""Calls, what they do to the session's state and ask of their host, and what a person answered."""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pegboard import REMOVED, Actions, CallFault, Confirmation, ReadonlyContext, ToolCall, ToolContext
from pegboard.tools import State, arguments_object, merge_actions, parsed_object


def actions_of(state):
    """The actions of a call, in a session with this state."""
    return ToolContext(ReadonlyContext(state=state)).actions


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


def test_provider_metadata_is_returned_unchanged():
    metadata = object()
    assert ToolCall("ping", provider_metadata=metadata).to_json()["providerMetadata"] is metadata


@pytest.mark.parametrize(
    ("arguments", "written"), [(b'{"a": "\xff"}', '{"a": "\\xff"}'), ('{"a": "\ud800"}', '{"a": "\\ud800"}')]
)
def test_arguments_that_utf_8_cannot_encode_are_escaped_and_stay_invalid(arguments, written):
    """Replaced by U+FFFD they would become valid JSON, which they were not."""
    assert ToolCall("ping", arguments).to_json()["arguments"] == written


def test_names_that_utf_8_cannot_encode_can_be_written():
    data = ToolCall("p\ud800", id="\udfff", error=CallFault("unknown_tool", "\ud800?")).to_json()
    assert json.dumps(data, ensure_ascii=False).encode()
    assert (data["name"], data["id"]) == ("p\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "call: must be an object, got list"),
        ({}, "name: missing"),
        ({"name": 3}, "name: must be a string, got int"),
        ({"name": "x", "id": 3}, "id: must be a string, got int"),
        ({"name": "x", "arguments": []}, "arguments: must be a string or an object, got list"),
        ({"name": "x", "title": 3}, "title: must be a string, got int"),
        ({"name": "x", "dynamic": 1}, "dynamic: must be a boolean, got int"),
        ({"name": "x", "providerExecuted": "yes"}, "providerExecuted: must be a boolean, got str"),
        ({"name": "x", "error": "bad"}, "error: must be an object, got str"),
        ({"name": "x", "error": {}}, "error.kind: missing"),
        ({"name": "x", "error": {"kind": "odd", "text": ""}}, "error.kind: must be one of unknown_tool, not_offered, "),
        ({"name": "x", "error": {"kind": "limit", "text": 1}}, "error.text: must be a string, got int"),
        (
            {"name": "x", "error": {"kind": "limit", "text": "", "problems": [1]}},
            "error.problems\\[0\\]: must be a string, got int",
        ),
    ],
)
def test_wrong_calls_are_refused_by_key(data, why):
    with pytest.raises(ValueError, match="^" + why):
        ToolCall.from_json(data)


def test_other_keys_are_ignored():
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
def test_any_request_makes_actions_non_empty(facts):
    assert not Actions(**facts).is_empty


def test_the_last_calls_change_wins_and_conflicts_are_named():
    first = Actions({"a": 1, "b": 1}, {"f": 2}, "writer", escalate=True)
    second = Actions({"b": REMOVED, "c": 3}, {"f": 1, "g": 1}, None, skip_summarization=True)
    assert merge_actions([first, second]) == Actions(
        {"a": 1, "b": REMOVED, "c": 3},
        {"f": 2, "g": 1},
        "writer",
        escalate=True,
        skip_summarization=True,
        conflicts=("b",),
    )
    assert merge_actions([second, first]).state_delta["b"] == 1


def test_changes_of_dicts_are_merged_key_by_key():
    """What a call left as it was is no change; what both changed is named by its path, and the last call's stands."""
    base = {"plan": {"owner": "ann", "steps": {"a": 1, "b": 1}, "old": 1}, "tags": ["x"]}
    first = Actions({"plan": {"owner": "ann", "steps": {"a": 2, "b": 1}, "new": 1}, "tags": ["x", "y"]})
    second = Actions({"plan": {"owner": "bob", "steps": {"a": 3, "b": 2}, "old": 1}, "tags": ["x"]})
    together = merge_actions([first, second], base)
    plan = {"owner": "bob", "steps": {"a": 3, "b": 2}, "new": 1}
    assert together.state_delta == {"plan": plan, "tags": ["x", "y"]}
    assert together.conflicts == ("plan.steps.a",)
    removes = Actions({"plan": REMOVED})
    assert merge_actions([first, removes], base).state_delta["plan"] is REMOVED
    assert merge_actions([first, removes], base).conflicts == ("plan",)


def test_without_a_base_different_values_are_a_conflict():
    first, second = Actions({"plan": {"a": 1, "b": 1}}), Actions({"plan": {"a": 2, "c": 1}})
    assert merge_actions([first, second]).state_delta == {"plan": {"a": 2, "b": 1, "c": 1}}
    assert merge_actions([first, second]).conflicts == ("plan.a",)


NESTED = st.recursive(st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))


@given(st.dictionaries(st.sampled_from("xy"), NESTED), st.dictionaries(st.sampled_from("xy"), NESTED))
def test_a_call_that_changed_nothing_makes_no_conflict(base, changed):
    """Whichever came first."""
    idle, busy = Actions(base), Actions({**dict.fromkeys(base, REMOVED), **changed})
    for calls in ([idle, busy], [busy, idle]):
        state = dict(base)
        together = merge_actions(calls, base)
        together.apply_to(state)
        assert (state, together.conflicts) == (changed, ())


def test_temporary_keys_are_in_neither_delta_nor_json():
    pending = actions_of({"temp:old": 1})
    pending.state["temp:new"] = 1
    del pending.state["temp:old"]
    pending.state["kept"] = 2
    actions = pending.actions
    assert (actions.state_delta, actions.temporary) == ({"kept": 2}, {"temp:new": 1, "temp:old": REMOVED})
    assert merge_actions([actions, Actions(temporary={"temp:new": 3})]).temporary == {
        "temp:new": 3,
        "temp:old": REMOVED,
    }
    assert Actions.from_json({**actions.to_json(), "temporary": {"temp:forged": 1}}).temporary == {}


def test_the_last_calls_transfer_wins():
    assert merge_actions([Actions(transfer_to="a"), Actions(transfer_to="b"), Actions()]).transfer_to == "b"


@given(st.lists(ACTIONS, max_size=4), st.dictionaries(KEYS, st.integers()))
def test_a_merged_delta_equals_the_calls_deltas_one_by_one(calls, state):
    at_once, one_by_one = dict(state), dict(state)
    merge_actions(calls).apply_to(at_once)
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
        ({"stateDelta": []}, "stateDelta: must be an object, got list"),
        ({"stateDelta": {"a": [float("nan")]}}, r"stateDelta: a\[0\]: must be a finite number"),
        ({"stateRemoved": "a"}, "stateRemoved: must be an array, got str"),
        ({"stateRemoved": [1]}, r"stateRemoved\[0\]: must be a string, got int"),
        ({"artifactDelta": {"f": True}}, "artifactDelta.f: must be a version number"),
        ({"artifactDelta": {1: 1}}, r'artifactDelta\["1"\]: must be a version number'),
        ({"transferTo": 1}, "transferTo: must be a string, got int"),
        ({"escalate": 1}, "escalate: must be a boolean, got int"),
        ({"conflicts": [None]}, r"conflicts\[0\]: must be a string, got NoneType"),
    ],
)
def test_wrong_actions_are_refused_by_key(data, place):
    with pytest.raises(ValueError, match=place):
        Actions.from_json(data)


def test_an_answer_counts_for_its_own_question_only():
    answer = Confirmation("Overwrite a?", confirmed=True)
    assert answer.to_question("Overwrite a?") is answer
    assert answer.to_question("Overwrite b?") is None
    assert answer.to_permission("edit", ["a"]) is None


def test_an_answer_to_a_permission_counts_for_its_patterns():
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
    assert len(answer.earlier) == 32
    assert answer.earlier[0].hint == "0"


def test_a_confirmation_is_written_without_empty_attributes():
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


KEYS = st.sampled_from(["a", "b", "user:c", "temp:d"])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=6,
)


class StateAgreesWithACopy(RuleBasedStateMachine):
    """Whatever is done, the state reads as a deep copy would, and the session's own stays as it was."""

    @initialize(base=st.dictionaries(KEYS, JSON, max_size=4))
    def start(self, base):
        self.base, self.before = base, copy.deepcopy(base)
        self.plain, self.state = copy.deepcopy(base), State(base)

    @rule(key=KEYS, value=JSON)
    def write(self, key, value):
        self.plain[key], self.state[key] = copy.deepcopy(value), copy.deepcopy(value)

    @rule(key=KEYS)
    def delete(self, key):
        if key in self.plain:
            del self.plain[key], self.state[key]
        else:
            with pytest.raises(KeyError):
                del self.state[key]

    @rule(key=KEYS, value=JSON)
    def change_in_place(self, key, value):
        for each in (self.plain, self.state):
            found = each.get(key)
            if isinstance(found, list):
                found.append(value)
            elif isinstance(found, dict):
                found["k"] = value

    @rule(key=KEYS, value=JSON)
    def change_deep_inside(self, key, value):
        for each in (self.plain, self.state):
            found = each.get(key)
            if isinstance(found, list) and found and isinstance(found[0], list):
                found[0].insert(0, value)

    @rule(key=KEYS, value=JSON)
    def ask_for_a_default(self, key, value):
        assert self.plain.setdefault(key, copy.deepcopy(value)) == self.state.setdefault(key, copy.deepcopy(value))

    @rule(key=KEYS)
    def pop(self, key):
        assert self.plain.pop(key, None) == self.state.pop(key, None)

    @rule()
    def clear(self):
        self.plain.clear()
        self.state.clear()

    @invariant()
    def reads_the_same(self):
        assert self.state == self.plain
        assert len(self.state) == len(self.plain)
        assert set(self.state) == set(self.plain)
        assert all((key in self.state) == (key in self.plain) for key in ("a", "b", "user:c", "temp:d"))

    @invariant()
    def the_base_stays(self):
        assert self.base == self.before

    @invariant()
    def the_delta_makes_the_same_of_the_base(self):
        again = copy.deepcopy(self.before)
        Actions(self.state.delta).apply_to(again)
        lasting = {key: value for key, value in self.plain.items() if not key.startswith("temp:")}
        assert {key: value for key, value in again.items() if not key.startswith("temp:")} == lasting
        assert not self.state.faults


StateAgreesWithACopy.TestCase.settings = settings(stateful_step_count=15)
test_the_state_agrees_with_a_copy = StateAgreesWithACopy.TestCase


def test_a_key_that_was_set_is_in_the_delta_even_with_the_same_value():
    """So that of parallel calls the last one's word stands."""
    state = State({"a": 1})
    state["a"] = 1
    assert state.delta == {"a": 1}


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, 0)])
def test_values_that_json_distinguishes_are_a_change(before, after):
    state = State({"a": [before], "b": {"c": before}})
    state["a"][0] = after
    state["b"]["c"] = after
    assert state.delta == {"a": [after], "b": {"c": after}}


def test_changes_by_the_host_are_not_in_the_delta():
    base = {"a": [1]}
    state = State(base)
    assert state["a"] == [1]
    base["a"].append(2)
    assert state.delta == {}


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("cart", {"items": [1, dt.date(2026, 1, 2)]}, r"state.cart.items\[1\]: must be JSON .* got a Python date"),
        ("user:x", float("nan"), r'state\["user:x"\]: must be a finite number'),
        ("a", {1: 2}, "state.a: keys must be strings"),
        (1, 2, "state: keys must be strings, got one of type int"),
        ("\ud800", 2, "state: keys must not hold lone surrogates"),
    ],
)
def test_values_that_are_not_json_are_refused_on_assignment(key, value, place):
    state = State({})
    with pytest.raises(ValueError, match=place):
        state[key] = value
    assert state.delta == {}


def test_values_that_become_invalid_in_place_are_faults():
    state = State({"a": [1], "b": [2]})
    state["a"].append(object())
    state["b"].append(3)
    state["c"] = [4]
    state["c"].append({5})
    assert state.delta == {"b": [2, 3]}
    assert [fault.split(" (")[0] for fault in state.faults] == [
        "state.a[1]: must be JSON",
        "state.c[1]: must be JSON",
    ]


def test_objects_of_the_host_are_returned_unchanged():
    thing = object()
    state = State({"thing": thing, "in": [thing], "pair": (thing, [1]), "set": {1}})
    assert state["thing"] is thing
    assert state["in"][0] is thing
    assert state["pair"] == (thing, [1])
    assert state["pair"][1] is not State({"pair": (thing, [1])})["pair"][1]
    assert state["set"] == {1}
    assert (state.delta, state.faults) == ({}, ())
    state["set"].add(2)
    assert "set" in state.faults[0]


def test_a_nested_call_sees_the_outer_calls_changes():
    outer = State({"a": [1]})
    outer["a"].append(2)
    inner = State(outer)
    inner["a"].append(3)
    assert (outer["a"], inner.delta) == ([1, 2], {"a": [1, 2, 3]})


def test_actions_of_a_nested_call_are_added():
    pending = actions_of({"a": 1, "b": 1})
    pending.saved("f", 3)
    pending.transfer_to = "planner"
    pending.add(
        Actions(
            {"a": REMOVED, "c": [2], "never": REMOVED},
            {"f": 2, "g": 1},
            "writer",
            escalate=True,
            skip_summarization=True,
        )
    )
    pending.add(Actions())
    assert pending.actions == Actions(
        {"a": REMOVED, "c": [2]}, {"f": 3, "g": 1}, "writer", escalate=True, skip_summarization=True
    )


def test_the_delta_is_changed_in_the_state_only():
    pending = actions_of({})
    with pytest.raises(TypeError, match="does not support item assignment"):
        pending.state_delta["a"] = 1
    pending.state["a"] = 1
    assert pending.state_delta == {"a": 1}


@pytest.mark.parametrize(
    ("name", "value"), [("transfer_to", 1), ("escalate", "yes"), ("skip_summarization", None), ("title", 1)]
)
def test_actions_of_the_wrong_type_are_refused(name, value):
    with pytest.raises(TypeError, match=name):
        setattr(actions_of({}), name, value)


def test_later_facts_win_and_a_heading_stays_until_there_is_another():
    pending = actions_of({})
    pending.show("first", {"a": 1, "b": 1})
    pending.show(None, {"b": 2})
    assert (pending.title, pending.facts) == ("first", {"a": 1, "b": 2})
    pending.show("second", {})
    assert pending.title == "second"


def test_states_have_a_readable_repr():
    assert repr(State({"a": 1})) == "State({'a': 1})"
    assert repr(REMOVED) == "REMOVED"


class Odd(Mapping):
    """Breaks whenever it is looked at."""

    def __getitem__(self, key):
        raise ValueError

    def __iter__(self):
        return iter(("a",))

    def __len__(self):
        return 1

    def __repr__(self):
        raise RuntimeError


CYCLIC: dict[str, object] = {}
CYCLIC["a"] = CYCLIC
NO_JSON = {"INVALID_JSON": "arguments that aren't JSON"}

CASES = {
    "an object": ({"a": 1}, {"a": 1}),
    "its text": ('{"a": [1]}', {"a": [1]}),
    "its bytes": (b'{"a": 1}', {"a": 1}),
    "blank": (" \n", {}),
    "encoded twice": (' "{\\"a\\": 1}"', {"a": 1}),
    "encoded twice, but no object": ('"[1]"', {"INVALID_JSON": '"[1]"'}),
    "an empty string": ('""', {"INVALID_JSON": '""'}),
    "half a string": ('"{\\"a', {"INVALID_JSON": '"{\\"a'}),
    "no JSON": ('{"a": ', {"INVALID_JSON": '{"a": '}),
    "each key once": ('{"a": 1, "a": 2}', {"INVALID_JSON": '{"a": 1, "a": 2}'}),
    "no object": ("[1]", {"INVALID_JSON": "[1]"}),
    "no number of JSON": ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
    "no Unicode": ("\ud83d", {"INVALID_JSON": "\ufffd"}),
    "too deep": ("[" * 100_000, {"INVALID_JSON": "[" * 2_000 + " … (100,000 characters)"}),
    "an object that is no JSON": ({"a": object()}, NO_JSON),
    "a mapping that holds itself": (CYCLIC, NO_JSON),
    "a mapping that breaks": (Odd(), NO_JSON),
}


@pytest.mark.parametrize("what", CASES)
def test_arguments_are_an_object_whatever_they_were(what):
    arguments, wanted = CASES[what]

    assert arguments_object(ToolCall("t", arguments)) == wanted


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a":1,"a":2}', '{"a":NaN}', "[" * 100_000, '{"a":"\ud800"}'])
def test_other_texts_than_objects_are_none(text):
    assert parsed_object(text) is None
