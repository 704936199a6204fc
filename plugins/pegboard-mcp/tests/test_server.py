"""`ToolServer` in the process of a real client, with and without a handshake."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    Permissions,
    Preview,
    ReadonlyContext,
    Rule,
    TextContent,
    ToolContext,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard_mcp import ToolServer

PNG = b"\x89PNG\r\n"
ICON = {"src": "https://example.com/i.png", "mimeType": "image/png"}
BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""A revision without a handshake, and those with one."""


@tool(read_only=True, tags=["sums"], title="Add", provider_options={"mcp": {"icons": [ICON]}})
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def show() -> ToolResult:
    """Shows everything."""
    return ToolResult(
        [
            TextContent("words"),
            ImageContent(PNG),
            AudioContent(b"RIFF"),
            FileContent("file:///a.txt", "text", "text/plain"),
            FileContent("file:///a.bin", b"\x00\x01"),
            LinkContent("https://example.com", "a page"),
        ],
        structured_content={"nothing": None},
    )


@tool
def fail() -> str:
    """Fails."""
    raise ValueError("/etc/secret")


@tool(destructive=True, preview=lambda arguments: Preview(f"deletes {arguments['name']}", "all of it"))
def delete(name: str) -> str:
    """Deletes."""
    return f"deleted {name}"


@pytest.fixture
def registry():
    registry = ToolRegistry()
    registry.register(add, show, fail, delete)
    return registry


@asynccontextmanager
async def connected(registry, mode="auto", server=None, **options):
    """A client of the registry's tools."""
    async with registry, Client(ToolServer(registry, **(server or {})).server, mode=mode, **options) as client:
        yield client


@BOTH
async def test_a_listed_tool_has_everything_that_its_spec_declares(registry, mode):
    async with connected(registry, mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(listed) == ["add", "delete", "fail", "show"]
    data = listed["add"].model_dump(by_alias=True, exclude_none=True)
    spec = registry.get("add").spec
    assert data == {
        "name": "add",
        "title": "Add",
        "description": "Adds.",
        "inputSchema": dict(spec.input_schema),
        "outputSchema": dict(spec.output_schema),
        "annotations": {"readOnlyHint": True},
        "icons": [ICON],
        "_meta": {"pegboard/digest": spec.digest, "pegboard/tags": ["sums"]},
    }


@BOTH
async def test_the_list_comes_in_pages_of_which_none_repeats_or_misses_a_tool(registry, mode):
    async with connected(registry, mode, {"most_listed": 3}) as client:
        first = await client.list_tools()
        assert [tool.name for tool in first.tools] == ["add", "delete", "fail"]
        registry.unregister("fail")  # the last one of the previous page
        second = await client.list_tools(cursor=first.next_cursor)
        assert ([tool.name for tool in second.tools], second.next_cursor) == (["show"], None)
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools(cursor="\n")


@BOTH
async def test_a_result_has_each_kind_of_content_and_data_beside_it(registry, mode):
    async with connected(registry, mode) as client:
        result = await client.call_tool("show", {})
    content = [item.model_dump(by_alias=True, exclude_none=True) for item in result.content]
    assert content == [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "iVBORw0K", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "text", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAE="}},
        {"type": "resource_link", "uri": "https://example.com", "name": "a page"},
    ]
    assert (result.structured_content, result.is_error) == ({"nothing": None}, False)


@BOTH
async def test_an_error_of_a_tool_is_a_result_and_an_unknown_tool_a_protocol_error(registry, mode):
    async with connected(registry, mode) as client:
        failed = await client.call_tool("fail", {})
        assert (failed.is_error, failed.meta["pegboard/kind"]) == (True, "tool_failure")
        assert "secret" not in failed.content[0].text
        wrong = await client.call_tool("add", {"a": "x"})
        assert (wrong.is_error, wrong.meta["pegboard/kind"]) == (True, "invalid_arguments")
        with pytest.raises(MCPError, match="Unknown tool: ad"):
            await client.call_tool("ad", {})


@BOTH
async def test_a_forbidden_tool_gives_the_same_error_as_a_missing_one(registry, mode):
    server = {"where": "not name:add or user:ann", "context": ReadonlyContext(user="bob")}
    async with connected(registry, mode, server) as client:
        assert "add" not in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError) as hidden:
            await client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(MCPError) as absent:
            await client.call_tool("sub", {"a": 1, "b": 2})
        assert str(hidden.value).replace("add", "sub") == str(absent.value)


