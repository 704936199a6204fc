"""Grants in memory: their sessions, tools and time limits."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from dispatch.approval.samples import a_tool
from pegboard import Origin, Policy, ReadonlyContext, Rule
from pegboard.approval import MemoryGrants, session_key, tool_key
from pegboard.tools import HOST


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


TOOL = "shop sha256:1"


def patterns(grants, session="s", tool=TOOL):
    return [rule.pattern for rule in grants.rules(session, tool)]


def allow(grants, session, *patterns, seconds=None):
    grants.add(session, TOOL, [Rule("edit", each, "allow") for each in patterns], seconds)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(1, 5), st.integers(0, 3)), max_size=12))
def test_what_is_allowed_is_what_was_granted_and_has_not_expired(steps):
    clock = Clock()
    grants, model = MemoryGrants(clock), []
    for number, (session, seconds, passes) in enumerate(steps):
        allow(grants, session, str(number), seconds=seconds)
        model.append((session, str(number), None if seconds is None else clock.now + seconds))
        clock.now += passes
        for each in "ab":
            wanted = [name for owner, name, until in model if owner == each and (until is None or until > clock.now)]
            assert patterns(grants, each) == wanted


def test_sessions_whose_grants_have_expired_make_room_for_others():
    clock = Clock()
    grants = MemoryGrants(clock, most_sessions=2)
    allow(grants, "lasting", "a")
    allow(grants, "expired", "a", seconds=1)
    clock.now += 1
    allow(grants, "new", "a")
    assert [patterns(grants, session) for session in ("lasting", "expired", "new")] == [["a"], [], ["a"]]


@pytest.mark.parametrize(
    ("context", "key"),
    [
        (ReadonlyContext(session="s", user="ann"), '["ann", "s"]'),
        (ReadonlyContext(session="s"), '[null, "s"]'),
        (ReadonlyContext(user="ann"), '["ann", null]'),
        (ReadonlyContext(session='ann", "s'), '[null, "ann\\", \\"s"]'),
        (ReadonlyContext(), None),
    ],
)
def test_the_key_of_a_session(context, key):
    """Two users never share one, even with the same session id."""
    assert session_key(context) == key


def test_the_key_of_a_tool():
    """Its definition and its origin."""
    origins = (HOST, Origin(plugin="shop"), Origin(plugin="shop", distribution="shop"), Origin(distribution="other"))
    tools = [evolve(a_tool(), origin=origin) for origin in origins]
    assert len({tool_key(each) for each in (*tools, a_tool("other"), a_tool(description="else"))}) == 5
    sources = [evolve(a_tool(), origin=Origin(source=source)) for source in (None, "a", "b")]
    assert len({tool_key(each) for each in sources}) == 3


def test_the_key_of_a_tool_has_where_it_runs_and_its_limits():
    """Where none is set, the key is the one that a tool without a policy has."""
    own = {"executor": "far", "queue": "gpu", "timeout": 5.0, "memory_limit": 1 << 30, "retries": 2, "sends": ()}
    policies = [Policy(), *(Policy(**{name: value}) for name, value in own.items()), Policy(**own)]
    assert len({tool_key(evolve(a_tool(), policy=policy)) for policy in policies}) == 8
    assert tool_key(evolve(a_tool(), policy=Policy(max_concurrency=3))) == tool_key(a_tool())
