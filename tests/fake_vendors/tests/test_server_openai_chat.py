from __future__ import annotations

import copy

import openai
import pytest

from fake_vendors import Call, ModelServer, Round
from fake_vendors.server.talk import CITY, EMPTY, openai as client_of

TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": CITY}},
    {"type": "function", "function": {"name": "clock", "parameters": EMPTY}},
    {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
]
ASKED = [{"role": "user", "content": "What is it like?"}]


def call(call_id="call_1_0", name="weather", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answered(call_id="call_1_0", content="rain"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def ask(client, messages=ASKED, **changes):
    return client.chat.completions.create(**{"model": "m", "messages": messages, "tools": TOOLS, **changes})


def whole(*rounds, messages=ASKED, **changes):
    """The only choice of one answer, whole."""
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return ask(client, messages, **changes).choices[0]


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and its client: one for all that is refused."""
    with ModelServer() as server, client_of(server.url) as client:
        yield server, client


def bare(made):
    return call(made.id, made.function.name, made.function.arguments)


def test_names_that_a_round_made_up_may_come_back():
    with ModelServer([Round(calls=[Call("nobody")]), Round(text="x")]) as server, client_of(server.url) as client:
        ask(client)
        ask(client, [*ASKED, said(call(name="nobody")), answered()])


PARSED = {**call(), "function": {"name": "weather", "arguments": "{}", "parsed_arguments": {}}}
STRICT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def tool(name="weather", **function):
    return {"type": "function", "function": {"name": name, "parameters": EMPTY, **function}}


@pytest.mark.parametrize(
    ("message", "param", "changes"),
    [
        ("model", "model", {"model": ""}),
        ("empty array", "messages", {"messages": []}),
        (
            "tool_call_ids did not have response messages: call_1_0",
            "messages.[2].role",
            {"messages": [*ASKED, said(call())]},
        ),
        (
            "did not have response messages: b",
            "messages.[3].role",
            {"messages": [*ASKED, said(call("a"), call("b")), answered("a"), *ASKED, answered("b")]},
        ),
        ("must be a response", "messages.[1].role", {"messages": [*ASKED, answered()]}),
        ("must be a response", "messages.[3].role", {"messages": [*ASKED, said(call()), answered(), answered()]}),
        ("Duplicate tool call id", None, {"messages": [*ASKED, said(call(), call()), answered(), answered()]}),
        ("tool_calls", None, {"messages": [*ASKED, said()]}),
        ("expected a string, got null", None, {"messages": [{"role": "assistant", "content": None}]}),
        (r"tool_calls\[0\].id", None, {"messages": [*ASKED, said(call("")), answered()]}),
        ("expected a string", None, {"messages": [*ASKED, said(call(arguments={})), answered()]}),
        ("does not declare", None, {"messages": [*ASKED, said(call(name="gone")), answered()]}),
        (r"Unknown parameter: 'messages\[1\].parsed'", None, {"messages": [*ASKED, {**said(call()), "parsed": None}]}),
        (r"Unknown parameter: '.*\.index'", None, {"messages": [*ASKED, said({**call(), "index": 0}), answered()]}),
        (
            "'image_url' is not allowed",
            None,
            {"messages": [*ASKED, said(call()), answered(content=[{"type": "image_url"}])]},
        ),
        (r"'tools\[0\].custom.name'", None, {"tools": [{"type": "custom", "custom": {"name": "a b"}}]}),
        ("messages.*tool_call_id", None, {"messages": [*ASKED, said(call()), answered(None)]}),
        ("Invalid value: 'mcp'", None, {"messages": [*ASKED, said({"id": "a", "type": "mcp", "mcp": {}})]}),
        (r"Unknown parameter: '.*\.parsed_arguments'", None, {"messages": [*ASKED, said(PARSED), answered()]}),
        ("function.name", None, {"messages": [*ASKED, said(call(name="")), answered()]}),
        ("stream_options", None, {"stream_options": [1]}),
        ("Invalid value: 'robot'", None, {"messages": [{"role": "robot", "content": "x"}]}),
        ("expected a string", None, {"messages": [{"role": "user"}]}),
        ("an object is required, not a number", None, {"messages": [1]}),
        ("an array is required, not a string", None, {"tools": "x"}),
        ("does not match pattern", "tools[0].function.name", {"tools": [tool("a b")]}),
        ("does not match pattern", None, {"tools": [tool("a" * 65)]}),
        ("Duplicate tool name: 'weather'", "tools", {"tools": [tool(), tool()]}),
        ("array too long", "tools", {"tools": [tool(f"t{number}") for number in range(129)]}),
        ("empty array", "tools", {"tools": []}),
        ("Supported values are: 'function' and 'custom'", None, {"tools": [{"type": "mcp"}]}),
        ("string too long", None, {"tools": [tool(description="x" * 1025)]}),
        ("description: a string", None, {"tools": [tool(description=1)]}),
        ("must have type 'object'", None, {"tools": [tool(parameters={"type": "string"})]}),
        ("must have type 'object'", None, {"tools": [tool(parameters={**CITY, "anyOf": [{}]})]}),
        (
            "array schema missing items",
            None,
            {"tools": [tool(parameters={"type": "object", "properties": {"a": {"type": "array"}}})]},
        ),
        ("to be false", None, {"tools": [tool(parameters=CITY, strict=True)]}),
        ("every key", None, {"tools": [tool(parameters={**STRICT, "required": []}, strict=True)]}),
        ("only allowed when 'tools'", "tool_choice", {"tools": openai.omit, "tool_choice": "auto"}),
        ("not declared", None, {"tool_choice": {"type": "function", "function": {"name": "gone"}}}),
        ("not declared", None, {"tool_choice": {"type": "custom", "custom": {"name": "gone"}}}),
        (
            "not declared",
            None,
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "gone"}}]},
                }
            },
        ),
    ],
)
def test_what_is_refused(refusing, message, param, changes):
    server, client = refusing
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        ask(client, **copy.deepcopy(changes))
    assert server.refusals[-1] == caught.value.body["message"]
    assert param is None or caught.value.param == param


def test_what_is_taken():
    """The neighbours of what is refused."""
    history = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        said(call("a"), {"id": "b", "type": "custom", "custom": {"name": "run", "input": "x"}}),
        answered("b", [{"type": "text", "text": "x"}]),
        answered("a"),
        {"role": "assistant", "content": "x", "refusal": None},
    ]
    choice = {"type": "function", "function": {"name": "weather"}}
    tools = [*TOOLS[1:], {"type": "function", "function": {"name": "bare"}}, tool(strict=True, parameters=STRICT)]
    assert whole(Round(text="x"), messages=history, tools=tools, tool_choice=choice).message.content == "x"


def test_without_a_key_the_request_is_refused():
    with ModelServer() as server, client_of(server.url) as client, pytest.raises(openai.AuthenticationError):
        ask(client, extra_headers={"authorization": ""})
