"""`Runner`: how somebody else's code is asked while a request is made ready: off the loop, and within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard.callbacks import Callback, ChainError
from pegboard.threads import off_loop

TIMEOUT: Final = 10.0
"""Seconds that one processor, one tool or one toolset has for its part."""

OffLoop: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a plain function with its arguments off the event loop."""

_abandoned: Final[set[asyncio.Task[Any]]] = set()
"""Tasks that were cancelled and haven't ended yet: a loop alone doesn't keep a task from being collected."""


@frozen
class Runner:
    """How somebody else's code is asked: what it does wrong comes back as an error, and it can't hold up the loop.

    Attributes:
        off_loop: Where plain functions run that don't say that they are quick.
        timeout: Seconds for one answer; `None` is no limit. What has not ended by then is cancelled and left behind.
    """

    off_loop: OffLoop = off_loop
    timeout: float | None = TIMEOUT

    async def ask(self, link: Callback, *arguments: Any) -> Any:
        """What a function answers, plain or async.

        Raises:
            ChainError: It raised, whatever it was, or gave no answer in time.
            asyncio.CancelledError: Whoever waits was cancelled.
        """
        try:
            if link.blocking:
                answer = await self._within(self.off_loop(link.function, *arguments))
            else:
                answer = link.function(*arguments)
            return await self._within(answer) if isawaitable(answer) else answer
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin's SystemExit costs its own part only
            if _is_cancelled(error):
                raise
            raise ChainError(link, error) from error

    async def _within(self, awaitable: Awaitable[Any]) -> Any:
        if self.timeout is None:
            return await awaitable
        task = asyncio.ensure_future(_outcome(awaitable))
        try:
            await asyncio.wait([task], timeout=self.timeout)
        finally:
            has_ended = task.done()
            if not has_ended:
                _abandon(task)
        if not has_ended:
            raise TimeoutError(f"gave no answer within {self.timeout:g} s")
        value, error = task.result()
        if error is not None:
            raise error
        return value


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The answer, or what was raised: asyncio lets a task's SystemExit end the loop."""
    try:
        return await awaitable, None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whoever waits gets it, whatever it is
        return None, error


def _abandon(task: asyncio.Task[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)
    task.cancel()


def _is_cancelled(error: BaseException) -> bool:
    """Whether the running task was asked to end; else the error is the doing of what was asked."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


__all__ = ["TIMEOUT", "OffLoop", "Runner"]
