"""The stage `run`: calls the tool's function with its locks, on the loop or in a thread, within its time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from math import isfinite
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from pegboard.callbacks import CallableKind, maybe_await
from pegboard.dispatch.approve import consume_approval, deadline_of, decide_again, runs_in_thread
from pegboard.dispatch.arguments import refused
from pegboard.dispatch.callbacks import wrapped
from pegboard.dispatch.events import CallRunning, CallUpdated, emit
from pegboard.dispatch.locks import LockHandle, LockRequest, lock_request
from pegboard.dispatch.results import MOST_VALUES, number_of_values
from pegboard.dispatch.state import CallState, plain, read_only, time_limit
from pegboard.errors import CallStoppedError, ToolError, log_failure
from pegboard.json import StructureError, problem
from pegboard.threads import HangingThreadsError, WorkerPool, waiting
from pegboard.timeout import Deadline, LimitExpiredError, as_coroutine, finish_within, watched, within
from pegboard.tools.call import CallError
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler, opened
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from tenacity import RetryCallState

_ASYNC: Final = CallableKind.ASYNC
_COROUTINE: Final[type] = CoroutineType
_HERE: Final = (None, "loop", "thread")  # the executors that are this process


def run(state: CallState) -> Awaitable[None] | None:
    """Fills in `state.value`, directly or by the returned awaitable.

    An async function makes its first step here: one that never suspends costs no task, timer or frame.

    Raises:
        CallError: `not_executed` if the tool has no handler, `invalid_arguments` if structuring refuses validated
            arguments, `timeout`, `crashed`, `limit`, or `denied` if an approval no longer fits.
        BaseException: The tool's exception.
    """
    tool, services, locks = state.tool, state.services, state.services.locks
    assert tool is not None
    handler = tool.handler
    if not isinstance(handler, Handler):
        if tool.policy.executor in _HERE:
            state.for_host = True
            raise CallError("not_executed", f"{tool.name} has no handler in this registry; the host has to run it.")
        return _run_locked(state, tool)  # a remote executor needs no handler here
    if (
        not tool.runs_plainly
        or state.scheduler is not None
        or state.parent is not None
        or state.asks is not None
        or state.approval is not None
        or services.slots is not None
        or services.callbacks.get("wrap_tool")
        or not locks.enter(state)
    ):
        return _run_locked(state, tool)
    pending = None
    try:
        pending = _start(state, tool, handler)
    finally:
        if pending is None:
            locks.leave(state)
    return None if pending is None else _leave_after(pending, state)


async def _run_locked(state: CallState, tool: Tool) -> None:
    """Runs the tool once its locks are acquired, inside its middleware."""
    state.lock = lock = await _acquire(state, tool)
    try:
        if state.services.callbacks.get("wrap_tool"):
            state.value = await wrapped(state, partial(_attempts, state, tool, plain(state.arguments)))
        else:
            state.value = await _attempts(state, tool)
    finally:
        if state.pending is not None and state.scheduler is not None:
            state.scheduler.suspend(state.index)
        if state.thread is None or state.thread.done():
            lock.release()
        else:
            _release_later(state.thread, lock, tool, time_limit(state, tool))
    state.goes_on = tool.spec.long_running


def _release_later(thread: Future[None], lock: LockHandle, tool: Tool, seconds: float | None) -> None:
    """Releases the locks of an abandoned thread at its end, at the latest after `seconds`."""

    def abandon() -> None:
        if thread.cancel():
            log_failure(tool.name, TimeoutError("still running in its thread; its locks were released"))

    thread.add_done_callback(lambda _: lock.release())
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, abandon)


def lock_request_of(state: CallState, tool: Tool) -> LockRequest:
    """The call's lock request, cached until its arguments change."""
    known = state.locks_wanted
    if known is None or known[0] is not state.arguments:
        known = state.locks_wanted = state.arguments, lock_request(tool, state.arguments, state.request)
        if state.scheduler is not None:
            state.scheduler.set_request(state.index, known[1])
    return known[1]


async def _acquire(state: CallState, tool: Tool) -> LockHandle:
    """Acquires the call's locks: after conflicting earlier calls of its batch, and then within its time limit.

    Raises:
        CallError: `timeout`; `skipped`, if a conflicting earlier call continues in another turn.
    """
    scheduler, services = state.scheduler, state.services
    request = lock_request_of(state, tool)
    if scheduler is not None:
        await scheduler.wait(state.index)
    limit = time_limit(state, tool)
    try:
        lock = await within(limit, services.locks.acquire(request, slots=services.slots, parent=state.parent))
    except LimitExpiredError:
        text = f"{tool.name} was not run: it waited {limit:g} s for conflicting calls to end. Try again later."
        raise CallError("timeout", text) from None
    if scheduler is not None:
        scheduler.passed(state.index, has_ended=False)
        if scheduler.overtakes(state.index):
            lock.release()
            raise overtaking_error(state)
    return lock


def overtaking_error(state: CallState) -> CallError:
    """The error of a call that must not run before an earlier one that waits for the user's answer."""
    text = "an earlier call, which must run first, waits for an answer. Call it again after that."
    return CallError("skipped", f"{state.call.name} was not run: {text}")


