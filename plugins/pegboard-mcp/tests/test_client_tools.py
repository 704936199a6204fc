"""Tools that a client offers in its session, over HTTP and in the process of a client of the SDK."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, EmptyResult, NotificationParams, Request, RequestParams
from pydantic import ConfigDict

from pegboard import Permissions, Rule, ToolRegistry, tool
from pegboard_mcp import ToolServer
from pegboard_mcp.serving.access import HttpSettings

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])
GREET = {
    "name": "greet",
    "description": "Greets.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "annotations": {"readOnlyHint": True},
}


class Facts(NotificationParams):
    model_config = ConfigDict(extra="allow")


class Params(RequestParams):
    model_config = ConfigDict(extra="allow")


class Any(Request[Params, str]):
    method: str
    params: Params


class Offering(ClientExtension):
    """A client that offers tools, and answers calls of them."""

    identifier = "dev.pegboard/offering"

    def __init__(self):
        self.offered = asyncio.Queue()
        self.called = asyncio.Queue()
        self.cancelled = asyncio.Queue()

    def notifications(self):
        return [
            NotificationBinding(method=f"notifications/pegboard/tools/{name}", params_type=Facts, handler=queue.put)
            for name, queue in (("offered", self.offered), ("call", self.called), ("cancelled", self.cancelled))
        ]


async def ask(client, method, **params):
    return await client.session.send_request(Any(method=method, params=Params(**params)), EmptyResult)


@asynccontextmanager
async def offering(client, extension, *tools):
    """Offers tools; gives the server's notification."""
    task = asyncio.create_task(ask(client, "pegboard/tools/offer", tools=list(tools)))
    notified = asyncio.create_task(extension.offered.get())
    try:
        await asyncio.wait([task, notified], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield (await notified).model_dump()
    finally:
        for each in (task, notified):
            each.cancel()
        await asyncio.wait([task, notified])


async def answer(client, extension, text):
    call = await asyncio.wait_for(extension.called.get(), 60)
    await ask(client, "pegboard/tools/answer", callId=call.callId, result={"content": [{"type": "text", "text": text}]})
    return call


async def names(client):
    return [each.name for each in (await client.list_tools()).tools]


@pytest.fixture
def registry():
    @tool(read_only=True)
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    registry = ToolRegistry()
    registry.register(add)
    registry.permissions = Permissions([Rule("client_*", "*", "allow")])
    return registry


ANN, BOB = "token-of-ann-0123", "token-of-bob-0123"


@BOTH
async def test_a_call_of_a_clients_tool_goes_back_to_it(registry, mode, serving, connected):
    settings, extension = HttpSettings(tokens={"ann": ANN, "bob": BOB}), Offering()
    async with (
        serving(registry, settings) as transport,
        connected(transport, ANN, mode, extensions=[extension]) as ann,
        connected(transport, BOB, mode) as bob,
    ):
        async with offering(ann, extension, GREET) as offer:
            assert offer["names"] == {"greet": "client_greet"}
            assert offer["refused"] == []
            assert await names(ann) == ["add", "client_greet"]
            call = asyncio.create_task(ann.call_tool("client_greet", {"name": "Eve"}))
            asked = await answer(ann, extension, "Hello, Eve")
            assert (asked.name, asked.arguments) == ("greet", {"name": "Eve"})
            assert (await call).content[0].text == "Hello, Eve"
            assert (await ann.call_tool("client_greet", {})).meta["pegboard/kind"] == "invalid_arguments"

            assert await names(bob) == ["add"]
            with pytest.raises(MCPError, match="Unknown tool: client_greet"):
                await bob.call_tool("client_greet", {"name": "Eve"})
            call = asyncio.create_task(ann.call_tool("client_greet", {"name": "Eve"}))
            asked = await asyncio.wait_for(extension.called.get(), 60)
            with pytest.raises(MCPError, match="Unknown call"):
                await ask(bob, "pegboard/tools/answer", callId=asked.callId, result={"content": []})
            await ask(ann, "pegboard/tools/answer", callId=asked.callId, result={"content": [], "isError": True})
            assert (await call).is_error
            with pytest.raises(MCPError, match="Unknown call"):
                await ask(ann, "pegboard/tools/answer", callId=asked.callId, result={"content": []})
        async with asyncio.timeout(60):
            while await names(ann) != ["add"]:
                pass


async def test_offering_tools_needs_a_session_or_a_token(registry, serving, connected):
    extension = Offering()
    async with serving(registry) as transport, connected(transport, extensions=[extension]) as client:
        with pytest.raises(MCPError, match="needs a session or a token"):
            async with offering(client, extension, GREET):
                pass


@asynccontextmanager
async def in_process(registry, mode, **options):
    """A client in this process, that offers tools."""
    extension = Offering()
    server = ToolServer(registry, **options.pop("server", {})).server
    async with registry, Client(server, mode=mode, extensions=[extension], **options) as client:
        yield client, extension


@BOTH
async def test_a_call_that_is_in_flight_when_the_client_withdraws_its_tools_has_an_unknown_outcome(registry, mode):
    async with in_process(registry, mode) as (client, extension):
        async with offering(client, extension, GREET):
            call = asyncio.create_task(client.call_tool("client_greet", {"name": "Eve"}))
            await asyncio.wait_for(extension.called.get(), 60)
        assert (await asyncio.wait_for(call, 60)).meta["pegboard/kind"] == "unknown_outcome"


@BOTH
async def test_a_client_that_doesnt_answer_in_time_is_notified_and_the_call_fails(registry, mode):
    async with (
        in_process(registry, mode, server={"timeout": 1}) as (client, extension),
        offering(client, extension, GREET),
    ):
        result = await client.call_tool("client_greet", {"name": "Eve"})
        assert result.meta["pegboard/kind"] == "timeout"
        call = await asyncio.wait_for(extension.called.get(), 60)
        assert (await asyncio.wait_for(extension.cancelled.get(), 60)).callId == call.callId


@BOTH
async def test_calls_of_a_clients_tool_ask_unless_a_rule_allows_them(registry, mode):
    registry.permissions = None
    asked = []

    async def decide(_context, params):
        asked.append(params.message)
        return ElicitResult(action="decline")

    async with (
        in_process(registry, mode, elicitation_callback=decide) as (client, extension),
        offering(client, extension, GREET),
    ):
        result = await client.call_tool("client_greet", {"name": "Eve"})
        assert (result.meta["pegboard/kind"], "client_greet" in asked[0]) == ("rejected", True)


@BOTH
async def test_only_the_invalid_ones_of_the_offered_tools_are_refused(registry, mode):
    wrong = [
        {"name": "a", "inputSchema": []},
        {"name": "b", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://example.com"}}}},
        {"inputSchema": {}},
        GREET,
        {**GREET, "description": "Another."},
        {**GREET, "name": "hidden\u202e"},
    ]
    async with in_process(registry, mode) as (client, extension), offering(client, extension, *wrong) as offer:
        assert "client_greet" in await names(client)
        assert len(offer["refused"]) == 4
        assert offer["names"]["greet"] == "client_greet"


@BOTH
async def test_offers_tools_and_calls_are_bounded(registry, mode, monkeypatch):
    monkeypatch.setattr("pegboard_mcp.serving.client_tools.MOST_CALLS", 1)
    many = [{**GREET, "name": f"greet{number}"} for number in range(65)]
    async with in_process(registry, mode) as (client, extension), offering(client, extension, *many) as offer:
        assert len(offer["names"]) == 64
        async with (
            offering(client, extension, GREET),
            offering(client, extension),
            offering(client, extension),
        ):
            with pytest.raises(MCPError, match="At most 4 offers"):
                async with offering(client, extension):
                    pass
            call = asyncio.create_task(client.call_tool("client_greet", {"name": "Eve"}))
            await asyncio.wait_for(extension.called.get(), 60)
            assert "has 1 unanswered calls" in (await client.call_tool("client_greet", {"name": "Eve"})).content[0].text
            call.cancel()
            await asyncio.wait([call])
