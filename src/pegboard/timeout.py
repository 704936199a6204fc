"""Timeouts for coroutines, with pauses and a grace period; and a watchdog for code that blocks the event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from math import inf
from threading import get_ident
from time import monotonic
from types import CoroutineType, FrameType
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from attrs import field

from pegboard.errors import log_failure
from pegboard.threads import renew_after_fork
from pegboard.typing import define

LIMIT_SECONDS: Final = 0.1
"""Seconds that one step of a coroutine may take before it is reported."""

_LOOP: Final = tuple(f"{folder}{os.sep}" for folder in (asyncio.__path__[0], os.path.dirname(__file__)))  # noqa: PTH120
"""The packages that run tools; the frames they call are a tool's own."""

WATCHDOG: Final = "pegboard-watchdog"  # name of the thread that watches blocking tools
_collection_lock: Final = threading.Lock()  # never waited for, so that a forked child process may inherit it locked
IDLE_CHECKS: Final = 40
"""Consecutive checks without a running step, after which the thread ends."""


BLOCKS: Final = "%s blocks the event loop, for %.1f s so far%s; run it in a thread"


def _log_blocked(name: str, seconds: float, where: str) -> None:
    import logging

    logging.getLogger("pegboard").warning(BLOCKS, name, seconds, where)


_Step: TypeAlias = list[Any]
"""One step of a coroutine, from one suspension to the next: its name, its start time (infinity once it was reported),
and the enclosing step, where a tool calls a tool, or `None`."""


@define(eq=False)
class Watchdog:
    """Watchdog for coroutine steps that block their event loop, of any number of loops.

    A thread checks the steps at half the limit's interval, as a blocked loop can't check itself; it ends after a while
    without any.

    Attributes:
        limit: Seconds that one step may take.
        report: Called once for a step that takes longer, from the watchdog's thread, with its name, the seconds so far
            and its position; or on the loop, at the step's end.
        blocked: Number of steps that were reported.
        given_up: Number of coroutines that ignored cancellation and were closed.
        steps: The innermost running step, by thread.
        is_running: Whether the thread runs.
    """

    limit: float = LIMIT_SECONDS
    report: Callable[[str, float, str], None] = _log_blocked
    blocked: int = field(default=0, init=False)
    given_up: int = field(default=0, init=False)
    steps: dict[int, _Step] = field(factory=dict[int, "_Step"], init=False)
    is_running: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)

    def renew(self) -> None:
        """Drops the thread, which a forked child process doesn't have."""
        self.steps, self.is_running, self._lock = {}, False, threading.Lock()

    def check(self) -> bool:
        """Reports the steps that take too long; returns whether any step is running."""
        now = monotonic()
        running = self.steps.copy()  # in one step: other threads change it
        for thread, step in running.items():
            if now - step[1] > self.limit:
                self.report_step(step, now - step[1], code_position(thread))
        return bool(running)

    def report_step(self, step: _Step, seconds: float, where: str = "") -> None:
        """Reports a step that takes too long, and never its enclosing steps, which only wait for it."""
        self.blocked += 1
        each: _Step | None = step
        while each is not None:
            each[1], each = inf, each[2]
        try:
            self.report(step[0], seconds, where)
        except Exception as error:  # noqa: BLE001  the host's function
            log_failure("the watchdog's report", error)

    def start(self) -> None:
        """Starts the thread, unless it runs."""
        with self._lock:
            if self.is_running:
                return
            self.is_running = True
        try:
            threading.Thread(target=self._watch, name=WATCHDOG, daemon=True).start()
        except RuntimeError:  # no thread can be started: `watched` reports a step at its end
            self.is_running = False

    def _watch(self) -> None:
        idle = 0
        while idle < IDLE_CHECKS:
            time.sleep(self.limit / 2)
            idle = 0 if self.check() else idle + 1
        self.is_running = False
        if self.steps:  # a step that began just before saw this thread and started none
            self.start()


