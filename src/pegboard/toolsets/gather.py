"""Asking several toolsets at once: each bounded in time, none able to hurt another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.toolset import Offer, ToolsetAdapter, failed_offer

_abandoned: Final[set[asyncio.Task[Any]]] = set()
"""Tasks that were cancelled and haven't ended yet: a loop alone doesn't keep a task from being collected."""


async def ask_all(sources: Sequence[ToolsetAdapter], context: ReadonlyContext, timeout: float) -> list[Offer]:  # noqa: ASYNC109  all share one wait
    """One offer a source, in their order; of a source that failed or gave no answer in time, one with that problem.

    A source that ignores its cancellation is left behind; one that blocks the event loop can't be bounded.

    Args:
        sources: Asked at the same time.
        context: The user, session and model.
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
                abandon(task)
    return [_answer(task, source, timeout) for task, source in zip(tasks, sources, strict=True)]


def _answer(task: asyncio.Task[Offer], source: ToolsetAdapter, timeout: float) -> Offer:
    if task in _abandoned:
        return failed_offer(source.name, TimeoutError(f"no answer within {timeout:g} s (toolset_timeout)"))
    if task.cancelled():
        return failed_offer(source.name, asyncio.CancelledError("it cancelled itself"))
    return task.result()


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for it no longer."""
    _abandoned.add(task)
    task.add_done_callback(_seen)
    task.cancel()


def is_cancelled() -> bool:
    """Whether the running task was asked to end; else a `CancelledError` is the doing of what it has called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _seen(task: asyncio.Task[Any]) -> None:
    """Releases a task, and reads its exception, of which asyncio would else complain that it was never retrieved."""
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


async def _offer(source: ToolsetAdapter, context: ReadonlyContext) -> Offer:
    try:
        return await source.offer(context)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed_offer(source.name, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only its own tools
        return failed_offer(source.name, error)
