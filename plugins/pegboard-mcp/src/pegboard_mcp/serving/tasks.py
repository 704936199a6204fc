"""Calls whose results come later: as tasks (the extension `io.modelcontextprotocol/tasks`), or by a tool that asks."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import define
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams

from pegboard import Tool, ToolRegistry, ToolResult
from pegboard.errors import OperationError, ToolError
from pegboard.toolsets.resolve import ResolvedTools
from pegboard.typing import JsonObject
from pegboard_mcp.serving.content import result_json
from pegboard_mcp.serving.sessions import Request, Session, forget_oldest

EXTENSION: Final = "io.modelcontextprotocol/tasks"
RESULT_TOOL: Final = "pending_result"
"""Name of the tool by which clients without the extension ask for a result."""

MOST_TASKS: Final = 10_000
"""Calls whose results are awaited, or were not dropped yet; of more, the oldest are forgotten."""

MOST_OF_ONE: Final = 1_000
"""The same of one session, or of one user without."""

TTL_MS: Final = 24 * 60 * 60 * 1_000
POLL_MS: Final = 1_000


class TaskParams(RequestParams):
    """Names a task."""

    taskId: str  # noqa: N815  as on the wire


@define(eq=False)
class Task:
    """Task of a client: a call whose result comes later.

    Attributes:
        id: What the client knows it by.
        operation: What the model knows it by.
        call_id: The call's.
        session: Whose it is.
        created: When it began.
        result: What has come of it, or `None`.
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
        """It as the extension has it, without its result."""
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
        registry: Where later results come in.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._tools: WeakKeyDictionary[Session, Tool] = WeakKeyDictionary()

    def begin(self, session: Session, call_id: str, operation: str) -> JsonObject:
        """Keeps a call whose result comes later; gives the answer of clients that take tasks."""
        now = datetime.now(UTC)
        task = Task(secrets.token_urlsafe(), operation, call_id, session, now, now)
        self._tasks[task.id] = task
        forget_oldest(self._tasks, lambda each: (each.session.user, each.session.name), MOST_OF_ONE, MOST_TASKS)
        while self._is_over(next(iter(self._tasks.values()))):
            self._tasks.popitem(last=False)
        return {"resultType": "task", **task.to_json()}

    def get(self, session: Session, id_: str) -> JsonObject:
        """A task as it stands, with its result once that is there.

        Raises:
            MCPError: The session has none of this id.
        """
        task = self._of(session, id_)
        self._look(task)
        data = {"resultType": "complete", **task.to_json()}
        if task.result is not None and not task.is_cancelled:
            data["result"] = result_json(task.result, any_structure=True)
        return data

    def cancel(self, session: Session, id_: str) -> JsonObject:
        """Awaits a task's result no more; what goes on in this process goes on.

        Raises:
            MCPError: The session has none of this id.
        """
        task = self._of(session, id_)
        self._look(task)
        if task.result is None:
            try:
                self._registry.complete(task.operation, ToolResult.error("aborted", "The client has cancelled it."))
            except OperationError:
                return {"resultType": "complete"}  # it completes itself
            self._look(task)
            task.is_cancelled = True
        return {"resultType": "complete"}

    def update(self, session: Session, id_: str) -> JsonObject:
        """Takes answers, of which no task of ours wants any.

        Raises:
            MCPError: The session has none of this id.
        """
        self._of(session, id_)
        return {"resultType": "complete"}

    def with_result_tool(self, session: Session, resolved: ResolvedTools) -> ResolvedTools:
        """With the tool that asks for results, where a tool's come later."""
        if not any(tool.spec.long_running for tool in resolved):
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
                raise ToolError(f"No operation {operation} is known. Its id stands in the result of its call.")
            self._look(task)
            return task.result or ToolResult([f"Operation {operation} is pending still."])  # pyright: ignore[reportArgumentType]  converted

        properties = {"operation": {"type": "string", "description": "Its id, as the pending result has it."}}
        schema = {"type": "object", "properties": properties, "required": ["operation"], "additionalProperties": False}
        text = "Asks for the result of a call that was pending."
        return Tool.from_schema(RESULT_TOOL, schema, ask, description=text, read_only=True)

    def _of(self, session: Session, id_: str) -> Task:
        task = self._tasks.get(id_)
        if task is None or not session.is_of(task.session) or self._is_over(task):
            raise MCPError(INVALID_PARAMS, "Unknown task")
        return task

    def _look(self, task: Task) -> None:
        """Takes over the result, once it is there."""
        if task.result is None:
            for completion in self._registry.completions(task.session.name, {task.call_id}):
                task.result, task.changed = completion.result, datetime.now(UTC)

    @staticmethod
    def _is_over(task: Task) -> bool:
        return (datetime.now(UTC) - task.created).total_seconds() * 1_000 > TTL_MS


def takes_tasks(request: Request) -> bool:
    """Whether the client has said, with this request, that it takes tasks; only later revisions have them."""
    capabilities = request.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})
