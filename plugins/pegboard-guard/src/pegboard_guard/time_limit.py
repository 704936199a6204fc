"""`run_within`: a time limit for what the guard waits for, such as a model or a host's store."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from pegboard.errors import PegboardError, cause_of

T = TypeVar("T")


class NoAnswerError(PegboardError):
    """A model hasn't given a verdict, or a store no counts."""


async def run_within(seconds: float, awaitable: Awaitable[T], missing: str) -> T:
    """The result of an awaitable; it runs in a task of its own, which ends with the caller's.

    Args:
        seconds: The limit, also for what ignores cancellation.
        awaitable: Runs at most that long.
        missing: What the lack of a result means, for the error: `the model gave no verdict`.

    Raises:
        NoAnswerError: It has no result in time, whatever it raises.
    """
    import asyncio  # only a gate and a host's store need it

    async def run() -> T:
        try:
            return await awaitable
        except SystemExit as error:  # in a task it would end the program
            raise NoAnswerError(cause_of(error)) from error

    task = asyncio.ensure_future(run())
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen: asyncio logs none later
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise NoAnswerError(f"{missing} within {seconds:g} s")
    if task.cancelled():
        raise NoAnswerError(f"{missing}, and cancelled itself")
    error = task.exception()
    if error is None or isinstance(error, NoAnswerError):
        return task.result()
    raise NoAnswerError(cause_of(error)) from error