async def _attempts(state: CallState, tool: Tool, given: dict[str, Any] | None = None) -> Any:
    """Runs the tool, with retries if they are allowed; each attempt gets its own copy of the arguments.

    Args:
        state: The call.
        tool: The tool.
        given: The arguments, if a wrapper may run it again; `None` takes those of the call.
    """
    if given is not None:
        state.arguments = plain(given)
    await maybe_await(consume_approval(state))
    # The host allows retries and the tool declares itself idempotent, which counts for trusted origins only.
    if not (tool.policy.retries and tool.spec.annotations.idempotent_hint is True and tool.origin.trusted):
        return await _attempt(state, tool)
    pristine = plain(state.arguments)

    async def attempt() -> Any:
        state.arguments = plain(pristine)
        if state.since is not None:
            await maybe_await(decide_again(state))
        return await _attempt(state, tool)

    def note_retry(number: int, error: BaseException, seconds: float) -> None:
        emit(state, CallUpdated, note=f"retry {number} in {seconds:.1f} s: {type(error).__name__}")

    return await retry(
        attempt,
        tool.policy.retries,
        lambda error: isinstance(error, ToolError) and error.retryable is True,
        on_retry=note_retry,
        limit=time_limit(state, tool),
    )


async def _attempt(state: CallState, tool: Tool) -> Any:
    if tool.policy.executor not in _HERE:
        assert state.services.remote is not None
        return await state.services.remote(state, _note_start(state, tool))
    handler = tool.handler
    assert isinstance(handler, Handler)
    if handler.injects:
        await opened(handler.injects, state.context)
        await maybe_await(decide_again(state))
    await maybe_await(_start(state, tool, handler))
    return state.value


async def _leave_after(pending: Awaitable[None], state: CallState) -> None:
    try:
        await pending
    finally:
        state.services.locks.leave(state)


def _note_start(state: CallState, tool: Tool) -> float | None:
    """Records the start time at the first attempt; returns the seconds left of the time limit."""
    now = time.monotonic()
    if state.since is None:
        services, limit = state.services, time_limit(state, tool)
        state.since = now
        if (made := state.made_context) is not None:
            made.deadline = None if limit is None else now + limit
        if services.events is not None:
            emit(state, CallRunning, arguments=read_only(state.arguments))  # listeners must not change them
        return limit
    deadline = state.context.deadline
    return None if deadline is None else max(deadline - now, 0.0)


def _start(state: CallState, tool: Tool, handler: Handler) -> Awaitable[None] | None:
    """Calls the handler's function, up to its first suspension."""
    context = state.context
    limit = _note_start(state, tool)
    off_the_loop = handler.flavour is not _ASYNC and _off_the_loop(tool, handler)
    if off_the_loop:
        from pegboard.tools.portal import LoopPortal  # imported for plain tools only

        context.internals.portal = LoopPortal(asyncio.get_running_loop(), waiting)
        state.thread = None if state.lock is None or state.lock.is_shared else Future()
    try:
        args, kwargs = tool.bind(context, state.arguments)
    except StructureError as error:
        return refused(state, tool, (problem(error.path, error.reason),))
    if handler.flavour is _ASYNC:
        running = handler.function(*args, **kwargs)
        coroutine: Coroutine[Any, Any, Any] = running if type(running) is _COROUTINE else as_coroutine(running)
    else:
        threads = state.services.tool_threads if off_the_loop else None
        coroutine = _call_plain(state, handler, args, kwargs, threads)
    try:
        watchdog = None if off_the_loop else state.services.watchdog  # there it only waits, perhaps for the machine
        waits_for = watched(watchdog, state.call.name, coroutine.send, None)
    except StopIteration as end:
        state.value = end.value
        return None
    return _finish(state, tool, limit, coroutine, waits_for)


async def _finish(
    state: CallState, tool: Tool, limit: float | None, coroutine: Coroutine[Any, Any, Any], waits_for: Any
) -> None:
    deadline = deadline_of(state)
    deadline.seconds = limit
    in_thread = runs_in_thread(state)
    if in_thread:
        deadline.watchdog = None
    try:
        state.value = await finish_within(deadline, coroutine, waits_for)
    except LimitExpiredError:
        _give_up(state, deadline)
        raise _timeout_error(tool, state) from None
    except asyncio.CancelledError:
        _give_up(state, deadline)
        raise
    if in_thread:
        _close_portal(state)


def _off_the_loop(tool: Tool, handler: Handler) -> bool:
    return (
        handler.blocking
        and handler.flavour in (CallableKind.PLAIN, CallableKind.GENERATOR)
        and tool.policy.executor != "loop"
    )


def _give_up(state: CallState, deadline: Deadline) -> None:
    if state.made_context is not None:
        state.made_context.cancelled = True
    _close_portal(state)
    if deadline.was_ignored:
        state.services.watchdog.given_up += 1


def _close_portal(state: CallState) -> None:
    if state.made_context is not None and (portal := state.made_context.internals.portal) is not None:
        portal.close()


