"""What each vendor's server refuses: by its rules, which have their own tests, and by the tools that are declared."""

from __future__ import annotations

import json
from typing import Any

import attrs
import httpx2
import pytest

from fake_vendors import Call, ModelServer, Round

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED = {"role": "user", "content": "What is it like?"}


@attrs.frozen(eq=False, repr=False)
class Wire:
    """One vendor's requests: a conversation in which `clock` was called and answered, as its parts."""

    path: str
    body: dict[str, Any]
    key: str
    asked: dict[str, Any]
    call: Any
    result: dict[str, Any]
    choice: Any
    headers: dict[str, str]

    def __repr__(self):
        return self.path.rpartition("/")[2]

    def post(self, server, *turns, **changes):
        sent = {**self.body, self.key: [self.asked, *turns], **changes}
        with httpx2.Client() as client:
            return client.post(server.url + self.path, json=sent, headers=self.headers)


def chat_call(name="clock"):
    function = {"name": name, "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}


def claude_call(name="clock"):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": name, "input": {}}]}


def gemini_call(name="clock"):
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}


def bedrock_call(name="clock"):
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": name, "input": {}}}]}


def ollama_call(name="clock"):
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {}}}]}


def response_call(name="clock"):
    return {"type": "function_call", "call_id": "a", "name": name, "arguments": "{}"}


FUNCTION = {"type": "function", "function": {"name": "clock", "parameters": CITY}}
CHAT = Wire(
    "/v1/chat/completions",
    {"model": "m", "tools": [FUNCTION]},
    "messages",
    ASKED,
    chat_call,
    {"role": "tool", "tool_call_id": "a", "content": "x"},
    lambda name: {"tool_choice": {"type": "function", "function": {"name": name}}},
    {"authorization": "Bearer x"},
)
RESPONSES = Wire(
    "/v1/responses",
    {"model": "m", "tools": [{"type": "function", "name": "clock", "parameters": CITY, "strict": False}]},
    "input",
    ASKED,
    response_call,
    {"type": "function_call_output", "call_id": "a", "output": "x"},
    lambda name: {"tool_choice": {"type": "function", "name": name}},
    {"authorization": "Bearer x"},
)
CLAUDE = Wire(
    "/v1/messages",
    {"model": "m", "max_tokens": 9, "tools": [{"name": "clock", "input_schema": CITY}]},
    "messages",
    ASKED,
    claude_call,
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    lambda name: {"tool_choice": {"type": "tool", "name": name}},
    {"x-api-key": "x", "anthropic-version": "2023-06-01"},
)
GEMINI = Wire(
    "/v1beta/models/m:generateContent",
    {"tools": [{"functionDeclarations": [{"name": "clock", "parametersJsonSchema": CITY}]}]},
    "contents",
    {"role": "user", "parts": [{"text": "x"}]},
    gemini_call,
    {"role": "user", "parts": [{"functionResponse": {"name": "clock", "response": {"output": "x"}}}]},
    lambda name: {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}},
    {"x-goog-api-key": "x"},
)
SPEC = {"toolSpec": {"name": "clock", "inputSchema": {"json": CITY}}}
BEDROCK = Wire(
    "/model/m/converse",
    {"toolConfig": {"tools": [SPEC]}},
    "messages",
    {"role": "user", "content": [{"text": "x"}]},
    bedrock_call,
    {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}}]},
    lambda name: {"toolConfig": {"tools": [SPEC], "toolChoice": {"tool": {"name": name}}}},
    {"authorization": "x"},
)
OLLAMA = Wire(
    "/api/chat",
    {"model": "m", "stream": False, "tools": [FUNCTION]},
    "messages",
    ASKED,
    ollama_call,
    {"role": "tool", "content": "x"},
    None,
    {},
)
KEYED = [CHAT, RESPONSES, CLAUDE, GEMINI, BEDROCK]
wires = pytest.mark.parametrize("wire", [*KEYED, OLLAMA], ids=repr)


