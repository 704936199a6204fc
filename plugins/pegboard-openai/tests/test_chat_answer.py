from __future__ import annotations

import base64

import pytest
from hypothesis import given, strategies as st
from openai.types.chat import ChatCompletion

from fake_vendors.rules.samples import WEATHER, asked, called
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import CallPart, MediaPart, Message, ReasoningPart, TextPart
from pegboard.request.model_request import ModelConfig
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, ToolResult
from pegboard_openai.openai_chat import OpenAIChat

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "note", "input": "x"}}
URL = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 2, "title": "T", "url": "http://a"}}
AUDIO = {"id": "audio_1", "data": base64.b64encode(b"RIFF").decode(), "expires_at": 1, "transcript": "hello"}
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def raw(finish="stop", usage=USAGE, **message):
    message = {"role": "assistant", "content": None, "refusal": None, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x",
        "choices": [{"index": 0, "finish_reason": finish, "logprobs": None, "message": message}],
        "usage": usage,
    }


def read(body, request=None):
    return OpenAIChat().response(body, request)


def dumps(body):
    model = ChatCompletion.model_validate(body)
    return [model.model_dump(), model.model_dump(exclude_none=True), model.model_dump(mode="json")]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_the_sdk_gives_is_read(place):
    body = dumps(raw("tool_calls", content="Hi", annotations=[URL], tool_calls=[CALL, CUSTOM], audio=AUDIO))[place]
    response = read(body)

    text, sound, call, custom = response.parts
    assert (text.text, text.citations[0].uri, text.citations[0].end) == ("Hi", "http://a", 2)
    assert text.citations[0].data == {"openai": URL}
    assert sound == MediaPart(AudioContent(b"RIFF"), {"openai": {"audio": "audio_1", "transcript": "hello"}})
    assert call.call == ToolCall("weather", '{"city": "Oslo"}', "c1")
    assert custom.call == ToolCall("note", {"input": "x"}, "c2", provider_metadata={"openai": {"type": "custom"}})
    assert (response.finish_reason, response.complete, response.model, response.id) == (
        "tool_calls",
        True,
        "gpt-x",
        "chatcmpl-1",
    )
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 5, 4)
    assert (usage.cache_write_tokens, usage.reasoning_tokens) == (2, 3)


@pytest.mark.parametrize(
    ("finish", "message", "reason", "complete"),
    [
        ("stop", {"content": "x"}, "stop", True),
        (None, {"content": "x"}, "stop", True),
        ("stop", {"tool_calls": [CALL]}, "tool_calls", True),
        ("tool_calls", {"content": "x"}, "stop", True),
        ("length", {"tool_calls": [CALL]}, "length", False),
        ("content_filter", {}, "content_filter", False),
        ("error", {}, "error", False),
        ("stop", {"refusal": "no"}, "refusal", True),
        ("eos", {"content": "x"}, "other", True),
        (7, {"content": "x"}, "other", True),
    ],
)
def test_why_it_ended(finish, message, reason, complete):
    response = read(raw(finish, **message))
    assert (response.finish_reason, response.complete) == (reason, complete)


def test_a_refusal_is_a_text_that_is_marked():
    (part,) = read(raw(refusal="no")).parts
    assert (part.text, part.provider_metadata) == ("no", {"openai": {"refusal": True}})


def test_content_in_parts_is_read():
    parts = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}, {"type": "text", "text": "c"}, 3]
    assert [part.text for part in read(raw(content=parts)).parts] == ["ac", "b"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_other_servers_is_read(name):
    (thought, _) = read(raw(content="x", **{name: "hm"})).parts
    assert (type(thought), thought.text, thought.provider_metadata) == (
        ReasoningPart,
        "hm",
        {"openai": {"field": name}},
    )


def test_a_sound_that_cant_be_read_leaves_its_words():
    assert read(raw(audio={**AUDIO, "data": "?"})).text == "hello"
    assert read(raw(audio={"data": "?"})).parts == ()


def test_the_form_from_before_there_were_several_calls_is_read():
    (call,) = read(raw("function_call", function_call={"name": "weather", "arguments": "{}"})).calls
    assert (call.name, call.id) == ("weather", "call_0")


def test_malformed_calls_are_kept():
    given = [
        {"function": {"name": "weather", "arguments": '{"city'}},
        {"id": "c1", "function": {"arguments": "{}"}},
        {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Oslo"}}},
        {"id": 7, "type": "function", "function": None},
    ]
    calls = read(raw("tool_calls", tool_calls=given)).calls
    assert [call.id for call in calls] == ["call_0", "c1", "c1_2", "call_3"]
    assert [call.name for call in calls] == ["weather", "", "weather", ""]
    assert [call.arguments for call in calls] == ['{"city', "{}", {"city": "Oslo"}, {}]
    assert [call.invalid for call in calls] == [False, True, False, True]


def test_what_other_servers_want_back_is_kept():
    extra = {"google": {"thought_signature": "c2ln"}}
    (call,) = read(raw(tool_calls=[{**CALL, "extra_content": extra}])).calls
    assert call.provider_metadata == {"openai": {"extra_content": extra}}


def test_nulls_of_a_strict_schema_are_taken_away():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    body = raw(tool_calls=[{"id": "c", "function": {"name": "t", "arguments": '{"a": null, "b": "x"}'}}])
    strictly = asked(tools=[Tool.from_schema("t", schema)], config=ModelConfig(strict=True))
    assert read(body, strictly).calls[0].arguments == {"b": "x"}
    plainly = asked(tools=[Tool.from_schema("t", schema)])
    assert read(body, plainly).calls[0].arguments == '{"a": null, "b": "x"}'
    assert read(body, asked(tools=[WEATHER])).calls[0].arguments == '{"a": null, "b": "x"}'


def test_what_else_is_said_is_kept():
    assert read(raw() | {"service_tier": "flex", "system_fingerprint": "f"}).custom_metadata == {
        "service_tier": "flex",
        "system_fingerprint": "f",
    }


def test_an_error_body_is_the_providers_error():
    with pytest.raises(ModelError, match="openai: Slow down") as caught:
        read({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}})
    assert caught.value.retryable


def test_what_was_read_goes_back_as_it_was():
    message = raw("tool_calls", content="Hi", tool_calls=[CALL, CUSTOM])["choices"][0]["message"]
    response = read({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    results = Message.tool([(call, ToolResult("1")) for call in response.calls])
    (said, *_) = OpenAIChat().request(asked(response.message, results))["messages"]
    assert said == {"role": "assistant", "content": "Hi", "tool_calls": [CALL, CUSTOM]}
    assert [type(part) for part in response.parts] == [TextPart, CallPart, CallPart]


@given(st.text(max_size=5), st.lists(called, max_size=4, unique_by=lambda call: call.id))
def test_what_is_said_is_read_as_it_was(text, calls):
    """But for texts that are empty, and lone surrogates, which no wire has."""
    message = Message.assistant(*([TextPart(text)] if text else []), *calls)
    said = OpenAIChat().request(asked(message, tools=()))["messages"]
    read_back = [part for each in said for part in read({"choices": [{"message": each}]}).parts]
    assert tuple(read_back) == message.parts
