"""One member of a chain, asked: in a thread where it may block, within a time limit, under the watchdog's eyes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, Final

from attrs import define, field

from pegboard.callbacks import Callback
from pegboard.dispatch.timeout import Deadline, LimitExpiredError, running_task, watched, within
from pegboard.dispatch.work import Surroundings

MOST_RUNS: Final = 100
"""How often one wrapper may run what stands inside it."""


async def answer_of(link: Callback, around: Surroundings, *facts: Any) -> Any:
    """What one member answers to the facts.

    A plain one is called in a thread, unless it says that it is quick: whatever it waits for, the loop goes on.

    Raises:
        TimeoutError: It gave no answer in time.
        BaseException: Whatever it raised.
    """
    limits, watchdog = around.limits, around.watchdog
    name = "" if watchdog is None else f"callback of {link.owner}"
    try:
        if link.blocking:
            running = around.threads.run(link.function, *facts)
            answer = await within(limits.callback_timeout, running, grace=limits.grace)
        else:
            answer = watched(watchdog, name, link.function, *facts)
        if answer is not None and isawaitable(answer):
            rest = within(limits.callback_timeout, answer, grace=limits.grace, watchdog=watchdog, name=name)
            answer = await rest
    except LimitExpiredError:
        raise TimeoutError(f"gave no answer within {limits.callback_timeout:g} s") from None
    return answer


class InnerError(Exception):
    """What stands inside a wrapper has raised, and the wrapper let it through.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(str(error))


async def answer_round(
    link: Callback, around: Surroundings, run_inner: Callable[[], Awaitable[Any]], *facts: Any
) -> Any:
    """What one wrapper gives; it gets the facts and `call_next`, and its own time stands still while that runs.

    Args:
        link: The wrapper.
        around: How it is asked.
        run_inner: Runs what stands inside, and gives what that gave.
        facts: What it is handed before `call_next`.

    Raises:
        InnerError: What `run_inner` raised, where the wrapper let it through.
        TimeoutError: It took too long by itself.
        BaseException: Whatever the wrapper itself raised.
    """
    limits, watchdog = around.limits, around.watchdog
    name = "" if watchdog is None else f"callback of {link.owner}"
    deadline = Deadline(running_task(), limits.callback_timeout, limits.grace, watchdog, name)
    call_next = _CallNext(run_inner, deadline)
    try:
        return await within(deadline, _answer(link, around, *facts, call_next))
    except LimitExpiredError:
        raise TimeoutError(f"took more than {limits.callback_timeout:g} s beside what it stands round") from None
    except BaseException as error:
        if call_next.has_raised(error):
            raise InnerError(error) from error
        raise
    finally:
        await call_next.end(limits.grace)


async def _answer(link: Callback, around: Surroundings, *arguments: Any) -> Any:
    if link.blocking:
        answer = await around.threads.run(link.function, *arguments)
    else:
        answer = link.function(*arguments)
    return await answer if isawaitable(answer) else answer


@define(eq=False)
class _CallNext:
    """Runs what stands inside one wrapper; the wrapper's own time stands still meanwhile."""

    _run_inner: Callable[[], Awaitable[Any]]
    _deadline: Deadline
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
        self._deadline.pause()
        try:
            return await self._run_inner()
        except BaseException as error:
            self._raised.append(error)
            raise
        finally:
            self._deadline.resume()
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


__all__ = ["InnerError", "answer_of", "answer_round"]
