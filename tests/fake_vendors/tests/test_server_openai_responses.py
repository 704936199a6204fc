from __future__ import annotations

import copy

import openai
import pytest

from fake_vendors import Call, Citation, ModelServer, Page, Reasoning, Round, Search
from fake_vendors.server.talk import CITY, EMPTY, LOOP, openai as client_of

TOOLS = [
    {"type": "function", "name": "weather", "description": "Tells the weather.", "parameters": CITY, "strict": None},
    {"type": "function", "name": "clock", "parameters": EMPTY, "strict": None},
    {"type": "custom", "name": "run"},
]
ASKED = [{"role": "user", "content": "What is it like?"}]


def call(call_id="call_1_0", name="weather", **changes):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}", **changes}


def answered(call_id="call_1_0", output="rain", **changes):
    return {"type": "function_call_output", "call_id": call_id, "output": output, **changes}


def ask(client, items=ASKED, **changes):
    return client.responses.create(**{"model": "m", "input": items, "tools": TOOLS, **changes})


def whole(*rounds, items=ASKED, **changes):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return ask(client, items, **changes)


def events(*rounds, **changes):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return list(ask(client, stream=True, **changes))


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and its client: one for all that is refused."""
    with ModelServer() as server, client_of(server.url) as client:
        yield server, client


def dumped(response):
    return [item.model_dump(exclude_none=True) for item in response.output]


def results_of(response):
    return [
        answered(item.call_id, f"result of {item.name}") for item in response.output if item.type == "function_call"
    ]


def test_a_loop_that_goes_on_from_the_response_before():
    with ModelServer(LOOP) as server, client_of(server.url) as client:
        first = ask(client, "What is it like?")
        second = ask(client, results_of(first), previous_response_id=first.id)
        assert second.previous_response_id == "resp_1"
    with ModelServer(LOOP[:1]) as server, client_of(server.url) as client:
        first = ask(client)
        with pytest.raises(openai.BadRequestError, match="No tool output found for function call call_1_1"):
            ask(client, results_of(first)[:1], previous_response_id=first.id)


RICH = Round(
    text="x",
    reasoning=Reasoning("hm", "secret"),
    hosted=[
        Search("rain", [Page("u")]),
        {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "server_label": "s"},
    ],
    citations=[Citation("u", "t", start=0, end=1)],
    refusal="no",
)


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_searches_citations_and_refusals_are_items(stream):
    got = events(RICH)[-1].response if stream else whole(RICH)
    thought, search, hosted, message = got.output
    assert (thought.encrypted_content, thought.summary[0].text) == ("secret", "hm")
    assert (search.action.query, search.action.sources[0].url) == ("rain", "u")
    assert (hosted.type, hosted.name) == ("mcp_call", "n")
    assert [part.type for part in message.content] == ["output_text", "refusal"]
    assert message.content[0].annotations[0].url == "u"


def history(*items):
    return {"input": [*ASKED, *items]}


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("model", {"model": ""}),
        ("empty string", {"input": ""}),
        ("an array is required, not null", {"input": openai.omit}),
        ("No tool output found for function call call_1_0", history(call())),
        ("No tool call found for function call output with call_id call_1_0", history(answered())),
        ("No tool call found", history(call(), answered(), answered())),
        ("No tool call found", history(call(), {**answered(), "type": "custom_tool_call_output"})),
        ("Duplicate call_id", history(call(), call(), answered())),
        (r"Missing required parameter: 'input\[1\].call_id'", history({**call(), "call_id": None})),
        (r"Missing required parameter: 'input\[1\].name'", history({**call(), "name": None})),
        ("input.*arguments", history({**call(), "arguments": {}})),
        (r"Unknown parameter: 'input\[1\].parsed_arguments'", history(call(parsed_arguments={}), answered())),
        ("does not declare", history(call(name="gone"), answered())),
        ("an array is required", history(call(), answered(output=1))),
        ("Invalid value: 'image_url'", history(call(), answered(output=[{"type": "image_url"}]))),
        (
            "Invalid value: 'input_text'",
            history({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        ),
        ("Invalid value: 'robot'", history({"role": "robot", "content": "x"})),
        ("summary", history({"type": "reasoning", "id": "r"})),
        ("could not be verified", history({"type": "reasoning", "id": "r", "summary": []})),
        ("expected a string", history({"type": 1})),
        ("not found", {"previous_response_id": "resp_9"}),
        ("does not match pattern", {"tools": [{**TOOLS[0], "name": "a b"}]}),
        ("does not match pattern", {"tools": [{"type": "custom", "name": "a.b"}]}),
        ("Duplicate tool name", {"tools": [TOOLS[0], TOOLS[0]]}),
        ("Unknown parameter", {"tools": [{"type": "function", "function": {"name": "x"}}]}),
        ("must have type 'object'", {"tools": [{**TOOLS[0], "parameters": {}}]}),
        ("array too long", {"tools": [{**TOOLS[1], "name": f"t{number}"} for number in range(129)]}),
        (r"'tools\[0\].name'", {"tools": [{"type": "namespace", "description": "d", "tools": TOOLS[:1]}]}),
        ("an array is required", {"tools": [{"type": "namespace", "name": "n", "description": "d"}]}),
        ("description", {"tools": [{"type": "namespace", "name": "n", "tools": TOOLS[:1]}]}),
        (
            "Duplicate tool name",
            {"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": [TOOLS[0], TOOLS[0]]}]},
        ),
        ("not declared", {"tool_choice": {"type": "function", "name": "gone"}}),
        ("not declared", {"tool_choice": {"type": "web_search"}}),
        (
            "not declared",
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "x"}]}},
        ),
    ],
)
def test_what_is_refused(refusing, message, changes):
    server, client = refusing
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        ask(client, **copy.deepcopy(changes))
    assert server.refusals[-1] == caught.value.body["message"]


def test_what_is_taken():
    """The neighbours of what is refused."""
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:"}]},
        call("a", namespace="n"),
        {"type": "custom_tool_call", "call_id": "b", "name": "run", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "x"},
        answered("a", [{"type": "input_image", "image_url": "data:"}]),
        {"type": "web_search_call", "id": "ws", "status": "completed"},
    ]
    inner = {"type": "namespace", "name": "n", "description": "d", "tools": TOOLS[:2]}
    tools = [inner, TOOLS[2], {"type": "web_search"}]
    assert whole(Round(text="x"), items=items, tools=tools, tool_choice={"type": "web_search"}).output_text == "x"


def test_reasoning_of_a_raw_round_may_come_back():
    thought = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    with ModelServer([Round(raw={"output": [thought]}), Round(text="x")]) as server, client_of(server.url) as client:
        ask(client)
        assert ask(client, [*ASKED, thought, call(name="unknown"), answered()]).output_text == "x"


THOUGHT = Round(reasoning=Reasoning("hm", "secret"), calls=[Call("clock")])


@pytest.mark.parametrize("spoil", ["change", "drop", "keep"])
def test_reasoning_comes_back_unchanged(spoil):
    with ModelServer([THOUGHT, Round(text="x")][: 1 + (spoil == "keep")]) as server, client_of(server.url) as client:
        first = ask(client)
        items = dumped(first)
        if spoil == "keep":
            assert ask(client, [*ASKED, *items, *results_of(first)]).output_text == "x"
            return
        items = items[1:] if spoil == "drop" else [{**items[0], "encrypted_content": "other"}, *items[1:]]
        message = "required 'reasoning' item: 'rs_1'" if spoil == "drop" else "could not be verified"
        with pytest.raises(openai.BadRequestError, match=message):
            ask(client, [*ASKED, *items, *results_of(first)])