def _timeout_error(tool: Tool, state: CallState) -> CallError:
    if may_still_run(state):
        note = still_running_note(state)
    else:
        assert isinstance(tool.handler, Handler)
        note = "It had not started." if _off_the_loop(tool, tool.handler) else "It was cancelled."
    return CallError("timeout", f"{tool.name} gave no result within {time_limit(state, tool):g} s. {note}")


def still_running_note(state: CallState) -> str:
    """A sentence for the model on a call whose work may still be running."""
    waits = "" if state.thread is None else "; conflicting calls wait until it ends"
    return f"It may still be running{waits}."


def may_still_run(state: CallState) -> bool:
    """Whether work of an ended call may still run: its thread, or tasks of a closed coroutine."""
    return runs_in_thread(state) or (state.deadline is not None and state.deadline.was_ignored)


async def _call_plain(
    state: CallState, handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], threads: WorkerPool | None
) -> Any:
    """Calls a plain function, generator or async generator, in a thread if `threads` is given."""
    context, thread = state.context, state.thread
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
        not_begun()
        text = f"{context.tool} was not run: too many calls of {error.culprit} hang. Don't try again for now."
        raise CallError("not_executed", text, detail=str(error)) from None
    return await value if isawaitable(value) else value  # such as of a lambda that calls an async function


_CHARACTERS: Final = 64  # characters or bytes of a generator's items that count as one more value
TURN: Final = 1_000
"""Items of an async generator after which it yields to the event loop."""


def drain(source: Iterable[Any], context: ToolContext) -> Any:
    """Exhausts a generator; returns its return value, or else the list of its items. Each item is emitted.

    Raises:
        CallError: `limit`: too many items.
        CallStoppedError: The call was cancelled; the generator is closed.
    """
    generator, items, left = iter(source), list[Any](), MOST_VALUES
    try:
        while not context.cancelled:
            try:
                item = next(generator)
            except StopIteration as end:
                return items if end.value is None else end.value
            left = _take(item, items, left, context)
    finally:
        if isinstance(generator, GeneratorType):
            generator.close()
    raise CallStoppedError("the call was cancelled", kind="aborted")


async def drain_async(source: AsyncIterable[Any], context: ToolContext) -> list[Any]:
    """Exhausts an async generator; returns the list of its items. Each item is emitted.

    Raises:
        CallError: `limit`: too many items.
    """
    items, left = list[Any](), MOST_VALUES
    try:
        async for item in source:
            left = _take(item, items, left, context)
            if not len(items) % TURN:
                await asyncio.sleep(0)
    finally:
        if isinstance(source, AsyncGeneratorType):
            await source.aclose()
    return items


def _take(item: Any, items: list[Any], left: int, context: ToolContext) -> int:
    """Counts, stores and emits an item; returns how many values may still follow."""
    left -= 1 + number_of_values(item, _CHARACTERS)
    if left < 0:
        most = f"{MOST_VALUES:,} values ({_CHARACTERS} characters count as one)"
        raise CallError("limit", f"The tool was stopped: it returned more than {most}. Request less.")
    items.append(item)
    context.emit(item)
    return left


FIRST_PAUSE: Final = 0.5
"""Longest pause in seconds before the second attempt; it doubles with each further one."""

LONGEST_PAUSE: Final = 30.0
"""Longest pause in seconds, unless the tool requests more."""


async def retry(
    attempt: Callable[[], Coroutine[Any, Any, Any]],
    retries: int,
    asks: Callable[[BaseException], bool],
    *,
    on_retry: Callable[[int, BaseException, float], None],
    limit: float | None = None,
) -> Any:
    """Retry with exponential backoff and full jitter.

    The pauses are of a random length up to 0.5 s, 1 s, 2 s ... 30 s, so that calls that failed together don't return
    together (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/); or the error's `retry_after`
    in seconds, if that is longer.

    Args:
        attempt: Makes one attempt: an async function, or a partial of one.
        retries: Maximum number of attempts after the first.
        asks: Whether an error is to be retried.
        on_retry: Called before each pause with the number of attempts so far, the last error and the pause in seconds.
        limit: Seconds for all attempts: no pause starts that would not end within them. `None` is no limit.
    """
    import tenacity  # imported for retries only

    def note_retry(state: RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert error is not None
        on_retry(state.attempt_number, error, state.upcoming_sleep)

    stop: Any = tenacity.stop_after_attempt(retries + 1)
    if limit is not None:
        stop |= tenacity.stop_before_delay(limit)
    attempts = tenacity.AsyncRetrying(
        sleep=asyncio.sleep,
        stop=stop,
        wait=_pause,
        retry=tenacity.retry_if_exception(asks),
        before_sleep=note_retry,
        reraise=True,
    )
    return await attempts(attempt)


def _pause(state: RetryCallState) -> float:
    import tenacity

    pause = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)(state)
    asked = getattr(state.outcome and state.outcome.exception(), "retry_after", None)
    if isinstance(asked, int | float) and isfinite(asked):
        return max(pause, asked)
    return pause
