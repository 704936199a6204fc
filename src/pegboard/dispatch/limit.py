"""`rest_within`: a time limit that costs nothing until a coroutine waits, and little then."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from attrs import define, field

if TYPE_CHECKING:
    from pegboard.dispatch.watchdog import Watchdog
    from pegboard.tools.context import ToolContext

GRACE_SECONDS: Final = 1.0
"""How long a coroutine may take to end once it is cancelled at its limit."""

MOST_IDLE: Final = 64
"""How many timers a loop has for limits that nobody waits for now; a call with the same limit uses them again."""


class LimitExpiredError(Exception):
    """The coroutine was cancelled at its limit."""


@define(eq=False)
class _Deadline:
    """When a task is cancelled."""

    task: asyncio.Task[Any]
    when: float
    watch: _Watch
    passed: bool = False


@define(eq=False)
class _Watch:
    """The deadlines of one loop that have the same limit: so the first to be set is the first to pass.

    All share one timer, which is left running when its deadline is gone. A timer for each call is what makes
    `asyncio.timeout` dear, above all for many calls at once. The watch goes once its timer finds no deadline, or before
    where the loop has many.
    """

    seconds: float
    deadlines: dict[_Deadline, None] = field(factory=dict[_Deadline, None])
    timer: ReferenceType[asyncio.TimerHandle] | None = None  # weak: it keeps the loop, whose watch this is

    def add(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> _Deadline:
        """Sets a deadline."""
        deadline = _Deadline(task, loop.time() + self.seconds, self)
        self.deadlines[deadline] = None
        if self.timer is None:
            self.timer = ref(loop.call_at(deadline.when, self.look, loop))
        return deadline

    def forget(self, loop: asyncio.AbstractEventLoop, deadline: _Deadline) -> None:
        """Takes a deadline back."""
        self.deadlines.pop(deadline, None)
        if not self.deadlines and self.timer is not None and len(_watches.get(loop, ())) > MOST_IDLE:
            timer = self.timer()
            if timer is not None:
                timer.cancel()
            self._end(loop)

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancels the tasks whose deadline has passed, and comes back for the next one."""
        now = loop.time()
        for deadline in list(self.deadlines):
            if deadline.when > now:
                self.timer = ref(loop.call_at(deadline.when, self.look, loop))
                return
            del self.deadlines[deadline]
            deadline.passed = True
            deadline.task.cancel()
        self._end(loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self.timer = None
        _watches.get(loop, {}).pop(self.seconds, None)


_watches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _Watch]]] = WeakKeyDictionary()


def _watch(loop: asyncio.AbstractEventLoop, seconds: float) -> _Watch:
    """The watch for this limit. A loop's are its own, and only its thread touches them; they don't keep it alive."""
    watches = _watches.get(loop)
    if watches is None:
        watches = _watches[loop] = {}
    watch = watches.get(seconds)
    if watch is None:
        watch = watches[seconds] = _Watch(seconds)
    return watch


