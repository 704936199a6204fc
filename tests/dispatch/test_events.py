from __future__ import annotations

import json

import pytest

from pegboard import ToolResult
from pegboard.dispatch import events
from pegboard.dispatch.events import (
    CallAborted,
    CallCompleted,
    CallFailed,
    CallPending,
    CallRefused,
    CallRunning,
    CallSkipped,
    CallSuspended,
    CallUpdated,
    ended,
    event_from_json,
)

EVENTS = [
    CallPending("1", "add", 1.5, 0, '{"a": 1}'),
    CallRunning("1", "add", 1.5, 0, {"a": 1}),
    CallUpdated("1", "add", 1.5, 2, progress=1, total=2, message="half"),
    CallUpdated("1", "add", 1.5, title="Adding", metadata={"n": 1}, note="repaired: x"),
    CallCompleted("1", "add", 1.5, result=ToolResult("3", {"result": 3}, title="Sum"), seconds=0.25),
    CallFailed("1", "add", 1.5, result=ToolResult.error("tool_failure", "no", detail="why")),
    CallRefused("1", "add", 1.5, result=ToolResult.error("denied", "no")),
    CallAborted("1", "add", 1.5, result=ToolResult.error("aborted", "no")),
    CallSkipped("1", "add", 1.5, result=ToolResult.error("skipped", "no")),
    CallSuspended("1", "add", 1.5, result=ToolResult.error("confirmation_required", "later")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.state)
def test_an_event_is_written_as_json_and_read_back(event):
    written = json.loads(json.dumps(event.to_json()))
    assert written["state"] == event.state
    assert event_from_json(written) == event


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tool_failure", CallFailed),
        ("timeout", CallFailed),
        ("crashed", CallFailed),
        ("invalid_output", CallFailed),
        ("callback_failure", CallFailed),
        ("unknown_outcome", CallFailed),
        ("unknown_tool", CallRefused),
        ("not_offered", CallRefused),
        ("invalid_arguments", CallRefused),
        ("denied", CallRefused),
        ("rejected", CallRefused),
        ("not_executed", CallRefused),
        ("cut_off", CallRefused),
        ("limit", CallRefused),
        ("aborted", CallAborted),
        ("skipped", CallSkipped),
        ("confirmation_required", CallSuspended),
    ],
)
def test_each_kind_of_error_ends_a_call_in_its_own_way(kind, expected):
    assert ended(ToolResult.error(kind, "no")) is expected


def test_a_result_that_is_no_error_completes():
    assert ended(ToolResult("yes")) is CallCompleted


def test_what_isnt_json_is_written_as_text():
    written = CallUpdated("1", "add", 0.0, content=object()).to_json()
    assert written["content"].startswith("<object object")
    assert CallUpdated("1", "add", 0.0, content=ToolResult("part")).to_json()["content"]["content"]


@pytest.mark.parametrize("data", [{}, {"state": "odd"}, {"state": 1}, {"state": "pending"}])
def test_what_is_no_event_is_refused(data):
    with pytest.raises(ValueError, match="not an event of a call"):
        event_from_json(data)


def test_there_is_a_class_for_every_state():
    assert sorted(events._STATES) == sorted(events.CallState.__args__)
