from __future__ import annotations

import contextlib
import copy
import json

import httpx2
import pytest
from botocore.exceptions import ClientError, EventStreamError
from urllib3.exceptions import ProtocolError

from fake_vendors import Call, Citation, Error, ModelServer, Reasoning, Round, Search, Usage
from fake_vendors.server.talk import CITY, EMPTY, LOOP, bedrock as client_of, until

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


def gathered(got):
    """The message of a stream, as a client gathers it."""
    blocks = {}
    for event in got:
        for part in event.values():
            block = blocks.setdefault(part.get("contentBlockIndex"), {})
            block |= part.get("start", {}).get("toolUse", {})
            delta = part.get("delta", {})
            for key, piece in (("text", delta.get("text")), ("input", delta.get("toolUse", {}).get("input"))):
                if piece is not None:
                    block[key] = block.get(key, "") + piece
    blocks.pop(None)
    made = [
        {"text": block["text"]} if "text" in block else {"toolUse": {**block, "input": json.loads(block["input"])}}
        for block in blocks.values()
    ]
    return {"role": "assistant", "content": made}


def results_of(message):
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    return {"role": "user", "content": [answered(use["toolUseId"]) for use in uses]}


def answered(use_id="a", *parts, **changes):
    return {"toolResult": {"toolUseId": use_id, "content": list(parts) or [{"text": "x"}], **changes}}


def test_a_loop_with_two_calls_side_by_side():
    with ModelServer(LOOP) as server, client_of(server.url) as client:
        first = ask(client)
        assert first["stopReason"] == "tool_use"
        text, *uses = content(first)
        assert text == {"text": "Let me look."}
        assert [(use["toolUse"]["name"], use["toolUse"]["input"]) for use in uses] == [
            ("weather", {"city": "Oslo"}),
            ("clock", {}),
        ]
        message = first["output"]["message"]
        second = ask(client, [*ASKED, message, results_of(message)])
        assert (second["stopReason"], content(second)) == ("end_turn", [{"text": "It is noon, and it rains."}])
        assert server.requests[0].path == "/model/m/converse"


def test_a_streamed_loop():
    with ModelServer(LOOP) as server, client_of(server.url) as client:
        message = gathered(streamed(client))
        second = gathered(streamed(client, [*ASKED, message, results_of(message)]))
        assert second["content"] == [{"text": "It is noon, and it rains."}]


def test_a_stream_has_its_events_in_order():
    got = events(Round(text="abc", calls=[Call("weather", {"city": "Oslo"})], usage=Usage(20, 10, cached=5)))
    assert [next(iter(event)) for event in got] == [
        "messageStart",
        *(*["contentBlockDelta"] * 3, "contentBlockStop"),
        *("contentBlockStart", *["contentBlockDelta"] * 3, "contentBlockStop"),
        *("messageStop", "metadata"),
    ]
    assert got[-2]["messageStop"]["stopReason"] == "tool_use"
    usage = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30, "cacheReadInputTokens": 5}
    assert got[-1]["metadata"]["usage"] == usage == whole(Round(text="x", usage=Usage(20, 10, cached=5)))["usage"]


def test_reasoning_citations_and_hosted_blocks():
    played = Round(
        text="x",
        reasoning=Reasoning("hm", "secret"),
        hosted=[Search("unknown here"), {"guardContent": {"text": {"text": "g"}}}],
        citations=[Citation("u", "t", "rain")],
    )
    cited = {"title": "t", "sourceContent": [{"text": "rain"}], "location": {"web": {"url": "u"}}}
    assert content(whole(played)) == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "secret"}}},
        {"guardContent": {"text": {"text": "g"}}},
        {"citationsContent": {"content": [{"text": "x"}], "citations": [cited]}},
    ]
    assert deltas(events(played)) == [
        *({"reasoningContent": {"text": "h"}}, {"reasoningContent": {"text": "m"}}),
        {"reasoningContent": {"signature": "secret"}},
        *({"text": "x"}, {"citation": cited}),
    ]


