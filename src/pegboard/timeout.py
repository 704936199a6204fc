"""Time limits for coroutines, with pauses and a grace period; and a watchdog for what blocks the event loop."""

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
from threading import get_ident
from time import monotonic
from types import CoroutineType
from typing import Any, Final, TypeAlias

from attrs import define, field

import pegboard
from pegboard.errors import log_failure
from pegboard.threads import renew_after_fork

LIMIT_SECONDS: Final = 0.1
"""How long one step of a coroutine may take before it is reported."""

_LOOP: Final = tuple(f"{package.__path__[0]}{os.sep}" for package in (asyncio, pegboard))
"""Where the code that runs tools lies: below it stands a tool's own."""

WATCHDOG: Final = "pegboard-watchdog"  # the thread's name
IDLE_LOOKS: Final = 40
"""So many looks at nothing, and the thread that looks ends."""


def _log_blocked(name: str, seconds: float, where: str) -> None:
    import logging

    text = "%s blocks the event loop, for %.1f s up to now%s; run it off the loop"
    logging.getLogger("pegboard").warning(text, name, seconds, where)


_Step: TypeAlias = list[Any]
"""One step of a coroutine, from where it goes on to where it waits again: its name, when it began (never, once it was
reported), and the step that it stands in, where a tool calls a tool, or `None`."""


@define(eq=False)
class Watchdog:
    """Looks after the steps of coroutines, of any number of event loops.

    A thread looks every half of the limit while anything runs, and ends when nothing has for a while: a loop that is
    blocked can't look after itself.

    Attributes:
        limit: Seconds that one step may take.
        report: Called for one that takes longer, once: who blocks, for how many seconds up to now, and where; in
            another thread than the loop's.
        blocked: How often that has happened.
        given_up: How many coroutines ignored that they were cancelled, and were closed by force.
        steps: The innermost step that is under way, by thread.
        is_looking: Whether a thread looks.
    """

    limit: float = LIMIT_SECONDS
    report: Callable[[str, float, str], None] = _log_blocked
    blocked: int = field(default=0, init=False)
    given_up: int = field(default=0, init=False)
    steps: dict[int, _Step] = field(factory=dict[int, "_Step"], init=False)
    is_looking: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the thread, which a forked child process doesn't have."""
        self.steps, self.is_looking, self._lock = {}, False, threading.Lock()

    def look(self) -> bool:
        """Reports the steps that take too long; whether any step is under way."""
        now = monotonic()
        under_way = list(self.steps.items())
        for thread, step in under_way:
            if now - step[1] > self.limit:
                self.report_step(step, now - step[1], code_position(thread))
        return bool(under_way)

    def report_step(self, step: _Step, seconds: float, where: str = "") -> None:
        """Reports a step that takes too long, and none of those round it, which aren't to blame."""
        self.blocked += 1
        each: _Step | None = step
        while each is not None:
            each[1], each = inf, each[2]
        try:
            self.report(step[0], seconds, where)
        except Exception as error:  # noqa: BLE001  the host's own fault; the looking goes on
            log_failure("the watchdog's report", error)

    def look_out(self) -> None:
        """Starts the thread that looks, where there is none."""
        with self._lock:
            if self.is_looking:
                return
            self.is_looking = True
        try:
            threading.Thread(target=self._keep_looking, name=WATCHDOG, daemon=True).start()
        except RuntimeError:  # the system gives no thread: what blocks is reported when it is over
            self.is_looking = False

    def _keep_looking(self) -> None:
        idle = 0
        while idle < IDLE_LOOKS:
            time.sleep(self.limit / 2)
            idle = 0 if self.look() else idle + 1
        self.is_looking = False
        if self.steps:  # one that began just before has started no thread
            self.look_out()


