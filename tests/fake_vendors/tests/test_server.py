"""The server: how its script is played, and what each vendor refuses, by rules that have tests of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx2
import pytest

import fake_vendors
from fake_vendors import Call, Error, ModelServer, Request, Round
from fake_vendors.rules.exporters import EXPORTERS
from fake_vendors.rules.payloads import MESSAGES
from fake_vendors.server.script import CutError, Reply
from pegboard import Message, ModelRequest, NamedTool, Tool, ToolCall, ToolResult
from pegboard.toolsets import resolve_tools

PATHS = {  # of each vendor, by its exporter, with the headers that it wants
    "openai": ("/v1/chat/completions", {"authorization": "Bearer x"}),
    "openai-responses": ("/v1/responses", {"authorization": "Bearer x"}),
    "anthropic": ("/v1/messages", {"x-api-key": "x", "anthropic-version": "2023-06-01"}),
    "gemini": ("/v1beta/models/m:generateContent", {"x-goog-api-key": "x"}),
    "bedrock": ("/model/m/converse", {"authorization": "x"}),
    "ollama": ("/api/chat", {}),
}
STREAMED = {"gemini": "/v1beta/models/m:streamGenerateContent", "bedrock": "/model/m/converse-stream"}
KEYED = [name for name in PATHS if name != "ollama"]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
CLOCK = Tool.from_schema("clock", {"type": "object", "properties": {"city": {"type": "string"}}}, description="Tells.")
CALL = ToolCall("clock", {}, "a")
ASKED = Message.user("What is it like?")
CALLED = (ASKED, Message.assistant(CALL), Message.tool([(CALL, ToolResult("x"))]))
vendors = pytest.mark.parametrize("name", PATHS)


def post(server, name="openai", body=CHAT, *, path="", headers=None, **sent):
    usual, wanted = PATHS[name]
    with httpx2.Client(headers=wanted if headers is None else headers) as client:
        return client.post(server.url + (path or usual), **(sent or {"json": body}))


def body_of(name, *messages, **facts):
    """A request as its exporter writes it, and the key of its conversation."""
    tools = asyncio.run(resolve_tools([CLOCK], ()))
    return EXPORTERS[name]().request(ModelRequest(messages, model="m", tools=tools, **facts)), MESSAGES[name][0]


def renamed(value, name, places=-1):
    """The same JSON with another name of the tool, everywhere or at the first of its places."""
    return json.loads(json.dumps(value).replace('"clock"', f'"{name}"', places))


# --- the script ---


@pytest.mark.parametrize(
    "unplayable",
    [{"never_ends": 3}, {"break_after": 1, "stop_after": 1}, {"error": Error(), "break_after": 1}],
)
def test_what_cannot_be_played_is_refused(unplayable):
    with pytest.raises(ValueError, match="go"):
        Round(**unplayable)


def test_the_examples_of_the_package_are_rounds():
    lines = [line.partition("  #")[0].strip() for line in fake_vendors.__doc__.splitlines() if "  #" in line]
    assert len(lines) == 13
    assert all(isinstance(eval(line, vars(fake_vendors)), Round) for line in lines)


def test_only_the_last_call_never_ends():
    first, last = Call("a", {"x": 1}), Call("a")
    reply = Reply(Round(calls=[first, last], never_ends=2, pieces=1), 1, Request("/", "", {}, {}))
    assert list(reply.argument_pieces(first)) == ['{"x": 1}']
    pieces = []
    with pytest.raises(CutError):
        pieces.extend(iter(reply.argument_pieces(last)))
    calls = []
    with pytest.raises(CutError):
        calls.extend(iter(reply.endless_calls()))
    assert (len(pieces), calls) == (3, [first, last, last, last])


def test_an_unused_round_fails_the_test():
    server = ModelServer([Round(text="first"), Round()])
    with contextlib.closing(server):
        post(server)
        assert server.unused == [Round()]
        with pytest.raises(AssertionError, match=r"1 of 2 rounds were never asked for, first Round\("):
            server.check()


def test_a_request_without_a_round_fails_the_test():
    with contextlib.closing(ModelServer()) as server:
        got = post(server)
        assert (got.status_code, got.json()["error"]["message"]) == (400, "The script has no round for this request")
        with pytest.raises(AssertionError, match="request 1, to /v1/chat/completions, has no round: the script has 0"):
            server.check()


def test_leaving_the_with_checks_unless_something_else_went_wrong():
    with pytest.raises(AssertionError, match="never asked for"), ModelServer([Round()]):
        pass
    with pytest.raises(KeyError), ModelServer([Round()]):
        raise KeyError


def test_a_refusal_uses_no_round_and_fails_the_check():
    with contextlib.closing(ModelServer([Round()])) as server:
        assert post(server, body={"messages": []}).status_code == 400
        assert len(server.requests) == 1
        with pytest.raises(AssertionError, match="refused: Missing required parameter: 'model'"):
            server.check()


def test_a_request_is_recorded_as_it_was_read():
    with ModelServer([Round()]) as server:
        post(server, json={**CHAT, "stream": True}, params={"a": "b"})
    [request] = server.requests
    assert (request.path, request.query) == ("/v1/chat/completions", "a=b")
    assert (request.body["model"], request.streamed, request.headers["authorization"]) == ("m", True, "Bearer x")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "path"), [*((name, path) for name, (path, _) in PATHS.items()), *STREAMED.items()], ids=str
)
def test_whatever_is_sent_is_refused_and_breaks_nothing(name, path):
    odd = (b"{", b"[]", b"\xff", b"null", b'"x"', b"{}", b'{"model": 1, "messages": [null]}', b"[" * 100_000)
    with ModelServer() as server:
        assert {post(server, name, path=path, content=content).status_code for content in odd} == {400}


def test_an_unknown_path_fails_the_test():
    with contextlib.closing(ModelServer()) as server:
        assert post(server, path="/v2/chat").status_code == 404
        assert httpx2.get(server.url + "/v1/models").status_code == 404
        with pytest.raises(AssertionError, match="POST /v2/chat: no provider"):
            server.check()


@pytest.mark.parametrize("raw", [{"choices": []}, b'{"choices": []}'])
def test_raw_answers_go_out_as_they_stand(raw):
    with ModelServer([Round(raw=raw)]) as server:
        assert post(server).json() == {"choices": []}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ([{"a": 1}, b": a comment\n\n"], 'data: {"a": 1}\n\n: a comment\n\ndata: [DONE]\n\n'),
        ({"a": 1}, 'data: {"a": 1}\n\ndata: [DONE]\n\n'),
        (b"no SSE at all", "no SSE at alldata: [DONE]\n\n"),
        ([b"", {"a": 1}], 'data: {"a": 1}\n\ndata: [DONE]\n\n'),
    ],
)
def test_raw_streams_go_out_as_they_stand(raw, text):
    with ModelServer([Round(raw=raw)]) as server:
        assert post(server, body={**CHAT, "stream": True}).text == text


@pytest.mark.parametrize("body", [{"odd": True}, "<html>"])
def test_an_error_can_have_any_body(body):
    with ModelServer([Round(error=Error(502, body=body))]) as server:
        got = post(server)
    assert (got.status_code, got.text) == (502, body if isinstance(body, str) else json.dumps(body))


@vendors
def test_a_stream_that_ends_too_early_in_good_order(name):
    body = {**body_of(name, ASKED)[0], "stream": True}
    with ModelServer([Round(text="abc", stop_after=1)]) as server:
        got = post(server, name, body, path=STREAMED.get(name, ""))
    assert got.status_code == 200
    assert b"[DONE]" not in got.content


@pytest.mark.parametrize(
    "played",
    [Round(break_after=99), Round(stop_after=99), Round(error=Error(after=99))],
    ids=["break", "stop", "error"],
)
def test_a_stream_too_short_to_be_spoilt_fails_the_test(played):
    server = ModelServer([played])
    with contextlib.closing(server), contextlib.suppress(httpx2.RemoteProtocolError):
        post(server, body={**CHAT, "stream": True})
    with pytest.raises(AssertionError, match="round 1 is to be spoilt after 99 events, and has 2"):
        server.check()


def test_a_script_that_cannot_be_written_fails_the_test():
    server = ModelServer([Round(raw={"a": {1, 2}})])
    with contextlib.closing(server), pytest.raises(httpx2.RemoteProtocolError):
        post(server)
    with pytest.raises(AssertionError, match="the server failed: TypeError"):
        server.check()


# --- what is refused ---


@vendors
def test_a_sound_conversation_is_answered(name):
    with ModelServer([Round(text="x")]) as server:
        assert post(server, name, body_of(name, *CALLED)[0]).status_code == 200


@pytest.mark.slow
@vendors
def test_what_breaks_a_rule_is_refused_in_the_vendors_shape(name):
    """One of the conversation's types, of its pairs, of the tools, of what has to be there; and an undeclared call."""
    sound, key = body_of(name, *CALLED)
    *before, last = sound[key]
    odd = [[*before, {**last, "parsed": 1}], before, renamed(sound[key], "gone"), [], [7]]
    with ModelServer() as server:
        answers = [post(server, name, {**sound, key: each}) for each in odd]
        answers.append(post(server, name, renamed(sound, "clo ck")))
        refusals = server.refusals
    assert [got.status_code for got in answers] == [400] * 6
    assert [refusal in texts_in(got.json()) for refusal, got in zip(refusals, answers, strict=True)] == [True] * 6


