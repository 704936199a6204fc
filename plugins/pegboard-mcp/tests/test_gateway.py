"""A `ToolServer` as a gateway to other servers and local tools, over real sockets on both sides."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from pegboard import Model, ModelRequest, Permissions, Rule, ToolContext, ToolRegistry, tool
from pegboard.testing import ScriptedModel
from pegboard_mcp import ClientModel, connection, mcp_toolset
from pegboard_mcp.serving.access import HttpSettings

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])
TOKENS = {"ann": "token-of-ann-0123", "bob": "token-of-bob-0123"}


def registry_of(*tools):
    registry = ToolRegistry()
    registry.register(*tools)
    return registry


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def count(context: ToolContext) -> str:
    """Counts."""
    for number in (1, 2, 3):
        context.report(number, 3)
    return "counted"


@tool
def local() -> str:
    """Is here."""
    return "here"


@pytest.fixture
def gateway(serving):
    """Two servers and a local tool behind one server; gives their registries too."""

    @asynccontextmanager
    async def gateway(**server):
        first, second, own = registry_of(add), registry_of(count), registry_of(local)
        async with serving(first) as one, serving(second) as two:
            own.register(
                mcp_toolset("sums", url=one.url, accept="always"), mcp_toolset("counts", url=two.url, accept="always")
            )
            async with serving(own, **server) as transport:
                yield transport, first, own

    return gateway


async def names(client):
    return [each.name for each in (await client.list_tools()).tools]


@BOTH
async def test_calls_go_to_the_servers_behind_it_by_its_own_rules(mode, gateway, connected):
    asked, seen = [], []

    async def decide(_context, params):
        asked.append(params.message)
        return ElicitResult(action="decline")

    async def note(progress, _total, _message):
        seen.append(progress)

    async with gateway() as (transport, _, own):
        own.permissions = Permissions([Rule("counts__*", "*", "allow")])
        async with connected(transport, mode=mode, elicitation_callback=decide) as client:
            assert await names(client) == ["counts__count", "local", "sums__add"]
            assert (await client.call_tool("local", {})).content[0].text == "here"
            counted = await client.call_tool("counts__count", {}, progress_callback=note)
            assert (counted.content[0].text, seen) == ("counted", [1, 2, 3])
            assert asked == []
            refused = await client.call_tool("sums__add", {"a": 1, "b": 2})  # of a server that isn't trusted
            assert (refused.meta["pegboard/kind"], "sums__add" in asked[0]) == ("rejected", True)
            own.permissions = Permissions([Rule("*", "*", "allow")])
            assert (await client.call_tool("sums__add", {"a": 1, "b": 2})).structured_content == {"result": 3}


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
ANSWERS = [  # the client's answer, and the tool's result
    (ElicitResult(action="accept", content={"name": "Ann", "age": 30}), "True {'name': 'Ann', 'age': 30}"),
    (ElicitResult(action="accept", content={"name": 1}), "False None"),
    (ElicitResult(action="accept"), "False None"),
    (ElicitResult(action="decline"), "False None"),
]


@pytest.mark.slow
@BOTH
async def test_a_server_behind_it_asks_the_client_by_its_form_and_runs_once(mode, serving, connected):
    runs, asked, answers = [], [], [answer for answer, _ in ANSWERS]

    async def answered(_context, params):
        asked.append((params.message.split("\n")[0], params.requested_schema))
        return answers.pop(0)

    @tool
    async def greet(context: ToolContext) -> str:
        """Asks for a name before it greets."""
        runs.append("greet")
        answer = await context.request_confirmation("Who is it?", {"form": FORM})
        return f"{answer.confirmed} {answer.payload if answer.confirmed else None}"

    own = registry_of(local)
    own.permissions = Permissions([Rule("*", "*", "allow"), Rule("confirmation", "*", "ask")])
    async with serving(registry_of(greet)) as behind, serving(own) as transport:
        own.register(mcp_toolset("behind", url=behind.url, accept="always", elicitation=True))
        async with connected(transport, mode=mode, elicitation_callback=answered) as client:
            for _, result in ANSWERS:
                assert (await client.call_tool("behind__greet", {})).content[0].text == result
    assert runs == ["greet"] * len(ANSWERS)
    assert {schema == FORM for _, schema in asked} == {True}
    assert asked[0][0].startswith("behind__greet: The MCP server 'behind' asks: greet: Who is it?")


@BOTH
async def test_a_server_behind_it_asks_the_clients_model_where_the_host_has_none(mode, serving, connected):
    async def answered(_context, params):
        text = params.messages[0].content_as_list[0].text
        return CreateMessageResult(role="assistant", model="m", content=TextContent(text=f"{text}? Done."))

    @tool(read_only=True)
    async def write(context: ToolContext) -> str:
        """Has a model write."""
        return (await ClientModel.of(context).respond(ModelRequest("A poem"))).text

    own = registry_of(local)
    own.permissions = Permissions([Rule("*", "*", "allow")])
    async with serving(registry_of(write)) as behind, serving(own) as transport:
        own.register(mcp_toolset("behind", url=behind.url, accept="always", sampling=True))
        async with connected(transport, mode=mode, sampling_callback=answered) as client:
            assert (await client.call_tool("behind__write", {})).content[0].text == "A poem? Done."
        async with connected(transport, mode=mode) as client:
            assert (await client.call_tool("behind__write", {})).is_error
        own.provide(Model, ScriptedModel(["The host's."]))
        async with connected(transport, mode=mode, sampling_callback=answered) as client:
            assert (await client.call_tool("behind__write", {})).content[0].text == "The host's."


async def test_users_see_the_servers_that_are_theirs(gateway, connected):
    where = "not toolset:sums or user:ann"
    async with (
        gateway(settings=HttpSettings(tokens=TOKENS), where=where) as (transport, _, _own),
        connected(transport, TOKENS["ann"]) as ann,
        connected(transport, TOKENS["bob"]) as bob,
    ):
        assert await names(ann) == ["counts__count", "local", "sums__add"]
        assert await names(bob) == ["counts__count", "local"]
        with pytest.raises(MCPError, match="Unknown tool: sums__add"):
            await bob.call_tool("sums__add", {"a": 1, "b": 2})


@BOTH
async def test_a_search_finds_tools_of_the_servers_behind_it(mode, gateway, connected):
    async with gateway(search=True) as (transport, _, _own), connected(transport, mode=mode) as client:
        assert await names(client) == ["search_tools"]
        await client.call_tool("search_tools", {"query": "count"})
        assert await names(client) == ["counts__count", "search_tools"]


async def test_a_change_of_a_server_behind_it_is_announced(gateway, connected):
    async with gateway() as (transport, first, _own), connected(transport) as client:
        assert "sums__sub" not in await names(client)

        @tool(read_only=True)
        def sub(a: int, b: int) -> int:
            """Subtracts."""
            return a - b

        async with client.listen(tools_list_changed=True) as events, asyncio.timeout(300):
            first.register(sub)
            while "sums__sub" not in await names(client):
                await anext(aiter(events))


async def test_a_change_before_the_subscription_to_changes_is_noticed(serving, monkeypatch):
    first, own, listen = registry_of(add), registry_of(local), connection.Client.listen

    @asynccontextmanager
    async def changed_before(client, **options):
        first.register(count)
        await client.list_tools()  # the announcement was sent before this answer
        async with listen(client, **options) as subscription:
            yield subscription

    monkeypatch.setattr(connection.Client, "listen", changed_before)
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    async with serving(first) as behind, own:
        own.register(mcp_toolset("behind", url=behind.url, accept="always"))
        with own.contributions.on_change(lambda: loop.call_soon_threadsafe(changed.set)):
            if "behind__count" not in (await own.resolve()).names:
                await asyncio.wait_for(changed.wait(), 60)
        assert "behind__count" in (await own.resolve()).names


async def test_a_stopped_server_behind_it_leaves_other_tools_working(serving, connected):
    own = registry_of(local)
    own.permissions = Permissions([Rule("*", "*", "allow")])
    async with serving(own) as transport:
        async with serving(registry_of(add)) as behind:
            own.register(mcp_toolset("sums", url=behind.url, accept="always"))
            async with connected(transport) as client:
                assert (await client.call_tool("sums__add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        async with connected(transport) as client:
            assert "local" in await names(client)
            assert (await client.call_tool("local", {})).content[0].text == "here"


async def test_the_first_list_may_take_as_long_as_the_start(serving, monkeypatch):
    monkeypatch.setattr(connection, "READ_SECONDS", 0.0)
    async with serving(registry_of(add)) as behind, ToolRegistry() as own:
        own.register(mcp_toolset("behind", url=behind.url, accept="always"))
        assert (await own.resolve()).names == ("behind__add",)
