from __future__ import annotations

import copy

import anthropic
import httpx2
import pytest

from fake_vendors import Call, ModelServer, Reasoning, Round
from fake_vendors.server.talk import CITY, EMPTY, anthropic as client_of

TOOLS = [
    {"name": "weather", "description": "Tells the weather.", "input_schema": CITY},
    {"name": "clock", "input_schema": EMPTY},
]
ASKED = [{"role": "user", "content": "What is it like?"}]


def use(use_id="toolu_1_0", name="weather", **changes):
    return {"type": "tool_use", "id": use_id, "name": name, "input": {}, **changes}


def result(use_id="toolu_1_0", content="rain"):
    return {"type": "tool_result", "tool_use_id": use_id, "content": content}


def turn(role, *blocks):
    return {"role": role, "content": list(blocks)}


def words(text="x"):
    return {"type": "text", "text": text}


def ask(client, messages=ASKED, **changes):
    return client.messages.create(**{"model": "m", "max_tokens": 100, "messages": messages, "tools": TOOLS, **changes})


def whole(*rounds, messages=ASKED, **changes):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return ask(client, messages, **changes)


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and its client: one for all that is refused."""
    with ModelServer() as server, client_of(server.url) as client:
        yield server, client


def dumped(message):
    return {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]}


def results_of(message):
    return turn("user", *(result(block.id) for block in message.content if block.type == "tool_use"))


def test_a_ping_stands_on_the_wire():
    """The SDK keeps it to itself."""
    with ModelServer([Round(text="x")]) as server, httpx2.Client() as client:
        body = {"model": "m", "max_tokens": 9, "messages": ASKED, "stream": True}
        headers = {"x-api-key": "x", "anthropic-version": "2023-06-01"}
        got = client.post(server.url + "/v1/messages", json=body, headers=headers)
    assert got.headers["content-type"].startswith("text/event-stream")
    assert 'event: ping\ndata: {"type": "ping"}\n\n' in got.text


def history(*turns):
    return {"messages": [*ASKED, *turns]}


ONE, TWO = use("a"), use("b", "clock")
GIF = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": ""}}
BMP = {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": ""}}


def tool(**changes):
    return {"tools": [{**TOOLS[0], **changes}]}


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("model", {"model": ""}),
        ("max_tokens: Field required", {"extra_body": {"max_tokens": None}}),
        ("at least one message", {"messages": []}),
        ("first message must use", {"messages": [turn("assistant", words())]}),
        ("'user', 'assistant' or 'system'", {"messages": [{"role": "tool", "content": "x"}]}),
        ("content: Field required", {"messages": [{"role": "user", "content": None}]}),
        ("non-empty content", {"messages": [{"role": "user", "content": ""}]}),
        ("must be non-empty", {"messages": [turn("user", words(""))]}),
        ("Unknown parameter", {"messages": [{"role": "user", "content": "x", "name": "y"}]}),
        ("without `tool_result` blocks immediately after: a", history(turn("assistant", ONE))),
        ("immediately after: b", history(turn("assistant", ONE, TWO), turn("user", result("a")))),
        ("immediately after: a", history(turn("assistant", ONE), turn("user", words(), result("a")))),
        ("immediately after: a", history(turn("assistant", ONE), ASKED[0], turn("user", result("a")))),
        ("single result", history(turn("assistant", ONE, TWO), turn("user", result("a"), result("a"), result("b")))),
        ("unexpected `tool_use_id`", history(turn("user", result("a")))),
        ("must be unique: a", history(turn("assistant", ONE, ONE), turn("user", result("a")))),
        (
            "must be unique: a",
            history(
                turn("assistant", ONE), turn("user", result("a")), turn("assistant", ONE), turn("user", result("a"))
            ),
        ),
        ("does not declare", history(turn("assistant", use("a", "gone")), turn("user", result("a")))),
        ("must define tools", {**history(turn("assistant", ONE), turn("user", result("a"))), "tools": []}),
        ("valid dictionary", history(turn("assistant", use("a", input="{}")), turn("user", result("a")))),
        ("does not match pattern", history(turn("assistant", use("a b")), turn("user", result("a b")))),
        ("tool_use.name", history(turn("assistant", use("a", "a b")), turn("user", result("a")))),
        ("tool_result.tool_use_id", history(turn("assistant", ONE), turn("user", result(None)))),
        ("Unknown parameter", history(turn("assistant", use("a", index=0)), turn("user", result("a")))),
        ("not allowed in `user`", {"messages": [turn("user", ONE)]}),
        ("not allowed in `assistant`", history(turn("assistant", result("a")))),
        ("media_type", {"messages": [turn("user", BMP)]}),
        ("media_type", history(turn("assistant", ONE), turn("user", result("a", [BMP])))),
        ("Input tag 'tool_use'", history(turn("assistant", ONE), turn("user", result("a", [ONE])))),
        ("Invalid `signature`", history(turn("assistant", {"type": "thinking", "thinking": "x", "signature": "y"}))),
        (
            "without its `server_tool_use`",
            history(turn("assistant", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})),
        ),
        ("does not match pattern", tool(name="a.b")),
        ("must be unique", {"tools": [TOOLS[0], TOOLS[0]]}),
        ("input_schema: Field required", tool(input_schema=None)),
        ("type: Input should be 'object'", tool(input_schema={})),
        ("does not support oneOf", tool(input_schema={**CITY, "oneOf": []})),
        ("does not match pattern", tool(input_schema={"type": "object", "properties": {"a b": {}}})),
        ("defer_loading=false", tool(defer_loading=True)),
        (
            "Too many strict tools",
            {"tools": [{**TOOLS[0], "name": f"t{number}", "strict": True} for number in range(21)]},
        ),
        ("only be specified while providing tools", {"tools": [], "tool_choice": {"type": "auto"}}),
        ("not declared", {"tool_choice": {"type": "tool", "name": "gone"}}),
        ("tool_choice.type", {"tool_choice": {"type": "required"}}),
        (
            "Thinking may not be enabled",
            {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 9}},
        ),
    ],
)
def test_what_is_refused(refusing, message, changes):
    server, client = refusing
    with pytest.raises(anthropic.BadRequestError, match=message) as caught:
        ask(client, **copy.deepcopy(changes))
    assert server.refusals[-1] == caught.value.body["error"]["message"]
    assert caught.value.type == "invalid_request_error"


def test_what_is_taken():
    """The neighbours of what is refused."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    messages = [
        turn("user", GIF),
        turn("assistant", search, found, words(), ONE, TWO),
        turn("user", result("b", [words(), GIF])),
        turn("user", result("a", None), words()),
        turn("system", words("Be brief.")),
        turn("assistant", words("and")),
    ]
    tools = [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}]
    choice = {"type": "tool", "name": "web_search"}
    assert whole(Round(text="x"), messages=messages, tools=tools, tool_choice=choice).content[0].text == "x"


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"anthropic-version": "2023-06-01"}, 401, "authentication_error"),
        ({"x-api-key": "x"}, 400, "invalid_request_error"),
    ],
)
def test_without_a_key_or_a_version_the_request_is_refused(headers, status, kind):
    with ModelServer() as server, httpx2.Client() as client:
        got = client.post(server.url + "/v1/messages", json={}, headers=headers)
    assert (got.status_code, got.json()["error"]["type"]) == (status, kind)


