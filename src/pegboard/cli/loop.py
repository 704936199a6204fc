"""`run_to_end`: `asyncio.run` for a command, which waits for nobody who won't end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from time import monotonic
from typing import Any, Final, TypeVar

T = TypeVar("T")
GRACE_SECONDS: Final = 1.0
"""How long tasks that are left may take to end once they are cancelled, and threads once nothing more comes."""


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in an event loop of its own.

    `asyncio.run` would wait, without a limit, for tasks that ignore that they are cancelled, and for the threads of
    `asyncio.to_thread`: a tool may leave both behind.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        loop = runner.get_loop()
        if _has_ended(loop):
            runner.close()
        else:
            asyncio.set_event_loop(None)  # what is left stays with it; the process is about to end


def has_left_threads() -> bool:
    """Whether threads are left that would keep the process from ending."""
    main = threading.main_thread()
    return any(thread is not main and not thread.daemon and thread.is_alive() for thread in threading.enumerate())


def _has_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether closing the loop will not have to wait: nothing is left in it, once that had a moment to end."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
    executor = getattr(loop, "_default_executor", None)
    return (executor is None or _has_shut(executor)) and not asyncio.all_tasks(loop)


def _has_shut(executor: Any) -> bool:
    """Whether all threads of `asyncio.to_thread` have ended: idle ones do at once, busy ones have a moment."""
    executor.shutdown(wait=False, cancel_futures=True)
    until = monotonic() + GRACE_SECONDS
    threads: list[threading.Thread] = list(getattr(executor, "_threads", ()))
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    return not any(thread.is_alive() for thread in threads)
