"""Timeouts for coroutines, with pauses and a grace period; and a watchdog for code that blocks the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from math import inf
from operator import itemgetter
from threading import get_ident
from time import monotonic
from types import CoroutineType, FrameType
from typing import Any, Final, TypeAlias
from weakref import WeakSet, WeakValueDictionary

from attrs import field

from pegboard.errors import log_failure
from pegboard.typing import define

LIMIT_SECONDS: Final = 0.1  # that one step of a coroutine may take before it is reported
# the packages that run tools; the frames they call are a tool's own
_LOOP: Final = tuple(f"{folder}{os.sep}" for folder in (asyncio.__path__[0], os.path.dirname(__file__)))  # noqa: PTH120
WATCHDOG: Final = "pegboard-watchdog"  # name of the thread that watches blocking tools
_collection_lock: Final = threading.Lock()  # never waited for, so that a forked child process may inherit it locked
IDLE_CHECKS: Final = 40  # consecutive checks without a running step, after which the thread ends
BLOCKS: Final = "%s blocks the event loop, for %.1f s so far%s; run it in a thread"


def _log_blocked(name: str, seconds: float, where: str) -> None:
    import logging

    logging.getLogger("pegboard").warning(BLOCKS, name, seconds, where)


_Step: TypeAlias = list[Any]
"""One step of a coroutine, from one suspension to the next: its name, its start time (infinity once it was reported),
and the enclosing step, where a tool calls a tool, or `None`."""


_renewed: Final[WeakSet[Any]] = WeakSet()


def renew_after_fork(thing: Any) -> None:
    """Registers `thing.renew()` to run in each forked child process, where the parent's threads don't exist."""
    _renewed.add(thing)


class Renewed:
    """Base of attrs classes with a method `renew`, for `renew_after_fork`."""

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [thing.renew() for thing in tuple(_renewed)])


@define(eq=False)
class Watchdog(Renewed):
    """Watchdog for coroutine steps that block their event loop, of any number of loops.

    A thread checks the steps, as a blocked loop can't check itself; it ends after a while without any.
    """

    limit: float = LIMIT_SECONDS  # seconds that one step may take
    # called once for a step that takes longer, from the watchdog's thread, with its name, the seconds so far and its
    # position; or on the loop, at the step's end
    report: Callable[[str, float, str], None] = _log_blocked
    blocked: int = field(default=0, init=False)  # number of steps that were reported
    given_up: int = field(default=0, init=False)  # number of coroutines that ignored cancellation and were closed
    steps: dict[int, _Step] = field(factory=dict[int, "_Step"], init=False)  # the innermost running step, by thread
    is_running: bool = field(default=False, init=False)  # whether the thread runs
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

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
        if (seconds := monotonic() - step[1]) > watchdog.limit:  # not reported yet, as other code held the interpreter
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
    import gc  # only for steps that take long

    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the only access to another thread's frames
    finally:
        if collects:
            gc.enable()
        _collection_lock.release()


GRACE_SECONDS: Final = 1.0  # for a coroutine, a task or an approver to end after its cancellation
_TICK: Final = 0.005  # between two rings of an alarm


class LimitExpiredError(Exception):
    """The coroutine was cancelled at its time limit."""


class _Alarm:
    """One timer of an event loop for all its deadlines, so that starting and ending one only changes a dict."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.due: Final = dict[Deadline, float]()
        self._loop: Final = loop
        self._timer: asyncio.TimerHandle | None = None

    def set(self, deadline: Deadline, due: float) -> None:
        """Expires a deadline at this time, unless it is removed before."""
        self.due[deadline] = due
        if self._timer is None or due < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        now, self._timer = self._loop.time(), None
        for deadline in [each for each, due in self.due.items() if due <= now]:
            del self.due[deadline]
            deadline.expire()
        if self.due:
            deadline, due = min(self.due.items(), key=itemgetter(1))
            self.set(deadline, max(due, now + _TICK))


_alarms: Final = WeakValueDictionary[int, _Alarm]()  # by the loop's id; one lives as long as its loop has its timer


