"""`rest_within`: a time limit that costs nothing until a coroutine waits, and little then."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import define, field

GRACE_SECONDS: Final = 1.0
"""How long a coroutine may take to end once it is cancelled at its limit."""


class LimitExpiredError(Exception):
    """The coroutine was cancelled at its limit."""


@define(eq=False)
class _Deadline:
    """When a task is cancelled."""

    task: asyncio.Task[Any]
    when: float
    passed: bool = False


@define(eq=False)
class _Watch:
    """The deadlines of one loop that have the same limit: so the first to be set is the first to pass.

    All share one timer, which is left running when its deadline is gone. A timer for each call is what makes
    `asyncio.timeout` dear, above all for many calls at once.
    """

    seconds: float
    deadlines: dict[_Deadline, None] = field(factory=dict[_Deadline, None])
    is_running: bool = False

    def add(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> _Deadline:
        """Sets a deadline."""
        deadline = _Deadline(task, loop.time() + self.seconds)
        self.deadlines[deadline] = None
        if not self.is_running:
            self.is_running = True
            loop.call_at(deadline.when, self.look, loop)
        return deadline

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancels the tasks whose deadline has passed, and comes back for the next one."""
        now = loop.time()
        for deadline in list(self.deadlines):
            if deadline.when > now:
                loop.call_at(deadline.when, self.look, loop)
                return
            del self.deadlines[deadline]
            deadline.passed = True
            deadline.task.cancel()
        self.is_running = False


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
class _Clock:
    """The two deadlines of one coroutine: its limit, and, once that has passed, the end of the time to tidy up."""

    seconds: float
    task: asyncio.Task[Any]
    set: list[_Deadline] = field(factory=list[_Deadline])

    def start(self, seconds: float) -> None:
        """Sets the next deadline."""
        loop = self.task.get_loop()
        self.set.append(_watch(loop, seconds).add(loop, self.task))

    @property
    def passed(self) -> int:
        """How many have passed; each has cancelled the task once."""
        return sum(deadline.passed for deadline in self.set)

    def is_up(self) -> bool:
        """Whether a cancellation is the last word; the first one starts the time to tidy up."""
        passed = self.passed
        if passed == 1 and len(self.set) == 1:
            self.start(GRACE_SECONDS)
        return passed > 1

    def stop(self) -> None:
        """Takes both back."""
        loop = self.task.get_loop()
        for deadline, seconds in zip(self.set, (self.seconds, GRACE_SECONDS), strict=False):
            if deadline.passed:
                self.task.uncancel()
            else:
                del _watch(loop, seconds).deadlines[deadline]


@types.coroutine
def rest_within(seconds: float | None, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Awaits what is left of a coroutine; cancels it once it has waited for `seconds`, as `asyncio.timeout` does.

    The first step is made by hand before, as `coroutine.send(None)`: a coroutine that gives its value at once needs no
    limit, and never comes here. One that doesn't end when it is cancelled has a second to tidy up; then it is closed.

    Args:
        seconds: The limit; `None` is none.
        coroutine: It has begun, and waits for something.
        waits_for: What its first step gave.

    Raises:
        LimitExpiredError: It was cancelled at the limit. Its own `TimeoutError` stays what it is.
    """
    if seconds is None:
        return (yield from _rest(coroutine, waits_for, None))
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    clock = _Clock(seconds, task)
    clock.start(seconds)
    try:
        return (yield from _rest(coroutine, waits_for, clock))
    except asyncio.CancelledError as error:
        if clock.passed and task.cancelling() - clock.passed <= before:
            raise LimitExpiredError from error
        raise
    finally:
        clock.stop()


def _rest(coroutine: Coroutine[Any, Any, Any], waits_for: Any, clock: _Clock | None) -> Generator[Any, Any, Any]:
    """`yield from` for a coroutine that has begun already and waits for something."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            if clock is not None and isinstance(error, asyncio.CancelledError) and clock.is_up():
                _close(coroutine)
                raise
            step, word = coroutine.throw, error
        else:
            step, word = coroutine.send, sent
        try:
            waits_for = step(word)
        except StopIteration as end:
            return end.value
        finally:
            del step, word


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Ends a coroutine that ignores cancellation; what it raises on the way out is its own affair."""
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001  it had its time to tidy up
        return
