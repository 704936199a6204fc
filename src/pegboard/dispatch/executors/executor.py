"""Executors, which run tools elsewhere.

An `Executor` receives an `ExecutionRequest` and returns an `ExecutionResponse`. A `ToolExecutor` also receives the tool
and the call's context (`ExecutorCall`), so that a tool that runs elsewhere can still report progress, ask for
permissions, call other tools and use its memory and artifacts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any, Final, Protocol, cast

import attrs
from attrs import define, field

from pegboard.callbacks import maybe_await
from pegboard.dispatch.approve import asking_of, execution_key
from pegboard.dispatch.arguments import refuse_arguments
from pegboard.dispatch.executors.execution import (
    ExecutionRequest,
    ExecutionResponse,
    PermissionRequired,
    event_from_json,
)
from pegboard.dispatch.running import count_attempt, new_deadline
from pegboard.dispatch.state import CallState, time_limit
from pegboard.errors import FatalToolError, ToolError, detail_of, log_failure
from pegboard.json import StructureError, digest_of, problem
from pegboard.schema.converter import read_record
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.call import Actions, CallError, Confirmation
from pegboard.tools.content import CONTENT_TYPES, Content, ToolResult
from pegboard.tools.context import DisplayUpdate, ToolContext
from pegboard.tools.handler import Handler, open_services
from pegboard.tools.stores import CallArtifacts, CallMemory, MemoryEntry
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import close_all
from pegboard.typing import JsonObject


class Executor(Protocol):
    """Runs calls elsewhere: in a container, on another machine, in another language.

    It knows a tool only by its name. `aclose()`, if it has one, is awaited when the registry is closed. With an
    attribute `sends_all = True`, it gets the whole context for tools that don't say what they need of it: for one that
    stores nothing and leaves this machine as little as this process does.

    One that keeps results may have an async method `attach(key)`, as may a `ToolExecutor`: it returns the response of
    the run with this `ExecutionRequest.key`, once that has ended, or `None` if there is no such run. It is awaited
    before a call is approved again, which another process may have sent already.
    """

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        """Runs one call.

        A failed call is reported by its response; an exception becomes an error result of the kind `crashed`. When
        `execute` is cancelled, it has to end the call.

        Raises:
            FatalToolError: The tool ends the turn.
        """
        ...


_MOST_PERMISSIONS: Final = 8  # permission requests of one call in its executor
_START_SECONDS: Final = 60.0  # to load an executor, and for a `ToolExecutor` to start up before the limit counts
_CLEANUP_SECONDS: Final = 10.0  # for an executor to clean up after it is cancelled


@define(eq=False)
class ExecutorCall:
    """Call passed to a `ToolExecutor`; handles the events and questions of its running tool.

    All methods run in the caller's event loop and take untrusted JSON data.

    Attributes:
        tool: The tool.
        request: The call's request.
        context: The call's context, as the tool's parameters and callbacks see it.
    """

    tool: Tool
    request: ExecutionRequest
    context: ToolContext = field(factory=ToolContext)
    _raised: list[BaseException] = field(factory=list[BaseException], init=False)

    @property
    def handler(self) -> Handler | None:
        """The tool's handler; `None` if it has none in this process."""
        handler = self.tool.handler
        return handler if isinstance(handler, Handler) else None

    @property
    def is_watched(self) -> bool:
        """Whether the tool's events have a listener."""
        return self.context.listener is not None

    async def bind(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The `(args, kwargs)` of the tool's function; services that it needs are opened.

        Raises:
            StructureError: The tool's types refuse the arguments.
            ToolError: A service is missing, or can't be opened.
        """
        handler = self.handler
        if handler is not None and handler.injects:
            try:
                await open_services(handler.injects, self.context)
            except BaseException as error:
                self._raised.append(error)
                raise
        return self.tool.bind(self.context, self.request.arguments)

    async def decide_again(self) -> None:
        """Decides again whether the call may run. Await it after any wait, right before the call is sent.

        Raises:
            CallError: `denied`: rules or symbolic links have changed since.
        """
        if isinstance(state := self.context.internals.frame, CallState):
            await asking_of(state).decide_again()

    def emit(self, event: JsonObject) -> None:
        """Passes an event of the tool to the listener.

        Args:
            event: As `ExecutionRequest.context` describes it.

        Raises:
            ValueError: The event is invalid.
        """
        emitted = event_from_json(event)
        if isinstance(emitted, DisplayUpdate):
            self.context.actions.show(emitted.title, emitted.facts)
        if self.context.listener is not None:
            self.context.listener(emitted)

    async def answer(self, question: str, given: JsonObject) -> Any:
        """Answers a question of the tool, as JSON data.

        Besides `emit`, this is all that a tool elsewhere can make its host do.

        Args:
            question: `"ask"`, `"allows"`, `"allowed_names"`, `"request_confirmation"`, `"call"`, `"memory.search"`,
                `"memory.add"`, `"artifacts.save"`, `"artifacts.load"`, `"artifacts.list"` or `"artifacts.delete"`.
            given: The arguments of the context's method of this name.

        Raises:
            LookupError: There is no such question.
            ValueError: An argument is missing or of the wrong type; names it.
            BaseException: What the context's method raised. If it ends the call, `execute_tool` raises it again.
        """
        if question not in _QUESTIONS:
            raise LookupError(f"there is no question {question!r:.40}")
        given = attrs.asdict(read_record(_record_of(question), given, question), recurse=False)
        try:
            return _as_json(await maybe_await(attrgetter(question)(self.context)(**given)))
        except BaseException as error:
            self._raised.append(error)
            raise

    def has_raised(self, error: BaseException) -> bool:
        """Whether this error came from `bind` or `answer`, and so is the call's own."""
        return any(error is raised for raised in self._raised)


class ToolExecutor(Protocol):
    """Executor that receives the tool itself, and whose running tool can use its context.

    It enforces the request's time limit itself, not counting the time that the user takes to answer. If it takes more
    than twice the limit, or with `attach` three times, plus `start_seconds` (optional; by default 60), it is cancelled.
    """

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs one call of a tool.

        Args:
            call: The tool, the request, and methods for the tool's events and questions.

        Raises:
            FatalToolError: The tool ends the turn.
            StructureError: `call.bind()` raised it: the tool's types refuse the arguments.
            BaseException: What `call.answer(...)` raised, where that ended the call.
        """
        ...


_QUESTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "ask": ToolContext.ask,
    "allows": ToolContext.allows,
    "allowed_names": ToolContext.allowed_names,
    "request_confirmation": ToolContext.request_confirmation,
    "call": ToolContext.call,
    "memory.search": CallMemory.search,
    "memory.add": CallMemory.add,
    "artifacts.save": CallArtifacts.save,
    "artifacts.load": CallArtifacts.load,
    "artifacts.list": CallArtifacts.list,
    "artifacts.delete": CallArtifacts.delete,
}
"""The context's method for each question; the question's arguments are parsed as its parameters."""

_SENT: Final[Mapping[str, Any]] = {"arguments": str | bytes | Mapping[str, Any], "content": Content}
"""Types of parameters whose annotation allows more than what is sent."""


@cache
def _record_of(question: str) -> type[Any]:
    names = {"Confirmation": Confirmation, "ToolResult": ToolResult}  # imported late by their module
    _, *parameters = signature(_QUESTIONS[question], locals=names, eval_str=True).parameters.values()
    members = {
        each.name: field(
            type=_SENT.get(each.name, each.annotation),
            **({} if each.default is Parameter.empty else {"default": each.default}),
        )
        for each in parameters
    }
    return attrs.make_class("Question", members, kw_only=True)


def _as_json(answer: Any) -> Any:
    if isinstance(answer, tuple):
        return [_as_json(each) for each in cast("tuple[Any, ...]", answer)]
    if isinstance(answer, MemoryEntry):
        return {**attrs.asdict(answer, recurse=False), "metadata": dict(answer.metadata)}
    if isinstance(answer, Confirmation | ToolResult):
        return answer.to_data()
    return answer.to_json() if isinstance(answer, CONTENT_TYPES) else answer


async def run_remote(state: CallState, arguments: Mapping[str, Any], limit: float | None) -> ToolResult:
    """Runs a call in its tool's executor, within what is left of its time limit, and returns the tool's result.

    The executor may come from a plugin and isn't trusted.

    Raises:
        CallError: The call failed: `timeout`, `crashed`, `aborted`, `limit`, ..., as the executor reports; `crashed`
            if the executor itself fails or returns an invalid response; `not_executed` if it is missing.
        ToolError, FatalToolError: The tool raised it.
        BaseException: What an answer to one of the tool's questions raised, where that ended the call.
    """
    tool = state.tool
    assert tool is not None
    policy, limits, origin, attempt = tool.policy, state.settings.limits, tool.origin, count_attempt(state)
    executor = await _executor_of(state, tool)
    request = ExecutionRequest.of_call(
        tool.name,
        arguments,
        state.context,
        () if policy.sends is None and not getattr(executor, "sends_all", False) else policy.sends,
        queue=policy.queue,
        timeout=limit,
        memory_limit=policy.memory_limit,
        expose_errors=limits.expose_errors if policy.expose_errors is None else policy.expose_errors,
        key=execution_key(state, attempt),
        attempt=attempt,
        digest=tool.spec.digest,
        distribution=origin.distribution and f"{origin.distribution}=={origin.version}",
    )
    call = ExecutorCall(tool, request, state.context)
    if hasattr(executor, "execute_tool"):  # may queue the call for its limit, or run it thrice, after workers died
        factor, more = 3 if hasattr(executor, "attach") else 2, getattr(executor, "start_seconds", _START_SECONDS)
        respond = partial(executor.execute_tool, call)
    else:
        factor, more, respond = 1, limits.grace, partial(_execute, call, executor)
    result = await _result_of(state, respond, None if limit is None else factor * limit + more, call)
    assert result is not None
    return result


async def attach_remote(state: CallState, tool: Tool) -> ToolResult | None:
    """The result of the run of this call that another process has started, if its executor has kept one."""
    executor, limit = await _executor_of(state, tool), time_limit(state, tool)
    longest = None if limit is None else 3 * limit + getattr(executor, "start_seconds", state.settings.limits.grace)
    for attempt in range(tool.policy.retries + 1, 0, -1) if hasattr(executor, "attach") else ():
        key = execution_key(state, attempt)
        result = None if key is None else await _result_of(state, partial(executor.attach, key), longest)
        if result is not None:
            return result
    return None


async def _result_of(
    state: CallState,
    respond: Callable[[], Awaitable[object]],
    longest: float | None,
    call: ExecutorCall | None = None,
) -> ToolResult | None:
    """The result of an executor's response to a call as it was sent; `longest` is in seconds, `None` is no limit.

    Without a call it attaches, and the result is `None` if there was no run that has run the tool.
    """
    tool = state.tool
    assert tool is not None
    try:
        response = await within(new_deadline(state, tool.name, longest, _CLEANUP_SECONDS), respond())
        if call is None and (response is None or getattr(response, "permission_required", None) is not None):
            return None
        if not isinstance(response, ExecutionResponse):
            raise TypeError(f"returned {type(response).__name__}; it has to return an ExecutionResponse")  # noqa: TRY301
        sent = state.arguments if call is None else call.request.arguments
        if response.call_digest not in (None, ExecutionRequest(tool=tool.name, arguments=sent).call_digest):
            text = f"{tool.name} has no result: its executor has run the call of this id with other arguments."
            raise CallError("unknown_outcome", text)  # noqa: TRY301
        if response.actions is not None:
            state.context.actions.add(Actions.from_json(response.actions))
        result = response.to_result()
    except LimitExpiredError:
        text = f"{tool.name} gave no result within {time_limit(state, tool):g} s. It may still be running."
        raise CallError("timeout", text) from None
    except StructureError as error:
        await refuse_arguments(state, tool, (problem(error.path, error.reason),))
    except (FatalToolError, CallError):
        raise
    except BaseException as error:  # an executor's SystemExit fails only its own call
        if (call is not None and call.has_raised(error)) or cancels_the_call(error):
            raise
        log_failure(f"executor {tool.policy.executor!r}", error)
        text = f"{tool.name} was not completed: its executor failed. Its effects so far may remain."
        raise CallError("crashed", text, detail=detail_of(error)) from error
    return _own_result(tool, response, result)


def _own_result(tool: Tool, response: ExecutionResponse, result: ToolResult) -> ToolResult:
    """The result, if it is the tool's own; any other is raised, for retries and callbacks, like an error here."""
    if response.kind == "tool_failure" and "retryable" in response.metadata:
        raise ToolError(result.text, retryable=bool(response.metadata["retryable"]))
    if response.kind in (None, "tool_failure") and not response.not_executed:
        return result
    kind = response.kind or "not_executed"
    raise CallError(kind, result.text or f"{tool.name} failed.", detail=response.detail)


async def _executor_of(state: CallState, tool: Tool) -> Any:
    """The executor of a tool; raises `not_executed` if there is none, or it can't be loaded."""
    name, find = tool.policy.executor, state.runtime.executor
    assert name is not None
    assert find is not None
    try:
        async with asyncio.timeout(_START_SECONDS):  # it may import a plugin, or a client
            return await find(name)
    except LookupError as error:
        raise CallError("not_executed", f"{tool.name} was not run: {error}") from None
    except Exception as error:
        text = f"{tool.name} was not run: its executor {name!r} can't be loaded."
        raise CallError("not_executed", text, detail=detail_of(error)) from error


async def _execute(call: ExecutorCall, executor: Any) -> object:
    """The response of an `Executor`, after the permissions that it requires were granted here."""
    request, allowed = call.request, set[object]()
    for _ in range(_MOST_PERMISSIONS):
        response = await executor.execute(request)
        required = getattr(response, "permission_required", None)
        if not isinstance(required, PermissionRequired):
            return response
        wanted = required.approval or (required.permission, required.patterns)
        if wanted in allowed:
            break
        await call.answer("ask", required.question)
        allowed.add(wanted)
        approvals = (*request.approvals, required.approval or required.permission)
        key = request.key and digest_of([request.key, approvals[-1]])
        request = request.evolve(approvals=approvals, key=key)
    raise CallError("denied", f"{call.tool.name} was not run: its executor keeps asking for permission.")


async def close_executors(executors: Iterable[Any]) -> None:
    """Closes each executor that can be closed; one that fails or hangs doesn't prevent closing the others."""
    for failure in await close_all(executors, "aclose"):
        log_failure("closing an executor", failure)
