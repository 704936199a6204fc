"""What a session has found, in its state."""

from __future__ import annotations

import gc

import pytest

from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.toolsets.search import _EARLIER, _FOUND_TOOLS, _MOST_FOUND, _remember, found_names


def context(*names, request=None):
    return ToolContext(request or ReadonlyContext(state={_FOUND_TOOLS: list(names)} if names else {}))


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
    assert found_names({_FOUND_TOOLS: kept}) == names


def test_the_last_names_of_a_long_list_count():
    assert found_names({_FOUND_TOOLS: [f"t{n}" for n in range(1000)]})[0] == f"t{1000 - _MOST_FOUND}"
    assert found_names({}) == ()


def test_names_are_added_and_the_latest_stand_last():
    call = context("a", "b")
    _remember(call, ["c", "a"])
    assert call.state[_FOUND_TOOLS] == ["b", "c", "a"]


def test_finding_nothing_changes_nothing():
    call = context("a")
    _remember(call, [])
    assert call.actions.state_delta == {}


def test_the_oldest_names_go_first():
    call = context(*(f"t{n}" for n in range(_MOST_FOUND)))
    _remember(call, ["new"])
    assert call.state[_FOUND_TOOLS] == [*(f"t{n}" for n in range(1, _MOST_FOUND)), "new"]


def test_calls_of_one_answer_say_what_those_before_them_have_found():
    """They don't see each other's changes, and the host takes over the last one's."""
    request = ReadonlyContext(state={})
    first, second = context(request=request), context(request=request)
    _remember(first, ["a"])
    _remember(second, ["b"])
    assert second.state[_FOUND_TOOLS] == ["a", "b"]


def test_another_request_knows_nothing_of_it():
    _remember(context(request=ReadonlyContext(state={})), ["a"])
    call = context(request=ReadonlyContext(state={}))
    _remember(call, ["b"])
    assert call.state[_FOUND_TOOLS] == ["b"]


def test_what_the_host_has_taken_over_and_then_dropped_stays_dropped():
    """A host may go on with one context whose state changes."""
    state = {}
    request = ReadonlyContext(state=state)
    _remember(context(request=request), ["a"])
    state[_FOUND_TOOLS] = ["a"]
    _remember(context(request=request), ["b"])
    state[_FOUND_TOOLS] = ["b"]
    call = context(request=request)
    _remember(call, ["c"])
    assert call.state[_FOUND_TOOLS] == ["b", "c"]


def test_nothing_is_kept_for_nobody_nor_for_a_request_that_is_gone():
    _remember(ToolContext(), ["a"])
    call = ToolContext()
    _remember(call, ["b"])
    assert call.state[_FOUND_TOOLS] == ["b"]
    _remember(context(request=ReadonlyContext(state={})), ["a"])
    gc.collect()
    assert not [reference for reference, _ in _EARLIER._names.values() if reference() is None]
