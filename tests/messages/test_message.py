from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import MESSAGES
from pegboard.messages.message import CallPart, Message, ResultPart, TextPart
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, ToolResult
from strategies import json_values, mutated

ADD = ToolCall("add", {"a": 1}, "c1")


@given(MESSAGES)
def test_it_comes_back_from_json(message):
    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message


@given(MESSAGES.flatmap(lambda message: mutated(message.to_json())) | json_values())
def test_json_from_outside_is_read_or_refused(data):
    try:
        message = Message.from_json(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017  either may come of it
    else:
        assert isinstance(message, Message)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ([], "message: must be an object, got list"),
        ({}, "role: missing"),
        ({"role": "robot"}, "role: must be one of system, user, assistant, tool, got 'robot'"),
        ({"role": "user", "parts": "a"}, "parts: must be an array, got str"),
        ({"role": "user", "parts": [{"type": "text", "text": "a"}, 1]}, "parts[1]: must be an object, got int"),
        ({"role": "user", "id": 1}, "id: must be a text, got int"),
        ({"role": "user", "metadata": 1}, "metadata: must be an object, got int"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(data, wrong):
    with pytest.raises(ValueError, match=":") as caught:
        Message.from_json(data)
    assert str(caught.value) == wrong


def test_hosts_write_messages_for_short():
    assert Message.user("a") == Message("user", (TextPart("a"),)) == Message("user", "a") == Message("user", ["a"])
    assert Message.system("a").role == "system"
    assert Message.assistant("a", ADD).parts == (TextPart("a"), CallPart(ADD))
    assert Message.tool([(ADD, ToolResult("2"))]) == Message("tool", (ResultPart("c1", "add", ToolResult("2")),))


def test_a_role_that_there_isnt_is_refused():
    with pytest.raises(ValueError, match="role"):
        Message("robot", "a")


def test_it_tells_its_words_calls_and_results():
    hosted = ToolCall("search", id="c2", provider_executed=True)
    message = Message.assistant("a", ImageContent(b""), ADD, "b", hosted)
    assert (message.text, message.calls, message.results) == ("ab", (ADD, hosted), ())
    answered = Message.tool([(ADD, ToolResult("2"))])
    assert (answered.text, answered.calls) == ("", ())
    assert [part.call_id for part in answered.results] == ["c1"]


def test_it_evolves():
    message = Message.user("a")
    assert message.evolve(id="m1", parts=["b"]) == Message("user", "b", "m1")
    assert message == Message.user("a")


def test_what_says_nothing_isnt_written():
    assert Message.user("a").to_json() == {"role": "user", "parts": [{"type": "text", "text": "a"}]}
