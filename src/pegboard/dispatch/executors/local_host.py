"""`LocalHost`: what a tool in a `LocalExecutor` may ask for, and what its call has to be allowed first."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutine
from typing import Any, TypeAlias

from attrs import define, field

from pegboard.dispatch.approval.pending import digest_of_call
from pegboard.dispatch.approval.request import preview_of
from pegboard.dispatch.approve import denial
from pegboard.dispatch.arguments import parse_arguments
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse, PermissionRequired, result_of
from pegboard.dispatch.limits import CallError, Limits
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.state import CallState
from pegboard.errors import ToolError
from pegboard.schema.json import digest_of
from pegboard.tools.confirmation import Confirmation
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.tool import Tool

Execute: TypeAlias = Callable[[ExecutionRequest], Awaitable[ExecutionResponse]]


@define(eq=False)
class LocalHost:
    """The host of one call: it asks nobody, and notes what somebody has to allow.

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

    def allow(self, work: CallState) -> Awaitable[None] | None:
        """The stage after `permit`: a call that asks goes on if exactly this was approved.

        Raises:
            CallError: `confirmation_required`: it has to be asked first; `required` says for what.
        """
        return None if work.asks is None else self._allow(work, _tool_of(work))

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the rules, or an approval, let the call go on."""
        work = _work_of(context)
        tool = _tool_of(work)
        decision = self.permissions.decide_asked(tool, permission, patterns, work_dir=context.work_dir)
        if decision.action == "allow":
            return
        if decision.action == "deny":
            raise denial(self.permissions, tool, decision, permission)
        call = digest_of_call(tool, work.arguments)
        approval = digest_of({"call": call, "permission": permission, "patterns": list(patterns)})
        if approval in self.request.approvals:
            return
        facts = {**metadata, "reason": decision.reason, "always": list(always)}
        self._need(tool, PermissionRequired(permission, tuple(patterns), "", facts, approval))

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """Nobody is asked here.

        Raises:
            ToolError: Always.
        """
        del payload
        raise ToolError(f"{context.tool} needs a person's answer ({hint}), and nobody is asked here.")

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
            from pegboard.tools.actions import Actions

            context.actions.add(Actions.from_json(response.actions))
        if response.permission_required is not None:
            self._need(_tool_of(_work_of(context)), response.permission_required)
        return result_of(response)

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Refused: nobody would get to know what comes of it.

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

    async def _allow(self, work: CallState, tool: Tool) -> None:
        assert work.asks is not None
        approval = digest_of_call(tool, work.arguments)
        if approval in self.request.approvals:
            work.asks = None
            return
        asks = work.asks
        preview = await preview_of(tool, json.dumps(work.arguments), observe=work.around.observe)
        facts: dict[str, Any] = {"reason": asks.reason, "always": list(asks.always)}
        if preview is not None and preview.details:
            facts["details"] = preview.details
        description = f"{tool.name} wants to run." if preview is None else preview.summary
        self._need(tool, PermissionRequired(asks.permission, asks.patterns, description, facts, approval))

    def _need(self, tool: Tool, required: PermissionRequired) -> None:
        self.required = self.required or required
        raise CallError("confirmation_required", f"{tool.name} needs the permission {required.permission}.")


def _work_of(context: ToolContext) -> CallState:
    work = context.frame
    assert isinstance(work, CallState)
    return work


def _tool_of(work: CallState) -> Tool:
    assert work.tool is not None
    return work.tool