def test_redacted_and_unsigned_reasoning():
    redacted = Round(reasoning=Reasoning(signature="ZGF0YQ==", redacted=True))
    assert content(whole(redacted)) == [{"reasoningContent": {"redactedContent": b"data"}}]
    assert deltas(events(redacted)) == [{"reasoningContent": {"redactedContent": b"data"}}]
    assert deltas(events(Round(reasoning=Reasoning("h")))) == [{"reasoningContent": {"text": "h"}}]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_tokens"), ("content_filter", "content_filtered"), ("guardrail_intervened",) * 2],
)
def test_the_finish_reason_is_the_scripts(finish, reason):
    assert whole(Round(text="x", finish=finish))["stopReason"] == reason
    assert events(Round(text="x", finish=finish))[-2]["messageStop"]["stopReason"] == reason


def test_refusals_and_empty_answers():
    got = whole(Round(refusal="no"))
    assert (got["stopReason"], content(got)) == ("content_filtered", [{"text": "no"}])
    assert deltas(events(Round(refusal="no"))) == [{"text": "n"}, {"text": "o"}]
    assert content(whole(Round())) == []
    assert len(events(Round())) == 3


def test_broken_calls_go_out_as_they_are_written():
    made = [Call("a", "{x", id="1"), Call("b", "[1]", id="1"), Call("c", id=None)]
    uses = [block["toolUse"] for block in content(whole(Round(calls=made)))]
    assert [use.get("toolUseId") for use in uses] == ["1", "1", None]
    assert [use["input"] for use in uses] == ["{x", [1], {}]
    assert "".join(delta["toolUse"]["input"] for delta in deltas(events(Round(calls=made[:1])))) == "{x"


def test_a_new_call_under_an_old_index():
    got = events(Round(calls=[Call("clock"), Call("clock", same_index=True)]))
    begun = [event["contentBlockStart"] for event in got if "contentBlockStart" in event]
    assert [(one["contentBlockIndex"], one["start"]["toolUse"]["toolUseId"]) for one in begun] == [
        (0, "tooluse_1_0"),
        (0, "tooluse_1_1"),
    ]


@pytest.mark.parametrize("played", [Round(text="abc", break_after=2), Round(calls=[Call("clock")], never_ends=50)])
def test_a_stream_that_breaks_off(played):
    with (
        ModelServer([played]) as server,
        client_of(server.url) as client,
        contextlib.closing(streamed(client)) as stream,
    ):
        got = until(ProtocolError, stream)
    assert len(got) == (2 if played.text else 53)


def test_an_error_inside_a_stream():
    script = [Round(text="abc", error=Error(429, "busy", after=2))]
    with ModelServer(script) as server, client_of(server.url) as client:
        with contextlib.closing(streamed(client)) as stream, pytest.raises(EventStreamError, match="busy") as caught:
            list(stream)
        assert caught.value.response["Error"]["Code"] == "throttlingException"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ValidationException"),
        (401, "UnrecognizedClientException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
        (418, "ValidationException"),
    ],
)
@pytest.mark.parametrize("way", [ask, streamed])
def test_an_error_is_the_sdks_own(status, code, way):
    with ModelServer([Round(error=Error(status, "no", retry_after=2))]) as server, client_of(server.url) as client:
        with pytest.raises(ClientError, match="no") as caught:
            way(client)
        assert caught.value.response["Error"] == {"Code": code, "Message": "no"}
        assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "2"


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


@pytest.mark.parametrize("way", [ask, streamed])
def test_a_refusal_is_the_sdks_own_error(way):
    with ModelServer() as server, client_of(server.url) as client:
        refused = client.exceptions.ValidationException
        with pytest.raises(refused, match="Expected toolResult blocks"):
            way(client, [*ASKED, turn("assistant", use())])


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
