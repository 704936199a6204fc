"""In the child: the event loop for async tools, made for the first of them and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class ChildLoop:
    """Runs one async tool after the other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """What calling and awaiting gives; tasks that are left behind are ended."""
        return self._runner.run(_alone(call))

    def close(self) -> None:
        """Ends what still runs, so that it can tidy up."""
        self._runner.close()


async def _alone(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)
