"""Rules of order that contradict each other."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard import ReadonlyContext
from pegboard_guard import ComesAfter, ComesBefore, Distinct, Exclusive, NotAfter, OrderRules, Required
from pegboard_guard.rules import Call, End


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([ComesAfter("a", "b"), ComesAfter("b", "a")], "a waits for b, b waits for a"),
        ([ComesBefore("a", "b"), ComesBefore("b", "a")], "b waits for a, a waits for b"),
        (
            [ComesAfter("a", "b"), ComesAfter("b", "c"), ComesAfter("c", "a")],
            "a waits for b, b waits for c, c waits for a",
        ),
        ([ComesAfter("x", "a"), ComesAfter("a", "b"), ComesAfter("b", "a")], "a waits for b, b waits for a"),
        ([ComesAfter("a_*", "b"), ComesAfter("b", "a_1")], "b waits for a_1, a_1 waits for b"),
        ([ComesAfter("a_*", "b_*"), ComesAfter("b_*", "a_*")], "a_* waits for b_*, b_* waits for a_*"),
        ([ComesAfter("*", "a"), ComesAfter("a", "b")], "a waits for b, b waits for a"),
        ([ComesAfter("a", "b", within="turn"), ComesAfter("b", "a", within="session")], "a waits for b, b waits for a"),
    ],
)
def test_a_cycle_of_rules_is_refused_and_shown(rules, text):
    with pytest.raises(ValueError, match="contradict each other") as caught:
        OrderRules(*rules)
    assert text in str(caught.value)
    assert str(caught.value).endswith("Take one of the rules out")


@pytest.mark.parametrize(
    "rule", [ComesAfter("a", "a"), ComesAfter("a_*", "a_*"), ComesAfter("a_1", "a_*"), ComesAfter("a", "*")]
)
def test_a_tool_that_waits_for_itself_is_refused(rule):
    with pytest.raises(ValueError, match="those are the same tools"):
        OrderRules(rule)


@pytest.mark.parametrize(
    "rules",
    [
        [ComesAfter("a", "b"), ComesAfter("b", "c"), ComesAfter("a", "c")],
        [ComesAfter("*", "log_in")],
        [ComesAfter("deploy*", "test*"), ComesAfter("test_all", "build")],
        [ComesAfter("a", "b_*"), ComesAfter("b_1", "a")],  # another b_ may come first
        [ComesAfter("a_*", "a_1")],
        [Exclusive(["a", "b"]), ComesAfter("b", "a")],  # in an earlier turn
        [Exclusive(["a", "b"]), Required("a")],
        [Exclusive(["a", "b"]), Required("a"), Required("b", within="session")],
        [Exclusive(["a", "b"]), ComesAfter("b", ["a*"], within="turn"), ComesAfter("x", "ab")],
    ],
)
def test_consistent_rules_are_accepted(rules):
    OrderRules(*rules)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([Exclusive(["a", "b"]), ComesAfter("b", "a", within="turn")], "b needs b and a, but of a or b only one"),
        ([Exclusive(["a", "c"]), ComesAfter("b", ["a", "c"], within="turn")], "b needs b, a and c, but of a or c"),
        ([Exclusive(["a", "c"]), ComesAfter("c", "b", "turn"), ComesAfter("b", "a", "turn")], "c needs c, b and a"),
        ([Exclusive(["a", "b"], within="session"), ComesAfter("b", "a")], "only one may be used in a session"),
        ([Exclusive("a_*"), Required(["a_1", "a_2"])], "the turn needs a_1 and a_2, but of a_* only one"),
        (
            [Exclusive(["a", "b"]), Required("c"), Required("b"), ComesAfter("c", "a", "turn")],
            "the turn needs c, b and a",
        ),
    ],
)
def test_what_an_exclusive_group_makes_impossible_is_refused(rules, text):
    with pytest.raises(ValueError, match="contradict each other") as caught:
        OrderRules(*rules)
    assert text in str(caught.value)


names = st.sampled_from("abcd")


@given(st.lists(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]), max_size=8))
def test_rules_are_refused_exactly_where_some_tool_could_never_be_called(pairs):
    """Compared with what the rules let through, called in any order until nothing new can be called."""
    rules = [ComesAfter(one, other) for one, other in pairs]
    states = [(rule, rule.State()) for rule in rules]

    called = set()
    for _ in range(4):
        for name in "abcd":
            call = Call(name, ReadonlyContext())
            if all(rule.refusal(call, state) is None for rule, state in states):
                called.add(name)
                for rule, state in states:
                    rule.end(call, state, None, End())
    if called == set("abcd"):
        OrderRules(*rules)
    else:
        with pytest.raises(ValueError, match="contradict"):
            OrderRules(*rules)


def test_rules_that_leave_no_way_are_refused():
    """A tool that waits for what closes it."""
    with pytest.raises(ValueError, match="mail waits for test, and may not be called any more once test ran"):
        OrderRules(ComesAfter("mail", "test"), NotAfter("mail", "test"))
    OrderRules(ComesAfter("mail", "test"), NotAfter("mail", "test", within="turn"))
    OrderRules(ComesAfter("mail", "test"), NotAfter("mail", "submit"))


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        # What a call requires may not be closed or excluded by it.
        (
            [Required("t", when="e"), NotAfter("t", "e")],
            "t is required after e, and may not be called any more once e ran",
        ),
        ([Required("t", when=["e", "f"]), NotAfter("*", "f", "turn")], "t is required after e or f, and may not be"),
        ([Required("t", when="e"), Exclusive(["t", "e"])], "a turn with e needs e and t, but of t or e only one"),
        ([Required("t", when="e_*"), Exclusive(["e_*", "t"])], "a turn with e_* needs e_* and t, but of e_* or t"),
        (
            [Required("t", when="e"), Required("u"), Exclusive(["t", "u"])],
            "a turn with e needs e, t and u, but of t or u",
        ),
        # What is required again may not be forbidden as a repetition.
        (
            [Required("t", when="e"), Distinct("*")],
            "t is required after e, and its calls may not be repeated in this ses",
        ),
        ([Required("t", when="e"), Distinct("t", within="turn")], "and its calls may not be repeated in this turn"),
        (
            [Required("t"), Distinct("t")],
            "t is required in each turn, and its calls may not be repeated in this session",
        ),
        # Of two tools not each can be the last.
        (
            [Required("t", when="e"), Required("e", when="t")],
            "so that no turn could end: t is required after e, e is requ",
        ),
        ([Required("t", when="*"), Required("u", when="*")], "so that no turn could end"),
    ],
)
def test_required_calls_that_other_rules_make_impossible_are_refused(rules, text):
    with pytest.raises(ValueError, match="contradict each other") as caught:
        OrderRules(*rules)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        [Required("t", when="e"), NotAfter("e", "t")],
        [Required("t", when="e", within="session"), NotAfter("t", "e", "turn")],
        [Required("t", when="*"), NotAfter("t", "t")],
        [Required("t", when="e"), Exclusive(["e", "f"]), Exclusive(["t", "u"])],
        [Required("a_*"), Required("a_1"), Exclusive("a_*")],
        [Required("t", when="e"), Distinct("t", seconds=60)],
        [Required("t", when="e"), Distinct("e")],
        [Required("t"), Distinct("t", within="turn")],
        [Required("t", within="session"), Distinct("t")],
        [Required("t", when=["e", "u"]), Required("u", when="e")],
    ],
)
def test_required_calls_that_can_be_made_are_accepted(rules):
    OrderRules(*rules)
