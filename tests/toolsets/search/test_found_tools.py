"""What a session has found, in its state."""

from __future__ import annotations

import gc

import pytest

from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.toolsets.search.found_tools import _EARLIER, FOUND_TOOLS, MOST_FOUND, found_names, remember


def context(*names, request=None):
    return ToolContext(request or ReadonlyContext(state={FOUND_TOOLS: list(names)} if names else {}))


@pytest.mark.parametrize(
    ("kept", "names"),
    [
        (["a", "b", "a"], ("a", "b")),
        (("a",), ("a",)),
        (["a", 1, None, ["b"], "c"], ("a", "c")),
        ("abc", ()),
        ({"a": 1}, ()),
        (None, ()),
    ],
)
def test_a_state_may_say_anything(kept, names):
    assert found_names({FOUND_TOOLS: kept}) == names


def test_the_last_names_of_a_long_list_count():
    assert found_names({FOUND_TOOLS: [f"t{n}" for n in range(1000)]})[0] == f"t{1000 - MOST_FOUND}"
    assert found_names({}) == ()


def test_names_are_added_and_the_latest_stand_last():
    call = context("a", "b")
    remember(call, ["c", "a"])
    assert call.state[FOUND_TOOLS] == ["b", "c", "a"]


def test_finding_nothing_changes_nothing():
    call = context("a")
    remember(call, [])
    assert call.actions.state_delta == {}


def test_the_oldest_names_go_first():
    call = context(*(f"t{n}" for n in range(MOST_FOUND)))
    remember(call, ["new"])
    assert call.state[FOUND_TOOLS] == [*(f"t{n}" for n in range(1, MOST_FOUND)), "new"]


def test_calls_of_one_answer_say_what_those_before_them_have_found():
    """They don't see each other's changes, and the host takes over the last one's."""
    request = ReadonlyContext(state={})
    first, second = context(request=request), context(request=request)
    remember(first, ["a"])
    remember(second, ["b"])
    assert second.state[FOUND_TOOLS] == ["a", "b"]


def test_another_request_knows_nothing_of_it():
    remember(context(request=ReadonlyContext(state={})), ["a"])
    call = context(request=ReadonlyContext(state={}))
    remember(call, ["b"])
    assert call.state[FOUND_TOOLS] == ["b"]


def test_what_the_host_has_taken_over_and_then_dropped_stays_dropped():
    """A host may go on with one context whose state changes."""
    state = {}
    request = ReadonlyContext(state=state)
    remember(context(request=request), ["a"])
    state[FOUND_TOOLS] = ["a"]
    remember(context(request=request), ["b"])
    state[FOUND_TOOLS] = ["b"]
    call = context(request=request)
    remember(call, ["c"])
    assert call.state[FOUND_TOOLS] == ["b", "c"]


def test_nothing_is_kept_for_nobody_nor_for_a_request_that_is_gone():
    remember(ToolContext(), ["a"])
    call = ToolContext()
    remember(call, ["b"])
    assert call.state[FOUND_TOOLS] == ["b"]
    remember(context(request=ReadonlyContext(state={})), ["a"])
    gc.collect()
    assert not [reference for reference, _ in _EARLIER._names.values() if reference() is None]