def watched(watchdog: Watchdog | None, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on the event loop, such as the next step of a coroutine, watched for blocking it."""
    if watchdog is None:
        return function(*arguments)
    steps, thread = watchdog.steps, get_ident()
    outer = steps.get(thread)
    step = steps[thread] = [name, monotonic(), outer]
    if not watchdog.is_looking:
        watchdog.look_out()
    try:
        return function(*arguments)
    finally:
        if outer is None:
            del steps[thread]
        else:
            steps[thread] = outer
        seconds = monotonic() - step[1]
        if seconds > watchdog.limit:  # other code held the interpreter, so that the thread couldn't see it
            watchdog.report_step(step, seconds)


def code_position(thread: int) -> str:
    """Where a tool's own code stands in a thread: `", at tools.py:12 in compute"`; nothing where it has gone.

    What that calls, down to where it waits, is of less use to its author.
    """
    frame = own = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the one way to see what another thread does
    while frame is not None and not frame.f_code.co_filename.startswith(_LOOP):
        frame, own = frame.f_back, own if frame.f_code.co_filename == threading.__file__ else frame
    if own is None:
        return ""
    return f", at {own.f_code.co_filename}:{own.f_lineno} in {own.f_code.co_name}"


GRACE_SECONDS: Final = 1.0  # how long a coroutine, a task or an approver may take to end once it is cancelled


class LimitExpiredError(Exception):
    """The coroutine was cancelled at its limit."""


@define(eq=False)
class Deadline:
    """Time limit of one coroutine in a task, and, once it is cancelled, the end of its grace period.

    It may be paused while a person is asked: that time isn't the tool's. Meanwhile its call has no deadline.
    `asyncio.timeout` can't end a coroutine that ignores cancellation, and costs three times as much.

    Attributes:
        task: The task that the coroutine runs in.
        seconds: The limit, and after a pause what is left of it; `None` is none.
        grace: Seconds to clean up in.
        watchdog: Gets each step, or `None`.
        name: What the watchdog calls it.
        context: The `ToolContext` whose `deadline` moves with each pause, or `None`.
        was_ignored: Whether the coroutine didn't end when it was cancelled, and so was given up.
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
    _limit: asyncio.TimerHandle | None = field(default=None, init=False)
    _grace: asyncio.TimerHandle | None = field(default=None, init=False)

    def start(self) -> None:
        """Starts the timer; a deadline that is paused waits for `resume`."""
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
            self.seconds = max(self._limit.when() - self.task.get_loop().time(), 0.0)
            self._limit.cancel()
            self._limit = None

    def resume(self) -> None:
        """Goes on with what was left, once every pause has ended."""
        self._pauses -= 1
        if not self._pauses and self.context is not None and self._left is not None:
            self.context.deadline = time.monotonic() + self._left
            self._left = None
        if self._runs:
            self._start_timer()

    def is_over(self) -> bool:
        """Whether a cancellation is the last word; the first one starts the grace period."""
        if self._grace is None:
            self._grace = self.task.get_loop().call_later(self.grace, self._expire, 2)
        return self._expired == 2

    def undo(self) -> None:
        """Ends the grace period of a cancellation that was taken back, by a timeout inside that has been handled."""
        if self._grace is not None and self._expired < 2 and self.task.cancelling() <= self._before:
            self._grace.cancel()
            self._grace = None

    def stop(self) -> bool:
        """Stops both timers, and takes their cancellations back; whether there were any, and no others."""
        self._runs = False
        for timer in (self._limit, self._grace):
            if timer is not None:
                timer.cancel()
        self._limit = self._grace = None
        for _ in range(self._cancelled):
            self.task.uncancel()
        return self._cancelled > 0 and self.task.cancelling() <= self._before

    def _start_timer(self) -> None:
        if self.seconds is not None and self._limit is None and not self._pauses:
            self._limit = self.task.get_loop().call_later(self.seconds, self._expire, 1)

    def _expire(self, which: int) -> None:
        self._expired = which
        self._cancelled += 1
        self.task.cancel()


@types.coroutine
def finish_within(deadline: Deadline, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Awaits the rest of a coroutine that has begun; cancels it at its limit, as `asyncio.timeout` does.

    The first step is made by hand before, as `coroutine.send(None)`: a coroutine that returns at once needs no limit,
    and never comes here. One that doesn't end when it is cancelled, by its limit or by the caller, has a grace period;
    then it is closed.

    Args:
        deadline: The limit.
        coroutine: It has begun, and waits for something.
        waits_for: What its first step gave.

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
                    with suppress(BaseException):  # it had its time to clean up
                        coroutine.close()
                    raise
                step, word = coroutine.throw, error
            else:
                step, word = coroutine.send, sent
            waits_for = watched(watchdog, name, step, word)
            del step, word
            deadline.undo()
    except StopIteration as end:
        deadline.stop()
        return end.value
    except BaseException as error:
        if deadline.stop() and isinstance(error, asyncio.CancelledError):
            raise LimitExpiredError from error
        raise


async def within(seconds: float | Deadline | None, awaitable: Awaitable[Any], *, grace: float | None = None) -> Any:
    """Awaits something for at most `seconds`; what waits for nothing costs no timer.

    Args:
        seconds: The limit; `None` is none. A `Deadline` that can be paused brings everything else along.
        awaitable: A coroutine, or anything else that can be awaited.
        grace: Seconds to clean up in, once it is cancelled; by default one, or the limit where that is less.

    Raises:
        LimitExpiredError: It was cancelled at the limit.
        BaseException: Whatever it raised.
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
    """The task that this runs in."""
    task = asyncio.current_task()
    assert task is not None
    return task


def cancels_the_call(error: BaseException) -> bool:
    """Whether `error` means that the running task was cancelled; else the code in the task raised it."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """Something that can be awaited, as what is stepped by hand."""
    if type(awaitable) is CoroutineType:
        return awaitable  # pyright: ignore[reportUnknownVariableType]
    return _awaited(awaitable)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
