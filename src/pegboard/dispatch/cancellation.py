"""Whose cancellation it is: that of whoever waits for the call, or the tool's own."""

from __future__ import annotations

import asyncio


def cancels_the_call(error: BaseException) -> bool:
    """Whether `error` says that the running task was asked to end; else it is the doing of what the task ran."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
