"""The stage `run`: the handler's function is called, in its turn, in the loop or off it, within its time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any, Final, TypeAlias

from pegboard.dispatch.approve import consume_approval
from pegboard.dispatch.exhausted import exhausted, exhausted_async
from pegboard.dispatch.limits import CallError
from pegboard.dispatch.locks import LockHandle, LockRequest, lock_request
from pegboard.dispatch.read_only import plain
from pegboard.dispatch.telling import tell_note, tell_running
from pegboard.dispatch.timeout import Deadline, LimitExpiredError, finish_within, within
from pegboard.dispatch.validate import refused
from pegboard.dispatch.work import Work
from pegboard.schema.problems import StructureError, problem
from pegboard.threads import WorkerPool
from pegboard.tools.bridge import Bridge
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Flavour, Handler
from pegboard.tools.injection import opened
from pegboard.tools.tool import Tool

ASYNC: Final = Flavour.ASYNC
HERE: Final = (None, "loop", "thread")
"""The executors that are this process."""

_COROUTINE: Final[type] = CoroutineType
Starter: TypeAlias = Callable[
    [Handler, Sequence[Any], Mapping[str, Any], ToolContext, WorkerPool | None], Coroutine[Any, Any, Any]
]


def run(work: Work) -> Awaitable[None] | None:
    """Fills in `work.value`, now or once what is given back has been awaited.

    An async function takes its first step here: one that waits for nothing costs no task, no timer and no frame.

    Raises:
        CallError: `not_executed` where the tool has no handler, `invalid_arguments` where the type refuses what
            the schema took, `timeout`, `crashed`, `limit`, or `denied` where an approval doesn't fit any more.
        BaseException: Whatever the tool raised.
    """
    tool, around, locks = work.tool, work.around, work.around.locks
    assert tool is not None
    handler = tool.handler
    if not isinstance(handler, Handler):
        if tool.policy.executor in HERE:
            raise CallError("not_executed", f"{tool.name} has no handler on this board; the host has to run it.")
        return _in_turn(work, tool)  # whoever runs it elsewhere needs no code of it here
    if (
        not tool.runs_plainly
        or work.scheduler is not None
        or work.parent is not None
        or work.asks is not None
        or work.approval is not None
        or around.slots is not None
        or around.callbacks.wrap
    ):
        return _in_turn(work, tool)
    if locks is None:
        return _start(work, tool, handler)
    lock = work.lock = locks.try_acquire()
    if lock is None:
        return _in_turn(work, tool)
    try:
        pending = _start(work, tool, handler)
    except BaseException:
        lock.release()
        raise
    if pending is None:
        lock.release()
        return None
    return _released_after(pending, lock)


async def _in_turn(work: Work, tool: Tool) -> None:
    """Runs the tool when its turn has come: after the calls that it has to wait for, and not beside them."""
    work.lock = lock = await _turn(work, tool)
    try:
        if work.around.callbacks.wrap:
            from pegboard.dispatch.callbacks import wrapped

            work.value = await wrapped(work, partial(_attempts, work, tool, plain(work.arguments)))
        else:
            work.value = await _attempts(work, tool)
    finally:
        if work.pending is not None and work.scheduler is not None:
            work.scheduler.suspend(work.index)
        lock.release()
    work.goes_on = tool.spec.long_running


def locks_known(work: Work, tool: Tool) -> LockRequest:
    """The locks that the call needs; worked out once for as long as its arguments stay what they are."""
    known = work.request
    if known is None or known[0] is not work.arguments:
        known = work.request = work.arguments, lock_request(tool, work.arguments, work.context.work_dir)
        if work.scheduler is not None:
            work.scheduler.know(work.index, known[1])
    return known[1]


async def _turn(work: Work, tool: Tool) -> LockHandle:
    """Acquires the call's locks: after the earlier calls of its batch, and then within its time limit.

    Raises:
        CallError: `timeout`; `skipped`, where an earlier call that it conflicts with goes on in another turn.
    """
    scheduler, around = work.scheduler, work.around
    request = locks_known(work, tool)
    if scheduler is not None:
        await scheduler.turn(work.index)
    assert around.locks is not None
    limit = _limit_of(work, tool)
    try:
        lock = await within(limit, around.locks.acquire(request, slots=around.slots, parent=work.parent))
    except LimitExpiredError:
        text = f"{tool.name} was not run: it waited {limit:g} s for calls that it can't run beside. Try again later."
        raise CallError("timeout", text) from None
    if scheduler is not None:
        scheduler.passed(work.index)
        if scheduler.overtakes(work.index):
            lock.release()
            raise overtaking(work)
    return lock


def overtaking(work: Work) -> CallError:
    """Why a call isn't run before one that a person has to answer first."""
    text = "an earlier call, which it must not overtake, waits for an answer. Call it again after that."
    return CallError("skipped", f"{work.call.name} was not run: {text}")


