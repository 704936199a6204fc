"""Executors: running tools elsewhere, in another process or on another machine; and `LocalExecutor`, for there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.request import ApprovalRequest, Later, Once
from pegboard.dispatch.approve import asking_of
from pegboard.dispatch.callbacks import Ask
from pegboard.dispatch.executors.caller import (
    Caller as Caller,
    CallerHost as CallerHost,
    error_from_json as error_from_json,
    error_to_json as error_to_json,
)
from pegboard.dispatch.executors.execution import (
    ExecutionRequest as ExecutionRequest,
    ExecutionResponse as ExecutionResponse,
    PermissionRequired as PermissionRequired,
)
from pegboard.dispatch.executors.executor import (
    Executor as Executor,
    ExecutorCall as ExecutorCall,
    ToolExecutor as ToolExecutor,
    close_executors,
)
from pegboard.dispatch.find import not_offered_error, unknown_tool_error
from pegboard.dispatch.locks import LockManager
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, Permissions
from pegboard.dispatch.stages import DispatchHost, run_call
from pegboard.dispatch.state import CallSnapshot, CallState, CurrentPermissions, Runtime, Settings
from pegboard.errors import ToolError, not_provided
from pegboard.json import digest_of
from pegboard.schema.converter import JsonRecord
from pegboard.tools.call import CallError, Confirmation
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.limits import DEFAULT_LIMITS, Limits, ResultLimits
from pegboard.tools.services import Services
from pegboard.tools.tool import Tool
from pegboard.tools.typed import tools_from
from pegboard.typing import JsonSchema


@frozen
class ToolInfo(JsonRecord):
    """Description of a tool, as a model needs it.

    Attributes:
        name: The tool's name.
        description: For the model.
        input_schema: The JSON Schema of its arguments.
    """

    name: str
    description: str
    input_schema: JsonSchema


class LocalExecutor:
    """Executor that runs tools in this process; serves the requests of a host elsewhere.

    A call is validated, checked against permissions and run as in a registry, within the request's time limit. Each
    request is one attempt, and its result is whole: the caller retries, and cuts results. One with the digest of
    another definition isn't executed.

    With a `caller`, the tool's events, questions and nested calls go there, and its memory and artifacts are the
    caller's. The rules here can only deny more than the caller's do, or ask the caller's user, too. Time that the user
    takes doesn't count. Cancelling `execute` ends the call.

    Without one there is no user to ask: a call that asks ends there, and is answered with `permission_required`. Once
    that is granted, the request is sent again with its `approval`, which is valid only for this tool and these
    arguments, and the tool runs from its start.

    Args:
        tools: The tools.
        active: The names of the tools that may be run, in order; `None` is all, `[]` none. May be set later.
        permissions: The rules of what is allowed, asked or denied.
        limits: The limits of a call, but for those on results.
        executors: The executors, by name, of tools that set one; closed together with this one.
        services: The services of the tools by type: values or factories, as `registry.provide` takes them; or a
            registry's `services`.

    Attributes:
        active: As given.
        name: `"local"`.
    """

    name: Final = "local"

    def __init__(  # noqa: PLR0913  all but two by name
        self,
        tools: Iterable[Any],
        active: Sequence[str] | None = None,
        *,
        permissions: Permissions = DEFAULT_PERMISSIONS,
        limits: Limits = DEFAULT_LIMITS,
        executors: Mapping[str, Executor | ToolExecutor] | None = None,
        services: Services | Mapping[Any, Any] | None = None,
    ) -> None:
        found = (tool for given in tools for tool in tools_from(given, foreign=True))
        once = {"retries": 0, "result_limits": None}  # the caller retries, and limits results
        self._tools: Final = {tool.name: tool.evolve(policy=attrs.evolve(tool.policy, **once)) for tool in found}
        self.active = active
        self._executors: Final = dict(executors or {})
        self._runtime: Final = Runtime(locks=LockManager(limits.max_concurrency), executor=self._executor)
        if not isinstance(services, Services):
            services = Services(services or {}, run=self._runtime.threads.run)
        self._services: Final = services
        self._snapshot: Final = CallSnapshot(self._runtime, self._find)
        own_limits = attrs.evolve(limits, repair=False, results=_WHOLE)  # the caller's registry does that
        self._settings: Final = Settings(own_limits, CurrentPermissions(permissions, are_own=True))

    def tools(self) -> tuple[ToolInfo, ...]:
        """The tools that may be run: in the order of `active`, without duplicates, else by name."""
        specs = (self._tools[name].spec for name in self._names())
        return tuple(ToolInfo(spec.name, spec.description, spec.input_schema) for spec in specs)

    def __contains__(self, name: str) -> bool:
        """Whether the tool of this name may be run."""
        return name in self._tools and (self.active is None or name in self.active)

    def refusal_of(self, request: ExecutionRequest) -> ExecutionResponse | None:
        """The response to a request with the digest of another definition, which isn't executed; `None` for others."""
        own = self._tools.get(request.tool)
        if own is None or request.digest in (None, own.spec.digest):
            return None
        return ExecutionResponse.other_definition(request, f"its definition here is {own.spec.digest}.")

    async def execute(self, request: ExecutionRequest, caller: Caller | None = None) -> ExecutionResponse:
        """Runs one call, with its `caller` for what the tool does while it runs: `None` if only a response can be sent.

        Raises:
            FatalToolError: The tool ends the turn.
            ValueError: The request's confirmation is invalid.
            asyncio.CancelledError: The caller was cancelled.
        """
        response = await self._execute(request, caller)
        return response if request.key is None else response.evolve(call_digest=request.call_digest)

    async def _execute(self, request: ExecutionRequest, caller: Caller | None) -> ExecutionResponse:
        if (other := self.refusal_of(request)) is not None:
            return other
        limits = self._settings.limits
        if request.expose_errors:
            limits = attrs.evolve(limits, expose_errors=True)
        if caller is None:
            host = _Host(approvals=request.approvals)
            context = request.context(host=host, services=self._services)
        else:
            host = _CallingHost(caller)
            services = self._services.over(host.services)
            context = request.context(caller.emit, host=host, services=services)
        settings = attrs.evolve(self._settings, limits=limits, longest=request.timeout, host=host, approver=host.answer)
        state = CallState(request.tool, request.arguments, request.call_id, context, self._snapshot, settings)
        state.mark_prepared()  # by the caller
        await run_call(state)
        if state.fatal is not None:
            raise state.fatal
        if isinstance(host, _Host) and host.required is not None:
            return ExecutionResponse(permission_required=host.required)
        assert state.result is not None
        if isinstance(host, _CallingHost) and host.refusal is not None:
            if not isinstance(host.refusal, CallError):
                raise host.refusal
            return ExecutionResponse.failed(host.refusal.kind, host.refusal.text)
        return ExecutionResponse.of_result(state.result, context)

    async def aclose(self) -> None:
        """Closes the executors, the services and the thread pools."""
        await close_executors(self._executors.values())
        await self._services.aclose()
        self._runtime.threads.close()
        self._runtime.tool_threads.close()

    async def _executor(self, name: str) -> Executor | ToolExecutor:
        if name not in self._executors:
            raise LookupError(not_provided("executors", name, self._executors))
        return self._executors[name]

    def _find(self, name: str) -> Tool:
        if name in self:
            return self._tools[name]
        raise (not_offered_error if name in self._tools else unknown_tool_error)(name, self._names())

    def _names(self) -> list[str]:
        listed = sorted(self._tools) if self.active is None else dict.fromkeys(self.active)
        return [name for name in listed if name in self._tools]


