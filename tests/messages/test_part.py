from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import PARTS
from pegboard.messages.message import (
    _PART_TYPES,
    CallPart,
    Citation,
    HostedPart,
    MediaPart,
    ReasoningPart,
    ResultPart,
    TextPart,
    _as_part,
    _part_from_json,
)
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from strategies import json_values, mutated

DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]


@given(PARTS)
def test_each_comes_back_from_json(part):
    assert isinstance(part, _PART_TYPES)
    assert _part_from_json(json.loads(json.dumps(part.to_json()))) == part


@given(PARTS.flatmap(lambda part: mutated(part.to_json())))
def test_json_that_is_nearly_a_part_is_read_or_refused_with_its_path(data):
    """Nothing but a `ValueError` ever comes of data from outside."""
    try:
        part = _part_from_json(data, "parts[3]")
    except ValueError as error:
        assert str(error).startswith("parts[3]")  # noqa: PT017  either may come of it
    else:
        assert isinstance(part, _PART_TYPES)


@given(json_values())
def test_json_that_is_anything_is_refused(data):
    with pytest.raises(ValueError, match=r"^part[.:]"):
        _part_from_json(data)


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
        ({"type": "media"}, "parts[0].content: must be an object, got NoneType"),
        ({"type": "media", "content": {"type": DEEP}}, "parts[0].content.type: must be one of"),
        ({"type": "call"}, "parts[0].call: must be an object, got NoneType"),
        ({"type": "call", "call": {}}, "parts[0].call.name: missing"),
        ({"type": "result", "callId": "a", "name": "b"}, "parts[0].result: must be an object, got NoneType"),
        (
            {"type": "result", "callId": "a", "name": "b", "result": {"content": 1}},
            "parts[0].result.content: must be an array",
        ),
        ({"type": "result", "name": "b", "result": {}}, "parts[0].callId: missing"),
        ({"type": "hosted", "provider": "p", "role": "reply"}, "parts[0].role: must be call or result, got 'reply'"),
        ({"type": "reasoning", "providerMetadata": 1}, "parts[0].providerMetadata: must be an object, got int"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(data, wrong):
    with pytest.raises(ValueError, match=":") as caught:
        _part_from_json(data, "parts[0]")
    assert str(caught.value).startswith(wrong)


def test_what_is_deep_is_carried_along_unlooked_at():
    part = _part_from_json({"type": "hosted", "provider": "p", "data": {"deep": DEEP}})
    assert part.data["deep"] is DEEP


def test_what_says_nothing_isnt_written():
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
    assert _part_from_json(data).result == ToolResult.error("tool_failure", "It failed.")
