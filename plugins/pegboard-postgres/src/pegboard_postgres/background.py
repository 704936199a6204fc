"""`BackgroundLoop`: an event loop in a thread of its own, for connections that all threads and loops use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from attrs import define, field

from pegboard.threads import renew_after_fork

T = TypeVar("T")


@define(eq=False)
class BackgroundLoop:
    """Event loop in a daemon thread, which the first use starts. A forked child starts its own."""

    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _of_parent: list[Any] = field(factory=list[Any], init=False)  # kept: a child must not close it
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the parent's loop, in a forked child."""
        self._of_parent.append(self._loop)
        self._loop, self._lock = None, threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether it was used."""
        return self._loop is not None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine in the loop. Thread-safe.

        Raises:
            RuntimeError: The system can't start a thread.
        """
        with self._lock:
            if self._loop is None:
                # A selector loop also on Windows, as psycopg needs.
                loop = asyncio.SelectorEventLoop()
                thread = threading.Thread(target=_run, args=(loop,), name="pegboard-postgres", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    loop.close()
                    work.close()
                    raise
                self._loop = loop
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """Ends the thread; a later use starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
