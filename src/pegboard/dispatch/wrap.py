"""The callbacks that stand round the running of a tool, after approval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from attrs import define, field

from pegboard.chains import Link
from pegboard.dispatch.callback import failure, shown
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.dispatch.limit import Clock, LimitExpiredError
from pegboard.dispatch.within import drive, running_task
from pegboard.dispatch.work import Work

MOST_RUNS: Final = 100
"""How often one wrapper may run what stands inside it."""


async def wrapped(work: Work, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    """What the outermost wrapper gives: what the tool gave, or something instead of it.

    Nothing is edited after approval: `call_next` takes no arguments. It may be called again, for a retry, or not at
    all; never twice at once, nor when its wrapper is done. For a call that a person approved it runs once: an approval
    is for one run.

    Args:
        work: The call; its `around.callbacks.wrap` stand round it, the first one outermost.
        run_inner: Runs the tool once, and gives what it gave.

    Raises:
        CallError: `callback_failure`: a wrapper raised something of its own, or took too long by itself.
        BaseException: What the tool raised, where the wrappers let it through.
    """
    run = run_inner
    for link in reversed(work.around.callbacks.wrap):
        run = partial(_round, link, work, run)
    return await run()


async def _round(link: Link, work: Work, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    limits, watchdog = work.around.limits, work.around.watchdog
    name = "" if watchdog is None else f"callback of {link.owner}"
    clock = Clock(running_task(), limits.callback_timeout, limits.grace, watchdog, name)
    call_next = _CallNext(run_inner, clock)
    try:
        return await drive(clock, _answer(link, work, call_next))
    except LimitExpiredError:
        error = TimeoutError(f"took more than {limits.callback_timeout:g} s beside what it stands round")
        raise failure(work, link, error) from None
    except BaseException as error:  # a wrapper's SystemExit costs this call only
        if cancels_the_call(error) or call_next.has_raised(error):
            raise
        raise failure(work, link, error) from error
    finally:
        await call_next.end(limits.grace)


async def _answer(link: Link, work: Work, call_next: _CallNext) -> Any:
    arguments = (work.context, work.tool, shown(work), call_next)
    if link.blocking:
        answer = await work.around.threads.run(link.function, *arguments)
    else:
        answer = link.function(*arguments)
    return await answer if isawaitable(answer) else answer


@define(eq=False)
class _CallNext:
    """Runs what stands inside one wrapper; the wrapper's own time stands still meanwhile."""

    _run_inner: Callable[[], Awaitable[Any]]
    _clock: Clock
    _is_open: bool = True
    _task: asyncio.Task[Any] | None = None
    _runs: int = 0
    _raised: list[BaseException] = field(factory=list[BaseException])

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """Await what it gives."""
        return self._run()

    def has_raised(self, error: BaseException) -> bool:
        """Whether an exception came from inside."""
        return any(error is each for each in self._raised)

    async def end(self, grace: float) -> None:
        """Runs nothing any more; what a wrapper has left running in a task of its own is cancelled."""
        self._is_open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2 * grace)

    async def _run(self) -> Any:
        self._begin()
        self._clock.pause()
        try:
            return await self._run_inner()
        except BaseException as error:
            self._raised.append(error)
            raise
        finally:
            self._clock.resume()
            self._task = None

    def _begin(self) -> None:
        if not self._is_open:
            raise RuntimeError("call_next() runs nothing any more: its wrapper is done")
        if self._task is not None:
            raise RuntimeError("call_next() is running already; await it before the next call")
        if self._runs == MOST_RUNS:
            raise RuntimeError(f"call_next() was called more than {MOST_RUNS} times")
        self._task = running_task()
        self._runs += 1


__all__ = ["wrapped"]