async def _attempts(work: Work, tool: Tool, given: dict[str, Any] | None = None) -> Any:
    """What the tool gives, tried again where it may be; no attempt sees what an earlier one did to its arguments.

    Args:
        work: The call.
        tool: What is run.
        given: The arguments to begin with, where a wrapper may run it again; `None` takes those of the call.
    """
    if given is not None:
        work.arguments = plain(given)
    consume_approval(work)
    if tool.policy.retries:
        from pegboard.dispatch.retry import retried

        pristine = plain(work.arguments)

        async def attempt() -> Any:
            work.arguments = plain(pristine)
            return await _attempt(work, tool)

        return await retried(attempt, tool, on_retry=partial(_tell_retry, work), limit=_limit_of(work, tool))
    return await _attempt(work, tool)


def _tell_retry(work: Work, number: int, error: BaseException, seconds: float) -> None:
    if work.around.events is not None:
        tell_note(work, f"retry {number} in {seconds:.1f} s: {type(error).__name__}")


async def _attempt(work: Work, tool: Tool) -> Any:
    if tool.policy.executor not in HERE:
        from pegboard.dispatch.executors.elsewhere import run_elsewhere

        _note_start(work, tool)
        return await run_elsewhere(work, tool.policy.executor)
    handler = tool.handler
    assert isinstance(handler, Handler)
    if handler.injects:
        await opened(handler.injects, work.context)
    pending = _start(work, tool, handler)
    if pending is not None:
        await pending
    return work.value


async def _released_after(pending: Awaitable[None], lock: LockHandle) -> None:
    try:
        await pending
    finally:
        lock.release()


def _limit_of(work: Work, tool: Tool) -> float | None:
    """The seconds that the call may take in all."""
    limit, longest = tool.policy.timeout, work.around.longest
    if limit is None:
        limit = work.around.limits.timeout
    return limit if longest is None else longest if limit is None else min(limit, longest)


def _note_start(work: Work, tool: Tool) -> float | None:
    """Notes when the tool was started, at its first attempt, and gives the seconds that are left to it."""
    limit = _limit_of(work, tool)
    now = time.monotonic()
    if work.since is None:
        work.since = now
        work.context.deadline = None if limit is None else now + limit
        if work.around.events is not None:
            tell_running(work)
        return limit
    deadline = work.context.deadline
    return None if deadline is None else max(deadline - now, 0.0)


