"""`Running`: a running call's locks, time limit and thread; this file alone writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from typing import Any

from pegboard.dispatch.locks import LockHandle, LockRequest, lock_request
from pegboard.dispatch.state import CallState, Running, time_limit
from pegboard.errors import log_failure
from pegboard.timeout import Deadline, LimitExpiredError, within
from pegboard.tools.call import CallError
from pegboard.tools.tool import Tool


def running_of(state: CallState) -> Running:
    """The record of a call, made at its first use."""
    state.running = state.running or Running()
    return state.running


def leave_to_host(state: CallState, tool: Tool) -> CallError:
    """Leaves a call to the host; returns the error that stands for its result until then."""
    running_of(state).runs_on_host = True
    return CallError("not_executed", f"{tool.name} has no handler in this registry; the host has to run it.")


def count_nested(state: CallState) -> int:
    """Counts one more nested call."""
    running = running_of(state)
    running.nested += 1
    return running.nested


def count_attempt(state: CallState) -> int:
    """Counts one more attempt of a call that runs elsewhere; returns its number, from 1."""
    running = running_of(state)
    running.attempts += 1
    return running.attempts


def lock_request_of(state: CallState, tool: Tool) -> LockRequest:
    """The call's lock request, cached until its arguments change."""
    running = running_of(state)
    known = running.lock_request
    if known is None or known[0] is not state.arguments:
        known = running.lock_request = state.arguments, lock_request(tool, state.arguments, state.request)
        if state.position.scheduler is not None:
            state.position.scheduler.set_request(state.position.index, known[1])
    return known[1]


def lock_of(state: CallState) -> LockHandle | None:
    """The handle of the call's locks, for its nested calls; `None` if it holds none."""
    return (state.running and state.running.lock) or state.runtime.locks.handle_of(state)


def enclosing_lock(state: CallState) -> LockHandle | None:
    """The handle of the innermost enclosing call of the same registry; `None` if that holds no locks, or has ended."""
    call = state.enclosing
    while call is not None and call.runtime is not state.runtime:
        call = call.enclosing
    return None if call is None else lock_of(call)


async def acquire(state: CallState, tool: Tool) -> None:
    """Acquires the call's locks: after conflicting earlier calls of its batch, and then within its time limit.

    Raises `timeout`; or `skipped`, if a conflicting earlier call continues in another turn; or as `acquire_shared`.
    """
    position, slots = state.position, state.settings.slots
    scheduler, request = position.scheduler, lock_request_of(state, tool)
    if scheduler is not None:
        await scheduler.wait(position.index)
    limit, locks = time_limit(state, tool), state.runtime.locks
    acquiring = locks.acquire(request, slots=slots, parent=position.parent)
    if locks.has_backend:
        from pegboard.dispatch.shared_locks import acquire_shared  # loaded with the first backend

        acquiring = acquire_shared(state, request, acquiring)
    try:
        lock = await within(limit, acquiring)
    except LimitExpiredError:
        text = f"{tool.name} was not run: it waited {limit:g} s for conflicting calls to end. Try again later."
        raise CallError("timeout", text) from None
    if scheduler is not None:
        scheduler.mark_passed(position.index, has_ended=False)
        if scheduler.overtakes(position.index):
            lock.release()
            raise overtaking_error(state)
    running_of(state).lock = lock


def overtaking_error(state: CallState) -> CallError:
    """The error of a call that must not run before an earlier one that waits for the user's answer."""
    text = "an earlier call, which must run first, waits for an answer. Call it again after that."
    return CallError("skipped", f"{state.call.name} was not run: {text}")


def release(state: CallState, tool: Tool) -> None:
    """Releases the call's locks; those of an abandoned thread at its end, at the latest after the time limit."""
    running = running_of(state)
    lock, thread, seconds = running.lock, running.thread, time_limit(state, tool)
    assert lock is not None
    if thread is None or thread.done():
        lock.release()
        return

    def abandon() -> None:
        if thread.cancel():
            log_failure(tool.name, TimeoutError("still running in its thread; its locks were released"))

    thread.add_done_callback(lambda _: lock.release())
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, abandon)


