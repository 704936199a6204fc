"""`LateProcesses`: child processes for tools that want them; until the first of them is called, nothing is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    from pegboard.dispatch.executors.executor import Talk
    from pegboard.dispatch.executors.processes import ChildProcesses
    from pegboard.dispatch.executors.request import ExecutionRequest
    from pegboard.dispatch.executors.response import ExecutionResponse
    from pegboard.tools.context import ToolContext
    from pegboard.tools.tool import Tool


@define(eq=False, init=False)
class LateProcesses:
    """What `executor="process"` stands for, unless the host brings another one under that name.

    Args:
        settings: As `ChildProcesses` takes them.
    """

    settings: dict[str, Any]
    _made: ChildProcesses | None = field(default=None)

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self._made = None

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        """See `ChildProcesses.execute`."""
        return await self._pool().execute(request)

    async def execute_tool(
        self, tool: Tool, request: ExecutionRequest, context: ToolContext, talk: Talk
    ) -> ExecutionResponse:
        """See `ChildProcesses.execute_tool`."""
        return await self._pool().execute_tool(tool, request, context, talk)

    async def aclose(self) -> None:
        """Ends what was started."""
        if self._made is not None:
            await self._made.aclose()

    def _pool(self) -> ChildProcesses:
        if self._made is None:
            from pegboard.dispatch.executors.processes import ChildProcesses

            self._made = ChildProcesses(**self.settings)
        return self._made
