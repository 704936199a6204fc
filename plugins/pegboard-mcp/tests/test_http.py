"""`HttpTransport` over real sockets: clients of the SDK, and misbehaving ones."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import asynccontextmanager, suppress
from weakref import WeakSet

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from uvicorn.protocols.http.h11_impl import H11Protocol

from pegboard import ReadonlyContext, Tool, ToolContext, ToolRegistry, tool
from pegboard.errors import ConfigError
from pegboard_mcp import ToolServer
from pegboard_mcp.serving.access import HttpSettings, OAuth, read_http_settings
from pegboard_mcp.serving.http import HttpTransport
from pegboard_mcp.settings import servers_from

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])
ANN, BOB = "token-of-ann-0123", "token-of-bob-0123"


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(destructive=True)
def delete(name: str) -> str:
    """Deletes."""
    return f"deleted {name}"


@tool
def whoami(context: ToolContext) -> str:
    """Names the user."""
    return f"{context.user}, {context.state.get('claims.role')}"


@pytest.fixture
def registry():
    registry = ToolRegistry()
    registry.register(add, delete, whoami)
    return registry


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Raw:
    """A client that writes requests itself."""

    def __init__(self, http, url):
        self.http = http
        self.url = url
        self.headers = dict(ACCEPT)

    async def initialize(self, **headers):
        answer = await self.post(INITIALIZE, **headers)
        assert answer.status_code == 200, answer.text
        self.headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
        return self

    async def post(self, message, **headers):
        return await self.http.post(self.url, json=message, headers={**self.headers, **headers})

    def call(self, name, id_=1, **arguments):
        params = {"name": name, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}

    async def add(self, **headers):
        """Whether a call is answered."""
        answer = await self.post(self.call("add", a=1, b=2), **headers)
        return answer.status_code == 200 and messages(answer.text)[-1][1]["result"]["structuredContent"] == {
            "result": 3
        }


def messages(text):
    """The ids and messages of a stream."""
    events = [
        dict(line.split(": ", 1) for line in event.split("\r\n") if ": " in line) for event in text.split("\r\n\r\n")
    ]
    return [(event.get("id"), json.loads(event["data"])) for event in events if event.get("data")]


@asynccontextmanager
async def raw(transport):
    async with httpx2.AsyncClient(timeout=120) as http:
        yield Raw(http, transport.url)


@BOTH
async def test_a_client_lists_calls_and_is_asked_over_http(registry, mode, serving, connected):
    async def ask(_context, _params):
        return ElicitResult(action="accept", content={"answer": "yes"})

    async with serving(registry) as transport, connected(transport, mode=mode, elicitation_callback=ask) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "delete", "whoami"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert (await client.call_tool("delete", {"name": "a"})).content[0].text == "deleted a"


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_client_of_each_revision_that_shakes_hands_lists_and_calls(registry, version, serving):
    async with serving(registry) as transport, raw(transport) as client:
        opened = await client.post({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": version}})
        assert messages(opened.text)[-1][1]["result"]["protocolVersion"] == version
        client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        if version >= "2025-06-18":  # the first with the header
            client.headers["mcp-protocol-version"] = version
        await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        listed = await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        tools = messages(listed.text)[-1][1]["result"]["tools"]
        assert [each["name"] for each in tools] == ["add", "delete", "whoami"]
        assert await client.add()


@BOTH
async def test_a_change_of_the_tools_is_announced(registry, mode, serving, connected):
    changed = asyncio.Event()

    async def note(message):
        if "list_changed" in getattr(message, "method", ""):
            changed.set()

    async with serving(registry) as transport, connected(transport, mode=mode, message_handler=note) as client:
        if mode == "auto":
            async with client.listen(tools_list_changed=True) as events:
                registry.unregister("add")
                await asyncio.wait_for(anext(aiter(events)), 60)
        else:
            async with asyncio.timeout(60):
                while not changed.is_set():  # until its stream is open
                    registry.unregister("whoami")
                    registry.register(whoami)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), 0.1)
        assert "delete" in [each.name for each in (await client.list_tools()).tools]


@BOTH
async def test_users_see_their_own_tools_and_cant_tell_that_there_are_others(registry, mode, serving, connected):
    settings = HttpSettings(tokens={"ann": ANN, "bob": BOB})
    where = "not name:add or user:ann"
    async with (
        serving(registry, settings, where=where) as transport,
        connected(transport, ANN, mode) as ann,
        connected(transport, BOB, mode) as bob,
    ):
        assert [each.name for each in (await ann.list_tools()).tools] == ["add", "delete", "whoami"]
        assert [each.name for each in (await bob.list_tools()).tools] == ["delete", "whoami"]
        assert (await ann.call_tool("whoami", {})).content[0].text == "ann, None"
        assert (await bob.call_tool("whoami", {})).content[0].text == "bob, None"
        with pytest.raises(MCPError) as hidden:
            await bob.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(MCPError) as absent:
            await bob.call_tool("sub", {"a": 1, "b": 2})
        assert str(hidden.value).replace("add", "sub") == str(absent.value)


@asynccontextmanager
async def authorization_server():
    """The public key of an authorization server, over HTTP; gives its URL and a function that signs."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    body = json.dumps({"keys": [{**public, "kid": "k", "alg": "ES256", "use": "sig"}]}).encode()

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    def sign(**claims):
        own = {"iss": "https://login.example.com", "aud": "https://tools.example.com/mcp", "sub": "ann"}
        return jwt.encode({**own, "exp": time.time() + 600, **claims}, key, algorithm="ES256", headers={"kid": "k"})

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys", sign