@BOTH
@pytest.mark.parametrize("where", [None, "name:add or name:added", lambda tool, _context: tool.name != "show"])
async def test_a_change_of_the_tools_or_the_permissions_holds_for_the_next_request(registry, mode, where):
    async with connected(registry, mode, {"where": where}) as client:
        assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error
        registry.permissions = Permissions([Rule("add", "*", "deny")])
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("add", {"a": 1, "b": 2})
        registry.permissions = None
        with registry.register(registry.get("add").with_spec(name="added")):
            assert "added" in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("added", {"a": 1, "b": 2})
        assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


@pytest.mark.parametrize(
    ("where", "once"),
    [("read_only", True), ("not user:bob", False), (lambda tool, _context: tool.name == "add", False)],
)
async def test_tools_are_resolved_once_unless_they_depend_on_the_context(registry, where, once, monkeypatch):
    resolve = AsyncMock(side_effect=registry.resolve)
    monkeypatch.setattr(registry, "resolve", resolve)
    async with connected(registry, server={"where": where}) as client:
        for number in range(2):
            assert not (await client.call_tool("add", {"a": 1, "b": number})).is_error
    assert (resolve.await_count == 1) is once


@BOTH
async def test_progress_comes_in_order_before_the_result_and_grows(registry, mode):
    @tool
    def count(context: ToolContext) -> str:
        """Counts."""
        for number in (1, 2, 2, 1, 3):
            context.report(number, 3, f"at {number}")
        return "done"

    registry.register(count)
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    async with connected(registry, mode) as client:
        await client.call_tool("count", {}, progress_callback=note)
        assert seen == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]


@BOTH
async def test_what_a_tool_shows_is_logged_from_the_level_on_that_the_client_asks_for(registry, mode):
    @tool
    def work(context: ToolContext) -> str:
        """Works."""
        context.metadata("half way", files=3)
        return "done"

    registry.register(work)
    seen = []

    async def note(params):
        seen.append((params.level, params.logger, params.data))

    async def logged(level):
        seen.clear()
        async with connected(registry, mode, logging_callback=note, log_level=level) as client:
            if mode == "legacy":
                await client.session.send_request(*_set_level(level))
            await client.call_tool("work", {})
        return list(seen)

    assert await logged("info") == [("info", "work", {"title": "half way", "files": 3})]
    assert await logged("warning") == []


def _set_level(level):
    from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

    return SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult


@BOTH
async def test_a_cancelled_call_ends_in_the_tool_and_others_go_on(registry, mode):
    ended, begun = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)  # the cleanup takes a moment
            ended.set()
        return "never"

    registry.register(wait)
    async with connected(registry, mode) as client:
        call = asyncio.create_task(client.call_tool("wait", {}))
        await asyncio.wait_for(begun.wait(), 60)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.wait_for(ended.wait(), 60)
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@BOTH
async def test_a_call_that_takes_too_long_ends_with_an_error(registry, mode):
    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(60)
        return "never"

    registry.register(wait)
    async with connected(registry, mode, {"timeout": 0.05}) as client:
        result = await client.call_tool("wait", {})
        assert (result.is_error, result.meta["pegboard/kind"]) == (True, "timeout")