@pytest.mark.parametrize("thought", [Reasoning("hm", "secret"), Reasoning(signature="data", redacted=True)])
@pytest.mark.parametrize("spoil", ["change", "drop", "keep", "drop when over"])
def test_thinking_comes_back_unchanged(thought, spoil):
    taken = spoil.startswith(("keep", "drop when"))
    script = [Round(reasoning=thought, calls=[Call("clock")]), Round(text="x")][: 1 + taken]
    with ModelServer(script) as server, client_of(server.url) as client:
        first = ask(client)
        answer = dumped(first)
        if spoil.startswith("drop"):
            answer["content"].pop(0)
        if spoil == "change":
            answer["content"][0]["data" if thought.redacted else "signature"] = "other"
        messages = [*ASKED, answer, results_of(first)]
        if taken:
            over = [turn("assistant", words()), *ASKED] if spoil == "drop when over" else []
            assert ask(client, [*messages, *over]).content[0].text == "x"
            return
        message = "Expected `thinking`" if spoil == "drop" else "Invalid `signature`"
        with pytest.raises(anthropic.BadRequestError, match=message):
            ask(client, messages)


THINKING = {"type": "thinking", "thinking": "x", "signature": "y"}


@pytest.mark.parametrize("brought", [Round(hosted=[THINKING]), Round(raw={"content": [THINKING]})])
def test_thinking_that_the_script_has_as_json_may_come_back(brought):
    with ModelServer([brought, Round(text="x")]) as server, client_of(server.url) as client:
        ask(client)
        assert ask(client, [*ASKED, turn("assistant", THINKING), *ASKED]).content[0].text == "x"
