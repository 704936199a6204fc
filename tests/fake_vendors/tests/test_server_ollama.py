from __future__ import annotations

import copy
import json

import httpx2
import pytest

from fake_vendors import Call, ModelServer, Reasoning, Round, Usage
from fake_vendors.server.talk import CITY, EMPTY, LOOP

TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": CITY}},
    {"type": "function", "function": {"name": "clock", "parameters": EMPTY}},
]
ASKED = [{"role": "user", "content": "What is it like?"}]


def body(messages=ASKED, **changes):
    return {"model": "m", "messages": messages, "tools": TOOLS, **changes}


def post(server, messages=ASKED, **changes):
    with httpx2.Client() as client:
        return client.post(server.url + "/api/chat", json=body(messages, **changes))


def whole(*rounds, **changes):
    with ModelServer(rounds) as server:
        return post(server, stream=False, **changes).json()


def lines(*rounds):
    with ModelServer(rounds) as server:
        got = post(server)
    assert got.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in got.text.splitlines()]


def test_it_streams_unless_it_is_told_not_to():
    got = lines(LOOP[0])
    assert [line["message"]["content"] for line in got] == ["Let ", "me l", "ook.", "", "", ""]
    assert [made["function"]["name"] for line in got for made in line["message"].get("tool_calls", ())] == [
        "weather",
        "clock",
    ]
    assert [line["done"] for line in got] == [False] * 5 + [True]


def test_reasoning_refusals_usage_and_ids():
    played = Round(text="x", refusal="no", reasoning=Reasoning("h"), calls=[Call("clock", id="1")], usage=Usage(20, 10))
    got = whole(played)
    assert (got["message"]["content"], got["message"]["thinking"]) == ("xno", "h")
    assert (got["message"]["tool_calls"][0]["id"], got["prompt_eval_count"], got["eval_count"]) == ("1", 20, 10)
    assert [line["message"].get("thinking") for line in lines(played)] == ["h", *[None] * 5]


def made(name="weather", **changes):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": name, "arguments": {}, **changes}}],
    }


RESULT = {"role": "tool", "content": "x"}


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and a client: one for all that is refused."""
    with ModelServer() as server, httpx2.Client() as client:
        yield server, client


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("model", {"model": None}),
        ("at least one", {"messages": []}),
        ("invalid role", {"messages": [{"role": "robot"}]}),
        ("content of type string", {"messages": [{"role": "user", "content": []}]}),
        ("images", {"messages": [{"role": "user", "content": "x", "images": [1]}]}),
        ("ToolCallFunctionArguments", {"messages": [*ASKED, made(arguments="{}"), RESULT]}),
        ("function.name", {"messages": [*ASKED, made(""), RESULT]}),
        ("does not declare", {"messages": [*ASKED, made("gone"), RESULT]}),
        ("no tool message for weather", {"messages": [*ASKED, made()]}),
        ("no call waits for", {"messages": [*ASKED, RESULT]}),
        ("is answered by 'clock'", {"messages": [*ASKED, made(), {**RESULT, "tool_name": "clock"}]}),
        ("'function' is required", {"tools": [{"type": "custom"}]}),
        ("function.name", {"tools": [{"type": "function", "function": {}}]}),
        ("parameters", {"tools": [{"type": "function", "function": {"name": "a", "parameters": "x"}}]}),
        ("duplicate tool name: weather", {"tools": TOOLS[:1] * 2}),
    ],
)
def test_what_is_refused(refusing, message, changes):
    server, client = refusing
    got = client.post(server.url + "/api/chat", json=body(**{"messages": ASKED, **copy.deepcopy(changes)}))
    assert got.status_code == 400
    assert message in got.json()["error"]
    assert server.refusals[-1] == got.json()["error"]


def test_what_is_taken():
    messages = [{"role": "user", "content": "x", "images": ["aGk="]}, made(), RESULT]
    assert whole(Round(text="x"), messages=messages)["message"]["content"] == "x"