async def test_predicates_see_the_claims_of_a_token_of_an_authorization_server(registry, serving, connected):
    async with authorization_server() as (jwks, sign):
        oauth = OAuth("https://login.example.com", "https://tools.example.com/mcp", jwks, scopes=("tools",))
        settings = HttpSettings(oauth=oauth)
        where = "not name:add or state.claims.role:admin and state.claims.groups.dev:true"
        async with serving(registry, settings, where=where) as transport:
            admin = sign(scope="tools", role="admin", groups=["dev"])
            async with connected(transport, admin) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
                assert (await client.call_tool("whoami", {})).content[0].text == "ann, admin"
            async with connected(transport, sign(scope="tools", role="user", groups=["dev"])) as client:
                assert "add" not in [each.name for each in (await client.list_tools()).tools]
            other = ec.generate_private_key(ec.SECP256R1())
            forged = jwt.encode(jwt.decode(admin, options={"verify_signature": False}), other, "ES256", {"kid": "k"})
            async with raw(transport) as client:
                for wrong, status in {
                    sign(scope="tools", exp=time.time() - 60): 401,
                    sign(scope="tools", iss="https://evil.example.com"): 401,
                    sign(scope="tools", aud="https://other.example.com/mcp"): 401,
                    forged: 401,
                    "not a token": 401,
                    sign(scope="read"): 403,
                }.items():
                    answer = await client.post(INITIALIZE, Authorization=f"Bearer {wrong}")
                    assert answer.status_code == status, (wrong, answer.text)
                    assert "resource_metadata=" in answer.headers["www-authenticate"]
                metadata = await client.http.get(
                    transport.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
                )
                assert metadata.json()["authorization_servers"] == ["https://login.example.com"]


WRONG = {  # error -> headers, status, part of the answer
    "host": ({"Host": "evil.example.com"}, 421, "Host"),
    "origin": ({"Origin": "https://evil.example.com"}, 403, "Origin"),
    "token": ({"Authorization": "Bearer another-0123456789"}, 401, "invalid_token"),
    "no token": ({"Authorization": ""}, 401, "invalid_token"),
    "version": ({"mcp-protocol-version": "1999-01-01"}, 400, "protocolVersion"),
    "session": ({"mcp-session-id": "0" * 32}, 404, "Session not found"),
    "content type": ({"Content-Type": "text/plain"}, 400, "Content-Type"),
    "accept": ({"Accept": "text/html"}, 406, "Accept"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_request_is_refused_and_affects_no_other_session(registry, wrong, caplog, serving):
    headers, status, text = WRONG[wrong]
    settings = HttpSettings(tokens={"ann": ANN})
    async with serving(registry, settings) as transport, raw(transport) as client:
        right = {"Authorization": f"Bearer {ANN}"}
        await client.initialize(**right)
        answer = await client.post(client.call("add", a=1, b=2), **{**right, **headers})
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
        assert f"POST '/mcp' from 127.0.0.1 was answered with {status}" in caplog.text
        assert await client.add(**right)


async def test_a_header_that_differs_from_its_argument_is_refused(registry, serving):
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}, "required": ["region"]}
    registry.register(Tool.from_schema("ask", schema, lambda arguments: arguments["region"]))
    async with serving(registry) as transport, raw(transport) as client:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        call = client.call("ask", region="eu")
        call["params"]["_meta"] = meta
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "ask"}
        answer = await client.post(call, **headers, **{"mcp-param-region": "us"})
        assert (answer.status_code, "Mcp-Param-Region" in answer.text) == (400, True)
        answer = await client.post(call, **headers, **{"mcp-param-region": "eu"})
        assert answer.json()["result"]["content"][0]["text"] == "eu"