@BOTH
@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (ElicitResult(action="accept", content={"answer": "yes"}), None, "deleted a.txt"),
        (ElicitResult(action="accept", content={"answer": "no", "instead": "move it"}), "rejected", "move it"),
        (ElicitResult(action="accept", content={"answer": "perhaps"}), "rejected", "reject"),
        (ElicitResult(action="accept"), "rejected", "reject"),
        (ElicitResult(action="decline"), "rejected", "reject"),
        (ElicitResult(action="cancel"), "rejected", "reject"),
    ],
)
async def test_the_clients_user_reads_the_whole_call_and_decides(registry, mode, answer, kind, text):
    asked = []

    async def ask(_context, params):
        asked.append(params)
        return answer

    async with connected(registry, mode, elicitation_callback=ask) as client:
        result = await client.call_tool("delete", {"name": "a.txt"})
    assert (result.meta or {}).get("pegboard/kind") == kind
    assert text in result.content[0].text
    (params,) = asked
    assert all(part in params.message for part in ("delete", '"name": "a.txt"', "deletes a.txt", "all of it"))
    assert params.requested_schema["properties"]["answer"]["enum"][0] == "yes"


@BOTH
async def test_without_elicitation_a_call_that_needs_approval_is_denied(registry, mode):
    async with connected(registry, mode) as client:
        result = await client.call_tool("delete", {"name": "a.txt"})
        assert result.meta["pegboard/kind"] == "denied"
        assert "delete needs approval, and this client can't ask its user" in result.content[0].text