def _start(work: Work, tool: Tool, handler: Handler) -> Awaitable[None] | None:
    """Calls the handler's function, and makes its first step."""
    context = work.context
    limit = _note_start(work, tool)
    off_the_loop = _off_the_loop(tool, handler)
    if off_the_loop:
        context.bridge = Bridge(asyncio.get_running_loop(), work.around.threads.waiting)
    try:
        args, kwargs = tool.bind(context, work.arguments)
    except StructureError as error:
        return refused(work, tool, (problem(error.path, error.reason),))
    if handler.flavour is ASYNC:
        running = handler.function(*args, **kwargs)
    else:
        threads = work.around.threads if off_the_loop else None
        running = _STARTERS[handler.flavour](handler, args, kwargs, context, threads)
    coroutine: Coroutine[Any, Any, Any] = running if type(running) is _COROUTINE else _awaited(running)
    watchdog = work.around.watchdog
    seen = None if watchdog is None else watchdog.enter(tool.name)
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        work.value = end.value
        return None
    finally:
        if watchdog is not None and seen is not None:
            watchdog.leave(seen)
    return _finish(work, tool, limit, coroutine, waits_for)


async def _finish(
    work: Work, tool: Tool, limit: float | None, coroutine: Coroutine[Any, Any, Any], waits_for: Any
) -> None:
    deadline = deadline_of(work)
    deadline.seconds = limit
    try:
        work.value = await finish_within(deadline, coroutine, waits_for)
    except LimitExpiredError:
        _give_up(work, deadline)
        raise _too_long(tool, work) from None
    except asyncio.CancelledError:
        _give_up(work, deadline)
        raise
    if work.context.bridge is not None:
        work.context.bridge.close()


def deadline_of(work: Work) -> Deadline:
    """The deadline of a running call; its first step may ask a person, and so pause it before it starts."""
    if work.deadline is None:
        task = asyncio.current_task()
        assert task is not None
        around = work.around
        work.deadline = Deadline(task, None, around.limits.grace, around.watchdog, work.call.name, work.context)
    return work.deadline


async def _awaited(running: Awaitable[Any]) -> Any:
    return await running


def _off_the_loop(tool: Tool, handler: Handler) -> bool:
    return handler.blocking and handler.flavour in (Flavour.PLAIN, Flavour.GENERATOR) and tool.policy.executor != "loop"


def _give_up(work: Work, deadline: Deadline) -> None:
    work.context.stop()
    if deadline.was_ignored and work.around.watchdog is not None:
        work.around.watchdog.given_up += 1


def _too_long(tool: Tool, work: Work) -> CallError:
    if may_go_on(work):
        note = "Its work may still be going on."
    else:
        assert isinstance(tool.handler, Handler)
        note = "It had not begun." if _off_the_loop(tool, tool.handler) else "It was cancelled."
    return CallError("timeout", f"{tool.name} gave no result within {_limit_of(work, tool):g} s. {note}")


def may_go_on(work: Work) -> bool:
    """Whether something of a call that was ended may still run: a thread, or what a coroutine has left behind."""
    return work.context.bridge is not None or (work.deadline is not None and work.deadline.was_ignored)


async def _plain(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext, threads: WorkerPool | None
) -> Any:
    if threads is not None:
        value = await _in_thread(threads, context, partial(handler.function, *args, **kwargs))
    else:
        value = handler.function(*args, **kwargs)
    # A lambda round an async function looks plain and isn't.
    return (await value) if isawaitable(value) else value


async def _generator(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext, threads: WorkerPool | None
) -> Any:
    if threads is None:
        return exhausted(handler.function(*args, **kwargs), context)
    return await _in_thread(threads, context, lambda: exhausted(handler.function(*args, **kwargs), context))


async def _in_thread(threads: WorkerPool, context: ToolContext, function: Callable[[], Any]) -> Any:
    def not_begun() -> None:
        context.bridge = None  # nothing is on its other side, nor will be

    return await threads.run_or(not_begun, function)


async def _async_generator(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext, _threads: WorkerPool | None
) -> Any:
    return await exhausted_async(handler.function(*args, **kwargs), context)


_STARTERS: Final[dict[Flavour, Starter]] = {
    Flavour.PLAIN: _plain,
    Flavour.GENERATOR: _generator,
    Flavour.ASYNC_GENERATOR: _async_generator,
}
