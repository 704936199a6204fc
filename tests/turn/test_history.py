"""The history of a turn: answers, results in their place, ids of their own."""

from __future__ import annotations

import pytest

from pegboard import Completion, Operation, ToolCall, ToolResult
from pegboard.messages.message import Message
from pegboard.messages.response import ModelResponse
from pegboard.turn.history import _History, _with_own_ids


def calls(*ids):
    return [ToolCall("add", {}, id_) for id_ in ids]


def answered(*ids):
    return Message.tool((call, ToolResult(call.id)) for call in calls(*ids))


def completion(call_id, text="late", *, replaces=True):
    return Completion(Operation("op_1", call_id, "order", None, 0.0, replaces), ToolResult(text))


@pytest.mark.parametrize(
    ("ids", "own"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["", ""], ["call_2", "call_3"]),
        (["a", "a_2", "a"], ["a", "a_2", "a_3"]),
        (["call_2", ""], ["call_2", "call_3"]),
    ],
)
def test_each_call_of_an_answer_gets_an_id_of_its_own(ids, own):
    message = _with_own_ids(Message.assistant("Look:", *calls(*ids)))
    assert [call.id for call in message.calls] == own
    assert message.text == "Look:"


def test_ids_of_earlier_answers_are_not_given_again():
    history = _History([Message.assistant(*calls("call_0")), answered("call_0")])
    message = history.add_answer(ModelResponse(calls("call_0", "call_1")))
    assert [call.id for call in message.calls] == ["call_0_2", "call_1"]


def test_a_message_whose_ids_are_its_own_stays_itself():
    message = Message.assistant(*calls("a", "b"))
    assert _with_own_ids(message) is message


def test_an_answer_that_is_not_complete_is_marked():
    history = _History([])
    assert history.add_answer(ModelResponse("a")).metadata == {}
    assert history.add_answer(ModelResponse("a", "length", complete=False)).metadata == {"complete": False}


def test_the_calls_of_the_last_answer_without_a_result_are_known():
    history = _History([Message.user("x"), Message.assistant(*calls("a", "b"))])
    assert [call.id for call in history.unanswered()] == ["a", "b"]
    history.messages.append(answered("a"))
    assert [call.id for call in history.unanswered()] == ["b"]
    history.messages.append(answered("b"))
    assert list(history.unanswered()) == []


def test_what_the_provider_has_run_needs_no_result():
    history = _History([Message.assistant(ToolCall("search", {}, "h", provider_executed=True))])
    assert list(history.unanswered()) == []


def test_a_conversation_without_an_answer_lacks_nothing():
    assert list(_History([Message.user("x")]).unanswered()) == []


def test_the_latest_result_of_an_id_is_replaced():
    history = _History([answered("a"), Message.user("again"), answered("a", "b")])
    history.replace_results({"a": ToolResult("new"), "unknown": ToolResult("x")})
    texts = [[part.result.text for part in message.results] for message in history.messages]
    assert texts == [["a"], [], ["new", "b"]]


def test_a_later_result_takes_the_place_of_the_pending_one():
    history = _History([answered("a")])
    assert history.complete(completion("a")) is None
    assert history.messages[0].results[0].result.text == "late"


@pytest.mark.parametrize("late", [completion("gone"), completion("a", replaces=False)])
def test_a_later_result_without_a_place_is_a_message(late):
    history = _History([answered("a")])
    message = history.complete(late)
    assert message.role == "user"
    assert message.text == f"Operation op_1 of order (call {late.call_id}) has ended:late"
    assert history.messages[0].results[0].result.text == "a"
