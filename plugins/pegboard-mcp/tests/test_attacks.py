"""Attacks on the HTTP transport by clients: each is refused, and affects no other session."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import asynccontextmanager, suppress
from functools import partial

import httpx2
import pytest
from mcp import Client
from mcp_types import ElicitResult

from pegboard import ToolContext, ToolRegistry, tool
from pegboard_mcp import ToolServer
from pegboard_mcp.serving.access import HttpSettings

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "wait"}
TOKEN = "a-token-that-all-share"


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(destructive=True)
def delete(name: str) -> str:
    """Deletes."""
    return f"deleted {name}"


@pytest.fixture
def registry():
    registry = ToolRegistry()
    registry.register(add, delete)
    return registry


def called(name, id_=1, **arguments):
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.fixture
def attacked(registry, serving):
    """An open session: a function that posts, its URL and its headers; it must still work at the end."""

    @asynccontextmanager
    async def attacked():
        async with serving(registry) as transport, httpx2.AsyncClient(timeout=120) as http:
            opened = await http.post(transport.url, json=INITIALIZE, headers=HEADERS)
            session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            headers = {**HEADERS, **session}
            begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await http.post(transport.url, json=begun, headers=headers)
            yield partial(http.post, transport.url), transport.url, headers
            answer = await http.post(transport.url, json=called("add", 99, a=1, b=2), headers=headers)
            assert '"structuredContent":{"result":3}' in answer.text

    return attacked


NAMES = {  # header -> its value, and the status of the answer
    "host": {
        "127.0.0.1": 200,
        "localhost:1": 200,
        "[::1]:8000": 200,
        "localhost.evil.example": 421,
        "evil.example:127.0.0.1": 421,
        "127.0.0.1@evil.example": 421,
        "[::1": 421,
        "0x7f.1": 421,
    },
    "origin": {
        "http://localhost:1": 200,
        "http://127.0.0.1": 200,
        "https://localhost": 403,
        "http://localhost.": 403,
        "http://evil.example#http://localhost": 403,
        "http://user@localhost": 403,
    },
    "mcp-session-id": {"0" * 32: 404, "x" * 10_000: 404, "../../etc/passwd": 404, "' or 1=1": 404},
}


@pytest.mark.parametrize("header", NAMES)
async def test_similar_hosts_origins_and_sessions_are_refused(attacked, header):
    async with attacked() as (post, _, headers):
        answers = {
            value: (await post(json=called("add", a=1, b=2), headers={**headers, header: value})).status_code
            for value in NAMES[header]
        }
        assert answers == NAMES[header]


@pytest.fixture
def waiting(registry):
    """A tool that waits: a semaphore of its starts, and the event that ends it."""
    begun, goes_on = asyncio.Semaphore(0), asyncio.Event()

    @tool
    async def wait(context: ToolContext) -> str:
        """Waits."""
        begun.release()
        await goes_on.wait()
        return "waited"

    registry.register(wait)
    return begun, goes_on


@pytest.mark.parametrize("again", [1, "1"])
async def test_the_id_of_an_unanswered_request_is_refused_and_free_again_afterwards(attacked, waiting, again):
    begun, goes_on = waiting
    async with attacked() as (post, _, headers):
        first = asyncio.create_task(post(json=called("wait"), headers=headers))
        await asyncio.wait_for(begun.acquire(), 120)
        refused = await post(json=called("add", again, a=1, b=2), headers=headers)
        assert (refused.status_code, refused.json()["id"]) == (400, again)
        assert f"Request id {again!r} is in use" in refused.json()["error"]["message"]
        wrong = await post(json=called("wait", 2), headers={**headers, "accept": "text/html"})
        assert wrong.status_code == 406
        goes_on.set()
        assert "waited" in (await first).text
        for id_ in (again, 2):
            for _ in range(3):
                assert "waited" in (await post(json=called("wait", id_), headers=headers)).text


async def test_an_id_stays_in_use_while_its_call_runs_on_without_the_client(attacked, waiting):
    begun, goes_on = waiting
    async with attacked() as (post, url, headers):
        leaving = httpx2.AsyncClient(timeout=120)
        async with leaving, leaving.stream("POST", url, json=called("wait"), headers=headers):
            await asyncio.wait_for(begun.acquire(), 120)
        refused = await post(json=called("add", a=1, b=2), headers=headers)
        assert (refused.status_code, "is in use" in refused.text) == (400, True)
        goes_on.set()
        async with asyncio.timeout(120):
            while (answer := await post(json=called("add", a=1, b=2), headers=headers)).status_code == 400:
                pass
        assert '"result":3' in answer.text


async def test_without_a_session_calls_with_one_id_are_all_answered(attacked, waiting):
    begun, goes_on = waiting
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    call = called("wait")
    call["params"]["_meta"] = meta
    async with attacked() as (post, _, headers):
        both = [asyncio.create_task(post(json=call, headers={**headers, **MODERN})) for _ in range(2)]
        for _ in both:
            await asyncio.wait_for(begun.acquire(), 120)
        goes_on.set()
        assert all("waited" in answer.text for answer in await asyncio.gather(*both))


DEEP = {"tools": [{"name": "deep", "inputSchema": json.loads('{"items":' * 300 + "{}" + "}" * 300)}]}
BODIES = {  # error -> the body, and further headers
    "nothing": (b"", {}),
    "no JSON": (b"{", {}),
    "a number": (b"3", {}),
    "deep definitions": (json.dumps({**called("x"), "method": "pegboard/tools/offer", "params": DEEP}).encode(), {}),
    "no UTF-8": (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', {}),
    "compressed": (gzip.compress(json.dumps(called("add", a=1, b=2)).encode()), {"content-encoding": "gzip"}),
    "a form": (b"a=1", {"content-type": "application/x-www-form-urlencoded"}),
}


async def test_an_invalid_body_is_refused(attacked):
    async with attacked() as (post, _, headers):
        answers = {
            wrong: (await post(content=body, headers={**headers, **more})).status_code
            for wrong, (body, more) in BODIES.items()
        }
        assert answers == dict.fromkeys(BODIES, 400)


async def test_a_flood_of_headers_ends_the_connection(attacked):
    async with attacked() as (_, url, _):
        host, port = url.split("/")[2].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 100_000)
        with suppress(ConnectionError):
            assert (await asyncio.wait_for(reader.read(), 120)).startswith((b"HTTP/1.1 4", b""))
        writer.close()


@pytest.mark.parametrize("answer", [3, "perhaps", ["yes"], {"yes": True}, None, True, "YES", "yes "])
async def test_only_a_clear_yes_is_an_approval(registry, answer):
    async def ask(_context, _params):
        return ElicitResult.model_construct(action="accept", content={"answer": answer})

    async with registry, Client(ToolServer(registry).server, elicitation_callback=ask, mode="legacy") as client:
        with_answer = await client.call_tool("delete", {"name": "a"})
        assert with_answer.is_error
        assert "deleted" not in with_answer.content[0].text


def of_machine(transport, address):
    """A client of another machine."""
    headers = {**HEADERS, "host": transport.url.split("/")[2], "authorization": f"Bearer {TOKEN}"}
    machine = httpx2.ASGITransport(transport._app, client=(address, 1))
    return httpx2.AsyncClient(transport=machine, headers=headers, timeout=120)


async def test_a_machine_without_a_users_token_has_limits_of_its_own(registry, serving, waiting):
    begun, goes_on = waiting
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    call = called("wait")
    call["params"]["_meta"] = meta
    async with (
        serving(registry, HttpSettings(token=TOKEN, user_sessions=2)) as transport,
        of_machine(transport, "192.0.2.1") as one,
        of_machine(transport, "192.0.2.2") as other,
        of_machine(transport, "127.0.0.1") as own,
    ):
        async with httpx2.AsyncClient(timeout=120) as http:
            await http.get(transport.url.replace("/mcp", "/health"))  # waits for the start
        opened = [(await one.post(transport.url, json=INITIALIZE)).status_code for _ in range(3)]
        assert opened == [200, 200, 429]
        waiting = [asyncio.create_task(one.post(transport.url, json=call, headers=MODERN)) for _ in range(104)]
        for _ in waiting:
            await asyncio.wait_for(begun.acquire(), 120)
        refused = await one.post(transport.url, json=call, headers=MODERN)
        assert (refused.status_code, "at once: 104 (user_sessions)" in refused.text) == (429, True)
        assert (await other.post(transport.url, json=INITIALIZE)).status_code == 200
        assert [(await own.post(transport.url, json=INITIALIZE)).status_code for _ in range(3)] == [200] * 3
        goes_on.set()
        assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
        assert (await one.post(transport.url, json=call, headers=MODERN)).status_code == 200


async def test_one_machine_has_half_of_the_connections(registry, serving, monkeypatch, caplog):
    async with serving(registry, HttpSettings(sessions=1, body_seconds=600)) as transport:
        monkeypatch.setattr("pegboard_mcp.serving.http.is_loopback", lambda host: False)
        host, port = transport.url.split("/")[2].split(":")
        streams = [await asyncio.open_connection(host, int(port)) for _ in range(52)]
        assert await asyncio.wait_for(streams[51][0].read(), 120) == b""
        assert "127.0.0.1 has more than 51 connections" in caplog.text
        for _, writer in streams:
            writer.close()
