from __future__ import annotations

import contextlib
import json

import httpx2
import pytest

from fake_vendors import Error, ModelServer, Round

PATHS = {
    "/v1/chat/completions": {"authorization": "Bearer x"},
    "/v1/responses": {"authorization": "Bearer x"},
    "/v1/messages": {"x-api-key": "x", "anthropic-version": "1"},
    "/v1beta/models/m:generateContent": {"x-goog-api-key": "x"},
    "/v1beta/models/m:streamGenerateContent": {"x-goog-api-key": "x"},
    "/model/m/converse": {"authorization": "x"},
    "/model/m/converse-stream": {"authorization": "x"},
    "/api/chat": {},
}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def post(server, path="/v1/chat/completions", **sent):
    with httpx2.Client() as client:
        return client.post(server.url + path, headers=PATHS.get(path, {}), **(sent or {"json": CHAT}))


def test_a_round_that_nobody_asks_for_fails_the_test():
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


def test_a_refusal_uses_no_round_and_is_told_in_the_check():
    with contextlib.closing(ModelServer([Round()])) as server:
        assert post(server, json={"messages": []}).status_code == 400
        assert len(server.requests) == 1
        with pytest.raises(AssertionError, match="refused: Missing required parameter: 'model'"):
            server.check()


def test_a_request_is_recorded_as_it_was_read():
    with ModelServer([Round()]) as server:
        post(server, "/v1/chat/completions", json={**CHAT, "stream": True}, params={"a": "b"})
    [request] = server.requests
    assert (request.path, request.query, request.body["model"], request.streamed) == (
        "/v1/chat/completions",
        "a=b",
        "m",
        True,
    )
    assert request.headers["authorization"] == "Bearer x"


@pytest.mark.parametrize("path", PATHS)
def test_whatever_is_sent_is_refused_and_breaks_nothing(path):
    with ModelServer() as server, httpx2.Client(headers=PATHS[path]) as client:
        for content in (
            b"{",
            b"[]",
            b"\xff",
            b"null",
            b'"x"',
            b"{}",
            b'{"model": 1, "messages": [null]}',
            b"[" * 100_000,
        ):
            assert client.post(server.url + path, content=content).status_code == 400


def test_an_unknown_path_fails_the_test():
    with contextlib.closing(ModelServer()) as server:
        assert post(server, "/v2/chat").status_code == 404
        with httpx2.Client() as client:
            assert client.get(server.url + "/v1/models").status_code == 404
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
        assert post(server, json={**CHAT, "stream": True}).text == text


@pytest.mark.parametrize("body", [{"odd": True}, "<html>"])
def test_an_error_can_have_any_body(body):
    with ModelServer([Round(error=Error(502, body=body))]) as server:
        got = post(server)
    assert got.status_code == 502
    assert got.text == (body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    "path", [path for path in PATHS if "stream" in path or (":" not in path and "converse" not in path)]
)
def test_a_stream_that_ends_too_early_in_good_order(path):
    sent = {**CHAT, "input": "x", "max_tokens": 9, "contents": [{"parts": [{"text": "x"}]}], "stream": True}
    if "converse" in path:
        sent["messages"] = [{"role": "user", "content": [{"text": "x"}]}]
    with ModelServer([Round(text="abc", stop_after=1)]) as server:
        got = post(server, path, json=sent)
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
        post(server, json={**CHAT, "stream": True})
    with pytest.raises(AssertionError, match="round 1 is to be spoilt after 99 events, and has 2"):
        server.check()


def test_a_script_that_cannot_be_written_fails_the_test():
    server = ModelServer([Round(raw={"a": {1, 2}})])
    with contextlib.closing(server), pytest.raises(httpx2.RemoteProtocolError):
        post(server)
    with pytest.raises(AssertionError, match="the server failed: TypeError"):
        server.check()
