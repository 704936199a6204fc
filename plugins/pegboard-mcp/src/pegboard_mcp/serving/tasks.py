"""Long-running calls: as tasks (the extension `io.modelcontextprotocol/tasks`), or polled by a tool."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import define
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams

from pegboard import ResolvedTools, Tool, ToolRegistry, ToolResult
from pegboard.errors import OperationError, ToolError
from pegboard.threads import run_in_thread
from pegboard.typing import JsonObject
from pegboard_mcp.serving.content import result_json
from pegboard_mcp.serving.sessions import Request, Session, forget_oldest

EXTENSION: Final = "io.modelcontextprotocol/tasks"
RESULT_TOOL: Final = "pending_result"
"""Name of the tool that gets a result for clients without the extension."""

MOST_TASKS: Final = 10_000
"""Stored tasks; of more, the oldest are forgotten."""

MOST_OF_ONE: Final = 1_000
"""The same of one session, or of one user without a session."""

TTL_MS: Final = 24 * 60 * 60 * 1_000
POLL_MS: Final = 1_000


class TaskParams(RequestParams):
    """Parameters with a task's id."""

    taskId: str  # noqa: N815  as on the wire


@define(eq=False)
class Task:
    """Task of a client: a long-running call.

    Attributes:
        id: Its id for the client.
        operation: Its id for the model.
        call_id: The id of the call.
        session: The session that it belongs to.
        created: When it began.
        changed: When its result was set; before, when it began.
        result: Its result, or `None`.
        is_cancelled: Whether the client has cancelled it.
    """

    id: str
    operation: str
    call_id: str
    session: Session
    created: datetime
    changed: datetime
    result: ToolResult | None = None
    is_cancelled: bool = False

    def to_json(self) -> JsonObject:
        """The task in the extension's form, without its result."""
        working = "working" if self.result is None else "completed"
        return {
            "taskId": self.id,
            "status": "cancelled" if self.is_cancelled else working,
            "createdAt": self.created.isoformat(),
            "lastUpdatedAt": self.changed.isoformat(),
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }


class Tasks:
    """The tasks of a server's clients.

    Args:
        registry: The registry that gets the results.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._tools: WeakKeyDictionary[Session, Tool] = WeakKeyDictionary()

    def begin(self, session: Session, call_id: str, operation: str) -> JsonObject:
        """Stores the task of a pending call; gives the answer for clients that support tasks."""
        now = datetime.now(UTC)
        task = Task(secrets.token_urlsafe(), operation, call_id, session, now, now)
        self._tasks[task.id] = task
        forget_oldest(self._tasks, lambda each: (each.session.user, each.session.name), MOST_OF_ONE, MOST_TASKS)
        while self._is_over(next(iter(self._tasks.values()))):
            self._tasks.popitem(last=False)
        return {"resultType": "task", **task.to_json()}

    async def get(self, session: Session, id_: str) -> JsonObject:
        """A task's state, with its result once there is one.

        Raises:
            MCPError: The session has no task of this id.
        """
        task = self._of(session, id_)
        await self._look(task)
        data = {"resultType": "complete", **task.to_json()}
        if task.result is not None and not task.is_cancelled:
            data["result"] = result_json(task.result, any_structure=True)
        return data

    async def cancel(self, session: Session, id_: str) -> JsonObject:
        """Cancels a task that waits for a later result; one that runs in this process isn't stopped.

        Raises:
            MCPError: The session has no task of this id.
        """
        task = self._of(session, id_)
        await self._look(task)
        if task.result is None:
            try:
                aborted = ToolResult.error("aborted", "The client has cancelled it.")
                await run_in_thread(self._registry.operations.complete, task.operation, aborted)
            except OperationError:
                return {"resultType": "complete"}  # its own work sets the result
            await self._look(task)
            task.is_cancelled = True
        return {"resultType": "complete"}

    async def update(self, session: Session, id_: str) -> JsonObject:
        """Accepts input for a task, which none of ours uses.

        Raises:
            MCPError: The session has no task of this id.
        """
        self._of(session, id_)
        return {"resultType": "complete"}

    def with_result_tool(self, session: Session, resolved: ResolvedTools) -> ResolvedTools:
        """Adds the tool that gets results, if there is a long-running tool."""
        if not _has_long_running(resolved):
            return resolved
        tool = self._tools.get(session)
        if tool is None:
            tool = self._tools[session] = self._result_tool(session)
        return resolved.with_tools(tool)

    def _result_tool(self, session: Session) -> Tool:
        async def ask(arguments: Mapping[str, Any]) -> ToolResult:
            operation = arguments["operation"]
            mine = (each for each in self._tasks.values() if each.operation == operation)
            task = next((each for each in mine if session.is_of(each.session)), None)
            if task is None:
                raise ToolError(f"There is no operation {operation}. Use the operation id in the pending result.")
            await self._look(task)
            return task.result or ToolResult([f"Operation {operation} is still pending."])  # pyright: ignore[reportArgumentType]  converted

        properties = {"operation": {"type": "string", "description": "The operation id in the pending result."}}
        schema = {"type": "object", "properties": properties, "required": ["operation"], "additionalProperties": False}
        text = "Get the result of a call that was pending. Returns the result, or says that the call is still running."
        return Tool.from_schema(RESULT_TOOL, schema, ask, description=text, read_only=True)

    def _of(self, session: Session, id_: str) -> Task:
        task = self._tasks.get(id_)
        if task is None or not session.is_of(task.session) or self._is_over(task):
            raise MCPError(INVALID_PARAMS, "Unknown task")
        return task

    async def _look(self, task: Task) -> None:
        """Stores the result, once there is one; off the event loop, as processes may share a store of operations."""

        def take() -> None:  # even if the request is cancelled meanwhile, so that no result is lost
            for completion in self._registry.operations.take(task.session.name, {task.call_id}):
                task.result, task.changed = completion.result, datetime.now(UTC)

        if task.result is None:
            await run_in_thread(take)

    @staticmethod
    def _is_over(task: Task) -> bool:
        return (datetime.now(UTC) - task.created).total_seconds() * 1_000 > TTL_MS


@lru_cache(maxsize=1)  # mostly the same tools are offered to every request
def _has_long_running(resolved: ResolvedTools) -> bool:
    return any(tool.spec.long_running for tool in resolved)


def takes_tasks(request: Request) -> bool:
    """Whether the client supports tasks, which only later revisions have."""
    capabilities = request.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})
