from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import PredicateError
from pegboard.toolsets.predicates import named, predicate_from_json, read_only, state, tagged
from toolsets.predicate_strategies import CUSTOM, predicates


@given(predicates)
def test_json_reads_back_to_an_equal_predicate(predicate):
    text = json.dumps(predicate.to_json())
    assert predicate_from_json(json.loads(text), CUSTOM) == predicate


def test_its_form():
    predicate = read_only & ~tagged("net") | state("a", "b")
    assert predicate.to_json() == {
        "or": [{"and": [{"is": "read_only"}, {"not": {"tag": "net"}}]}, {"state": {"key": "a", "pattern": "b"}}]
    }


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, r"^\$: expected an object"),
        ([], r"^\$: expected an object"),
        ({}, r"^\$: expected an object"),
        ({"is": "edit", "name": "a"}, r"^\$: expected an object"),
        ({"nam": "a"}, r"^\$: unknown key 'nam'. Did you mean 'name'"),
        ({1: "a"}, r"^\$: unknown key '1'"),
        ({"and": []}, r"^\$.and: expected a list"),
        ({"or": {}}, r"^\$.or: expected a list"),
        ({"and": [{"is": "edit"}, {"not": {"is": "edits"}}]}, r"^\$.and\[1\].not.is: there is no flag 'edits'"),
        ({"name": 1}, r"^\$.name: expected a string, found int"),
        ({"kind": "tool"}, r"^\$.kind: there is no kind"),
        ({"state": "a"}, r"^\$.state: expected"),
        ({"state": {"key": "a"}}, r"^\$.state: expected"),
        ({"state": {"key": "a", "pattern": None}}, r"^\$.state: expected a string"),
        ({"custom": "long_nam"}, r"^\$.custom: no predicate is registered as 'long_nam'. Did you mean 'long_name'"),
    ],
)
def test_what_it_refuses_it_names_with_its_place(data, reason):
    with pytest.raises(PredicateError, match=reason):
        predicate_from_json(data, CUSTOM)


def test_a_list_of_one_is_its_member():
    assert predicate_from_json({"and": [{"name": "a"}]}) == named("a")


def nested(levels):
    data = {"is": "edit"}
    for _ in range(levels - 1):
        data = {"not": data}
    return data


def test_depth_is_bounded():
    assert str(predicate_from_json(nested(64))) == "not edit"
    for levels in (65, 50_000):
        with pytest.raises(PredicateError, match="64 levels"):
            predicate_from_json(nested(levels))


def test_parts_are_bounded():
    with pytest.raises(PredicateError, match="10,000 parts"):
        predicate_from_json({"or": [{"is": "edit"}] * 10_001})


def test_characters_are_bounded():
    with pytest.raises(PredicateError, match="65,536"):
        predicate_from_json({"or": [{"name": "x" * 40_000}] * 2})


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(("edit", "a*"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("and", "or", "not", "is", "name", "state", "custom", "x")), inner, max_size=2),
    ),
    max_leaves=6,
)


@given(json_values)
def test_anything_is_read_or_refused(data):
    try:
        predicate = predicate_from_json(data, CUSTOM)
    except PredicateError:
        return
    assert predicate_from_json(predicate.to_json(), CUSTOM) == predicate
