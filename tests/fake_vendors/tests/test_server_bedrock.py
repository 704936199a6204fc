from __future__ import annotations

import copy

import httpx2
import pytest

from fake_vendors import Call, ModelServer, Reasoning, Round
from fake_vendors.server.talk import CITY, EMPTY, bedrock as client_of

TOOLS = [
    {"toolSpec": {"name": "weather", "description": "Tells the weather.", "inputSchema": {"json": CITY}}},
    {"toolSpec": {"name": "clock", "inputSchema": {"json": EMPTY}}},
]
ASKED = [{"role": "user", "content": [{"text": "What is it like?"}]}]


def ask(client, messages=ASKED, **changes):
    return client.converse(**{"modelId": "m", "messages": messages, "toolConfig": {"tools": TOOLS}, **changes})


def streamed(client, messages=ASKED, **changes):
    sent = {"modelId": "m", "messages": messages, "toolConfig": {"tools": TOOLS}, **changes}
    return client.converse_stream(**sent)["stream"]


def whole(*rounds, **changes):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return ask(client, **changes)


def events(*rounds):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return list(streamed(client))


def content(answer):
    return answer["output"]["message"]["content"]


def deltas(got):
    return [event["contentBlockDelta"]["delta"] for event in got if "contentBlockDelta" in event]


def results_of(message):
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    return {"role": "user", "content": [answered(use["toolUseId"]) for use in uses]}


def answered(use_id="a", *parts, **changes):
    return {"toolResult": {"toolUseId": use_id, "content": list(parts) or [{"text": "x"}], **changes}}


def test_redacted_and_unsigned_reasoning():
    redacted = Round(reasoning=Reasoning(signature="ZGF0YQ==", redacted=True))
    assert content(whole(redacted)) == [{"reasoningContent": {"redactedContent": b"data"}}]
    assert deltas(events(redacted)) == [{"reasoningContent": {"redactedContent": b"data"}}]
    assert deltas(events(Round(reasoning=Reasoning("h")))) == [{"reasoningContent": {"text": "h"}}]


def use(use_id="a", name="weather", **changes):
    return {"toolUse": {"toolUseId": use_id, "name": name, "input": {}, **changes}}


def turn(role, *blocks):
    return {"role": role, "content": list(blocks)}


def history(*turns):
    return {"messages": [*ASKED, *turns]}


def spec(**changes):
    return {"toolConfig": {"tools": [{"toolSpec": {**TOOLS[0]["toolSpec"], **changes}}]}}


