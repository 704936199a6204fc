"""HTTP servers that violate the protocol, lose sessions, or disconnect."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import asynccontextmanager

import pytest

from pegboard import Limits, Permissions, Rule, ToolRegistry
from pegboard_mcp import mcp_toolset

ALL = Permissions([Rule("*", "*", "allow")])
pytestmark = pytest.mark.slow
VERSION = "2025-11-25"
ECHO = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
HI = {"content": [{"type": "text", "text": "hi"}]}


def about(session):
    info = {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
    return info, {"Mcp-Session-Id": session}


class Web:
    """A hand-written HTTP server; `call` handles calls of tools."""

    def __init__(self, call, listed=ECHO):
        self.call = call
        self.listed = listed
        self.sessions = 0
        self.requests = []

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                message = json.loads(body) if body else {}
                self.requests.append((message.get("method"), headers))
                await self.answer(message, headers, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, message, headers, writer):
        method = message.get("method")
        if method == "initialize":
            self.sessions += 1
            result, more = about(f"s{self.sessions}")
            return reply(writer, {"result": result}, message, **more)
        if method == "tools/list":
            kind, listed = ("application/json", json.dumps(self.listed)) if self.listed is ECHO else self.listed
            body = f'{{"jsonrpc":"2.0","id":{message["id"]},"result":{listed}}}'
            body = f"event: message\r\ndata: {body}\r\n\r\n" if kind.startswith("text") else body
            return write(writer, 200, body.encode(), **{"Content-Type": kind})
        if method == "tools/call":
            return await self.call(self, message, headers, writer)
        return write(writer, 404 if method == "server/discover" else 202 if method else 405)


def write(writer, status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *(f"{key}: {headers[key]}" for key in headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


def reply(writer, answer, message, **headers):
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
    write(writer, 200, body, **{"Content-Type": "application/json", **headers})


@asynccontextmanager
async def served(call, listed=ECHO, **settings):
    """A server with a handler of calls and a list of tools, and a registry with them."""
    web = Web(call, listed)
    async with await asyncio.start_server(web.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with ToolRegistry(permissions=ALL, limits=Limits(toolset_timeout=300)) as registry:
            registry.register(mcp_toolset("web", url=url, transport="http", **settings))
            yield web, registry


async def called(registry):
    return await registry.call("web__echo", {}, resolved=await registry.resolve())


async def hi(web, message, headers, writer):
    reply(writer, {"result": HI}, message)


async def test_headers_are_sent_with_each_request_and_nothing_compressed_is_asked_for():
    async with served(hi, headers={"X-Key": "k"}) as (web, registry):
        assert (await called(registry)).text == "hi"
    assert {headers["x-key"] for _, headers in web.requests} == {"k"}
    assert {headers["accept-encoding"] for _, headers in web.requests} == {"identity"}


async def large(web, message, headers, writer):
    reply(writer, {"result": {"content": [{"type": "text", "text": "x" * 200_000}]}}, message)


async def compressed(web, message, headers, writer):
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": HI}).encode()
    more = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    write(writer, 200, gzip.compress(body), **more)


async def large_event(web, message, headers, writer):
    write(writer, 200, b"data: " + b"x" * 200_000 + b"\n\n", **{"Content-Type": "text/event-stream"})


async def gone(web, message, headers, writer):
    writer.close()


@pytest.mark.parametrize(
    ("call", "words"),
    [(large, ""), (compressed, ""), (large_event, "it sent a message of more than 100,000 bytes"), (gone, "")],
)
async def test_a_too_large_compressed_or_missing_answer_leaves_the_outcome_unknown(call, words):
    async with served(call, most_bytes=100_000) as (_, registry):
        result = await called(registry)
        assert (result.kind, words in result.text) == ("unknown_outcome", True), result.text


@pytest.mark.parametrize("status", [400, 403, 500, 302])
async def test_an_error_of_http_is_an_error_result(status):
    async def call(web, message, headers, writer):
        write(writer, status, Location="https://example.com/")

    async with served(call) as (_, registry):
        result = await called(registry)
        assert (result.kind, result.is_error) == ("tool_failure", True)


async def test_a_session_that_the_server_has_lost_is_opened_again():
    async def call(web, message, headers, writer):
        if headers["mcp-session-id"] == "s1":
            write(writer, 404)
        else:
            reply(writer, {"result": HI}, message)

    async with served(call) as (web, registry):
        assert "no longer knows the session" in (await called(registry)).text
        assert (await called(registry)).text == "hi"
        assert web.sessions == 2


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("levels", [60, 200, 20_000])
async def test_a_definition_that_is_nested_too_deeply_costs_one_tool(levels, kind):
    schema = '{"type":"object","properties":{"a":' * levels + "{}" + "}}" * levels
    tools = f'[{{"name":"deep","inputSchema":{schema}}}, {json.dumps(ECHO["tools"][0])[:-1]},"title":"\\"[{{"}}]'
    async with served(hi, (kind, f'{{"tools":{tools}}}')) as (_, registry):
        resolved = await registry.resolve()
        (problem,) = resolved.problems
        assert resolved.names == ("web__echo",)
        assert "'web__deep': input_schema is refused: it is nested more than" in str(problem)
        assert resolved.get("web__echo").spec.title == '"[{'
        assert (await registry.call("web__echo", {}, resolved=resolved)).text == "hi"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_what_is_no_character_in_an_answer_is_replaced(kind):
    async def call(web, message, headers, writer):
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": HI}).replace(
            "hi", "\\ud83d, \\ud83d\\ude00"
        )
        body = f"data: {body}\r\n\r\n" if kind.startswith("text") else body
        write(writer, 200, body.encode(), **{"Content-Type": kind})

    async with served(call) as (_, registry):
        assert (await called(registry)).text == "\ufffd, \U0001f600"


async def test_an_address_where_nothing_listens_is_named():
    async with ToolRegistry() as registry:
        registry.register(mcp_toolset("web", url="http://127.0.0.1:9/mcp"))
        assert "toolset 'web': ServerError: the server 'web' can't be reached" in str(
            (await registry.resolve()).problems[0]
        )