async def test_a_session_is_not_found_with_another_users_token(registry, caplog, serving):
    async with serving(registry, HttpSettings(tokens={"ann": ANN, "bob": BOB})) as transport, raw(transport) as client:
        await client.initialize(Authorization=f"Bearer {ANN}")
        bob = {"Authorization": f"Bearer {BOB}"}
        url, headers = client.url, {**client.headers, **bob}
        for answer in (
            await client.post(client.call("add", a=1, b=2), **bob),
            await client.http.get(url, headers=headers),
            await client.http.get(url, headers={**headers, "Last-Event-ID": "1"}),
            await client.http.delete(url, headers=headers),
        ):
            assert (answer.status_code, "Session not found" in answer.text) == (404, True)
        assert "credential does not match" in caplog.text
        assert await client.add(Authorization=f"Bearer {ANN}")


async def test_a_body_that_is_too_large_is_refused(registry, serving):
    async with serving(registry) as transport, raw(transport) as client:
        await client.initialize()
        headers = {**client.headers, "Content-Type": "application/json"}
        answer = await client.http.post(transport.url, content=b"x" * 100_000_000, headers=headers)
        assert (answer.status_code, "too large" in answer.text) == (413, True)
        chunk = b"f4240\r\n" + b" " * 1_000_000 + b"\r\n"
        assert b"413" in await spoken(transport, POST + b"transfer-encoding: chunked\r\n\r\n" + 5 * chunk, once=True)
        assert await client.add()


async def test_a_body_and_headers_that_come_slowly_end_their_connection(registry, caplog, serving):
    async with serving(registry, HttpSettings(body_seconds=2)) as transport, raw(transport) as client:
        await client.initialize()
        slow = POST + b"content-length: 9\r\n\r\n{", b"", POST
        answer, *nothing = await asyncio.gather(*(spoken(transport, text) for text in slow))
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body took longer" in answer
        assert "answered with 408" in caplog.text
        assert nothing == [b"", b""]
        assert await client.add()


async def test_a_connection_that_has_ended_isnt_kept_until_its_time_for_headers_is_over(registry, serving, monkeypatch):
    alive: WeakSet[H11Protocol] = WeakSet()
    made = H11Protocol.connection_made
    monkeypatch.setattr(H11Protocol, "connection_made", lambda self, way: (alive.add(self), made(self, way))[1])
    async with serving(registry, HttpSettings(body_seconds=600)) as transport:
        for _ in range(3):
            async with raw(transport) as client:
                await client.initialize()
        async with asyncio.timeout(60):
            while alive:
                gc.collect()  # only reference cycles are left
                await asyncio.sleep(0.01)


POST = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\n"


async def spoken(transport, text, *, once=False):
    """The answer on a connection, until the server closes it, or only the first part."""
    host, port = transport.url.split("/")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text)
    try:
        return await asyncio.wait_for(reader.read(1_000 if once else -1), 120)
    finally:
        writer.close()