def watched(watchdog: Watchdog | None, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on the event loop, such as a coroutine's next step, under the watchdog."""
    if watchdog is None:
        return function(*arguments)
    steps, thread = watchdog.steps, get_ident()
    outer = steps.get(thread)
    step = steps[thread] = [name, monotonic(), outer]
    if not watchdog.is_running:
        watchdog.start()
    try:
        return function(*arguments)
    finally:
        if outer is None:
            del steps[thread]
        else:
            steps[thread] = outer
        seconds = monotonic() - step[1]
        if seconds > watchdog.limit:  # not reported yet, as other code held the interpreter
            watchdog.report_step(step, seconds)


def code_position(thread: int) -> str:
    """Position of a tool's code in a thread: `", at tools.py:12 in compute"`; `""` if the thread has ended.

    That is the tool's outermost frame: the library code that it calls is of less use to its author.
    """
    frame = own = _frame_of(thread)
    while frame is not None and not frame.f_code.co_filename.startswith(_LOOP):
        frame, own = frame.f_back, own if frame.f_code.co_filename == threading.__file__ else frame
    if own is None:
        return ""
    return f", at {own.f_code.co_filename}:{own.f_lineno} in {own.f_code.co_name}"


def _frame_of(thread: int) -> FrameType | None:
    """The frame that a thread executes; `None` if it has ended, or if another thread is in this function.

    Garbage collection is disabled for it: in Python 3.11, a collection inside `_current_frames` can deadlock the whole
    process (https://github.com/python/cpython/issues/106883).
    """
    if not _collection_lock.acquire(blocking=False):
        return None
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the only access to another thread's frames
    finally:
        if collects:
            gc.enable()
        _collection_lock.release()


GRACE_SECONDS: Final = 1.0  # for a coroutine, a task or an approver to end after its cancellation


class LimitExpiredError(Exception):
    """The coroutine was cancelled at its time limit."""


class _SharedTimer:
    """One timer of an event loop for the deadlines of one limit, which expire in the order of their starts.

    The last of them doesn't cancel it: it fires once and ends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.due, self.has_ended = dict[Deadline, float](), False
        loop.call_later(seconds, self.fire, loop)

    def fire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Expires what is due, and waits for the next."""
        while self.due:
            deadline, due = next(iter(self.due.items()))
            if due > loop.time():
                loop.call_at(due, self.fire, loop)
                return
            del self.due[deadline]
            deadline.expire(1)
        self.has_ended = True


_timers: Final = WeakValueDictionary[tuple[int, float], _SharedTimer]()
"""By loop and limit; they live as long as their loop has them."""

_MOST_SHARED: Final = 64  # limits that differ from call to call have timers of their own


@define(eq=False)
class Deadline:
    """Timeout of one coroutine in a task, and of the grace period after its cancellation.

    It is paused while the user is asked; the call has no deadline then. `asyncio.timeout` can't end a coroutine that
    ignores cancellation, and costs three times as much.

    Attributes:
        task: The task that the coroutine runs in.
        seconds: The limit, after a pause the rest of it; `None` is no limit.
        grace: Seconds to clean up after cancellation.
        watchdog: Watches each step, or `None`.
        name: Its name in the watchdog's reports.
        context: The `ToolContext` whose `deadline` each pause extends, or `None`.
        was_ignored: Whether the coroutine ignored cancellation and was closed.
    """

    task: asyncio.Task[Any]
    seconds: float | None
    grace: float = GRACE_SECONDS
    watchdog: Watchdog | None = None
    name: str = ""
    context: Any = None
    was_ignored: bool = field(default=False, init=False)
    _expired: int = field(default=0, init=False)  # 1: the limit; 2: the grace period
    _cancelled: int = field(default=0, init=False)  # by the limit, or by the end of the grace period
    _runs: bool = field(default=False, init=False)
    _pauses: int = field(default=0, init=False)
    _left: float | None = field(default=None, init=False)
    _before: int = field(default=0, init=False)
    _due: float = field(default=0.0, init=False)
    _limit: _SharedTimer | asyncio.TimerHandle | None = field(default=None, init=False)
    _grace: asyncio.TimerHandle | None = field(default=None, init=False)

    def start(self) -> None:
        """Starts the timer, or leaves that to `resume` if the deadline is paused."""
        self._runs, self._before = True, self.task.cancelling()
        self._expired = self._cancelled = 0
        self._start_timer()

    def pause(self) -> None:
        """Stops the timer until `resume`; a limit that has expired stays expired."""
        self._pauses += 1
        if self._pauses == 1 and self.context is not None and self.context.deadline is not None:
            self._left = self.context.deadline - time.monotonic()
            self.context.deadline = None
        if self._limit is not None and not self._expired:
            self.seconds = max(self._due - self.task.get_loop().time(), 0.0)
            self._stop_timer()

    def resume(self) -> None:
        """Restarts the timer with the rest of the limit, once every pause has ended."""
        self._pauses -= 1
        if not self._pauses and self.context is not None and self._left is not None:
            self.context.deadline = time.monotonic() + self._left
            self._left = None
        if self._runs:
            self._start_timer(shares=False)  # what is left differs from call to call

    def is_over(self) -> bool:
        """Whether the grace period has ended; starts it at the first cancellation."""
        if self._grace is None:
            self._grace = self.task.get_loop().call_later(self.grace, self.expire, 2)
        return self._expired == 2

    def undo(self) -> None:
        """Ends the grace period of a cancellation that was undone, such as by an `asyncio.timeout` in the coroutine."""
        if self._grace is not None and self._expired < 2 and self.task.cancelling() <= self._before:
            self._grace.cancel()
            self._grace = None

    def stop(self) -> bool:
        """Stops both timers and undoes their cancellations; returns whether there were any, and no others."""
        self._runs = False
        self._stop_timer()
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        for _ in range(self._cancelled):
            self.task.uncancel()
        return self._cancelled > 0 and self.task.cancelling() <= self._before

    def _start_timer(self, *, shares: bool = True) -> None:
        seconds = self.seconds
        if seconds is None or self._limit is not None or self._pauses:
            return
        loop = self.task.get_loop()
        self._due = loop.time() + seconds
        timer = _timers.get((id(loop), seconds)) if shares else None
        if timer is None or timer.has_ended:
            if not shares or len(_timers) >= _MOST_SHARED:
                self._limit = loop.call_later(seconds, self.expire, 1)
                return
            timer = _timers[id(loop), seconds] = _SharedTimer(loop, seconds)
        timer.due[self] = self._due
        self._limit = timer

    def _stop_timer(self) -> None:
        timer = self._limit
        if isinstance(timer, _SharedTimer):
            timer.due.pop(self, None)
        elif timer is not None:
            timer.cancel()
        self._limit = None

    def expire(self, which: int) -> None:
        """Cancels the coroutine at its limit (1), or at the end of the grace period (2)."""
        self._expired = which
        self._cancelled += 1
        self.task.cancel()


@types.coroutine
def finish_within(deadline: Deadline, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Awaits the rest of a started coroutine; cancels it at its limit, as `asyncio.timeout` does.

    The caller makes the first step, `coroutine.send(None)`: a coroutine that returns there needs no timer. One that
    is still running a grace period after its cancellation, by the limit or by the caller, is closed.

    Args:
        deadline: The limit.
        coroutine: Started and suspended.
        waits_for: The value that its first step yielded.

    Raises:
        LimitExpiredError: It was cancelled at the limit. Its own `TimeoutError` stays what it is.
    """
    watchdog, name = deadline.watchdog, deadline.name
    deadline.start()
    try:
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and deadline.is_over():
                    deadline.was_ignored = True
                    with suppress(BaseException):
                        coroutine.close()
                    raise
                step, value = coroutine.throw, error
            else:
                step, value = coroutine.send, sent
            waits_for = watched(watchdog, name, step, value)
            del step, value
            deadline.undo()
    except StopIteration as end:
        deadline.stop()
        return end.value
    except BaseException as error:
        if deadline.stop() and isinstance(error, asyncio.CancelledError):
            raise LimitExpiredError from error
        raise


async def within(seconds: float | Deadline | None, awaitable: Awaitable[Any], *, grace: float | None = None) -> Any:
    """Awaits an awaitable for at most `seconds`; one that never suspends costs no timer.

    Args:
        seconds: The limit, `None` for none; or a `Deadline`, which has a grace period and a watchdog of its own.
        awaitable: A coroutine or any other awaitable.
        grace: Seconds to clean up after cancellation; by default one, or the limit if that is less.

    Raises:
        LimitExpiredError: It was cancelled at the limit.
        BaseException: The exception of the awaitable.
    """
    coroutine = as_coroutine(awaitable)
    watchdog, name = (seconds.watchdog, seconds.name) if isinstance(seconds, Deadline) else (None, "")
    try:
        waits_for = watched(watchdog, name, coroutine.send, None)
    except StopIteration as end:
        return end.value
    if not isinstance(seconds, Deadline):
        if grace is None:
            grace = GRACE_SECONDS if seconds is None else min(seconds, GRACE_SECONDS)
        seconds = Deadline(running_task(), seconds, grace)
    return await finish_within(seconds, coroutine, waits_for)


def running_task() -> asyncio.Task[Any]:
    """The current task."""
    task = asyncio.current_task()
    assert task is not None
    return task


def cancels_the_call(error: BaseException) -> bool:
    """Whether `error` is the cancellation of the current task, rather than raised by code in it."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """An awaitable as a coroutine, whose steps can be made by `send`."""
    if type(awaitable) is CoroutineType:
        return awaitable  # pyright: ignore[reportUnknownVariableType]
    return _awaited(awaitable)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
