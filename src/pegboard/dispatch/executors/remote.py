"""Remote execution: a call whose tool names an executor is run there, connected to its context here.

A `ToolExecutor` is handed the tool and the call's context besides the request (`ExecutorCall`), so that a tool that
runs elsewhere can still report progress, ask for permissions, call other tools and use its memory and artifacts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
from attrs import define, field

from pegboard.dispatch.arguments import refused
from pegboard.dispatch.executors.executor import (
    ExecutionRequest,
    ExecutionResponse,
    PermissionRequired,
    confirmation_to_json,
    event_from_json,
    read_json,
)
from pegboard.dispatch.results import detail_of
from pegboard.dispatch.state import CallState
from pegboard.dispatch.timeout import cancels_the_call
from pegboard.errors import FatalToolError, PluginError, ToolError, log_failure
from pegboard.schema.json import StructureError, problem
from pegboard.tools.call import Actions, CallError
from pegboard.tools.content import ToolResult, content_from_json
from pegboard.tools.context import DisplayUpdate, ToolContext
from pegboard.tools.handler import Handler, opened
from pegboard.tools.stores import MemoryEntry
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.tools.tool import Tool

MOST_ASKED: Final = 8
"""How often one call may ask for a permission where it runs."""


@define(eq=False)
class ExecutorCall:
    """One call as a `ToolExecutor` gets it, with what its tool may emit and ask while it runs.

    All of it happens in the caller's event loop, and in JSON data: what comes from the other end isn't trusted.

    Attributes:
        tool: The tool.
        request: The call.
        context: The call's, as the tool's parameters and its callbacks see it.
    """

    tool: Tool
    request: ExecutionRequest
    context: ToolContext = field(factory=ToolContext)
    _raised: list[BaseException] = field(factory=list[BaseException], init=False)

    @property
    def handler(self) -> Handler | None:
        """The tool's function and what belongs to it; `None` where there is none here."""
        handler = self.tool.handler
        return handler if isinstance(handler, Handler) else None

    @property
    def is_watched(self) -> bool:
        """Whether anything that the tool emits is used."""
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
                await opened(handler.injects, self.context)
            except BaseException as error:
                self._raised.append(error)
                raise
        return self.tool.bind(self.context, self.request.arguments)

    def emit(self, event: JsonObject) -> None:
        """Passes on what the tool emits on the way.

        Args:
            event: As `event_to_json` writes it.

        Raises:
            ValueError: It is none.
        """
        emitted = event_from_json(event)
        if isinstance(emitted, DisplayUpdate):
            self.context.actions.show(emitted.title, emitted.facts)
        if self.context.listener is not None:
            self.context.listener(emitted)

    async def answer(self, question: str, given: JsonObject) -> Any:
        """Answers what the tool asks, as JSON data.

        This is all that a tool elsewhere can make its host do.

        Args:
            question: `"ask"`, `"allows"`, `"request_confirmation"`, `"call"`, `"memory.search"`, `"memory.add"`,
                `"artifacts.save"`, `"artifacts.load"`, `"artifacts.list"` or `"artifacts.delete"`.
            given: The arguments of the context's method of this name.

        Raises:
            LookupError: There is no such question.
            ValueError: An argument is missing or of the wrong type; names it.
            BaseException: What the context's method raised. Where it ends the call, `execute_tool` raises it again.
        """
        if question not in _ANSWERS:
            raise LookupError(f"nothing here answers {question!r:.40}")
        needed, optional, answer = _ANSWERS[question]
        arguments = read_json(given, {**needed, **optional}, *needed)
        try:
            return await answer(self.context, **arguments)
        except BaseException as error:
            self._raised.append(error)
            raise

    def has_raised(self, error: BaseException) -> bool:
        """Whether this error came from `bind` or `answer`, and so is the call's own."""
        return any(error is raised for raised in self._raised)


