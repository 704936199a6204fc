"""Confirmation as a message, for clients that know nothing but calls and results."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from dispatch.approval.samples import a_pending
from pegboard.dispatch.approval.pending import (
    CONFIRMATION_CALL,
    answer_from_result,
    confirmation_call,
    original_call_from,
)
from pegboard.dispatch.approval.request import Once, Reject
from pegboard.errors import PendingError
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.name import check_name
from strategies import json_values

OBJECTS = st.dictionaries(st.text(max_size=4), json_values(), max_size=3)


def test_the_virtual_call_says_what_is_asked():
    pending = a_pending(hint="Delete it?", payload={"n": 1})
    call = confirmation_call(pending)
    assert (call.name, call.id) == ("pegboard_request_confirmation", pending.id)
    assert call.arguments == {
        "originalCall": {"id": "call-1", "name": "delete", "arguments": {"path": "a.txt"}},
        "hint": "Delete it?",
        "payload": {"n": 1},
        "digest": pending.digest,
    }
    check_name(call.name)
    assert confirmation_call(a_pending()).arguments["hint"] == "Please approve or reject the call of delete."


@settings(deadline=None)
@given(OBJECTS)
def test_the_original_call_is_read_back(arguments):
    """From the call, from its JSON, from its arguments, as objects and as text."""
    pending = a_pending(arguments=arguments)
    call = confirmation_call(pending)
    original = ToolCall("delete", pending.arguments, "call-1")
    text = json.dumps(call.arguments)
    assert original_call_from(call) == original
    assert original_call_from(call.to_json()) == original
    assert original_call_from(call.arguments) == original
    assert original_call_from(ToolCall(CONFIRMATION_CALL, text, call.id)) == original
    assert original_call_from({"name": CONFIRMATION_CALL, "arguments": text.encode()}) == original
    assert original_call_from({"originalCall": json.dumps(call.arguments["originalCall"])}) == original


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (ToolCall("delete", {}), "a call of 'delete', not of pegboard_request_confirmation"),
        (ToolCall(CONFIRMATION_CALL, {}), "originalCall: must be an object"),
        (ToolCall(CONFIRMATION_CALL, "{"), r"not an object \(arguments\)"),
        (ToolCall(CONFIRMATION_CALL, "[]"), "arguments: must be an object, not list"),
        ({"name": CONFIRMATION_CALL}, "arguments: must be an object, not NoneType"),
        ({}, "originalCall: must be an object"),
        ({"originalCall": {}}, "originalCall: name: missing"),
        ({"originalCall": {"name": 1}}, "originalCall: name"),
        (7, "not a call: int"),
    ],
)
def test_anything_else_holds_no_call(call, reason):
    with pytest.raises(PendingError, match=reason):
        original_call_from(call)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"confirmed": True}, Once()),
        ({"confirmed": True, "payload": [1]}, Once([1])),
        ({"confirmed": True, "feedback": "fine"}, Once()),
        ({"confirmed": False}, Reject()),
        ({"confirmed": False, "feedback": "use trash"}, Reject("use trash")),
    ],
)
def test_a_clients_answer_is_read(said, answer):
    """However it was sent."""
    assert answer_from_result(said) == answer
    assert answer_from_result(json.dumps(said)) == answer
    assert answer_from_result(json.dumps(said).encode()) == answer
    assert answer_from_result(ToolResult(structured_content=said)) == answer
    assert answer_from_result(ToolResult(json.dumps(said))) == answer


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"confirmed": 1},
        {"confirmed": "true"},
        {"confirmed": None},
        {"confirmed": True, "digest": "x"},
        {"confirmed": False, "feedback": 1},
        {"confirmed": False, "feedback": "a" * 20_001},
        {"confirmed": True, "payload": float("nan")},
        "",
        "true",
        "yes",
        '{"confirmed": true, "confirmed": true}',
        None,
        [],
        ToolResult.error("tool_failure", '{"confirmed": true}'),
    ],
)
def test_nothing_else_is_a_yes_or_a_no(said):
    with pytest.raises(PendingError):
        answer_from_result(said)