@BOTH
async def test_with_search_a_client_lists_what_it_has_found(registry, mode):
    async with connected(registry, mode, {"search": True, "where": "not name:fail"}) as client:

        async def names():
            return [tool.name for tool in (await client.list_tools()).tools]

        assert await names() == ["search_tools"]
        with pytest.raises(MCPError, match="is hidden until a search finds it"):
            await client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(MCPError, match="Unknown tool: fail"):  # which it may not use
            await client.call_tool("fail", {})
        found = await client.call_tool("search_tools", {"query": "add numbers"})
        assert "add: Adds." in found.content[0].text
        assert await names() == ["add", "search_tools"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_what_a_session_has_found_no_other_lists(registry):
    for _ in range(2):
        async with connected(registry, "legacy", {"search": True}) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools"]
            await client.call_tool("search_tools", {"query": "add"})


@BOTH
async def test_a_deferred_tool_is_listed_once_a_search_has_found_it(registry, mode):
    from pegboard_search import search_tool

    registry.register(search_tool("find_tools"))
    async with connected(registry, mode) as client:
        assert "find_tools" not in [tool.name for tool in (await client.list_tools()).tools]

        @tool(deferred=True)
        def rarely() -> str:
            """Is used rarely."""
            return "used"

        registry.register(rarely)
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert ("find_tools" in names, "rarely" in names) == (True, False)
        await client.call_tool("find_tools", {"query": "rarely"})
        assert (await client.call_tool("rarely", {})).content[0].text == "used"


async def test_state_set_by_tools_lasts_for_the_session_except_claims(registry):
    @tool
    def count(context: ToolContext) -> str:
        """Counts its calls."""
        assert "claims.role" not in context.state  # though an earlier call has set it
        context.state["claims.role"] = "admin"
        context.state["calls"] = context.state.get("calls", 0) + 1
        return str(context.state["calls"])

    registry.register(count)
    for _ in range(2):
        async with connected(registry, "legacy") as client:
            assert [(await client.call_tool("count", {})).content[0].text for _ in range(2)] == ["1", "2"]


async def test_the_waiting_calls_of_one_user_do_not_displace_anothers(registry, monkeypatch):
    monkeypatch.setattr("pegboard_mcp.serving.asking.MOST_OF_ONE", 2)

    async def ask(_context, _params):
        raise AssertionError("asked by hand")

    server = ToolServer(registry).server

    async def suspended(client):
        asked = await client.session.call_tool("delete", {"name": "a"}, allow_input_required=True)
        yes = {id_: ElicitResult(action="accept", content={"answer": "yes"}) for id_ in asked.input_requests}
        return {"input_responses": yes, "request_state": asked.request_state}

    async with (
        registry,
        Client(server, elicitation_callback=ask) as ann,
        Client(server, elicitation_callback=ask) as bob,
    ):
        hers = await suspended(ann)
        first, *others = [await suspended(bob) for _ in range(3)]
        with pytest.raises(MCPError, match="Unknown request state"):
            await bob.session.call_tool("delete", {"name": "a"}, **first)
        for client, answers in ((ann, hers), (bob, others[0]), (bob, others[1])):
            assert not (await client.session.call_tool("delete", {"name": "a"}, **answers)).is_error


@BOTH
async def test_a_tool_asks_while_it_runs_and_goes_on_with_the_answers(registry, mode):
    asked, seen, runs = [], [], []

    async def ask(_context, params):
        asked.append(params.message.split("\n")[0])
        return ElicitResult(action="accept", content={"answer": "yes"})

    async def note(progress, _total, _message):
        seen.append(progress)

    @tool(read_only=True)
    async def walk(context: ToolContext) -> str:
        """Walks."""
        runs.append("walk")
        context.report(1, 3)
        one, other = await asyncio.gather(*(context.request_confirmation(f"{way}?") for way in ("Left", "Right")))
        context.report(2, 3)
        last = await context.request_confirmation("On?")
        context.report(3, 3)
        return f"{one.confirmed} {other.confirmed} {last.confirmed}"

    registry.register(walk)
    async with connected(registry, mode, elicitation_callback=ask) as client:
        result = await client.call_tool("walk", {}, progress_callback=note)
    assert (result.content[0].text, runs, seen) == ("True True True", ["walk"], [1, 2, 3])
    assert (sorted(asked[:2]), asked[2]) == (["walk: Left?", "walk: Right?"], "walk: On?")


async def test_a_call_whose_client_does_not_come_back_with_an_answer_ends(registry):
    ended = asyncio.Event()

    @tool(read_only=True)
    async def walk(context: ToolContext) -> str:
        """Walks."""
        try:
            return str(await context.request_confirmation("On?"))
        finally:
            ended.set()

    async def ask(_context, _params):
        raise AssertionError("asked by hand")

    registry.register(walk)
    server = ToolServer(registry)
    async with registry, Client(server.server, elicitation_callback=ask) as client:
        asked = await client.session.call_tool("walk", {}, allow_input_required=True)
        assert not ended.is_set()
        server.end()
        await asyncio.wait_for(ended.wait(), 120)
        with pytest.raises(MCPError, match="Unknown request state"):
            await client.session.call_tool("walk", {}, request_state=asked.request_state)


async def test_always_holds_for_the_session(registry):
    asked = []

    async def ask(_context, params):
        asked.append(params)
        (always,) = (each for each in params.requested_schema["properties"]["answer"]["enum"] if "allows" in each)
        return ElicitResult(action="accept", content={"answer": always})

    for _ in range(2):
        async with connected(registry, "legacy", elicitation_callback=ask) as client:
            for _ in range(2):
                assert not (await client.call_tool("delete", {"name": "a.txt"})).is_error
    assert len(asked) == 2


async def test_an_approval_is_valid_for_one_run_of_its_tool(registry):
    from mcp_types import InputRequiredResult

    async def ask(_context, _params):
        raise AssertionError("asked by hand")

    async with connected(registry, elicitation_callback=ask) as client:
        first = await client.session.call_tool("delete", {"name": "a"}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        yes = {id_: ElicitResult(action="accept", content={"answer": "yes"}) for id_ in first.input_requests}
        again = {"input_responses": yes, "request_state": first.request_state}
        with pytest.raises(MCPError, match="Unknown request state"):
            await client.session.call_tool("fail", {}, **again)
        run = await client.session.call_tool("delete", {"name": "another, which isn't looked at"}, **again)
        assert run.content[0].text == "deleted a"
        with pytest.raises(MCPError, match="Unknown request state"):
            await client.session.call_tool("delete", {"name": "a"}, **again)


def test_every_mapped_name_is_valid_in_the_protocol():
    """The protocol allows 1 to 128 of `[A-Za-z0-9_.-]`; names are served unchanged, so none collide."""
    from mcp.shared.tool_name_validation import validate_tool_name

    from pegboard.tools import mapped_name

    for foreign in ("a", "A-b_9", "files/read.all", "ünï", "x" * 300, "1st", " "):
        name = mapped_name(foreign)
        assert validate_tool_name(name).is_valid
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name)
