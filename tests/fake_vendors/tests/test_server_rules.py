from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import given, strategies as st

from fake_vendors import Call, Reasoning, Request, Round
from fake_vendors.server.anthropic_messages import AnthropicMessages
from fake_vendors.server.bedrock import Bedrock
from fake_vendors.server.gemini import Gemini
from fake_vendors.server.ollama import Ollama
from fake_vendors.server.openai_chat import OpenAIChat
from fake_vendors.server.openai_responses import OpenAIResponses
from fake_vendors.server.script import RefusedError, Reply
from fake_vendors.server.talk import CITY

HEADERS = {"authorization": "x", "x-api-key": "x", "x-goog-api-key": "x", "anthropic-version": "x"}
CHAT_TOOL = {"type": "function", "function": {"name": "clock", "description": "d", "parameters": CITY, "strict": False}}
SOURCE = {"type": "base64", "media_type": "image/png", "data": ""}
BODIES = {
    OpenAIChat: {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}]},
        ],
        "tools": [CHAT_TOOL, {"type": "custom", "custom": {"name": "run"}}],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"tools": [{"type": "function", "function": {"name": "clock"}}]},
        },
        "stream_options": {"include_usage": True},
    },
    OpenAIResponses: {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "function_call", "id": "fc_1_0", "call_id": "a", "name": "clock", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
        ],
        "tools": [
            {"type": "function", "name": "clock", "parameters": CITY, "strict": False},
            {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "custom", "name": "run"}]},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "clock"}]},
        "previous_response_id": None,
    },
    AnthropicMessages: {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image", "source": SOURCE}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "clock", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": SOURCE}]}
                ],
            },
        ],
        "tools": [
            {"name": "clock", "input_schema": CITY, "strict": True},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "tool_choice": {"type": "tool", "name": "clock"},
        "thinking": {"type": "disabled"},
    },
    Gemini: {
        "contents": [
            {"role": "user", "parts": [{"text": "x"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "a", "name": "clock", "args": {}}, "thoughtSignature": "bQ=="}],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "clock", "response": {}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "clock", "parametersJsonSchema": CITY}]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["clock"]}},
    },
    Bedrock: {
        "messages": [
            {"role": "user", "content": [{"text": "x"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "clock", "input": {}}}]},
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "a", "content": [{"json": {}}], "status": "success"}}],
            },
        ],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "clock", "description": "d", "inputSchema": {"json": CITY}}},
                {"cachePoint": {}},
            ],
            "toolChoice": {"tool": {"name": "clock"}},
        },
    },
    Ollama: {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x", "images": ["aGk="]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "clock", "arguments": {}}}]},
            {"role": "tool", "tool_name": "clock", "content": "x"},
        ],
        "tools": [CHAT_TOOL],
    },
}
"""A body of each format that touches what its rules read."""

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "x", "function", "tool", "clock", "a", "user"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "role", "name", "id", "text", "content", "tools", "tool"]), inner, max_size=2
        )
    ),
    max_leaves=5,
)


def places(value, path=()):
    """The paths to everything within a JSON value."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*found, *(place for key, one in inner for place in places(one, (*path, key)))]


def put(body, path, value):
    spoilt = copy.deepcopy(body)
    at = spoilt
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return spoilt


def seasoned(kind):
    """A format that has answered before, so that it looks at signatures, too."""
    form = kind()
    call = Call("clock", id="a", signature="bQ==")
    asked = Request("/x", "", HEADERS, {"model": "m", "input": "x"})
    form.remember(Reply(Round(calls=[call], reasoning=Reasoning("x", "y")), 9, asked))
    return form


@pytest.mark.parametrize("kind", BODIES)
def test_the_bodies_are_good(kind):
    form = kind()
    form.check(Request("/x", "", HEADERS, BODIES[kind] if kind is not Gemini else without_signature()))
    assert "clock" in form.declared(BODIES[kind])


def without_signature():
    return json.loads(json.dumps(BODIES[Gemini]).replace(', "thoughtSignature": "bQ=="', ""))


@pytest.mark.parametrize("kind", BODIES)
@given(data=st.data())
def test_whatever_stands_anywhere_is_taken_or_refused(kind, data):
    """The readers of a request raise nothing but refusals, and what they take can be answered."""
    body = put(BODIES[kind], data.draw(st.sampled_from(places(BODIES[kind]))), data.draw(JSON))
    form = seasoned(kind)
    with contextlib.suppress(RefusedError):
        request = Request("/x", "", HEADERS, body)
        form.check(request)
        reply = Reply(Round(text="x", calls=[Call("clock")]), 1, request)
        form.remember(reply)
        assert json.dumps(form.body(reply))
        assert list(form.events(reply))
