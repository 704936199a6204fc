from __future__ import annotations

import copy
import json

import httpx2
import pytest

from fake_vendors import Call, Error, ModelServer, Reasoning, Round, Usage
from fake_vendors.server.talk import CITY, EMPTY, LOOP, run_async, until

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


def results_of(message):
    return [{"role": "tool", "tool_name": made["function"]["name"], "content": "x"} for made in message["tool_calls"]]


def test_a_loop_with_two_calls_side_by_side():
    with ModelServer(LOOP) as server:
        first = post(server, stream=False).json()
        message = first["message"]
        assert (message["content"], first["done_reason"]) == ("Let me look.", "stop")
        assert [made["function"] for made in message["tool_calls"]] == [
            {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}},
            {"index": 1, "name": "clock", "arguments": {}},
        ]
        second = post(server, [*ASKED, message, *results_of(message)], stream=False).json()
        assert second["message"]["content"] == "It is noon, and it rains."


def test_it_streams_unless_it_is_told_not_to():
    got = lines(LOOP[0])
    assert [line["message"]["content"] for line in got] == ["Let ", "me l", "ook.", "", "", ""]
    assert [made["function"]["name"] for line in got for made in line["message"].get("tool_calls", ())] == [
        "weather",
        "clock",
    ]
    assert [line["done"] for line in got] == [False] * 5 + [True]


def test_an_async_client():
    async def play():
        async with httpx2.AsyncClient() as client, client.stream("POST", server.url + "/api/chat", json=body()) as got:
            return [json.loads(line) async for line in got.aiter_lines()]

    with ModelServer([Round(text="abc")]) as server:
        assert "".join(line["message"]["content"] for line in run_async(play)) == "abc"


def test_reasoning_refusals_usage_and_ids():
    played = Round(text="x", refusal="no", reasoning=Reasoning("h"), calls=[Call("clock", id="1")], usage=Usage(20, 10))
    got = whole(played)
    assert (got["message"]["content"], got["message"]["thinking"]) == ("xno", "h")
    assert (got["message"]["tool_calls"][0]["id"], got["prompt_eval_count"], got["eval_count"]) == ("1", 20, 10)
    assert [line["message"].get("thinking") for line in lines(played)] == ["h", *[None] * 5]


def test_the_finish_reason_is_the_scripts():
    assert whole(Round(text="x", finish="length"))["done_reason"] == "length"
    assert lines(Round())[-1]["done_reason"] == "stop"


@pytest.mark.parametrize(
    ("played", "count"), [(Round(text="abc", break_after=2), 2), (Round(calls=[Call("clock")], never_ends=5), 6)]
)
def test_a_stream_that_breaks_off(played, count):
    with (
        ModelServer([played]) as server,
        httpx2.Client() as client,
        client.stream("POST", server.url + "/api/chat", json=body()) as answer,
    ):
        assert len(until(httpx2.RemoteProtocolError, answer.iter_lines())) == count


def test_an_error_inside_a_stream_is_a_line():
    assert lines(Round(text="abc", error=Error(500, "busy", after=1)))[1:] == [{"error": "busy"}]


@pytest.mark.parametrize("stream", [False, True])
def test_an_error(stream):
    with ModelServer([Round(error=Error(429, "no", retry_after=2))]) as server:
        got = post(server, stream=stream)
    assert (got.status_code, got.json(), got.headers["retry-after"]) == (429, {"error": "no"}, "2")


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