_WHOLE: Final = ResultLimits(lines=None, bytes=None, media_bytes=None)


def _permission_for(request: ApprovalRequest) -> PermissionRequired:
    """The permission that a call here needs, for its caller."""
    patterns, facts = request.patterns, {**request.metadata, "reason": request.reason}
    if request.subject != "call":
        asked = {"call": request.digest, "permission": request.permission, "patterns": list(patterns)}
        facts["always"] = list(request.wider)
        return PermissionRequired(request.permission, patterns, "", facts, digest_of(asked))
    facts["always"], preview = list(request.always), request.preview
    if preview is not None and preview.details:
        facts["details"] = preview.details
    description = f"{request.call.name} wants to run." if preview is None else preview.summary
    return PermissionRequired(request.permission, patterns, description, facts, request.digest)


@define(eq=False)
class _CallingHost(CallerHost):
    """Host and approver of one call that has a caller."""

    refusal: Exception | None = field(default=None, init=False)  # why the caller, who sent the call, doesn't allow it

    async def answer(self, request: ApprovalRequest, _context: ToolContext) -> Once | Later:
        """`Once` if the caller allows what the rules here ask about the whole call."""
        try:
            await self.caller.answer("ask", _permission_for(request).question)
        except Exception as error:  # noqa: BLE001  whatever the caller's user, rules or program have against it
            self.refusal = error
            return Later()
        return Once()

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Returns if the rules here don't deny it, and the caller allows it."""
        asking_of(context.internals.frame).check(Ask(permission, patterns, always, metadata))
        await super().ask(context, permission, patterns, always, metadata)

    def allows(self, context: ToolContext, permission: str, subject: str | None) -> bool:
        """Whether the rules here and the caller's let the call access this."""
        return DispatchHost().allows(context, permission, subject) and super().allows(context, permission, subject)

    def allowed_names(
        self, context: ToolContext, permission: str, folder: str, names: Sequence[str]
    ) -> tuple[str, ...]:
        """The names in a folder that the rules here and the caller's let the call access."""
        own = DispatchHost().allowed_names(context, permission, folder, names)
        return super().allowed_names(context, permission, folder, own)


@define(eq=False)
class _Host(DispatchHost):
    """Host and approver of one call, which asks no one and records the permission that is missing."""

    approvals: Sequence[str] = field(kw_only=True)  # those that were granted
    required: PermissionRequired | None = field(default=None, init=False)  # what must be granted before the call runs

    async def answer(self, request: ApprovalRequest, _context: ToolContext) -> Once | Later:
        """`Once` if exactly this was approved; else `Later`, since the caller's host has to ask."""
        required = _permission_for(request)
        if required.approval in self.approvals:
            return Once()
        self.required = self.required or required
        return Later()

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """Raises `ToolError`: there is no user to ask here."""
        del payload
        raise ToolError(f"{context.tool} needs the user's answer ({hint}), and can't ask the user here.")

    def suspend(self, context: ToolContext, hint: str, payload: Any, stored: Any, request: str | None) -> NoReturn:
        """Refuses: nobody can answer a suspended call here."""
        del payload, stored, request
        raise ToolError(f"{context.tool} needs the user's answer ({hint}), and can't wait for it here.")

    def inherited(self, context: ToolContext) -> Mapping[str, Any]:
        return {name: value for name, value in super().inherited(context).items() if name == "permissions"}

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool of the executor inside this call, with the approvals of this one."""
        result = await super().call(context, name, arguments)
        if self.required is not None:
            raise CallError("confirmation_required", f"{context.tool} needs the permission {self.required.permission}.")
        return result