def texts_in(value):
    inner = value.values() if isinstance(value, dict) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in texts_in(each)]


@vendors
def test_calls_of_tools_that_a_round_made_up_or_that_are_let_pass_may_come_back(name):
    sound, key = body_of(name, *CALLED)
    gone = {**sound, key: renamed(sound[key], "gone")}
    with ModelServer([Round(calls=[Call("gone")]), Round(text="x")]) as server:
        assert [post(server, name, body).status_code for body in (body_of(name, ASKED)[0], gone)] == [200, 200]
    with ModelServer([Round(text="x")], undeclared_calls=True) as server:
        assert post(server, name, gone).status_code == 200


@pytest.mark.parametrize("name", KEYED)
def test_the_tool_choice_names_a_declared_tool(name):
    body, _ = body_of(name, ASKED, tool_choice=NamedTool("clock"))
    with ModelServer([Round(text="x")]) as server:
        assert [post(server, name, each).status_code for each in (renamed(body, "gone", 1), body)] == [400, 200]


@pytest.mark.parametrize("name", ["anthropic", "bedrock"])
def test_calls_in_the_history_want_tools(name):
    with ModelServer(undeclared_calls=True) as server:
        got = post(server, name, {**body_of(name, *CALLED)[0], "tools": [], "toolConfig": None})
        assert (got.status_code, server.refusals) == (400, ["requests with calls or results must define tools"])


@pytest.mark.parametrize("name", KEYED)
def test_without_a_key_the_request_is_refused(name):
    with ModelServer() as server:
        assert post(server, name, body_of(name, ASKED)[0], headers={}).status_code == 401


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        (
            "anthropic",
            {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 9}},
            "Thinking may",
        ),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["clock"]}}}, "neither ANY nor"),
    ],
)
def test_further_rules_of_vendors(name, changes, why):
    with ModelServer() as server:
        assert why in post(server, name, {**body_of(name, ASKED)[0], **changes}).text


def test_anthropic_wants_a_version_and_pings():
    body, _ = body_of("anthropic", ASKED)
    with ModelServer([Round(text="x")]) as server:
        assert "anthropic-version" in post(server, "anthropic", body, headers={"x-api-key": "x"}).text
        streamed = post(server, "anthropic", {**body, "stream": True}).text
    assert 'event: ping\ndata: {"type": "ping"}\n\n' in streamed


def test_ollama_streams_by_default():
    with ModelServer([Round(text="abc")]) as server:
        lines = [json.loads(line) for line in post(server, "ollama").text.splitlines()]
    said = [(line["message"]["content"], line["done"]) for line in lines]
    assert said == [*[(piece, False) for piece in "abc"], ("", True)]
