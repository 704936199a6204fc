"""Calls whose results come later: as tasks of the extension, and for clients without it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict

from pegboard import ToolContext, ToolRegistry, tool
from pegboard.backends import OperationStore
from pegboard_mcp import ToolServer
from pegboard_mcp.serving.access import HttpSettings
from sqlite_backends import SqliteOperations

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Facts(RequestParams):
    model_config = ConfigDict(extra="allow")


class Ask(Request[Facts, str]):
    method: str
    params: Facts


class Answer(Result):
    model_config = ConfigDict(extra="allow")


class TaskResult(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    taskId: str  # noqa: N815


class TakesTasks(ClientExtension):
    """A client that polls until a task has its result."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.polled = asyncio.Event()
        self.task = None

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskResult, resolve=self.resolve)]

    async def resolve(self, task, context):
        self.task = task
        while True:
            found = await ask(context, "get", task.taskId)
            self.polled.set()
            if found["status"] == "completed":
                return CallToolResult.model_validate(found["result"])
            if found["status"] == "cancelled":
                return CallToolResult(content=[], is_error=True)


async def ask(client, method, id_):
    request = Ask(method=f"tasks/{method}", params=Facts(taskId=id_))
    return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)


@pytest.fixture
def registry():
    @tool(long_running=True)
    async def order(item: str) -> str:
        """Orders something, which takes days."""
        return f"ordered {item}"

    @tool(long_running=True)
    async def work(context: ToolContext) -> str:
        """Goes on by itself."""

        async def go_on():
            await asyncio.sleep(0.05)
            return "worked"

        context.background(go_on())
        return "begun"

    registry = ToolRegistry()
    registry.register(order, work)
    return registry


@asynccontextmanager
async def in_process(registry, mode="auto", **options):
    async with registry, Client(ToolServer(registry).server, mode=mode, **options) as client:
        yield client


async def test_a_long_running_call_is_a_task_until_its_result_is_there(registry):
    extension = TakesTasks()
    async with in_process(registry, extensions=[extension]) as client:
        assert "pending_result" not in [each.name for each in (await client.list_tools()).tools]
        call = asyncio.create_task(client.call_tool("order", {"item": "tea"}))
        await asyncio.wait_for(extension.polled.wait(), 60)
        found = await ask(client, "get", extension.task.taskId)
        assert (found["status"], "result" in found) == ("working", False)
        (operation,) = registry.operations.pending
        registry.operations.complete(operation.id, "it has arrived")
        assert (await asyncio.wait_for(call, 60)).content[0].text == "it has arrived"
        assert (await ask(client, "get", extension.task.taskId))["status"] == "completed"  # again and again
        assert (await client.call_tool("work", {})).content[0].text == "worked"


async def test_a_task_without_background_work_can_be_cancelled(registry):
    extension = TakesTasks()
    async with in_process(registry, extensions=[extension]) as client:
        call = asyncio.create_task(client.call_tool("order", {"item": "tea"}))
        await asyncio.wait_for(extension.polled.wait(), 60)
        await ask(client, "update", extension.task.taskId)
        await ask(client, "cancel", extension.task.taskId)
        assert (await asyncio.wait_for(call, 60)).is_error
        assert registry.operations.pending == ()
        for method in ("get", "cancel", "update"):
            with pytest.raises(MCPError, match="Unknown task"):
                await ask(client, method, "another")


@BOTH
async def test_a_client_without_tasks_asks_for_the_result(registry, mode):
    async with in_process(registry, mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["order", "pending_result", "work"]
        first = await client.call_tool("order", {"item": "tea"})
        (operation,) = registry.operations.pending
        assert f"Call pending_result with operation='{operation.id}' later" in first.content[-1].text
        asked = {"operation": operation.id}
        assert "is still pending" in (await client.call_tool("pending_result", asked)).content[0].text
        registry.operations.complete(operation.id, "it has arrived")
        for _ in range(2):
            assert (await client.call_tool("pending_result", asked)).content[0].text == "it has arrived"
        unknown = await client.call_tool("pending_result", {"operation": "op_1"})
        assert (unknown.is_error, "There is no operation" in unknown.content[0].text) == (True, True)


async def test_a_users_task_is_unknown_to_other_users(registry, serving, connected):
    tokens = {"ann": "token-of-ann-0123", "bob": "token-of-bob-0123"}
    extension, settings = TakesTasks(), HttpSettings(tokens=tokens)
    async with (
        serving(registry, settings) as transport,
        connected(transport, tokens["ann"], extensions=[extension]) as ann,
        connected(transport, tokens["bob"]) as bob,
    ):
        call = asyncio.create_task(ann.call_tool("order", {"item": "tea"}))
        await asyncio.wait_for(extension.polled.wait(), 60)
        with pytest.raises(MCPError, match="Unknown task"):
            await ask(bob, "get", extension.task.taskId)
        (operation,) = registry.operations.pending
        theirs = await bob.call_tool("pending_result", {"operation": operation.id})
        assert "There is no operation" in theirs.content[0].text
        registry.operations.complete(operation.id, "it has arrived")
        assert (await asyncio.wait_for(call, 60)).content[0].text == "it has arrived"


class SlowOperations(SqliteOperations):
    """A store that notes the threads in which it is used."""

    def __init__(self, path):
        super().__init__(path)
        self.threads = set()

    def finish(self, name, data):
        self.threads.add(threading.current_thread())
        return super().finish(name, data)

    def take(self, *arguments):
        self.threads.add(threading.current_thread())
        return super().take(*arguments)


async def test_a_task_whose_operation_other_processes_share_does_not_block_the_server(registry, tmp_path):
    store, extension = SlowOperations(tmp_path / "operations.db"), TakesTasks()
    registry.provide(OperationStore, store)
    async with in_process(registry, extensions=[extension]) as client:
        call = asyncio.create_task(client.call_tool("order", {"item": "tea"}))
        await asyncio.wait_for(extension.polled.wait(), 60)
        await ask(client, "cancel", extension.task.taskId)
        assert (await asyncio.wait_for(call, 60)).is_error
    assert store.threads
    assert threading.current_thread() not in store.threads
