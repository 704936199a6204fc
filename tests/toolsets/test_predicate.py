"""The algebra: what `&`, `|` and `~` mean, whatever they join."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given

from pegboard.errors import PredicateError
from pegboard.tools.context import NOBODY
from pegboard.toolsets.predicate import MAX_DEPTH, And, Or
from pegboard.toolsets.predicates import all_of, any_of, edit, everything, named, nothing, read_only, tagged
from toolsets.predicate_strategies import contexts, predicates, tools
from toolsets.samples import make_tool

LAWS = {
    "De Morgan, and": lambda p, q, r: (~(p & q), ~p | ~q),
    "De Morgan, or": lambda p, q, r: (~(p | q), ~p & ~q),
    "double negation": lambda p, q, r: (~~p, p),
    "commutation, and": lambda p, q, r: (p & q, q & p),
    "commutation, or": lambda p, q, r: (p | q, q | p),
    "association, and": lambda p, q, r: ((p & q) & r, p & (q & r)),
    "association, or": lambda p, q, r: ((p | q) | r, p | (q | r)),
    "distribution, and": lambda p, q, r: (p & (q | r), (p & q) | (p & r)),
    "distribution, or": lambda p, q, r: (p | (q & r), (p | q) & (p | r)),
    "absorption, and": lambda p, q, r: (p & (p | q), p),
    "absorption, or": lambda p, q, r: (p | (p & q), p),
    "idempotence, and": lambda p, q, r: (p & p, p),
    "idempotence, or": lambda p, q, r: (p | p, p),
    "excluded middle": lambda p, q, r: (p | ~p, everything),
    "contradiction": lambda p, q, r: (p & ~p, nothing),
    "everything is neutral": lambda p, q, r: (p & everything, p),
    "nothing is neutral": lambda p, q, r: (p | nothing, p),
    "everything dominates": lambda p, q, r: (p | everything, everything),
    "nothing dominates": lambda p, q, r: (p & nothing, nothing),
}


@given(p=predicates, q=predicates, r=predicates, tool=tools, context=contexts)
def test_the_laws_of_the_truth_table_hold(p, q, r, tool, context):
    for law, sides in LAWS.items():
        left, right = sides(p, q, r)
        assert left(tool, context) is right(tool, context), law


@given(predicates, predicates, tools, contexts)
def test_the_operators_mean_the_words(p, q, tool, context):
    of_p, of_q = p(tool, context), q(tool, context)
    assert (p & q)(tool, context) is (of_p and of_q)
    assert (p | q)(tool, context) is (of_p or of_q)
    assert (~p)(tool, context) is (not of_p)


@given(predicates, tools, contexts)
def test_the_deciding_part_has_the_same_answer(predicate, tool, context):
    assert predicate.deciding(tool, context)(tool, context) is predicate(tool, context)


def test_the_first_member_that_settles_it_decides():
    predicate = named("a") & (tagged("x") | ~named("a*")) & tagged("y")
    assert predicate.deciding(make_tool("a"), NOBODY) == tagged("x") | ~named("a*")
    assert predicate.deciding(make_tool("a", tags=["x"]), NOBODY) == tagged("y")
    assert (~predicate).deciding(make_tool("b"), NOBODY) == ~named("a")


@given(predicates, predicates, predicates)
def test_nesting_of_one_kind_is_flat(p, q, r):
    assert (p & q) & r == p & (q & r)
    assert (p | q) | r == p | (q | r)
    assert ~~p == p


@given(predicates)
def test_equal_predicates_hash_alike_and_survive_copies(predicate):
    assert hash(predicate) == hash(copy.deepcopy(predicate))
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_a_predicate_is_neither_true_nor_false():
    """`p and q` would silently be `q`."""
    with pytest.raises(TypeError, match="&"):
        _ = read_only and edit


@pytest.mark.parametrize("join", [lambda p: p & True, lambda p: p | "edit", lambda p: None & p])
def test_only_predicates_join(join):
    with pytest.raises(TypeError):
        join(read_only)


@pytest.mark.parametrize("kind", [And, Or])
@pytest.mark.parametrize("members", [(), (read_only,)])
def test_a_join_has_two_members(kind, members):
    with pytest.raises(PredicateError, match="two"):
        kind(members)


def test_all_of_nothing_is_everything_and_any_of_nothing_is_nothing():
    assert (all_of(), any_of()) == (everything, nothing)
    assert (all_of(edit), any_of(edit)) == (edit, edit)


def test_nesting_has_a_limit():
    deep = read_only
    while deep.depth < MAX_DEPTH:
        deep = (deep & edit) if deep.depth % 2 else (deep | edit)
    with pytest.raises(PredicateError, match="64"):
        _ = ~deep


def test_its_repr_shows_its_text():
    assert repr(read_only & ~tagged("a b")) == '<Predicate read_only and not tag:"a b">'
