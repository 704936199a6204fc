"""`LocalExecutor`: tools run in this process by their names, without a registry."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Any, Final, NoReturn, TypeAlias

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.pending import digest_of_call
from pegboard.dispatch.approval.request import preview_of
from pegboard.dispatch.approve import allows_inside, denial, permit
from pegboard.dispatch.arguments import parse, parse_arguments, validate
from pegboard.dispatch.executors.executor import (
    ExecutionRequest,
    ExecutionResponse,
    Executor,
    PermissionRequired,
)
from pegboard.dispatch.executors.remote import ToolExecutor, close_executors, run_remote
from pegboard.dispatch.find import find, not_offered, unknown
from pegboard.dispatch.locks import LockManager
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, Permissions
from pegboard.dispatch.results import shape
from pegboard.dispatch.run import run
from pegboard.dispatch.stages import run_stages
from pegboard.dispatch.state import CallPipeline, CallServices, CallState
from pegboard.errors import ToolError, log_failure, not_provided
from pegboard.schema.json import digest_of
from pegboard.threads import WorkerPool
from pegboard.tools.call import Actions, CallError, Confirmation, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.spec import DEFAULT_LIMITS, Limits
from pegboard.tools.tool import Tool
from pegboard.tools.typed import as_tools
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
    """Executor that runs tools in this process: the other end, where a host runs its tools elsewhere.

    A call is validated, held to permissions, run and shaped as a registry's is. There is no person to ask here: a call
    that asks comes back as `permission_required`. Once that is allowed, the request is sent again with the approval
    that came with it, which stands for exactly this tool and these arguments.

    Args:
        tools: What can be run.
        active: The names of those that may be, in their order; `None` is all, `[]` none. May be set later.
        permissions: What runs, asks and is denied.
        limits: What a call may use.
        executors: Where tools of it run that name an executor, by name; closed with it.

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
        executors: Mapping[str, Executor | ToolExecutor] | None = None,
    ) -> None:
        self._tools: Final = {tool.name: tool for given in tools for tool in as_tools(given)}
        self.active = active
        self._permissions: Final = permissions
        self._executors: Final = dict(executors or {})
        self._services: Final = CallServices(
            self._find,
            WorkerPool(),
            limits=limits,
            observe=log_failure,
            locks=LockManager(limits.max_concurrency),
            permissions=permissions,
            remote=partial(run_remote, self._executor),
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
            asyncio.CancelledError: The caller was cancelled.
        """
        limits = self._services.limits
        if request.expose_errors:
            limits = attrs.evolve(limits, expose_errors=True)
        host = _Host(self.execute, request, self._permissions, limits)
        context = request.context(host=host)
        services = self._services.evolve(limits=limits, longest=request.timeout, host=host)
        context.internals.frame = state = CallState(
            ToolCall(request.tool, request.arguments, request.call_id), context, services
        )
        await run_stages(state, CallPipeline((find, parse, validate), _unmended, (permit, host.allow, run, shape)))
        if state.fatal is not None:
            raise state.fatal
        if host.required is not None:
            return ExecutionResponse(permission_required=host.required)
        assert state.result is not None
        return ExecutionResponse.of_result(state.result, context)

    async def aclose(self) -> None:
        """Closes the executors, and ends the threads."""
        await close_executors(self._executors)
        self._services.threads.close()

    async def _executor(self, name: str) -> Executor | ToolExecutor:
        if name not in self._executors:
            raise LookupError(not_provided("executors", name, self._executors))
        return self._executors[name]

    def _find(self, name: str) -> Tool:
        available = [info.name for info in self.tools()]
        if name in available:
            return self._tools[name]
        raise not_offered(name, available) if name in self._tools else unknown(name, available)


def _unmended(state: CallState) -> NoReturn:
    """Calls aren't repaired here."""
    assert state.error is not None
    raise state.error


# What a running call may ask for --------------------------------------------------------------------------------------

Execute: TypeAlias = Callable[[ExecutionRequest], Awaitable[ExecutionResponse]]


@define(eq=False)
class _Host:
    """Host of one call: it asks no person, and notes what has to be allowed.

    Attributes:
        execute: Runs calls from inside the tool.
        request: The call's.
        permissions: What runs, asks and is denied.
        limits: What a call may use.
        required: What has to be allowed before the call can run, or `None`.
    """

    execute: Execute
    request: ExecutionRequest
    permissions: Permissions
    limits: Limits
    required: PermissionRequired | None = field(default=None, init=False)

    def allow(self, state: CallState) -> Awaitable[None] | None:
        """The stage after `permit`: a call that asks goes on if exactly this was approved.

        Raises:
            CallError: `confirmation_required`: it has to be asked first; `required` holds for what.
        """
        return None if state.asks is None else self._allow(state, _tool_of(state))

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the rules, or an approval, let the call go on."""
        state = _state_of(context)
        tool = _tool_of(state)
        decision = self.permissions.decide_asked(tool, permission, patterns, work_dir=context.work_dir)
        if decision.action == "allow":
            return
        if decision.action == "deny":
            raise denial(self.permissions, tool, decision, permission)
        call = digest_of_call(tool.spec.digest, state.arguments)
        approval = digest_of({"call": call, "permission": permission, "patterns": list(patterns)})
        if approval in self.request.approvals:
            return
        facts = {**metadata, "reason": decision.reason, "always": list(always)}
        self._need(tool, PermissionRequired(permission, tuple(patterns), "", facts, approval))

    def allows(self, context: ToolContext, permission: str, subject: str) -> bool:
        """Whether the rules let the call access this."""
        return allows_inside(_state_of(context), permission, subject)

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """Refused: there is no person to ask here.

        Raises:
            ToolError: Always.
        """
        del payload
        raise ToolError(f"{context.tool} needs a person's answer ({hint}), and no person is asked here.")

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool of the executor inside this call, with the approvals of this one.

        Raises:
            ToolError: It has to be allowed first.
            FatalToolError: It ends the turn.
        """
        if context.depth >= self.limits.depth:
            text = f"{name} was not run: tools call tools more than {self.limits.depth} deep here."
            return ToolResult.error("limit", text)
        try:
            given = self._given(arguments)
        except CallError as error:
            return error.result()
        id_ = f"{context.call_id}/{name}"
        response = await self.execute(
            self.request.evolve(tool=name, arguments=given, call_id=id_, depth=context.depth + 1, confirmation=None)
        )
        if response.actions is not None:
            context.actions.add(Actions.from_json(response.actions))
        if response.permission_required is not None:
            self._need(_tool_of(_state_of(context)), response.permission_required)
        return response.to_result()

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Refused: what comes of it could not be sent back.

        Raises:
            LookupError: Always.
        """
        if iscoroutine(work):
            work.close()
        raise LookupError(f"{context.tool} can't go on in the background here: its result is all that is sent back")

    def _given(self, arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
        if not isinstance(arguments, str):
            return dict(arguments)
        limits = self.limits
        return parse_arguments(arguments, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)

    async def _allow(self, state: CallState, tool: Tool) -> None:
        assert state.asks is not None
        approval = digest_of_call(tool.spec.digest, state.arguments)
        if approval in self.request.approvals:
            state.asks = None
            return
        asks = state.asks
        preview = await preview_of(tool, json.dumps(state.arguments), observe=state.services.observe)
        facts: dict[str, Any] = {"reason": asks.reason, "always": list(asks.always)}
        if preview is not None and preview.details:
            facts["details"] = preview.details
        description = f"{tool.name} wants to run." if preview is None else preview.summary
        self._need(tool, PermissionRequired(asks.permission, asks.patterns, description, facts, approval))

    def _need(self, tool: Tool, required: PermissionRequired) -> None:
        self.required = self.required or required
        raise CallError("confirmation_required", f"{tool.name} needs the permission {required.permission}.")


def _state_of(context: ToolContext) -> CallState:
    state = context.internals.frame
    assert isinstance(state, CallState)
    return state


def _tool_of(state: CallState) -> Tool:
    assert state.tool is not None
    return state.tool
