from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import CITATIONS, MESSAGES, PARTS
from pegboard.messages.message import (
    _PART_TYPES,
    CallPart,
    Citation,
    HostedPart,
    MediaPart,
    Message,
    ReasoningPart,
    ResultPart,
    TextPart,
    _as_part,
)
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from strategies import json_values, mutated

ADD = ToolCall("add", {"a": 1}, "c1")


def read_part(data):
    return Message.from_json({"role": "user", "parts": [data]}).parts[0]


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


DEEP: list = []


for _ in range(100_000):
    DEEP = [DEEP]


@given(PARTS)
def test_each_comes_back_from_json(part):
    assert isinstance(part, _PART_TYPES)
    assert read_part(json.loads(json.dumps(part.to_json()))) == part


@given(PARTS.flatmap(lambda part: mutated(part.to_json())))
def test_json_that_is_nearly_a_part_is_read_or_refused_with_its_path(data):
    """Nothing but a `ValueError` ever comes of data from outside."""
    try:
        part = read_part(data)
    except ValueError as error:
        assert str(error).startswith("parts[0]")  # noqa: PT017  either may come of it
    else:
        assert isinstance(part, _PART_TYPES)


@given(json_values())
def test_json_that_is_anything_is_refused(data):
    with pytest.raises(ValueError, match=r"^parts\[0\][.:]"):
        read_part(data)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({}, "parts[0].type: missing"),
        ({"type": "voice"}, "parts[0].type: must be one of text, media, call, result, reasoning, hosted, got 'voice'"),
        ({"type": DEEP}, "parts[0].type: must be a text, got list"),
        ({"type": "text"}, "parts[0].text: missing"),
        (
            {"type": "text", "text": "a", "citations": [{}, {"uri": 1}]},
            "parts[0].citations[1].uri: must be a text, got int",
        ),
        ({"type": "media", "content": TextContent("a").to_json()}, "parts[0].content.type: words are a part"),
        ({"type": "media"}, "parts[0].content: missing"),
        ({"type": "media", "content": {"type": DEEP}}, "parts[0].content.type: must be one of"),
        ({"type": "call"}, "parts[0].call: missing"),
        ({"type": "call", "call": {}}, "parts[0].call.name: missing"),
        ({"type": "result", "callId": "a", "name": "b"}, "parts[0].result: missing"),
        (
            {"type": "result", "callId": "a", "name": "b", "result": {"content": 1}},
            "parts[0].result.content: must be an array",
        ),
        ({"type": "result", "name": "b", "result": {}}, "parts[0].callId: missing"),
        (
            {"type": "hosted", "provider": "p", "data": {}, "role": "x"},
            "parts[0].role: must be one of call, result, got 'x'",
        ),
        ({"type": "reasoning", "providerMetadata": 1}, "parts[0].providerMetadata: must be an object, got int"),
    ],
)
def test_what_is_wrong_is_named_with_its_path_part(data, wrong):
    with pytest.raises(ValueError, match=":") as caught:
        read_part(data)
    assert str(caught.value).startswith(wrong)


def test_what_is_deep_is_carried_along_unlooked_at():
    part = read_part({"type": "hosted", "provider": "p", "data": {"deep": DEEP}})
    assert part.data["deep"] is DEEP


def test_what_says_nothing_isnt_written_part():
    assert TextPart("a").to_json() == {"type": "text", "text": "a"}
    assert ReasoningPart().to_json() == {"type": "reasoning", "text": ""}
    assert TextPart("a", [Citation(text="b")], {"p": 1}).to_json() == {
        "type": "text",
        "text": "a",
        "citations": [{"text": "b"}],
        "providerMetadata": {"p": 1},
    }


def test_half_a_character_is_replaced_since_no_wire_takes_it():
    assert (TextPart("\ud800").text, ReasoningPart("\ud800").text) == ("\ufffd", "\ufffd")
    assert ResultPart("\ud800", "\ud800", ToolResult("a")).to_json()["callId"] == "\ufffd"


def test_opaque_data_isnt_shown_in_full():
    """Signatures are long."""
    for part in (TextPart("a", (), {"sig": "secret"}), HostedPart("p", {"sig": "secret"})):
        assert "secret" not in repr(part)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("a", TextPart("a")),
        (TextContent("a"), TextPart("a")),
        (ImageContent(b"a"), MediaPart(ImageContent(b"a"))),
        (ToolCall("add"), CallPart(ToolCall("add"))),
        (TextPart("a"), TextPart("a")),
    ],
)
def test_hosts_write_parts_for_short(given, part):
    assert _as_part(given) == part


def test_something_else_is_no_part():
    with pytest.raises(TypeError, match="a part of a message must be a text, content, a call or a part, not int"):
        _as_part(5)


def test_an_answer_carries_what_its_call_carried_for_it():
    result = ToolResult("3")
    answered = ResultPart.of(ToolCall("add", id="c1", provider_metadata={"openai": {"type": "custom"}}), result)
    assert answered == ResultPart("c1", "add", result, {"openai": {"type": "custom"}})
    assert ResultPart.of(ToolCall("add", id="c1", provider_metadata="opaque"), result).provider_metadata == {}


def test_a_conversation_holds_nothing_of_the_operators():
    result = ToolResult.error("tool_failure", "It failed.", detail="Traceback: /srv/secret.py")
    data = ResultPart("c1", "add", result).to_json()
    assert "secret" not in str(data)
    assert read_part(data).result == ToolResult.error("tool_failure", "It failed.")


@given(CITATIONS)
def test_it_comes_back_from_json_citation(citation):
    assert Citation.from_json(json.loads(json.dumps(citation.to_json()))) == citation


def test_what_isnt_known_isnt_written():
    assert Citation(uri="https://example.org", start=0).to_json() == {"uri": "https://example.org", "start": 0}
    assert Citation().to_json() == {}


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (None, "citation: must be an object, got NoneType"),
        ({"text": 1}, "text: must be a text, got int"),
        ({"start": True}, "start: must be a whole number, got bool"),
        ({"data": []}, "data: must be an object, got list"),
    ],
)
def test_what_is_none_is_refused_by_name(data, wrong):
    with pytest.raises(ValueError, match=wrong):
        Citation.from_json(data)
