from __future__ import annotations

import json
import random

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard.tools.call import REMOVED, Actions, merged

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


def test_nothing_is_asked_for_by_default():
    assert Actions().is_empty
    assert Actions().to_json() == {}
    assert merged([]) == Actions()


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


def test_an_outcome_is_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Actions().escalate = True


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


@given(st.lists(ACTIONS, max_size=4), st.lists(ACTIONS, max_size=4))
def test_merging_in_parts_gives_the_same(first, second):
    in_parts, at_once = merged([merged(first), merged(second)]), merged([*first, *second])
    assert attrs.evolve(in_parts, conflicts=()) == attrs.evolve(at_once, conflicts=())
    assert set(in_parts.conflicts) == set(at_once.conflicts)


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
        ({"state_delta": []}, "state_delta: must be of type dict"),
        ({"state_delta": {"a": [float("nan")]}}, r"state_delta: a\[0\]: must be a finite number"),
        ({"state_removed": "a"}, "state_removed: must be of type list"),
        ({"state_removed": [1]}, "state_removed: must be a list of texts"),
        ({"artifact_delta": {"f": True}}, "artifact_delta.f: must be a version number"),
        ({"artifact_delta": {1: 1}}, r'artifact_delta\["1"\]: must be a version number'),
        ({"transfer_to": 1}, "transfer_to: must be of type str"),
        ({"escalate": 1}, "escalate: must be of type bool"),
        ({"conflicts": [None]}, "conflicts: must be a list of texts"),
    ],
)
def test_what_is_no_actions_is_refused_by_name(data, place):
    with pytest.raises(ValueError, match=place):
        Actions.from_json(data)


def test_removed_says_what_it_is():
    assert repr(REMOVED) == "REMOVED"
