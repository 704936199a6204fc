"""Running a tool: calls the tool's function with its locks, on the loop or in a thread, within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from math import isfinite
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.callbacks import CallableKind
from pegboard.dispatch.arguments import refuse_arguments
from pegboard.dispatch.results import drain, drain_async
from pegboard.dispatch.running import acquire, await_value, leave_to_host, open_portal, release, seconds_left
from pegboard.dispatch.state import HERE, CallState, needs_asking, plain, read_only, time_limit
from pegboard.errors import ToolError
from pegboard.json import StructureError, problem
from pegboard.timeout import as_coroutine, watched
from pegboard.tools.call import CallError
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler, open_services
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from pegboard.dispatch.approve import Asking
    from pegboard.dispatch.callbacks import Ask
    from pegboard.threads import OwnThread, WorkerPool

_ASYNC: Final = CallableKind.ASYNC
_COROUTINE: Final[type] = CoroutineType


async def run_locked(state: CallState, tool: Tool) -> Any:
    """Runs the tool once its locks are acquired, inside its middleware; returns the function's value."""
    if tool.policy.executor in HERE and not isinstance(tool.handler, Handler):
        raise leave_to_host(state, tool)
    await acquire(state, tool)
    try:
        if state.snapshot.callbacks.get("wrap_tool"):
            from pegboard.dispatch.callbacks import run_tool_wrapped  # loaded with the first callback

            call = run_tool_wrapped(state, partial(_attempts, state, tool, plain(state.arguments)))
        else:
            call = _attempts(state, tool)
        running = state.running
        assert running is not None
        if (lock := running.lock) is not None and lock.held:
            from pegboard.dispatch.shared_locks import run_held  # loaded with the first backend

            call = run_held(state, lock, call)
        return await call
    finally:
        if state.pending is not None and state.position.scheduler is not None:
            state.position.scheduler.suspend(state.position.index)
        release(state, tool)


async def _attempts(state: CallState, tool: Tool, given: dict[str, Any] | None = None) -> Any:
    """Runs the tool, with retries if they are allowed; each attempt gets its own copy of the arguments.

    A wrapper may run it again: then the arguments are `given`, as those of the call may be the first run's.
    """
    arguments: Mapping[str, Any] = state.arguments if given is None else plain(given)
    if needs_asking(state, tool):
        arguments = await asking_of(state).check_answer(arguments)
    # The host allows retries and the tool declares itself idempotent, which counts for trusted origins only.
    if not (tool.policy.retries and tool.spec.annotations.idempotent_hint is True and tool.origin.trusted):
        return await _attempt(state, tool, arguments)
    pristine = plain(arguments)

    async def attempt() -> Any:
        if state.started_at is not None:
            await _decide_again(state, tool)
        return await _attempt(state, tool, plain(pristine))

    def note_retry(number: int, error: BaseException, seconds: float) -> None:
        if state.settings.emit is not None:
            from pegboard.dispatch.events import CallUpdated, emit  # loaded with the first observer

            emit(state, CallUpdated, note=f"retry {number} in {seconds:.1f} s: {type(error).__name__}")

    return await retry(
        attempt,
        tool.policy.retries,
        lambda error: isinstance(error, ToolError) and error.retryable is True,
        on_retry=note_retry,
        limit=time_limit(state, tool),
    )


async def _attempt(state: CallState, tool: Tool, arguments: Mapping[str, Any]) -> Any:
    running = state.running
    assert running is not None
    if (lock := running.lock) is not None and lock.lost is not None:
        from pegboard.dispatch.shared_locks import loss_error

        raise loss_error(state, lock.lost)
    if tool.policy.executor not in HERE:
        from pegboard.dispatch.executors.executor import run_remote  # loaded for such tools only

        is_first = _note_start(state, tool, monotonic())
        return await run_remote(state, arguments, seconds_left(state, tool, is_first=is_first))
    handler = tool.handler
    assert isinstance(handler, Handler)
    if handler.injects:
        await open_services(handler.injects, state.context)
        await _decide_again(state, tool)
    value, waiting = start(state, tool, arguments)
    return value if waiting is None else await waiting


async def attach(state: CallState, tool: Tool) -> ToolResult | None:
    """The result of the run of this call that another process has started, where its approval would be asked for.

    It holds no lock, as it starts nothing; later calls of its batch that conflict wait for it. Raises the error of an
    approval that was used before if there is no such run, or as `run_remote`.
    """
    asking = state.asking
    assert asking is not None
    if asking.no_run_error is None and (asking.request is None or asking.approval is not None):
        return None
    result = None
    if tool.policy.executor not in HERE:
        from pegboard.dispatch.executors.executor import attach_remote  # loaded for such tools only

        result = await attach_remote(state, tool)
    if result is None and asking.no_run_error is not None:
        raise asking.no_run_error
    return result


def asking_of(state: CallState, demands: tuple[Ask, ...] = ()) -> Asking:
    """What the call asks, with these demands of callbacks."""
    from pegboard.dispatch.approve import asking_of  # loaded when a call isn't simply allowed

    return asking_of(state, demands)


async def _decide_again(state: CallState, tool: Tool) -> None:
    if needs_asking(state, tool):
        await asking_of(state).decide_again()


