"""`within`: a time limit round a coroutine from its first step on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.dispatch.limit import GRACE_SECONDS, Clock, rest_within

if TYPE_CHECKING:
    from pegboard.dispatch.watchdog import Watchdog

_COROUTINE: Final[type] = CoroutineType


async def within(
    seconds: float | None,
    awaitable: Awaitable[Any],
    *,
    grace: float = GRACE_SECONDS,
    watchdog: Watchdog | None = None,
    name: str = "",
) -> Any:
    """Awaits something for at most `seconds`; what waits for nothing costs no timer.

    Args:
        seconds: The limit; `None` is none.
        awaitable: A coroutine, or anything else that can be awaited.
        grace: Seconds to tidy up in, once it is cancelled.
        watchdog: Told of each step.
        name: What the watchdog calls it.

    Raises:
        LimitExpiredError: It was cancelled at the limit.
        BaseException: Whatever it raised.
    """
    coroutine = cast("Coroutine[Any, Any, Any]", awaitable if type(awaitable) is _COROUTINE else _awaited(awaitable))
    try:
        waits_for = watched(watchdog, name, coroutine.send, None)
    except StopIteration as end:
        return end.value
    return await rest_within(Clock(running_task(), seconds, grace, watchdog, name), coroutine, waits_for)


async def drive(clock: Clock, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The same by a clock that stands there already, as it can be paused.

    Raises:
        LimitExpiredError: It was cancelled at the limit.
        BaseException: Whatever it raised.
    """
    try:
        waits_for = watched(clock.watchdog, clock.name, coroutine.send, None)
    except StopIteration as end:
        return end.value
    return await rest_within(clock, coroutine, waits_for)


def watched(watchdog: Watchdog | None, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on the event loop, under the eyes of the watchdog."""
    if watchdog is None:
        return function(*arguments)
    step = watchdog.enter(name)
    try:
        return function(*arguments)
    finally:
        watchdog.leave(step)


def running_task() -> asyncio.Task[Any]:
    """The task that this runs in."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


__all__ = ["drive", "running_task", "watched", "within"]
