"""Answers as results: content, errors, limits, redirects, servers that fail."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from attrs import evolve

from pegboard import AudioContent, FileContent, ImageContent, Once, ReadonlyContext, ToolCall, ToolRegistry
from pegboard_openapi import OpenAPIToolset
from pegboard_openapi.calls import retry_after

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
JSON_ONLY = {"200": {"description": "", "content": {"application/json": {}}}}


@pytest.fixture
def answered(api, server):
    """The result of a call that the server answers so."""

    def answered(status, headers, content, method="get"):
        server.answers["/x"] = (status, headers, content)
        return api.call(api.document(api.operation(method, responses=JSON_ONLY), server=server), "x")

    return answered


def test_json(answered):
    result = answered(200, {"content-type": "application/problem+json"}, b'\xef\xbb\xbf{"a": [1, "\xc3\xa9"]}')
    assert result.structured_content == {"a": [1, "é"]}
    assert result.text == '{"a":[1,"é"]}'


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("text/plain; charset=latin-1", b"\xe9", "é"),
        ("text/csv", b"a,b", "a,b"),
        ("text/plain; charset=nosuch", b"\xff", "\ufffd"),
    ],
)
def test_text(answered, kind, content, text):
    assert answered(200, {"content-type": kind}, content).text == text


@pytest.mark.parametrize(
    ("kind", "content"),
    [("text/plain; charset=punycode", b"-" + b"a" * 1_000_000), ("text/html", b"<title" * 160_000)],
)
def test_a_text_that_would_take_long_to_read(answered, kind, content):
    start = time.process_time()
    answered(200, {"content-type": kind}, content)
    assert time.process_time() - start < 4  # a minute otherwise


def test_images_audio_and_files(answered):
    (image,) = answered(200, {"content-type": "image/png"}, PNG).content
    (sound,) = answered(200, {"content-type": "audio/wav"}, b"RIFF....WAVE").content
    (file,) = answered(200, {"content-type": "application/zip"}, b"PK\3\4").content
    assert (type(image), image.data) == (ImageContent, PNG)
    assert type(sound) is AudioContent
    assert (type(file), file.mime_type) == (FileContent, "application/zip")


def test_no_content(answered):
    assert answered(204, {}, b"").text == "204 No Content, without content"


def test_the_headers_are_the_answer_to_head(answered):
    result = answered(200, {"x-total": "12"}, b"", "head")
    assert "x-total: 12" in result.text


def test_an_error_has_the_status_and_the_servers_words(answered):
    result = answered(500, {}, b'{"message": "out of pegs"}', "post")
    assert (result.kind, result.text) == (
        "tool_failure",
        'x failed: 500 Internal Server Error: {"message": "out of pegs"}',
    )


def test_html_in_place_of_json_is_an_error(answered):
    page = b"<!doctype html><html><title> Log in </title>" + b"x" * 10_000
    for kind in ("text/html; charset=utf-8", "application/json"):
        result = answered(200, {"content-type": kind}, page)
        assert result.kind == "invalid_output"
        assert "an HTML page ('Log in') instead" in result.text
    failed = answered(502, {"content-type": "text/html"}, page)
    assert failed.text == "x failed: 502 Bad Gateway: an HTML page ('Log in')"


def test_html_that_the_document_has_is_text(api, server):
    server.answers["/x"] = (200, {"content-type": "text/html"}, b"<p>hi</p>")
    responses = {"200": {"description": "", "content": {"text/html": {}}}}
    assert api.call(api.document(api.operation(responses=responses), server=server), "x").text == "<p>hi</p>"


@pytest.mark.parametrize("content", [b"{", b'{"a": NaN}', b"[" * 5_000])
def test_json_that_isnt_any_is_an_error(answered, content):
    result = answered(200, {}, content, "post")
    assert (result.kind, "It may have taken effect" in result.text) == ("invalid_output", True)


def test_too_large_an_answer(answered):
    content = b" " * 40_000_000
    assert "more than 9.5 MiB. Ask for less" in answered(200, {}, content).text
    assert answered(201, {}, content, "post").kind == "invalid_output"
    assert len(answered(500, {"content-type": "text/plain"}, b"x" * 40_000_000).text) < 5_000


def test_a_compressed_answer_is_refused(answered):
    result = answered(200, {"content-encoding": "gzip"}, b"\x1f\x8b")
    assert result.kind == "invalid_output"


def test_too_many_requests_are_retryable(api, server):
    calls = []

    def answer(_request):
        calls.append(1)
        return (429, {"retry-after": "0"}, b"slow down") if len(calls) == 1 else (200, {}, b'"done"')

    server.answers["/x"] = answer
    toolset = OpenAPIToolset(api.document(api.operation(), server=server), name="api", trust=["*"])

    async def retried():
        (tool,) = await toolset.tools(ReadonlyContext())
        async with ToolRegistry() as registry:
            registry.register(tool.evolve(policy=evolve(tool.policy, retries=1)))
            return await registry.call("x")

    assert asyncio.run(retried()).structured_content == "done"


def test_retry_after():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert retry_after("12") == 12
    assert 90 < retry_after(later) <= 100
    assert [retry_after(each) for each in (None, "", "soon", "-5", "nan", "1e999")] == [
        None,
        None,
        None,
        0.0,
        None,
        86_400.0,
    ]


# Redirects --------------------------------------------------------------------------------------------------------


def test_a_redirect_on_the_same_server_is_followed(api, server):
    server.answers["/x"] = (302, {"location": "/y"}, b"")
    assert api.call(api.document(api.operation(), server=server), "x").structured_content == {"ok": True}


@pytest.mark.parametrize(
    ("status", "methods"), [(303, ["POST", "GET"]), (307, ["POST", "POST"]), (302, ["POST", "GET"])]
)
def test_the_method_of_a_redirect(api, server, status, methods):
    server.answers["/x"] = (status, {"location": "/y"}, b"")
    content = api.document(api.operation("post", **api.body({})), server=server)
    assert not api.call(content, "x", {"body": 1}).is_error
    assert [each.method for each in server.requests] == methods
    assert server.last.body == (b"1" if status == 307 else b"")


def test_a_redirect_elsewhere_isnt_followed(api, server, other):
    server.answers["/x"] = (302, {"location": f"{other.url}/y"}, b"")
    result = api.call(api.document(api.operation(), server=server), "x")
    assert "redirects to another server, which isn't followed" in result.text
    assert other.url in result.text
    assert other.requests == []


def test_endless_redirects_end(api, server):
    server.answers["/x"] = (302, {"location": "/x"}, b"")
    assert "redirects again and again" in api.call(api.document(api.operation(), server=server), "x").text
    assert len(server.requests) == 6


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[", "//", "javascript:1"])
def test_a_redirect_to_no_server(api, server, location):
    server.answers["/x"] = (302, {"location": location}, b"")
    result = api.call(api.document(api.operation(), server=server), "x")
    assert result.is_error
    assert "Error" not in result.text


# Servers that fail ------------------------------------------------------------------------------------------------


def test_a_server_that_hangs(api, server):
    server.answers["/x"] = lambda _request: server.end.wait(30) and None
    content = api.document({**api.operation(), **api.operation("post", "/y", "y")}, server=server)
    server.answers["/y"] = server.answers["/x"]
    assert api.call(content, "x", timeout=0.2).text == "x: the server didn't answer within 0.2 s."
    result = api.call(content, "y", timeout=0.2)
    assert (result.kind, "It may have taken effect" in result.text) == ("timeout", True)


def test_the_words_of_the_status_are_bounded_and_without_secrets(api, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-value-0123456789")
    scheme = {"securitySchemes": {"main": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                words = b"s3cr3t-value-0123456789" + b"y" * 20_000
                connection.sendall(b"HTTP/1.1 400 " + words + b"\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        content = api.document(api.operation(), components=scheme, security=[{"main": []}])
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        result = api.call(content, "x", base_url=base_url, auth={"main": "env:TOKEN"})
        thread.join()
    assert result.text.startswith("x failed: 400 (hidden)yyy")
    assert len(result.text) < 300


def test_a_server_that_ends_the_connection(api, server):
    server.answers["/x"] = lambda _request: None
    assert "ended before the answer" in api.call(api.document(api.operation(), server=server), "x").text
    result = api.call(api.document(api.operation("post"), server=server), "x")
    assert result.kind == "unknown_outcome"


def test_no_server_there(api):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = api.call(api.document(api.operation()), "x", base_url=url)
    assert result.text.startswith("x was not run: no connection to 127.0.0.1 could be made.")


def test_no_cookie_is_kept_for_another_call(api, server):
    server.answers["/x"] = (200, {"set-cookie": "session=ann"}, b"{}")

    async def two():
        async with ToolRegistry() as registry:
            registry.register(OpenAPIToolset(api.document(api.operation(), server=server), name="api", trust=["x"]))
            await registry.call("x")
            await registry.call("x")

    asyncio.run(two())
    assert [each.headers.get("cookie") for each in server.requests] == [None, None]


def test_calls_without_an_event_loop(api, server):
    registry = ToolRegistry()
    registry.register(OpenAPIToolset(api.document(api.operation(), server=server), name="api", trust=["x"]))
    assert not registry.call_sync("x").is_error
    assert not registry.call_sync("x").is_error


def test_the_person_sees_the_request(api, server):
    seen = []

    async def ask():
        async with ToolRegistry() as registry:
            paths = api.operation("delete", "/x/{id}", parameters=[api.parameter("id", "path")])
            registry.register(OpenAPIToolset(api.document(paths, server=server), name="api"))

            def approver(request, _context):
                seen.append(request.to_text())
                return Once()

            await registry.dispatch([ToolCall("x", {"id": "a/b"}, "1")], approver=approver)

    asyncio.run(ask())
    assert f"DELETE {server.url}/x/a%2Fb" in seen[0]