@wires
def test_a_sound_conversation_is_answered(wire):
    with ModelServer([Round(text="x")]) as server:
        assert wire.post(server, wire.call(), wire.result).status_code == 200


@wires
def test_what_breaks_a_rule_is_refused_in_the_vendors_shape(wire):
    """One of the conversation's types, of its pairs, of the tools, of what has to be there; and an undeclared call."""
    broken = json.loads(json.dumps(wire.body).replace('"clock"', '"clo ck"'))
    turns = (wire.call(), wire.result)
    with ModelServer() as server:
        answers = [
            wire.post(server, {**wire.call(), "parsed": 1}, wire.result),
            wire.post(server, wire.call()),
            wire.post(server, wire.call("gone"), json.loads(json.dumps(wire.result).replace("clock", "gone"))),
            wire.post(server, *turns, **broken),
            wire.post(server, **{wire.key: []}),
            wire.post(server, **{wire.key: [7]}),
        ]
        refusals = server.refusals
    assert [got.status_code for got in answers] == [400] * 6
    assert [refusal in texts_in(got.json()) for refusal, got in zip(refusals, answers, strict=True)] == [True] * 6


def texts_in(value):
    inner = value.values() if isinstance(value, dict) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in texts_in(each)]


@wires
def test_calls_of_tools_that_a_round_made_up_or_that_are_let_pass_may_come_back(wire):
    gone = (wire.call("gone"), json.loads(json.dumps(wire.result).replace("clock", "gone")))
    with ModelServer([Round(calls=[Call("gone")]), Round(text="x")]) as server:
        assert [wire.post(server, *turns).status_code for turns in ((), gone)] == [200, 200]
    with ModelServer([Round(text="x")], undeclared_calls=True) as server:
        assert wire.post(server, *gone).status_code == 200


@pytest.mark.parametrize("wire", KEYED, ids=repr)
def test_the_tool_choice_names_a_declared_tool(wire):
    with ModelServer([Round(text="x")]) as server:
        assert [wire.post(server, **wire.choice(name)).status_code for name in ("gone", "clock")] == [400, 200]


@pytest.mark.parametrize("wire", [CLAUDE, BEDROCK], ids=repr)
def test_calls_in_the_history_want_tools(wire):
    with ModelServer(undeclared_calls=True) as server:
        got = wire.post(server, wire.call(), wire.result, tools=[], toolConfig=None)
        assert (got.status_code, server.refusals) == (400, ["requests with calls or results must define tools"])


@pytest.mark.parametrize("wire", KEYED, ids=repr)
def test_without_a_key_the_request_is_refused(wire):
    with ModelServer() as server, httpx2.Client() as client:
        assert client.post(server.url + wire.path, json=wire.body).status_code == 401


@pytest.mark.parametrize(
    ("wire", "changes", "why"),
    [
        (CLAUDE, {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 9}}, "Thinking may"),
        (GEMINI, {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["clock"]}}}, "neither ANY nor"),
    ],
)
def test_what_a_vendor_refuses_beside(wire, changes, why):
    with ModelServer() as server:
        assert why in wire.post(server, **changes).text


def test_anthropic_wants_a_version_and_pings():
    with ModelServer([Round(text="x")]) as server, httpx2.Client(headers={"x-api-key": "x"}) as client:
        body = {**CLAUDE.body, "messages": [ASKED]}
        assert "anthropic-version" in client.post(server.url + CLAUDE.path, json=body).text
        assert 'event: ping\ndata: {"type": "ping"}\n\n' in CLAUDE.post(server, stream=True).text


def test_ollama_streams_unless_it_is_told_not_to():
    with ModelServer([Round(text="abc")]) as server:
        lines = [json.loads(line) for line in OLLAMA.post(server, stream=None).text.splitlines()]
    assert [(line["message"]["content"], line["done"]) for line in lines] == [
        *[(piece, False) for piece in "abc"],
        ("", True),
    ]
