from __future__ import annotations

import math
import os

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.claims import ALONE, Claims, claims_of
from pegboard.tools.origin import Policy
from pegboard.tools.spec import EXCLUSIVE, Concurrency, ToolSpec
from pegboard.tools.tool import Tool

BY_PATH = Concurrency("key", ("path",))


def probe(concurrency=None, *, name="probe", most=None, kinds=None):
    facts = {} if concurrency is None else {"concurrency": concurrency}
    return Tool(ToolSpec(name, permission_arguments=kinds or {}, **facts), policy=Policy(max_concurrency=most))


def key_of(arguments, concurrency=BY_PATH, **facts):
    return claims_of(probe(concurrency, **facts), arguments).key


def test_a_shared_call_claims_nothing():
    assert claims_of(probe(), {"path": "a"}) is None


def test_an_exclusive_call_claims_everything():
    assert claims_of(probe(EXCLUSIVE), {"path": "a"}) is ALONE


def test_a_key_is_made_of_the_named_arguments():
    assert key_of({"path": "a", "text": "x"}) == key_of({"text": "y", "path": "a"})
    assert key_of({"path": "a"}) != key_of({"path": "b"})


def test_readers_and_writers_of_a_key_are_told_apart():
    reading = claims_of(probe(Concurrency("key", ("path",), "read")), {"path": "a"})
    writing = claims_of(probe(BY_PATH), {"path": "a"})
    assert (reading.key, reading.writes, writing.writes) == (writing.key, False, True)


def test_tools_share_a_key_whose_arguments_have_the_same_names():
    assert key_of({"path": "a"}, name="read") == key_of({"path": "a"}, name="write")
    assert key_of({"path": "a"}) != key_of({"user": "a"}, Concurrency("key", ("user",)))


def test_the_order_of_the_names_does_not_matter():
    arguments = {"a": 1, "b": 2}
    assert key_of(arguments, Concurrency("key", ("a", "b"))) == key_of(arguments, Concurrency("key", ("b", "a")))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/./b", "a//b"),
        ("a/../b", "b"),
        ("./a", "a"),
        (1, 1.0),
        ({"x": 1, "y": [2.0]}, {"y": [2], "x": 1.0}),
    ],
)
def test_what_is_the_same_value_or_the_same_place_is_one_key(one, other):
    assert key_of({"path": one}) == key_of({"path": other})


@pytest.mark.parametrize(("one", "other"), [("a", "/a"), ("1", 1), ("null", None), (True, 1)])
def test_other_values_are_other_keys(one, other):
    assert key_of({"path": one}) != key_of({"path": other})


def test_an_argument_that_is_missing_counts_as_null():
    assert key_of({}) == key_of({"path": None}) != key_of({"path": ""})


def test_where_the_tool_says_what_is_a_path_it_starts_from_the_work_folder():
    by_file = probe(BY_PATH, kinds={"path": "path"})
    assert claims_of(by_file, {"path": "a"}, "/work") == claims_of(by_file, {"path": "/work/a"}, "/elsewhere")
    assert claims_of(by_file, {"path": "a"}) == claims_of(by_file, {"path": os.path.abspath("a")})  # noqa: PTH100
    assert claims_of(by_file, {"path": 5}, "/work").key == '{"path":5}'


def test_where_there_is_no_work_folder_left_a_path_claims_everything(monkeypatch):
    def getcwd():
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", getcwd)
    assert claims_of(probe(BY_PATH, kinds={"path": "path"}), {"path": "a"}) is ALONE


def test_a_key_of_no_arguments_is_the_tool_itself():
    assert key_of({"a": 1}, Concurrency("key")) == key_of({}, Concurrency("key")) == "probe"


def test_a_key_that_json_cannot_say_claims_everything():
    endless = []
    endless.append(endless)
    for value in (math.nan, object(), endless):
        assert claims_of(probe(BY_PATH), {"path": value}) is ALONE


@pytest.mark.parametrize(
    ("concurrency", "claims"),
    [
        (None, Claims(slots=("probe", 3))),
        (EXCLUSIVE, Claims(exclusive=True, slots=("probe", 3))),
        (Concurrency("key"), Claims(key="probe", slots=("probe", 3))),
    ],
)
def test_a_tool_with_a_limit_claims_one_of_its_slots_besides(concurrency, claims):
    assert claims_of(probe(concurrency, most=3), {}) == claims


def test_only_locks_make_a_call_other_than_shared():
    assert Claims(slots=("probe", 1)).is_shared
    assert not Claims(key="a", writes=False).is_shared
    assert not ALONE.is_shared


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        (ALONE, "everything"),
        (Claims(key='{"path":"a"}'), 'to write {"path":"a"}'),
        (Claims(key="k" * 500, writes=False), "to read " + "k" * 200),
        (Claims(slots=("probe", 2)), "one of 2 slots of probe"),
        (Claims(), "nothing for itself"),
    ],
)
def test_claims_are_told_in_words(claims, text):
    assert str(claims) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab./", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["path", "a", "b"]), JSON), st.randoms(use_true_random=False))
def test_the_key_depends_on_nothing_but_the_values(arguments, random):
    names = list(arguments)
    random.shuffle(names)
    assert key_of(arguments) == key_of({name: arguments[name] for name in names})
