"""A person whose answers are known beforehand."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.approval.samples import a_request
from pegboard.dispatch.approval.queue import Approver, asks_one_at_a_time
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.testing.scripted_approver import ScriptedApprover
from pegboard.tools.context import ToolContext


def says(approver, *names):
    return [asyncio.run(approver.approve(a_request(name), ToolContext())) for name in names]


def test_it_is_an_approver_that_is_asked_like_a_terminal():
    assert isinstance(ScriptedApprover([]), Approver)
    assert asks_one_at_a_time(ScriptedApprover([]))


def test_answers_in_order():
    with ScriptedApprover([Once(), None, Reject("no")]) as approver:
        assert says(approver, "a", "b", "a") == [Once(), None, Reject("no")]
    assert approver.names == ["a", "b", "a"]
    assert [request.arguments for request in approver.requests] == [{"path": "a.txt"}] * 3


def test_answers_by_the_tools_name():
    """One answer is given each time, a sequence once each."""
    with ScriptedApprover({"a": Once(), "b": [Later(), Reject()]}) as approver:
        assert says(approver, "b", "a", "a", "b") == [Later(), Once(), Once(), Reject()]


def test_answers_by_a_function():
    with ScriptedApprover(lambda request: Always() if request.call.name == "a" else None) as approver:
        assert says(approver, "a", "b") == [Always(), None]
    with ScriptedApprover(lambda request: Once()):
        pass


@pytest.mark.parametrize("script", [[], {}, {"b": Once()}, {"a": []}])
def test_an_unexpected_request_fails_the_test(script):
    """At once, which denies the call, and again when the approver is closed."""
    approver = ScriptedApprover(script)
    with pytest.raises(AssertionError, match="nobody expected to be asked about a"):
        says(approver, "a")
    with pytest.raises(AssertionError, match="an unexpected request: a\npermission: delete"):
        approver.close()


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ([Once(), Reject("no")], r"answers that nobody asked for: \[Once"),
        ({"a": [Once()]}, r"answers that nobody asked for about a: \[Once"),
        ({"a": Once()}, "nobody asked about a"),
    ],
)
def test_an_unused_answer_fails_the_test(script, fault):
    with pytest.raises(AssertionError, match=fault), ScriptedApprover(script):
        pass


def test_a_test_that_fails_anyway_fails_with_its_own_reason():
    with pytest.raises(ZeroDivisionError), ScriptedApprover([Once()]):
        raise ZeroDivisionError