class ToolExecutor(Protocol):
    """Executor that is handed the tool itself, and whose running tool can use its context.

    It keeps to the request's time limit by itself; the time that a person takes to answer doesn't count.
    """

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs one call of a tool.

        Args:
            call: The tool, the request, and what the tool may emit and ask.

        Raises:
            FatalToolError: The tool ends the turn.
            StructureError: `call.bind()` raised it: the tool's types refuse the arguments.
            BaseException: What `call.answer(...)` raised, where that ended the call.
        """
        ...


# What a tool may ask -------------------------------------------------------------------------------------------------


async def _ask(context: ToolContext, permission: str, patterns: Sequence[str], **more: Any) -> None:
    await context.ask(permission, patterns, **more)


async def _allows(context: ToolContext, permission: str, subject: str) -> bool:
    return context.allows(permission, subject)


async def _confirm(context: ToolContext, hint: str, payload: Any = None) -> JsonObject:
    return confirmation_to_json(await context.request_confirmation(hint, payload))


async def _call(context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> JsonObject:
    return (await context.call(name, arguments)).to_data()


async def _search(context: ToolContext, query: str, **more: Any) -> list[JsonObject]:
    return [_entry(entry) for entry in await context.memory.search(query, **more)]


async def _add(context: ToolContext, text: str, **more: Any) -> JsonObject:
    return _entry(await context.memory.add(text, **more))


async def _save(context: ToolContext, name: str, content: Any) -> int:
    return await context.artifacts.save(name, content_from_json(content))


async def _load(context: ToolContext, name: str, version: int | None = None) -> JsonObject:
    return (await context.artifacts.load(name, version)).to_json()


async def _list(context: ToolContext) -> list[str]:
    return list(await context.artifacts.list())


async def _delete(context: ToolContext, name: str) -> None:
    await context.artifacts.delete(name)


def _entry(entry: MemoryEntry) -> JsonObject:
    return {**attrs.asdict(entry, recurse=False), "metadata": dict(entry.metadata)}


_NAME: Final = {"name": "str"}
_ANSWERS: Final[Mapping[str, tuple[dict[str, str], dict[str, str], Callable[..., Awaitable[Any]]]]] = {
    "ask": (
        {"permission": "str", "patterns": "tuple[str, ...]"},
        {"always": "tuple[str, ...]", "metadata": "Mapping"},
        _ask,
    ),
    "allows": ({"permission": "str", "subject": "str"}, {}, _allows),
    "request_confirmation": ({"hint": "str"}, {"payload": "Any"}, _confirm),
    "call": ({**_NAME, "arguments": "str | Mapping"}, {}, _call),
    "memory.search": ({"query": "str"}, {"limit": "int", "session_only": "bool"}, _search),
    "memory.add": ({"text": "str"}, {"author": "str | None", "metadata": "Mapping"}, _add),
    "artifacts.save": ({**_NAME, "content": "Any"}, {}, _save),
    "artifacts.load": (_NAME, {"version": "int | None"}, _load),
    "artifacts.list": ({}, {}, _list),
    "artifacts.delete": (_NAME, {}, _delete),
}
"""Question -> its needed and its optional arguments (name -> annotation), and what answers it."""


# One call ------------------------------------------------------------------------------------------------------------


async def run_remote(find: Callable[[str], Awaitable[Any]], state: CallState) -> ToolResult:
    """Runs a call in the executor that its tool names, within its time limit; gives what the tool has answered.

    The executor may come from a plugin, so nothing that it does is trusted.

    Args:
        find: Gives the executor of a name, once what brings it is loaded. Raises `LookupError` where there is none,
            with what to do.
        state: Found, validated and allowed.

    Raises:
        CallError: The call failed: `timeout`, `crashed`, `aborted`, `limit`, ..., as the executor answers; `crashed`
            where the executor itself fails or answers nonsense; `not_executed` where it is missing.
        ToolError: The tool raised it.
        FatalToolError: The tool ends the turn.
        BaseException: What an answer to one of the tool's questions raised, where that ended the call.
    """
    tool = state.tool
    assert tool is not None
    executor = await _found(find, tool)
    call = ExecutorCall(tool, _request(state, tool), state.context)
    try:
        response: object = await _response(state, call, executor)
        if not isinstance(response, ExecutionResponse):
            raise TypeError(f"answered {type(response).__name__}; it has to answer an ExecutionResponse")  # noqa: TRY301
        if response.actions is not None:
            state.context.actions.add(Actions.from_json(response.actions))
    except StructureError as error:
        await refused(state, tool, (problem(error.path, error.reason),))
        raise  # it has raised what the model reads
    except (FatalToolError, CallError):
        raise
    except BaseException as error:  # an executor's SystemExit costs its own call only
        if call.has_raised(error) or cancels_the_call(error):
            raise
        raise _failure(state, tool, error) from error
    return _settled(tool, response)


async def _found(find: Callable[[str], Awaitable[Any]], tool: Tool) -> Any:
    name = tool.policy.executor
    assert name is not None
    try:
        return await find(name)
    except LookupError as error:
        raise CallError("not_executed", f"{tool.name} was not run. {error}") from None
    except PluginError as error:
        text = f"{tool.name} was not run: the plugin that provides its executor {name!r} failed."
        raise CallError("not_executed", text, detail=detail_of(error)) from error


def _request(state: CallState, tool: Tool) -> ExecutionRequest:
    policy, limits = tool.policy, state.services.limits
    return ExecutionRequest.of_call(
        tool.name,
        state.arguments,
        state.context,
        timeout=_limit(state, tool),
        memory_limit=policy.memory_limit,
        expose_errors=limits.expose_errors if policy.expose_errors is None else policy.expose_errors,
    )


def _limit(state: CallState, tool: Tool) -> float | None:
    """The seconds that the call may take; a later attempt gets what the first has left."""
    limit = state.services.limits.timeout if tool.policy.timeout is None else tool.policy.timeout
    limits = [seconds for seconds in (limit, state.services.longest) if seconds is not None]
    if not limits:
        return None
    left = state.context.remaining
    return min(limits) if left is None or left > 0.9 * min(limits) else left


async def _response(state: CallState, call: ExecutorCall, executor: Any) -> object:
    if hasattr(executor, "execute_tool"):
        return await executor.execute_tool(call)
    request = call.request
    for _ in range(MOST_ASKED):
        response = await _executed(state, executor, request)
        required = getattr(response, "permission_required", None)
        if not isinstance(required, PermissionRequired):
            return response
        about = {"description": required.description} if required.description else {}
        facts: JsonObject = {"permission": required.permission, "patterns": list(required.patterns)}
        await call.answer("ask", {**facts, "metadata": {**required.metadata, **about}})
        if required.approval is None or required.approval in request.approvals:
            break
        request = request.evolve(approvals=(*request.approvals, required.approval))
    raise CallError("denied", f"{call.tool.name} was not run: where it runs, what was allowed here isn't enough.")


async def _executed(state: CallState, executor: Any, request: ExecutionRequest) -> object:
    """What an executor answers that may not keep to the limit: then it is cancelled a moment later."""
    if request.timeout is None:
        return await executor.execute(request)
    limit = asyncio.timeout(request.timeout + state.services.limits.grace)
    try:
        async with limit:
            return await executor.execute(request)
    except (TimeoutError, asyncio.CancelledError) as error:
        # Python 3.11's timeout passes on a CancelledError of another class.
        if not limit.expired() or cancels_the_call(error):
            raise
        text = f"{request.tool} gave no result within {request.timeout:g} s. Its work may still be going on."
        raise CallError("timeout", text) from None


def _settled(tool: Tool, response: ExecutionResponse) -> ToolResult:
    """The tool's own answer; what isn't one is raised, so that retries and callbacks see it as they see any error."""
    result = response.to_result()
    if response.kind is None and not response.not_executed:
        return result
    if response.kind == "tool_failure" and "retryable" in response.metadata:
        raise ToolError(result.text, retryable=bool(response.metadata["retryable"]))
    kind = response.kind or "not_executed"
    raise CallError(kind, result.text or f"{tool.name} failed.", detail=response.detail)


def _failure(state: CallState, tool: Tool, error: BaseException) -> CallError:
    if state.services.observe is not None:
        state.services.observe(f"executor {tool.policy.executor!r}", error)
    text = f"{tool.name} was not completed: where it runs failed. What it had done by then may stand."
    return CallError("crashed", text, detail=detail_of(error))


async def close_executors(executors: Mapping[str, Any]) -> None:
    """Closes each executor that can be closed; one that fails doesn't keep the others from it."""
    for name, executor in executors.items():
        close: Callable[[], Awaitable[None]] | None = getattr(executor, "aclose", None)
        if close is None:
            continue
        try:
            await close()
        except Exception as error:  # noqa: BLE001  it may be a plugin's
            log_failure(f"closing executor {name}", error)
