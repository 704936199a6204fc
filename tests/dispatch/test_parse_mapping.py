from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given

from pegboard.dispatch.parse_mapping import NotPlainError, plain_object
from pegboard.schema.json import MAX_DEPTH
from strategies import json_values

ENOUGH = 1000


def problems(given_value, most_nodes=ENOUGH):
    with pytest.raises(NotPlainError) as caught:
        plain_object(given_value, most_nodes=most_nodes)
    return caught.value.problems


@given(json_values())
def test_plain_json_is_copied_as_it_is(value):
    assert plain_object({"a": value}, most_nodes=ENOUGH) == {"a": value}


def test_nothing_of_the_copy_is_the_hosts():
    inner = {"list": [{"deep": 1}]}
    copy = plain_object(inner, most_nodes=ENOUGH)
    assert copy["list"] is not inner["list"]
    assert copy["list"][0] is not inner["list"][0]


def test_a_tuple_is_an_array():
    assert plain_object({"a": (1, (2,))}, most_nodes=ENOUGH) == {"a": [1, [2]]}


@pytest.mark.parametrize("kind", [MappingProxyType, OrderedDict, UserDict, lambda members: defaultdict(list, members)])
def test_the_outermost_may_be_any_mapping(kind):
    copy = plain_object(kind({"a": [1]}), most_nodes=ENOUGH)
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
def test_what_json_cannot_say_is_refused_by_its_place(value, why):
    assert problems({"a": value}) == (why,)


def test_a_key_of_the_outermost_mapping_is_looked_at_too():
    assert problems({1: 1}) == ("(root): keys must be strings, got one of type int",)


def test_all_faults_are_told():
    assert len(problems({"a": float("nan"), "b": b"", "c": [object()]})) == 3


def test_the_largest_integers_and_texts_are_taken():
    value = {"a": 10**4300 - 1, "b": "é" * 1000}
    assert plain_object(value, most_nodes=ENOUGH) == value


def test_a_mapping_that_holds_itself_is_refused():
    endless = {}
    endless["again"] = [endless]
    assert any("must not contain itself" in problem for problem in problems(endless))


def nested(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_depth_is_limited():
    assert plain_object(nested(MAX_DEPTH), most_nodes=ENOUGH)
    (problem,) = problems(nested(MAX_DEPTH + 1))
    assert problem.endswith("must not be nested more than 64 levels deep")


def test_what_a_recursion_could_not_survive_is_refused():
    assert problems(nested(100_000), 200_000)


def test_values_are_counted_where_they_are_reached():
    """A small value whose parts are shared may be endless once it is written."""
    wide = [0] * 10
    for _ in range(9):
        wide = [wide] * 10
    assert problems({"a": wide}) == ("(root): holds more than 1,000 values",)
    assert plain_object({"a": [1, 2]}, most_nodes=3) == {"a": [1, 2]}
    assert problems({"a": [1, 2]}, 2) == ("(root): holds more than 2 values",)


@pytest.mark.parametrize(
    ("odd", "kind"), [(None, "null"), ([], "an array"), ("x", "a string"), (1, "a number"), (True, "a boolean")]
)
def test_what_is_no_mapping_is_named(odd, kind):
    assert problems(odd) == (f"(root): expected a JSON object, found {kind}",)


class Endless(Mapping):
    """A mapping whose keys never end."""

    def __getitem__(self, key):
        return key

    def __iter__(self):
        while True:
            yield "again"

    def __len__(self):
        return 0


def test_a_mapping_without_end_is_read_only_so_far():
    assert problems(Endless()) == ("(root): holds more than 1,000 values",)


def test_what_is_mended_while_the_fault_is_looked_for_is_still_refused(monkeypatch):
    monkeypatch.setattr("pegboard.dispatch.parse_mapping.json_faults", lambda *_: ())
    assert problems({"a": b""}) == ("(root): must be JSON",)