@define(eq=False)
class Clock:
    """The two deadlines of one coroutine: its limit, and, once it was cancelled, the end of the time to tidy up.

    It may be paused while a person is asked: what others take isn't the tool's. Meanwhile its call has no deadline.

    Attributes:
        task: The task that the coroutine runs in.
        seconds: The limit, and after a pause what is left of it; `None` is none.
        grace: Seconds to tidy up in.
        watchdog: Told of each step, or `None`.
        name: What the watchdog calls it.
        context: Whose `deadline` moves with each pause, or `None`.
        was_ignored: Whether the coroutine didn't end when it was cancelled, and so was given up.
    """

    task: asyncio.Task[Any]
    seconds: float | None
    grace: float = GRACE_SECONDS
    watchdog: Watchdog | None = None
    name: str = ""
    context: ToolContext | None = None
    was_ignored: bool = field(default=False, init=False)
    _runs: bool = field(default=False, init=False)
    _pauses: int = field(default=0, init=False)
    _left: float | None = field(default=None, init=False)
    _before: int = field(default=0, init=False)
    _limit: _Deadline | None = field(default=None, init=False)
    _last: _Deadline | None = field(default=None, init=False)

    def start(self) -> None:
        """Sets the limit; a clock that is paused waits for `resume`."""
        if not self._runs:
            self._before = self.task.cancelling()
        self._runs = True
        if self.seconds is not None and not self._pauses:
            self._limit = self._set(self.seconds)

    def pause(self) -> None:
        """Stops the clock until `resume`; a limit that has passed stays passed."""
        self._pauses += 1
        if self._pauses == 1 and self.context is not None and self.context.deadline is not None:
            self._left = self.context.deadline - time.monotonic()
            self.context.deadline = None
        if self._limit is not None and not self._limit.passed:
            self.seconds = max(self._limit.when - self.task.get_loop().time(), 0.0)
            self._forget(self._limit)
            self._limit = None

    def resume(self) -> None:
        """Goes on with what was left, once every pause has ended."""
        self._pauses -= 1
        if not self._pauses and self.context is not None and self._left is not None:
            self.context.deadline = time.monotonic() + self._left
            self._left = None
        if self._runs and self._limit is None:
            self.start()

    @property
    def passed(self) -> int:
        """How many deadlines have passed; each has cancelled the task once."""
        return sum(deadline is not None and deadline.passed for deadline in (self._limit, self._last))

    def is_up(self) -> bool:
        """Whether a cancellation is the last word; the first one starts the time to tidy up."""
        if self._last is None:
            self._last = self._set(self.grace)
            return False
        return self._last.passed

    def relent(self) -> None:
        """A cancellation that was taken back, by a timeout inside that has been dealt with, ends nothing here."""
        if self._last is not None and not self._last.passed and self.task.cancelling() <= self._before:
            self._forget(self._last)
            self._last = None

    def stop(self) -> None:
        """Takes both back."""
        self._runs = False
        for deadline in (self._limit, self._last):
            if deadline is None:
                continue
            if deadline.passed:
                self.task.uncancel()
            else:
                self._forget(deadline)
        self._limit = self._last = None

    def _set(self, seconds: float) -> _Deadline:
        loop = self.task.get_loop()
        return _watch(loop, seconds).add(loop, self.task)

    def _forget(self, deadline: _Deadline) -> None:
        deadline.watch.forget(self.task.get_loop(), deadline)


@types.coroutine
def rest_within(clock: Clock, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Awaits what is left of a coroutine; cancels it once its limit has passed, as `asyncio.timeout` does.

    The first step is made by hand before, as `coroutine.send(None)`: a coroutine that gives its value at once needs no
    limit, and never comes here. One that doesn't end when it is cancelled, by its limit or by whoever waits for it, has
    a second to tidy up; then it is closed.

    Args:
        clock: The limit.
        coroutine: It has begun, and waits for something.
        waits_for: What its first step gave.

    Raises:
        LimitExpiredError: It was cancelled at the limit. Its own `TimeoutError` stays what it is.
    """
    before = clock.task.cancelling()
    clock.start()
    try:
        return (yield from _rest(coroutine, waits_for, clock))
    except asyncio.CancelledError as error:
        if clock.passed and clock.task.cancelling() - clock.passed <= before:
            raise LimitExpiredError from error
        raise
    finally:
        clock.stop()


def _rest(coroutine: Coroutine[Any, Any, Any], waits_for: Any, clock: Clock) -> Generator[Any, Any, Any]:
    """`yield from` for a coroutine that has begun already and waits for something."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and clock.is_up():
                clock.was_ignored = True
                _close(coroutine)
                raise
            step, word = coroutine.throw, error
        else:
            step, word = coroutine.send, sent
        seen = None if clock.watchdog is None else clock.watchdog.enter(clock.name)
        try:
            waits_for = step(word)
        except StopIteration as end:
            return end.value
        finally:
            if clock.watchdog is not None and seen is not None:
                clock.watchdog.leave(seen)
            del step, word
        clock.relent()


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Ends a coroutine that ignores cancellation; what it raises on the way out is its own affair."""
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001  it had its time to tidy up
        return