PAIR = (turn("assistant", use()), turn("user", answered()))


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and a client: one for all that is refused."""
    with ModelServer() as server, httpx2.Client(headers={"authorization": "Bearer x"}) as client:
        yield server, client


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("must not be empty", {"messages": []}),
        ("must start with a user message", {"messages": [turn("assistant", {"text": "x"})]}),
        ("roles must alternate", history(ASKED[0])),
        ("Ids: b", history(turn("assistant", use("a"), use("b")), turn("user", answered("a")))),
        ("Ids: a", history(turn("assistant", use()))),
        ("exceeds the number", history(turn("assistant", {"text": "x"}), turn("user", answered()))),
        ("exceeds the number", history(turn("assistant", use()), turn("user", answered(), answered()))),
        ("duplicate Ids: a", history(turn("assistant", use(), use()), turn("user", answered()))),
        ("belong in an assistant turn", {"messages": [turn("user", use())]}),
        ("toolConfig field must be defined", {**history(*PAIR), "toolConfig": None}),
        ("does not declare", history(turn("assistant", use(name="gone")), turn("user", answered()))),
        ("does not match pattern", history(turn("assistant", use("a b")))),
        ("does not match pattern", history(turn("assistant", use(name="a.b")))),
        ("toolResult.toolUseId", history(turn("assistant", use()), turn("user", answered("a b")))),
        ("Provide a json object", history(turn("assistant", use(input="{}")))),
        ("Provide a json object", history(turn("assistant", use()), turn("user", answered("a", {"json": [1]})))),
        ("exactly one member", history(turn("assistant", use()), turn("user", answered("a", {"audio": {}})))),
        ("success, error", history(turn("assistant", use()), turn("user", answered(status="bad")))),
        ("is blank", {"messages": [turn("user", {"text": " "})]}),
        ("exactly one member", {"messages": [turn("user", {"text": "x", "image": {}})]}),
        ("Invalid `signature`", history(turn("assistant", {"reasoningContent": {"reasoningText": {"text": "x"}}}))),
        ("length greater than or equal to 1", {"toolConfig": {"tools": []}}),
        ("length greater than or equal to 1", spec(description="")),
        ("does not match pattern", spec(name="a b")),
        ("an object is required", spec(inputSchema={})),
        ("must be one of the following: object", spec(inputSchema={"json": {}})),
        ("duplicate tool name 'weather'", {"toolConfig": {"tools": [TOOLS[0], TOOLS[0]]}}),
        ("not declared", {"toolConfig": {"tools": TOOLS, "toolChoice": {"tool": {"name": "gone"}}}}),
    ],
)
def test_what_is_refused(refusing, message, changes):
    """As it stands on the wire: botocore refuses some of it itself."""
    server, client = refusing
    body = {"messages": ASKED, "toolConfig": {"tools": TOOLS}, **copy.deepcopy(changes)}
    got = client.post(server.url + "/model/m/converse", json=body)
    assert got.status_code == 400
    assert got.headers["x-amzn-errortype"].startswith("ValidationException")
    assert message in got.json()["message"]
    assert server.refusals[-1] == got.json()["message"]


def test_what_is_taken():
    """The neighbours of what is refused."""
    image = {"image": {"format": "png", "source": {"bytes": b"x"}}}
    messages = [
        turn("user", image),
        turn("assistant", use("s", "search", type="server_tool_use"), answered("s", type="search"), use("a"), use("b")),
        turn("user", answered("b", {"json": {}}), answered("a", image, status="error"), {"text": "y"}),
    ]
    tools = [*TOOLS, {"cachePoint": {"type": "default"}}, {"systemTool": {"name": "nova_grounding"}}]
    config = {"tools": tools, "toolChoice": {"tool": {"name": "nova_grounding"}}}
    assert content(whole(Round(text="x"), messages=messages, toolConfig=config)) == [{"text": "x"}]


def test_without_tools_nothing_about_them_is_asked():
    with ModelServer([Round(text="x")]) as server, client_of(server.url) as client:
        assert content(client.converse(modelId="m", messages=ASKED)) == [{"text": "x"}]


def test_without_a_key_the_request_is_refused():
    with ModelServer() as server, httpx2.Client() as client:
        assert client.post(server.url + "/model/m/converse", json={}).status_code == 401


REASONING = {"reasoningContent": {"reasoningText": {"text": "x", "signature": "y"}}}


@pytest.mark.parametrize(
    "brought", [Round(hosted=[REASONING]), Round(raw={"output": {"message": {"role": "assistant", "content": []}}})]
)
def test_reasoning_that_the_script_has_as_json_may_come_back(brought):
    with ModelServer([brought, Round(text="x")]) as server, client_of(server.url) as client:
        ask(client)
        assert content(ask(client, [*ASKED, turn("assistant", REASONING), *ASKED])) == [{"text": "x"}]


@pytest.mark.parametrize("thought", [Reasoning("hm", "secret"), Reasoning(signature="ZGF0YQ==", redacted=True)])
@pytest.mark.parametrize("spoil", ["change", "drop", "keep"])
def test_reasoning_comes_back_unchanged(thought, spoil):
    script = [Round(reasoning=thought, calls=[Call("clock")]), Round(text="x")][: 1 + (spoil == "keep")]
    with ModelServer(script) as server, client_of(server.url) as client:
        message = ask(client)["output"]["message"]
        if spoil == "drop":
            message["content"].pop(0)
        if spoil == "change":
            reasoning = message["content"][0]["reasoningContent"]
            reasoning |= (
                {"redactedContent": b"other"}
                if thought.redacted
                else {"reasoningText": {"text": "hm", "signature": "other"}}
            )
        messages = [*ASKED, message, results_of(message)]
        if spoil == "keep":
            assert content(ask(client, messages)) == [{"text": "x"}]
            return
        with pytest.raises(
            client.exceptions.ValidationException,
            match="Expected `thinking`" if spoil == "drop" else "Invalid `signature`",
        ):
            ask(client, messages)
