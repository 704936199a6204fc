"""`LocalExecutor`: tools run in this process by their names, without a registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import attrs
from attrs import frozen

from pegboard.dispatch.approve import permit
from pegboard.dispatch.arguments import parse, validate
from pegboard.dispatch.executors.late import LateProcesses
from pegboard.dispatch.executors.local_host import LocalHost
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse, response_of
from pegboard.dispatch.find import find, not_offered, unknown
from pegboard.dispatch.limits import DEFAULT_LIMITS, Limits
from pegboard.dispatch.locks import LockManager
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, Permissions
from pegboard.dispatch.results import shape
from pegboard.dispatch.run import run
from pegboard.dispatch.stages import CallPipeline, run_stages
from pegboard.dispatch.state import CallServices, CallState
from pegboard.errors import log_failure
from pegboard.threads import WorkerPool
from pegboard.tools.call import ToolCall
from pegboard.tools.collection import as_tools
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject, JsonSchema


@frozen
class ToolInfo:
    """What a model has to know of a tool.

    Attributes:
        name: The tool's name.
        description: For the model.
        input_schema: The JSON Schema of its arguments.
    """

    name: str
    description: str
    input_schema: JsonSchema

    def to_json(self) -> JsonObject:
        """`{"name", "description", "input_schema"}`."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


class LocalExecutor:
    """Runs tools in this process: what stands at the other end where a host runs its tools elsewhere.

    A call is validated, held to permissions, run and shaped as a registry's is. Nobody is asked here: a call that asks
    comes back as `permission_required`. Whoever has allowed it sends the request again with the approval that came
    with it, which stands for exactly this tool and these arguments.

    Args:
        tools: What can be run.
        active: The names of those that may be, in their order; `None` is all, `[]` none. May be set later.
        permissions: What runs, asks and is denied.
        limits: What a call may use.

    Attributes:
        active: As given.
        name: `"local"`.
    """

    name: Final = "local"

    def __init__(
        self,
        tools: Iterable[Any],
        active: Sequence[str] | None = None,
        *,
        permissions: Permissions = DEFAULT_PERMISSIONS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._tools: Final = {tool.name: tool for given in tools for tool in as_tools(given)}
        self.active = active
        self._permissions: Final = permissions
        self._processes: Final = LateProcesses()
        self._around: Final = CallServices(
            self._find,
            WorkerPool(),
            limits=limits,
            observe=log_failure,
            locks=LockManager(limits.max_concurrency),
            permissions=permissions,
            executors={"process": self._processes},
        )

    def tools(self) -> tuple[ToolInfo, ...]:
        """What may be run: in the order of `active`, each once, else by name."""
        listed = sorted(self._tools) if self.active is None else dict.fromkeys(self.active)
        specs = (self._tools[name].spec for name in listed if name in self._tools)
        return tuple(ToolInfo(spec.name, spec.description, spec.input_schema) for spec in specs)

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        """Runs one call.

        Raises:
            FatalToolError: The tool ends the turn.
            ValueError: The request's confirmation is none.
            asyncio.CancelledError: Whoever waits was cancelled.
        """
        limits = self._around.limits
        if request.expose_errors:
            limits = attrs.evolve(limits, expose_errors=True)
        host = LocalHost(self.execute, request, self._permissions, limits)
        context = request.context(host=host)
        around = self._around.evolve(limits=limits, longest=request.timeout, host=host)
        context.frame = work = CallState(ToolCall(request.tool, request.arguments, request.call_id), context, around)
        await run_stages(work, CallPipeline((find, parse, validate), _unmended, (permit, host.allow, run, shape), ()))
        if work.fatal is not None:
            raise work.fatal
        if host.required is not None:
            return ExecutionResponse(permission_required=host.required)
        return _response(work)

    async def aclose(self) -> None:
        """Ends what was started."""
        await self._processes.aclose()
        self._around.threads.close()

    def _find(self, name: str) -> Tool:
        available = [info.name for info in self.tools()]
        if name in available:
            return self._tools[name]
        raise not_offered(name, available) if name in self._tools else unknown(name, available)


def _unmended(work: CallState) -> NoReturn:
    """Nobody mends a call here."""
    assert work.error is not None
    raise work.error


def _response(work: CallState) -> ExecutionResponse:
    assert work.result is not None
    response, said = response_of(work.result), work.context.said
    if said is None or said.actions.is_empty:
        return response
    return response.evolve(actions=said.actions.to_json())
