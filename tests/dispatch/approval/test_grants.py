"""What people have allowed for longer than one call."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.approval import grants as module
from pegboard.dispatch.approval.grants import Grant, MemoryGrants, SessionGrants, note_used, session_key
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError
from pegboard.tools.context import ReadonlyContext


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_grant_is_a_rule_of_its_session():
    grants = MemoryGrants()
    grants.add("s", "edit", ["src/*", "a.txt"])
    assert grants.rules("s") == (Rule("edit", "src/*", "allow"), Rule("edit", "a.txt", "allow"))
    assert grants.rules("t") == ()
    assert grants.rules(None) == ()


def test_a_grant_may_expire():
    """At its time, and not with it those that last."""
    clock = Clock()
    grants = MemoryGrants(clock)
    grants.add("s", "edit", ["a"], seconds=10)
    grants.add("s", "edit", ["b"])
    grants.add("s", "edit", ["c"], seconds=5)
    clock.now = 104.9
    assert [rule.pattern for rule in grants.rules("s")] == ["a", "b", "c"]
    clock.now = 105.0
    assert [rule.pattern for rule in grants.rules("s")] == ["a", "b"]
    clock.now = 110.0
    assert [rule.pattern for rule in grants.rules("s")] == ["b"]


def test_a_session_can_be_forgotten():
    grants = MemoryGrants()
    grants.add("s", "edit", ["a"])
    grants.forget("s")
    grants.forget("never was")
    assert grants.rules("s") == ()


def test_grants_are_bounded(monkeypatch):
    """The oldest go: a person is asked again."""
    monkeypatch.setattr(module, "MOST_GRANTS", 3)
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    grants = MemoryGrants()
    for session in "abc":
        for pattern in "1234":
            grants.add(session, "edit", [pattern])
    assert [[rule.pattern for rule in grants.rules(session)] for session in "abc"] == [
        [],
        ["2", "3", "4"],
        ["2", "3", "4"],
    ]


def test_an_answer_is_used_once():
    grants = MemoryGrants()
    assert [grants.consume("a"), grants.consume("a"), grants.consume("b"), grants.consume("a")] == [
        True,
        False,
        True,
        False,
    ]


def test_used_answers_are_forgotten_only_when_they_are_too_old_to_be_used():
    """Rather none is taken any more than one twice."""
    used = {"old": 0.0, "new": module.USED_SECONDS}
    assert note_used(used, "a", module.USED_SECONDS + 1, most=2)
    assert set(used) == {"new", "a"}
    with pytest.raises(PendingError, match="2 answers were used in 90 days"):
        note_used(used, "b", module.USED_SECONDS + 1, most=2)
    assert not note_used(used, "a", module.USED_SECONDS + 1, most=2)


@pytest.mark.parametrize(
    ("context", "key"),
    [
        (ReadonlyContext(session="s", user="ann"), "s"),
        (ReadonlyContext(session="s"), "s"),
        (ReadonlyContext(user="ann"), "(no session, user ann)"),
        (ReadonlyContext(), None),
    ],
)
def test_what_a_session_is(context, key):
    """Two users without sessions never share one."""
    assert session_key(context) == key


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(1, 5), st.integers(0, 3)), max_size=12))
def test_what_is_allowed_is_what_was_granted_and_has_not_expired(steps):
    clock = Clock()
    grants, model = MemoryGrants(clock), []
    for number, (session, seconds, passes) in enumerate(steps):
        grants.add(session, "edit", [str(number)], seconds)
        model.append((session, str(number), None if seconds is None else clock.now + seconds))
        clock.now += passes
        for each in "ab":
            wanted = [name for owner, name, until in model if owner == each and (until is None or until > clock.now)]
            assert [rule.pattern for rule in grants.rules(each)] == wanted


def test_an_expired_grant_is_dropped():
    held = SessionGrants.of([Grant("edit", ["a"], 5.0), Grant("edit", ["b"])], 6.0)
    assert (held.until, held.grants) == (None, (Grant("edit", ("b",)),))