def _note_start(state: CallState, tool: Tool, now: float) -> bool:
    """Records the start time at the first attempt, and announces it; returns whether it is the first."""
    if state.started_at is not None:
        return False
    state.started_at = now
    if (made := state.made_context) is not None:
        limit = time_limit(state, tool)
        made.deadline = None if limit is None else now + limit
    if state.settings.emit is not None:
        from pegboard.dispatch.events import CallRunning, emit  # loaded with the first observer

        emit(state, CallRunning, arguments=read_only(state.arguments))  # listeners must not change them
    return True


def start(
    state: CallState, tool: Tool, arguments: Mapping[str, Any], *, has_entered: bool = False
) -> tuple[Any, Awaitable[Any] | None]:
    """Calls the handler's function, up to its first suspension: one that never suspends costs no task, timer or frame.

    Returns its value and `None`, or an awaitable of the value. The lock manager is left at the end if `has_entered`.
    """
    runtime, handler, began, is_first = state.runtime, tool.handler, monotonic(), state.started_at is None
    assert isinstance(handler, Handler)
    off_loop, waits = tool.runs_off_loop, False
    try:
        if is_first and state.settings.emit is None and state.made_context is None:
            state.started_at = began
        else:
            _note_start(state, tool, began)
        if off_loop:
            open_portal(state)
        try:
            args, kwargs = tool.bind(cast("ToolContext", state.context if handler.takes_context else None), arguments)
        except StructureError as error:
            return None, refuse_arguments(state, tool, (problem(error.path, error.reason),))
        if handler.flavour is _ASYNC:
            coroutine: Any = handler.function(*args, **kwargs)
            if type(coroutine) is not _COROUTINE:
                coroutine = as_coroutine(coroutine)
        else:
            threads = (handler.thread or runtime.tool_threads) if off_loop else None
            coroutine = _call_plain(state, handler, args, kwargs, threads)
        try:
            # Off the loop it only waits here, perhaps for the machine.
            waits_for = watched(None if off_loop else runtime.watchdog, state.name, coroutine.send, None)
        except StopIteration as end:
            return end.value, None
        waits = True
        return None, await_value(state, tool, coroutine, waits_for, is_first=is_first, has_entered=has_entered)
    finally:
        if has_entered and not waits:
            runtime.locks.leave(state)


async def _call_plain(
    state: CallState,
    handler: Handler,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    threads: WorkerPool | OwnThread | None,
) -> Any:
    """Calls a function or generator, in `threads` if given, or an async generator."""
    if handler.flavour is CallableKind.PLAIN and threads is None:
        value = handler.function(*args, **kwargs)
        return await value if isawaitable(value) else value
    from pegboard.threads import HangingThreadsError  # loaded for such tools only

    context, thread = state.context, None if state.running is None else state.running.thread
    if handler.flavour is CallableKind.ASYNC_GENERATOR:
        return await drain_async(handler.function(*args, **kwargs), context)

    def call() -> Any:
        try:
            value = handler.function(*args, **kwargs)
            return drain(value, context) if handler.flavour is CallableKind.GENERATOR else value
        finally:
            ended()

    def ended() -> None:
        if thread is not None:
            with suppress(InvalidStateError):  # it was abandoned
                thread.set_result(None)

    def not_begun() -> None:
        context.internals.portal = None  # no thread will use it
        ended()

    try:
        value = call() if threads is None else await threads.run_for(context.tool, call, not_begun)
    except HangingThreadsError as error:
        text = f"{context.tool} was not run: too many calls of {error.culprit} hang. Don't try again for now."
        raise CallError("not_executed", text, detail=str(error)) from None
    return await value if isawaitable(value) else value  # such as of a lambda that calls an async function


FIRST_PAUSE: Final = 0.5  # longest pause in seconds before the second attempt; it doubles with each further one
LONGEST_PAUSE: Final = 30.0  # seconds, unless the tool requests more


async def retry(
    attempt: Callable[[], Coroutine[Any, Any, Any]],
    retries: int,
    is_retryable: Callable[[BaseException], bool],
    *,
    on_retry: Callable[[int, BaseException, float], None],
    limit: float | None = None,
) -> Any:
    """Retry with exponential backoff and full jitter.

    The pauses are of a random length up to 0.5 s, 1 s, 2 s ... 30 s, so that calls that failed together don't return
    together (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/); or the error's `retry_after`
    in seconds, if that is longer. No pause starts that would not end within the limit for all attempts.

    `on_retry` is called before each pause with the number of attempts so far, the last error and the pause in seconds.
    """
    import tenacity  # imported for retries only

    def error_of(state: Any) -> BaseException:
        return state.outcome.exception()

    def pause(state: RetryCallState) -> float:
        seconds = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)(state)
        asked = getattr(error_of(state), "retry_after", None)
        return max(seconds, asked) if isinstance(asked, int | float) and isfinite(asked) else seconds

    stop: Any = tenacity.stop_after_attempt(retries + 1)
    if limit is not None:
        stop |= tenacity.stop_before_delay(limit)
    attempts = tenacity.AsyncRetrying(
        sleep=asyncio.sleep,
        stop=stop,
        wait=pause,
        retry=tenacity.retry_if_exception(is_retryable),
        before_sleep=lambda state: on_retry(state.attempt_number, error_of(state), state.upcoming_sleep),
        reraise=True,
    )
    return await attempts(attempt)
