"""`run_elsewhere`: a call whose tool names an executor is run there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pegboard.dispatch.arguments import refused
from pegboard.dispatch.executors.executor import AnswerError
from pegboard.dispatch.executors.request import ExecutionRequest, request_for
from pegboard.dispatch.executors.response import ExecutionResponse, PermissionRequired, result_of
from pegboard.dispatch.executors.talking import talk_of
from pegboard.dispatch.limits import CallError, cancels_the_call
from pegboard.dispatch.state import CallState
from pegboard.errors import FatalToolError, ToolError, detail_of
from pegboard.schema.problems import StructureError, problem
from pegboard.tools.actions import Actions
from pegboard.tools.content import ToolResult

if TYPE_CHECKING:
    from pegboard.tools.tool import Tool


MOST_ASKED: Final = 8
"""How often one call may ask for a permission where it runs."""


def executor_named(work: CallState, tool: Tool, name: str) -> Any:
    """The executor of this name, one that the host or a plugin has brought.

    Raises:
        CallError: `not_executed`: there is none.
    """
    executors = work.around.executors
    if name not in executors:
        listed = ", ".join(sorted({"loop", "thread", *executors}))
        text = f"{tool.name} has to run in a place that isn't here; the host has to change that."
        raise CallError("not_executed", text, detail=f"there is no executor {name!r}; there are {listed}")
    return executors[name]


async def run_elsewhere(work: CallState, executor: Any) -> ToolResult:
    """Runs the call in an executor, within its time limit; gives what the tool has answered.

    Args:
        work: Found, validated and allowed.
        executor: A `ToolExecutor`, else an `Executor`, or the name of one. It may come from a plugin, so nothing that
            it does is trusted.

    Raises:
        CallError: The call failed: `timeout`, `crashed`, `aborted`, `limit`, ..., as the executor says; `crashed`
            where the executor itself fails or answers nonsense.
        ToolError: The tool said so itself.
        FatalToolError: The tool ends the turn.
        BaseException: What an answer to one of the tool's questions raised, where that ended the call.
    """
    tool = work.tool
    assert tool is not None
    if isinstance(executor, str):
        executor = executor_named(work, tool, executor)
    try:
        response = _checked(await _response(work, tool, executor, _request(work, tool)))
        if response.actions is not None:
            work.context.actions.add(Actions.from_json(response.actions))
    except AnswerError as answer:
        raise answer.error from answer.error.__cause__
    except StructureError as error:
        await refused(work, tool, (problem(error.path, error.reason),))
        raise  # it has raised what the model reads
    except (FatalToolError, CallError):
        raise
    except BaseException as error:  # an executor's SystemExit costs its own call only
        if cancels_the_call(error):
            raise
        raise _failure(work, tool, error) from error
    return _settled(tool, response)


def _checked(response: object) -> ExecutionResponse:
    if not isinstance(response, ExecutionResponse):
        raise TypeError(f"answered {type(response).__name__}; it has to answer an ExecutionResponse")
    return response


def _request(work: CallState, tool: Tool) -> ExecutionRequest:
    policy, limits = tool.policy, work.around.limits
    return request_for(
        tool.name,
        work.arguments,
        work.context,
        timeout=_limit(work, tool),
        memory_limit=policy.memory_limit,
        expose_errors=limits.expose_errors if policy.expose_errors is None else policy.expose_errors,
    )


def _limit(work: CallState, tool: Tool) -> float | None:
    """The seconds that the call may take; a later attempt gets what the first has left."""
    limit = work.around.limits.timeout if tool.policy.timeout is None else tool.policy.timeout
    limits = [seconds for seconds in (limit, work.around.longest) if seconds is not None]
    if not limits:
        return None
    left = work.context.remaining
    return min(limits) if left is None or left > 0.9 * min(limits) else left


async def _response(work: CallState, tool: Tool, executor: Any, request: ExecutionRequest) -> ExecutionResponse:
    execute_tool = getattr(executor, "execute_tool", None)
    if execute_tool is not None:
        return await execute_tool(tool, request, work.context, talk_of(work.context))
    for _ in range(MOST_ASKED):
        response = await _executed(work, tool, executor, request)
        required = getattr(response, "permission_required", None)
        if not isinstance(required, PermissionRequired):
            return response
        await _asked(work, required)
        if required.approval is None or required.approval in request.approvals:
            break
        request = request.evolve(approvals=(*request.approvals, required.approval))
    raise CallError("denied", f"{tool.name} was not run: where it runs, what was allowed here isn't enough.")


async def _asked(work: CallState, required: PermissionRequired) -> None:
    about = {"description": required.description} if required.description else {}
    metadata = {**required.metadata, **about}
    try:
        await work.context.ask(required.permission, required.patterns, metadata=metadata)
    except BaseException as error:
        raise AnswerError(error) from error


async def _executed(work: CallState, tool: Tool, executor: Any, request: ExecutionRequest) -> ExecutionResponse:
    """What an executor answers that may not keep to the limit: then it is cancelled a moment later."""
    if request.timeout is None:
        return await executor.execute(request)
    limit = asyncio.timeout(request.timeout + work.around.limits.grace)
    try:
        async with limit:
            return await executor.execute(request)
    except (TimeoutError, asyncio.CancelledError) as error:
        # Python 3.11's timeout passes on a CancelledError of another class.
        if not limit.expired() or cancels_the_call(error):
            raise
        text = f"{tool.name} gave no result within {request.timeout:g} s. Its work may still be going on."
        raise CallError("timeout", text) from None


def _settled(tool: Tool, response: ExecutionResponse) -> ToolResult:
    """The tool's own answer; what isn't one is raised, so that retries and callbacks see it as they see any error."""
    result = result_of(response)
    if response.kind is None and not response.not_executed:
        return result
    if response.kind == "tool_failure" and "retryable" in response.metadata:
        raise ToolError(result.text, retryable=bool(response.metadata["retryable"]))
    kind = response.kind or "not_executed"
    raise CallError(kind, result.text or f"{tool.name} failed.", detail=response.detail)


def _failure(work: CallState, tool: Tool, error: BaseException) -> CallError:
    if work.around.observe is not None:
        work.around.observe(f"executor {tool.policy.executor!r}", error)
    text = f"{tool.name} was not completed: where it runs failed. What it had done by then may stand."
    return CallError("crashed", text, detail=detail_of(error))


__all__ = ["executor_named", "run_elsewhere"]
