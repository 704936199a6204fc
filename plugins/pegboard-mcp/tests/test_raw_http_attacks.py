"""Attacks on the HTTP transport by requests over raw sockets."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest

from pegboard import ToolContext, ToolRegistry, tool
from pegboard_mcp.serving.access import HttpSettings

TOKENS = {"ann": "ann-token-0123456789", "bob": "bob-token-0123456789"}


@tool(read_only=True)
def whoami(context: ToolContext) -> str:
    """Names the user."""
    return f"user={context.user}"


@tool(destructive=True)
def wipe(path: str) -> str:
    """Wipes."""
    return f"wiped {path}"


def message(method: str, **params) -> dict:
    return {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}


def call(name: str = "whoami", **arguments) -> dict:
    return message("tools/call", name=name, arguments=arguments)


START = message(
    "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "client", "version": "1"}
)


def request(body=START, *more, without=(), **line) -> bytes:
    """A request as bytes; `more` are further header lines, `HOST` and `ANN` are filled in when it is sent."""
    method, path, version = line.get("method", "POST"), line.get("path", "/mcp"), line.get("version", "1.1")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {
        "host": f"Host: {line.get('host', 'HOST')}",
        "accept": "Accept: application/json, text/event-stream",
        "type": "Content-Type: application/json",
        "length": f"Content-Length: {len(content)}",
        "user": f"Authorization: Bearer {TOKENS.get(line.get('user', 'ann'))}",
        "close": "Connection: close",
    }
    lines = [line for name, line in headers.items() if name not in without]
    head = "\r\n".join([f"{method} {path} HTTP/{version}", *lines, *more, "", ""])
    return head.encode("latin-1") + content


def by(header: str) -> bytes:
    """A request with another `Authorization`."""
    return request(START, f"Authorization: {header}", without=("user",))


TOKEN = TOKENS["ann"]
MEMBER = "Mcp-Session-Id: ANN"  # ann's session
NEWER = "MCP-Protocol-Version: 2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def newer(body: dict, *more: str, **options) -> bytes:
    """A request of the revision that has no sessions."""
    body = {**body, "params": {**body["params"], "_meta": ENVELOPE}}
    return request(body, NEWER, *more, **options)


REFUSED = {  # the request, and the possible statuses of its answer
    # authentication
    "no token": (request(without=("user",)), 401),
    "no scheme": (by(TOKEN), 401),
    "another scheme": (by(f"Basic {TOKEN}"), 401),
    "Token": (by(f"Token {TOKEN}"), 401),
    "a tab": (by(f"Bearer\t{TOKEN}"), 401),
    "two blanks": (by(f"Bearer  {TOKEN}"), 401),
    "in capitals": (by(f"Bearer {TOKEN.upper()}"), 401),
    "a beginning": (by(f"Bearer {TOKEN[:-1]}"), 401),
    "more": (by(f"Bearer {TOKEN}x"), 401),
    "quoted": (by(f'Bearer "{TOKEN}"'), 401),
    "escaped": (by(f"Bearer {TOKEN.replace('-', '%2D')}"), 401),
    "two tokens": (by(f"Bearer {TOKEN},{TOKEN}"), 401),
    "a zero": (by(f"Bearer {TOKEN}\0"), 400),
    "the user's name": (by("Bearer ann"), 401),
    "a star": (by("Bearer *"), 401),
    "nothing": (by("Bearer "), 401),
    "None": (by("Bearer None"), 401),
    "not ASCII": (by("Bearer \xff"), 401),
    "a wrong one first": (request(START, f"Authorization: Bearer {TOKEN}", user="nobody"), 400),
    "in the query": (request(path=f"/mcp?access_token={TOKEN}", without=("user",)), 401),
    "in a cookie": (request(START, f"Cookie: token={TOKEN}", without=("user",)), 401),
    "for a proxy": (request(START, f"Proxy-Authorization: Bearer {TOKEN}", without=("user",)), 401),
    "another spelling of the path": (request(path="/%6dcp", without=("user",)), 401),
    "a session's id alone": (request(call(), MEMBER, without=("user",)), 401),
    "the end of a session without a token": (request(b"", MEMBER, method="DELETE", without=("user",)), 401),
    # hosts and origins
    "another host": (request(host="evil.example"), 421),
    "another host at this port": (request(host="evil.example:80"), 421),
    "a host that begins so": (request(host="127.0.0.1.evil.example"), 421),
    "an empty host": (request(START, "Host:", without=("host",)), 421),
    "no host": (request(without=("host",)), 400),
    "two hosts": (request(START, "Host: evil.example"), 400),
    "no host in HTTP/1.0": (request(without=("host",), version="1.0"), 421),
    "a short address": (request(host="127.1"), 421),
    "any address": (request(host="0.0.0.0:80"), 421),
    "a dot behind": (request(host="localhost.:80"), 421),
    "a text for a port": (request(host="localhost:evil.example"), 421),
    "a text for an origin's port": (request(START, "Origin: http://localhost:evil.example"), 403),
    "a path behind an origin": (request(START, "Origin: http://localhost:80/x"), 403),
    "another origin": (request(START, "Origin: http://evil.example"), 403),
    "a file's origin": (request(START, "Origin: file://"), 403),
    "the null origin": (request(START, "Origin: null"), 403),
    "an origin that begins so": (request(START, "Origin: http://localhost.evil.example"), 403),
    "an extension": (request(START, "Origin: chrome-extension://abc"), 403),
    # methods, types and paths
    "PUT": (request(method="PUT"), 405),
    "OPTIONS": (request(method="OPTIONS"), 405),
    "TRACE": (request(method="TRACE"), 405),
    "post": (request(method="post"), 405),
    "plain text": (request(START, "Content-Type: text/plain", without=("type",)), 400, 415),
    "a form": (request(START, "Content-Type: application/x-www-form-urlencoded", without=("type",)), 400, 415),
    "no type": (request(without=("type",)), 400, 415),
    "JSON behind text": (request(START, "Content-Type: text/plain; application/json", without=("type",)), 400, 415),
    "another path": (request(path="/mcp/../mcp"), 404),
    "a path in capitals": (request(path="/MCP"), 404),
    "two slashes": (request(path="//mcp"), 404),
    "an address as path": (request(path="http://evil.example/mcp"), 404, 421),
    # framing
    "two lengths": (request(START, "Content-Length: 5"), 400),
    "a negative length": (request(START, "Content-Length: -1", without=("length",)), 400),
    "a signed length": (request(START, "Content-Length: +9", without=("length",)), 400),
    "another encoding": (request(START, "Transfer-Encoding: xchunked", without=("length",)), 400),
    "a blank before the colon": (request(START, "Mcp-Session-Id : ANN"), 400),
    "a zero in a header": (request(START, "X-A: a\0b"), 400),
    "a length too large": (request(START, "Content-Length: 17000000000", without=("length", "close")), 413),
    "another request in a body that is too large": (
        request(request(call(), MEMBER), "Content-Length: 17000000000", MEMBER, without=("length", "close")),
        413,
    ),
    "a large body without a token": (
        request(START, "Content-Length: 17000000000", without=("user", "length", "close")),
        401,
    ),
    "no HTTP": (b"GET /mcp\r\n\r\n", 400),
    # sessions
    "another's session": (request(call(), MEMBER, user="bob"), 404),
    "another's events": (request(b"", MEMBER, "Last-Event-ID: 1", method="GET", user="bob"), 404),
    "the end of another's session": (request(b"", MEMBER, method="DELETE", user="bob"), 404),
    "an end of another's call": (request(message("notifications/cancelled", requestId=2), MEMBER, user="bob"), 404),
    "an answer in another's session": (
        request({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}, MEMBER, user="bob"),
        404,
    ),
    "two origins": (request(START, "Origin: http://127.0.0.1", "Origin: http://evil.example"), 400),
    "one origin twice": (request(START, "Origin: http://127.0.0.1", "origin: http://127.0.0.1"), 400),
    "two users": (request(START, f"Authorization: Bearer {TOKENS['bob']}"), 400),
    "two types": (request(START, "Content-Type: text/plain"), 400),
    "two revisions": (request(START, "MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-11-25"), 400),
    "two sessions": (request(call(), MEMBER, "Mcp-Session-Id: x"), 400),
    "another first": (request(call(), "Mcp-Session-Id: x", MEMBER), 400),
    "no session": (request(call()), 400),
    "an unknown session": (request(call(), "Mcp-Session-Id: " + "0" * 32), 404),
    # revisions
    "a newer one without its data": (request(call(), NEWER), 400),
    "an unknown one": (request(call(), MEMBER, "MCP-Protocol-Version: 9999-99-99"), 400),
    "two at once": (request(call(), MEMBER, "MCP-Protocol-Version: 2025-06-18, 2026-07-28"), 400),
    "another method in the header": (newer(call(), "Mcp-Method: tools/list"), 400),
    "another name in the header": (newer(call("wipe", path="a"), "Mcp-Method: tools/call", "Mcp-Name: whoami"), 400),
    "two names": (newer(call("wipe", path="a"), "Mcp-Method: tools/call", "Mcp-Name: whoami", "Mcp-Name: wipe"), 400),
    # JSON
    "too deep": (request(b"[" * 100_000, MEMBER), 400),
    "too many digits": (request(b'{"jsonrpc":"2.0","id":' + b"9" * 100_000 + b"}", MEMBER), 400),
    "half a character": (request(json.dumps(call("wipe", path="\ud800")).encode(), MEMBER), 400),
    "a batch": (request([call(), call()], MEMBER), 400),
    "null": (request(None, MEMBER), 400),
    "another version of JSON-RPC": (request(call() | {"jsonrpc": "1.0"}, MEMBER), 400),
    "parameters as a list": (request(call() | {"params": ["whoami"]}, MEMBER), 400),
}

NOT_RUN = {  # calls in ann's session that run nothing
    "of a tool that asks": call("wipe", path="a"),
    "that says it is approved": message(
        "tools/call", name="wipe", arguments={"path": "a"}, _meta={"approved": True, "pegboard/approved": True}
    ),
    "with an argument of its own": call("wipe", path="a", confirmed=True),
    "with an answer to no question": message(
        "tools/call", name="wipe", arguments={"path": "a"}, inputResponses={"1": {"action": "accept"}}, requestState="x"
    ),
    "of a name that is nearly right": call("wip", path="a"),
    "of a name in capitals": call("WIPE", path="a"),
    "of a tool of another server": call("shell", command="id"),
    "with arguments as text": message("tools/call", name="wipe", arguments='{"path": "a"}'),
    "with a list": message("tools/call", name="wipe", arguments=["a"]),
    "with another context": call(context={"user": "root"}),
}

AS_ANN = {  # ann's calls that claim something else
    "another user in _meta": message(
        "tools/call", name="whoami", arguments={}, _meta={"user": "bob", "pegboard/user": "bob"}
    ),
    "another id": call() | {"id": 'x"\nevent: message\ndata: {}'},
}


async def answered(transport, sent: bytes, session: str) -> bytes:
    """A server's answer, up to the end of the connection."""
    address = urlsplit(transport.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    sent = sent.replace(b"Host: HOST", b"Host: " + address.netloc.encode())
    writer.write(sent.replace(b": ANN\r\n", b": " + session.encode() + b"\r\n"))
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120) + await asyncio.wait_for(reader.read(), 120)
    finally:
        writer.close()