def open_portal(state: CallState) -> None:
    """Opens the portal of a tool that runs in a thread."""
    from pegboard.tools.portal import LoopPortal  # imported for plain tools only

    state.context.internals.portal = LoopPortal(asyncio.get_running_loop())
    running = state.running
    if running is not None and running.lock is not None and not running.lock.is_shared:
        running.thread = Future()


def runs_in_thread(state: CallState) -> bool:
    """Whether the call's tool runs in a thread, which has a portal to the loop."""
    made = state.made_context
    return made is not None and made.internals.portal is not None


def deadline_of(state: CallState) -> Deadline:
    """The deadline of a running call; its first step may ask the user, which pauses it before its start."""
    running = running_of(state)
    if running.deadline is None:
        grace, watchdog = state.settings.limits.grace, state.runtime.watchdog
        running.deadline = Deadline(None, grace, watchdog, state.name, state.made_context)
    return running.deadline


def new_deadline(state: CallState, name: str, seconds: float | None, grace: float) -> Deadline:
    """A deadline of a call that runs elsewhere, under no watchdog; it replaces that of an earlier attempt."""
    deadline = running_of(state).deadline = Deadline(seconds, grace, None, name, state.context)
    return deadline


@contextmanager
def pause_deadlines(state: CallState) -> Generator[None]:
    """Context that pauses the time limits of a call, its callback and its enclosing calls.

    Those in another event loop, such as one that a tool runs in its thread, go on.
    """
    loop, paused, call = asyncio.get_running_loop(), list[Deadline](), state
    while call is not None:
        if call.started_at is not None and not runs_in_thread(call):
            deadline_of(call)  # in its first step it has none yet
        of_callback = None if call.callbacks is None else call.callbacks.deadline
        deadlines = call.running and call.running.deadline, of_callback and of_callback()
        paused += [each for each in deadlines if each is not None and each.loop is loop]
        call = call.enclosing
    for deadline in paused:
        deadline.pause()
    try:
        yield
    finally:
        for deadline in paused:
            deadline.resume()


def still_running_note(state: CallState) -> str | None:
    """A sentence for the model on an ended call whose thread, or tasks of a closed coroutine, may still run."""
    running = state.running
    was_ignored = running is not None and running.deadline is not None and running.deadline.was_ignored
    if not (was_ignored or runs_in_thread(state)):
        return None
    waits = "; conflicting calls wait until it ends" if running is not None and running.thread is not None else ""
    return f"It may still be running{waits}."


def seconds_left(state: CallState, tool: Tool, *, is_first: bool) -> float | None:
    """The rest of the time limit, which is for all attempts."""
    if is_first:
        return time_limit(state, tool)
    deadline = state.context.deadline
    return None if deadline is None else max(deadline - monotonic(), 0.0)


async def await_value(  # noqa: PLR0913
    state: CallState,
    tool: Tool,
    coroutine: Coroutine[Any, Any, Any],
    waits_for: Any,
    *,
    is_first: bool,
    has_entered: bool,
) -> Any:
    """Awaits the value of a tool that was started, within its time limit; leaves the lock manager if `has_entered`."""
    deadline, in_thread = deadline_of(state), runs_in_thread(state)
    try:
        deadline.seconds = seconds_left(state, tool, is_first=is_first)
        if in_thread:
            deadline.watchdog = None
        return await deadline.finish(coroutine, waits_for)
    except (LimitExpiredError, asyncio.CancelledError) as error:
        if state.made_context is not None:
            state.made_context.cancelled = True
        if deadline.was_ignored:
            state.runtime.watchdog.given_up += 1
        if isinstance(error, LimitExpiredError):
            note = still_running_note(state) or ("It had not started." if tool.runs_off_loop else "It was cancelled.")
            text = f"{tool.name} gave no result within {time_limit(state, tool):g} s. {note}"
            raise CallError("timeout", text) from None
        raise
    finally:
        if in_thread and (portal := state.context.internals.portal) is not None:
            portal.close()  # its thread may run on, but do nothing more on the event loop
        if has_entered:
            state.runtime.locks.leave(state)
