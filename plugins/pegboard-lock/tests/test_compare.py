from __future__ import annotations

import json
import time
from random import Random

import pytest
from hypothesis import given, strategies as st

from pegboard.schema import validator_of
from pegboard_lock import compare_arguments
from schema_pairs import (
    CROSSED,
    NARROWER,
    TEXT,
    WHOLE,
    one,
    properties,
    random_object,
    random_value,
    with_changes,
)


def _takes(schema, text):
    return validator_of(json.dumps(schema)).accepts(json.loads(text))


def test_there_are_sixty_pairs():
    assert len(NARROWER) + len(CROSSED) == 60


@pytest.mark.parametrize("name", NARROWER)
def test_a_schema_that_takes_less_is_narrowed_and_read_the_other_way_widened(name):
    wide, narrow = NARROWER[name]
    narrowed, widened = compare_arguments(wide, narrow), compare_arguments(narrow, wide)
    assert (narrowed.kind, widened.kind) == ("narrowed", "widened")
    assert narrowed.only_new is widened.only_old is None
    for value in (narrowed.only_old, widened.only_new):
        assert _takes(wide, value)
        assert not _takes(narrow, value)


@pytest.mark.parametrize("name", CROSSED)
def test_schemas_that_each_take_something_else_are_incompatible_both_ways(name):
    one_way, other_way = CROSSED[name]
    for old, new in ((one_way, other_way), (other_way, one_way)):
        change = compare_arguments(old, new)
        assert change.kind == "incompatible"
        assert _takes(old, change.only_old)
        assert not _takes(new, change.only_old)
        assert _takes(new, change.only_new)
        assert not _takes(old, change.only_new)


def test_notes_are_no_change():
    old = properties(a={**TEXT, "description": "old", "default": "x"}, description=TEXT)
    new = properties(a={**TEXT, "description": "new", "examples": ["y"]}, description=TEXT)
    assert compare_arguments(old, {**new, "title": "T"}) is None


def test_a_change_that_no_value_shows_is_incompatible_and_says_what_the_keywords_say():
    change = compare_arguments(one({**TEXT, "format": "date"}), one({**TEXT, "format": "uuid"}))
    assert change.kind == "incompatible"
    assert str(change) == "by its keywords it is wider and narrower, as no value shows"
    stricter = compare_arguments(one(TEXT), one({**TEXT, "format": "uuid"}))
    assert (stricter.kind, str(stricter)) == ("incompatible", "by its keywords it is narrower, as no value shows")


def test_a_part_that_takes_less_hides_no_other_that_may_take_more():
    """The pattern takes a text more, which no sample is; alone the maximum would be a narrowing."""
    old = properties(("a", "n"), a={**TEXT, "pattern": "^[a-z]+$"}, n={**WHOLE, "maximum": 9})
    new = properties(("a", "n"), a={**TEXT, "pattern": "^([a-z]+|[0-9]{7}!)$"}, n={**WHOLE, "maximum": 5})
    assert compare_arguments(old, new).kind == "incompatible"
    assert compare_arguments(one(old), one(new)).kind == "incompatible"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            one({**TEXT, "pattern": "^b"}),
            one({**TEXT, "pattern": "^[0-9]{7}!$"}),
            id="no value is found that the new one takes",
        ),
        pytest.param(
            properties(("a", "n"), a={**TEXT, "pattern": "^[0-9]{7}!$"}, n=WHOLE),
            properties(("n",), a={**TEXT, "pattern": "^[0-9]{7}!$"}, n={**WHOLE, "maximum": 5}),
            id="one that was required isn't, and no value is found with it",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {**TEXT, "minLength": 2}, "n": WHOLE}, "required": ["n"]},
            {"type": "object", "properties": {"n": {**WHOLE, "maximum": 5}}, "required": ["n"]},
            id="one is no longer checked, and another is more",
        ),
        pytest.param(
            one({"anyOf": [{**TEXT, "pattern": "^[a-z]+$"}, WHOLE]}),
            one({"anyOf": [{**TEXT, "pattern": "^([a-z]+|[0-9]{7}!)$"}, {**WHOLE, "maximum": 5}]}),
            id="of two alternatives one takes more",
        ),
    ],
)
def test_what_may_take_more_is_never_narrowed(old, new):
    assert compare_arguments(old, new).kind == "incompatible"


def test_what_stands_in_a_pattern_is_tried():
    old, new = ({**TEXT, "pattern": each} for each in ("^[b-z]+$", "^([c-z]+|rm -rf /)$"))
    change = compare_arguments(one(old), one(new))
    assert "rm -rf /" in change.only_new


def test_a_schema_that_cant_be_used_is_incompatible():
    for bad in ({"type": "objekt"}, {"$ref": "#/nowhere"}, {"properties": {"a": 1}}):
        change = compare_arguments(one(TEXT), bad)
        assert change.kind == "incompatible"


def test_the_search_ends_at_its_deadline():
    change = compare_arguments(one(TEXT), one({**TEXT, "pattern": "^never$"}), deadline=time.monotonic() - 1)
    assert change.kind == "incompatible"


def test_large_schemas_are_compared_in_bounded_time():
    many = {f"p{n}": {**WHOLE, "maximum": n} for n in range(300)}
    started = time.process_time()
    change = compare_arguments(properties(**many), properties(**{**many, "p299": {**WHOLE, "maximum": 3}}))
    assert change.kind in ("narrowed", "incompatible")
    assert time.process_time() - started < 5


_LEAVES = st.one_of(
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 4)),
    st.builds(lambda members: {"enum": sorted(members)}, st.sets(st.integers(0, 4), min_size=1)),
)


@given(_LEAVES, _LEAVES)
def test_two_ways_to_read_a_pair_mirror_each_other(left, right):
    forth, back = compare_arguments(one(left), one(right)), compare_arguments(one(right), one(left))
    if forth is None:
        assert back is None
        return
    mirror = {"widened": "narrowed", "narrowed": "widened", "incompatible": "incompatible"}
    assert back.kind == mirror[forth.kind]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))])
def test_no_random_pair_is_narrowed_if_a_value_is_only_in_the_new_one(seed):
    """By the same numbers each time; what `compare_arguments` tries isn't known here."""
    random = Random(seed)
    for _ in range(20):
        old = random_object(random)
        new = with_changes(random, old)
        takes_old, takes_new = (validator_of(json.dumps(each)).accepts for each in (old, new))
        values = [random_value(random, (*old["properties"], *new["properties"])) for _ in range(4_000)]
        only_old = [value for value in values if takes_old(value) and not takes_new(value)]
        only_new = [value for value in values if takes_new(value) and not takes_old(value)]
        change = compare_arguments(old, new)
        kind = "same" if change is None else change.kind
        assert not (kind == "same" and (only_old or only_new)), (old, new)
        assert not (kind == "narrowed" and only_new), (old, new, only_new[0])
        assert not (kind == "widened" and change.only_old), (old, new)


@given(st.sets(st.integers(0, 20), min_size=1), st.sets(st.integers(0, 20), min_size=1))
def test_enums_are_compared_as_sets(old, new):
    change = compare_arguments(*(one({"enum": sorted(each)}) for each in (old, new)))
    if old == new:
        assert change is None
    elif new < old:
        assert change.kind == "narrowed"
    elif old < new:
        assert change.kind == "widened"
    else:
        assert change.kind == "incompatible"