@pytest.fixture
def as_ann(serving):
    """A server with two users, and ann's session: a function that sends bytes, and gives the answer."""
    return partial(in_a_session, serving)


@asynccontextmanager
async def in_a_session(serving):
    registry = ToolRegistry()
    registry.register(whoami, wipe)
    async with serving(registry, HttpSettings(tokens=TOKENS)) as transport:
        begun = await answered(transport, request(), "")
        session = re.search(rb"mcp-session-id: (\w+)", begun).group(1).decode()
        yield lambda sent: answered(transport, sent, session)


async def test_refused_requests_reach_no_tool_and_affect_no_session(as_ann):
    async with as_ann() as ann:
        for name, (sent, *statuses) in REFUSED.items():
            answer = await ann(sent)
            assert int(answer[9:12]) in statuses, name
            assert b"user=" not in answer, name
        assert b"user=ann" in await ann(request(call(), MEMBER)), "her session is still there"


async def test_no_call_can_approve_itself(as_ann):
    async with as_ann() as ann:
        for name, body in NOT_RUN.items():
            answer = await ann(request(body, MEMBER))
            assert b"wiped" not in answer, name
            assert b"user=" not in answer, name


async def test_no_request_can_choose_its_user(as_ann):
    async with as_ann() as ann:
        for name, body in AS_ANN.items():
            answer = await ann(request(body, MEMBER))
            assert b"user=ann" in answer, name
            assert answer.count(b"event: message\r\n") == 1, name
        bob = await ann(newer(call(), "Mcp-Method: tools/call", "Mcp-Name: whoami", user="bob"))
        assert b"user=bob" in bob