class Deadline:
    """Timeout of one coroutine in the task that awaits it, and of the grace period after its cancellation.

    It is paused while the user is asked; the call has no deadline then. `asyncio.timeout` can't end a coroutine that
    ignores cancellation, and costs three times as much.

    The limit holds from the first suspension; `None` is none. By default, the coroutine has a second to clean up after
    its cancellation, or the limit if that is less. Each pause extends the `deadline` of the `ToolContext`.
    """

    was_ignored: bool = False  # whether the coroutine ignored cancellation and was closed
    _due: float = inf
    _grace_end: float = inf  # set by the first cancellation; -infinity once it has passed
    _cancelled: int = 0  # by the limit, or by the end of the grace period
    _pauses: int = 0
    _paused_at: float = 0.0
    _holds_grace: bool = False  # while it runs what ends in its own time when it is cancelled
    _before: int = 0  # cancellations of the task before it started
    _context_due: float | None = None
    _alarm: _Alarm | None = None
    _task: asyncio.Task[Any]

    def __init__(
        self,
        seconds: float | None,
        grace: float | None = None,
        watchdog: Watchdog | None = None,
        name: str = "",
        context: Any = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.seconds, self.watchdog, self.name, self.context = seconds, watchdog, name, context
        self.grace = min(GRACE_SECONDS if seconds is None else seconds, GRACE_SECONDS) if grace is None else grace

    @types.coroutine
    def finish(  # noqa: C901  in one frame, as each call that waits runs it
        self, coroutine: Coroutine[Any, Any, Any], waits_for: Any
    ) -> Generator[Any, Any, Any]:
        """Awaits the rest of a started coroutine; cancels it at its limit, as `asyncio.timeout` does.

        The caller makes the first step, which yielded `waits_for`: a coroutine that returns there needs no timer. One
        that still runs a grace period after its cancellation, by the limit or by the caller, is closed. Raises
        `LimitExpiredError` if it was cancelled at the limit; its own `TimeoutError` stays what it is.
        """
        task, watchdog, name = running_task(), self.watchdog, self.name
        self._task, self.loop, self._cancelled = task, task.get_loop(), 0
        self._before = before = task.cancelling()
        self._alarm = alarm = _alarms.get(id(self.loop)) or _alarms.setdefault(id(self.loop), _Alarm(self.loop))
        if self.seconds is not None:
            self._due = (self._paused_at if self._pauses else self.loop.time()) + self.seconds
            self._set_alarm()
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    self._alarm = None  # its loop may be closed
                    coroutine.close()
                    raise
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and self._is_over():
                        self.was_ignored = True
                        with suppress(BaseException):
                            coroutine.close()
                        raise
                    step, value = coroutine.throw, error
                else:
                    step, value = coroutine.send, sent
                waits_for = watched(watchdog, name, step, value)
                del step, value
                if -inf < self._grace_end < inf and task.cancelling() <= before:
                    self._grace_end = inf  # the cancellation was undone, such as by an inner `asyncio.timeout`
                    self._set_alarm()
        except BaseException as error:
            alarm.due.pop(self, None)
            self._alarm, self._due, self._grace_end = None, inf, inf
            for _ in range(self._cancelled):
                task.uncancel()
            if isinstance(error, StopIteration):
                return error.value
            if isinstance(error, asyncio.CancelledError) and self._cancelled and task.cancelling() <= before:
                raise LimitExpiredError from error
            raise

    def pause(self, *, holds_grace: bool = False) -> None:
        """Stops the limit until `resume`; one that has expired stays expired.

        With `holds_grace`, the grace period stops, too: a cancellation ends what runs now, which has limits of its own.
        """
        self._pauses += 1
        self._holds_grace = holds_grace or self._holds_grace
        if holds_grace and self._grace_end > -inf:
            self._grace_end = inf
        if self._pauses == 1:
            self._paused_at = self.loop.time()
            if self.context is not None:
                self._context_due, self.context.deadline = self.context.deadline, None
            self._set_alarm()

    def resume(self) -> None:
        """Continues with the rest of the limit, once every pause has ended."""
        self._pauses -= 1
        if not self._pauses:
            was_held, self._holds_grace = self._holds_grace, False
            if was_held and self._alarm is not None and self._task.cancelling() > self._before:
                self._is_over()
            length = self.loop.time() - self._paused_at
            self._due += length
            if self._context_due is not None:
                self.context.deadline = self._context_due + length
            self._set_alarm()

    def expire(self) -> None:
        """Cancels the coroutine at its limit, or at the end of its grace period."""
        if self._due < self._grace_end and not self._pauses:
            self._due = inf
            self._set_alarm()
        else:
            self._grace_end = -inf
        self._cancelled += 1
        self._task.cancel()

    def end(self) -> None:
        """Cancels the coroutine now, as at its limit, even while it is paused."""
        if self._alarm is not None:  # it runs
            self._due = inf
            self._set_alarm()
            self._cancelled += 1
            self._task.cancel()

    def _is_over(self) -> bool:
        """Whether the grace period has ended; it begins at the first cancellation."""
        if self._holds_grace:
            return False
        if self._grace_end == inf:
            self._grace_end = self.loop.time() + self.grace
            self._set_alarm()
        return self._grace_end == -inf

    def _set_alarm(self) -> None:
        if self._alarm is not None:  # it runs
            due = self._grace_end if self._pauses or self._grace_end < self._due else self._due
            if due < inf:
                self._alarm.set(self, due)
            else:
                self._alarm.due.pop(self, None)


async def within(seconds: float | Deadline | None, awaitable: Awaitable[Any], *, grace: float | None = None) -> Any:
    """Awaits an awaitable for at most `seconds`; one that never suspends costs no timer.

    A `Deadline` as the limit has a grace period of its own. Raises `LimitExpiredError` if it was cancelled at the
    limit, and whatever the awaitable does.
    """
    coroutine = as_coroutine(awaitable)
    watchdog, name = (seconds.watchdog, seconds.name) if isinstance(seconds, Deadline) else (None, "")
    try:
        waits_for = watched(watchdog, name, coroutine.send, None)
    except StopIteration as end:
        return end.value
    deadline = seconds if isinstance(seconds, Deadline) else Deadline(seconds, grace)
    return await deadline.finish(coroutine, waits_for)


def running_task() -> asyncio.Task[Any]:
    """The current task."""
    task = asyncio.current_task()
    assert task is not None
    return task


def cancels_the_call(error: BaseException) -> bool:
    """Whether `error` is the cancellation of the current task, or closes a coroutine after its event loop."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no running loop
        return True
    return task is not None and task.cancelling() > 0 and not isinstance(error, GeneratorExit)


def as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """An awaitable as a coroutine, whose steps can be made by `send`."""
    if type(awaitable) is CoroutineType:
        return awaitable  # pyright: ignore[reportUnknownVariableType]
    return _await(awaitable)


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
