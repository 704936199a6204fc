"""Asking several toolsets at once: each bounded in time, none able to hurt another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.toolset import Offer, failed

_abandoned: Final[set[asyncio.Task[Any]]] = set()
"""Tasks that were cancelled and haven't ended yet: a loop alone doesn't keep a task from being collected."""


class _Asked(Protocol):
    """What can be asked for an offer."""

    @property
    def name(self) -> str:
        """For problems."""
        ...

    async def offer(self, context: ReadonlyContext) -> Offer:
        """The offer for this context."""
        ...


async def ask_all(sources: Sequence[_Asked], context: ReadonlyContext, timeout: float) -> list[Offer]:  # noqa: ASYNC109  all share one wait
    """One offer a source, in their order; of a source that failed or gave no answer in time, one that says so.

    A source that ignores its cancellation is left behind; one that blocks the event loop can't be bounded.

    Args:
        sources: Asked at the same time.
        context: For whom, and for which model.
        timeout: Seconds for all of them, since they run at the same time.
    """
    tasks = [asyncio.ensure_future(_offer(source, context)) for source in sources]
    try:
        await asyncio.wait(tasks, timeout=timeout)
    finally:
        for task in tasks:
            if task.done():
                _seen(task)
            else:
                _abandon(task)
    return [_answer(task, source, timeout) for task, source in zip(tasks, sources, strict=True)]


def _answer(task: asyncio.Task[Offer], source: _Asked, timeout: float) -> Offer:
    if task in _abandoned:
        return failed(source.name, TimeoutError(f"no answer within {timeout:g} s (toolset_timeout)"))
    if task.cancelled():
        return failed(source.name, asyncio.CancelledError("it cancelled itself"))
    return task.result()


def _abandon(task: asyncio.Task[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_seen)
    task.cancel()


def _seen(task: asyncio.Task[Any]) -> None:
    """Lets go of a task, so that asyncio doesn't complain that nobody has looked at what it raised."""
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


async def _offer(source: _Asked, context: ReadonlyContext) -> Offer:
    try:
        return await source.offer(context)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failed(source.name, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only its own tools
        return failed(source.name, error)