@pytest.mark.parametrize("sessions", [10, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_the_number_of_sessions_is_limited(registry, caplog, sessions, serving):
    async with serving(registry, HttpSettings(sessions=sessions)) as transport, raw(transport) as client:
        await client.initialize()
        for _ in range(sessions - 1):
            answer = await client.http.post(transport.url, json=INITIALIZE, headers=ACCEPT)
            assert answer.status_code == 200
        answer = await client.http.post(transport.url, json=INITIALIZE, headers=ACCEPT)
        assert (answer.status_code, "Too many open sessions" in answer.text) == (503, True)
        assert "Refusing to open a new session" in caplog.text
        assert await client.add()
        assert (await client.http.delete(transport.url, headers=client.headers)).status_code == 200
        assert (await client.http.post(transport.url, json=INITIALIZE, headers=ACCEPT)).status_code == 200


async def test_one_user_cannot_take_the_sessions_of_the_others(registry, serving):
    settings = HttpSettings(user_sessions=3, tokens={"ann": ANN, "bob": BOB})
    async with serving(registry, settings) as transport, raw(transport) as client:
        ann, bob = ({"Authorization": f"Bearer {token}"} for token in (ANN, BOB))
        opened = await asyncio.gather(*(client.post(INITIALIZE, **ann) for _ in range(9)))
        assert sorted(answer.status_code for answer in opened) == [200] * 3 + [429] * 6
        refused = await client.post(INITIALIZE, **ann)
        assert (refused.status_code, "user_sessions" in refused.text) == (429, True)
        await client.initialize(**bob)
        assert await client.add(**bob)
        first = next(answer.headers["mcp-session-id"] for answer in opened if answer.status_code == 200)
        await client.http.delete(transport.url, headers={**ACCEPT, **ann, "mcp-session-id": first})
        again = await client.http.post(transport.url, json=INITIALIZE, headers={**ACCEPT, **ann})
        assert again.status_code == 200


async def test_a_session_that_is_not_used_ends(registry, serving):
    async with serving(registry, HttpSettings(idle_seconds=0.2)) as transport, raw(transport) as client:
        await client.initialize()
        async with asyncio.timeout(120):
            while await sessions_open(transport):
                pass
        assert (await client.post(client.call("add", a=1, b=2))).status_code == 404


async def sessions_open(transport):
    """The number of open sessions, after a moment."""
    await asyncio.sleep(0.02)
    return len(transport._server.server.session_manager._server_instances)


async def test_too_many_requests_are_refused_for_a_while(registry, caplog, serving):
    settings = HttpSettings(rate=0.01, tokens={"ann": ANN, "bob": BOB})
    async with serving(registry, settings) as transport, raw(transport) as client:
        ann, bob = ({"Authorization": f"Bearer {token}"} for token in (ANN, BOB))
        answers = [await client.post(INITIALIZE, **ann) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
        assert "Too many requests" in answers[1].text
        assert "answered with 429: Too many requests: wait a second" in caplog.text
        assert (await client.post(INITIALIZE, **bob)).status_code == 200


async def test_what_a_client_has_missed_is_sent_again(registry, serving):
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow(context: ToolContext) -> str:
        """Is slow."""
        context.report(1, 2, "half")
        begun.set()
        await goes_on.wait()
        return "done"

    registry.register(slow)
    async with serving(registry) as transport, raw(transport) as client, raw(transport) as other:
        await client.initialize()
        call = client.call("slow")
        call["params"]["_meta"] = {"progressToken": "p"}
        async with client.http.stream("POST", client.url, json=call, headers=client.headers) as answer:
            first = await anext(line async for line in answer.aiter_lines() if line.startswith("id: "))
            await asyncio.wait_for(begun.wait(), 60)
        goes_on.set()  # the client has disconnected, and the call goes on
        headers = {**client.headers, "Last-Event-ID": first.removeprefix("id: ")}
        async with asyncio.timeout(120):
            while True:
                async with client.http.stream("GET", client.url, headers=headers) as again:
                    found = messages(await again.aread() and again.text)
                if any("result" in message for _, message in found):
                    break
        assert [message.get("method", "result") for _, message in found] == ["notifications/progress", "result"]
        await other.initialize()
        async with other.http.stream(
            "GET", other.url, headers={**other.headers, "Last-Event-ID": headers["Last-Event-ID"]}
        ) as anothers:
            assert "done" not in (await anothers.aread()).decode()


@BOTH
async def test_on_shutdown_running_calls_are_answered_and_new_ones_refused(registry, mode, serving, connected):
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Is slow."""
        begun.set()
        await goes_on.wait()
        return "done"

    registry.register(slow)
    settings = HttpSettings(grace=600)
    async with (
        serving(registry, settings) as transport,
        connected(transport, mode=mode) as client,
        raw(transport) as other,
    ):
        await client.list_tools()  # otherwise the client does so once it has the result
        call = asyncio.create_task(client.call_tool("slow", {}))
        await asyncio.wait_for(begun.wait(), 60)
        assert (await other.http.get(transport.url.replace("/mcp", "/health"))).json() == {"status": "ok"}
        transport.end()
        assert (await other.http.get(transport.url.replace("/mcp", "/health"))).status_code == 503
        assert (await other.post(INITIALIZE)).status_code == 503
        with pytest.raises(MCPError, match="shutting down"):
            await client.call_tool("add", {"a": 1, "b": 2})
        goes_on.set()
        assert (await call).content[0].text == "done"


async def test_a_call_that_takes_too_long_on_shutdown_is_aborted_and_answered(registry, serving, connected):
    begun = asyncio.Event()

    @tool
    async def endless() -> str:
        """Never ends."""
        begun.set()
        await asyncio.sleep(600)
        return "never"

    registry.register(endless)
    async with serving(registry, HttpSettings(grace=0.1)) as transport, connected(transport, mode="legacy") as client:
        await client.list_tools()
        call = asyncio.create_task(client.call_tool("endless", {}))
        await asyncio.wait_for(begun.wait(), 60)
        transport.end()
        assert (await call).meta["pegboard/kind"] == "aborted"


@BOTH
@pytest.mark.parametrize("when", ["at once", "while it runs", "while it tidies up"])
async def test_a_call_is_cancelled_at_any_moment_and_other_sessions_work_on(registry, mode, when, serving, connected):
    begun, tidying, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        try:
            await asyncio.sleep(0 if when == "while it tidies up" else 600)
        finally:
            tidying.set()
            try:
                await asyncio.sleep(0.05)
            finally:
                ended.set()
        return "never"

    registry.register(wait)
    async with (
        serving(registry) as transport,
        connected(transport, mode=mode) as client,
        connected(transport, mode=mode) as other,
    ):
        call = asyncio.create_task(client.call_tool("wait", {}))
        if when != "at once":
            await asyncio.wait_for((begun if when == "while it runs" else tidying).wait(), 60)
        else:
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        if begun.is_set():
            await asyncio.wait_for(ended.wait(), 60)
        for each in (client, other):
            assert (await each.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@pytest.mark.parametrize(
    ("host", "settings", "text"),
    [
        ("0.0.0.0", HttpSettings(), "clients need a token"),
        ("192.0.2.1", HttpSettings(), "clients need a token"),
        ("[::]", HttpSettings(), "clients need a token"),
        ("[::]", HttpSettings(token=ANN), "the host names of its URLs"),
        ("0.0.0.0", HttpSettings(token=ANN), "the host names of its URLs"),
    ],
)
async def test_an_address_that_others_reach_needs_a_token_and_a_name(registry, host, settings, text):
    with pytest.raises(ConfigError, match=text):
        HttpTransport(ToolServer(registry), f"{host}:0", settings)


async def test_localhost_needs_no_token_and_is_accepted_as_its_name(registry, serving):
    async with serving(registry, address="localhost:0") as transport, raw(transport) as client:
        await client.initialize(Host=transport.url.split("/")[2].replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"token": "short"}, "token: must be a string of at least 16"),
        ({"tokens": {"ann": "short"}}, "tokens.ann: must be a string of at least 16"),
        ({"tokens": {"": "a" * 16}}, "tokens: a user has to have a name"),
        ({"tokens": {"ann": "a" * 16, "bob": "a" * 16}}, "tokens: no two users may have the same token"),
        ({"token": "a" * 16, "tokens": {"ann": "a" * 16}}, "tokens: no two users may have the same token"),
        ({"tokens": {"ann": 3}}, "tokens.ann: must be a string"),
        ({"token": {"env": "PEGBOARD_NOT_SET"}}, "the environment has no PEGBOARD_NOT_SET"),
        ({"tokn": ANN}, "tokn: unknown key"),
        ({"oauth": {"issuer": "https://a"}}, "oauth.resource: missing"),
        ({"rate": 0}, "rate: must be above 0"),
        ({"hosts": "a"}, "hosts: must be an array"),
        ([], "must be"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, text):
    with pytest.raises(ConfigError, match=r"pegboard.toml: plugins.mcp.serve: .*") as error:
        read_http_settings(settings)
    assert text in str(error.value)


def test_the_settings_of_serve_are_not_a_server():
    assert servers_from({"serve": {"token": ANN}}).settings == {}
    with pytest.raises(ValueError, match=r"plugins\.mcp\.serv: unknown key"):
        servers_from({"serv": {}})


def test_the_token_of_the_environment_counts_before_that_of_the_settings(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_A_TEST", ANN)
    assert read_http_settings({"token": BOB}, "TOKEN_OF_A_TEST").token == ANN
    assert read_http_settings({"token": {"env": "TOKEN_OF_A_TEST"}}).token == ANN
    with pytest.raises(ConfigError, match="NOT_SET of --token-env"):
        read_http_settings({}, "NOT_SET")


@pytest.mark.parametrize(
    "address", ["8000", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":8000", "no.such.host.invalid:1"]
)
async def test_an_invalid_address_is_refused(registry, address):
    with pytest.raises(ConfigError, match=r"--http"):
        HttpTransport(ToolServer(registry), address, HttpSettings())


async def test_another_host_is_reached_by_the_names_that_are_set(registry, serving):
    settings = HttpSettings(token=ANN, hosts=("tools.example.com",), origins=("https://app.example.com",))
    context = ReadonlyContext(user="everybody")
    async with serving(registry, settings, context=context) as transport, raw(transport) as client:
        headers = {"Authorization": f"Bearer {ANN}", "Host": "tools.example.com", "Origin": "https://app.example.com"}
        await client.initialize(**headers)
        answer = await client.post(client.call("whoami"), **headers)
        assert messages(answer.text)[-1][1]["result"]["content"][0]["text"] == "everybody, None"
