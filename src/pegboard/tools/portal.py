"""`LoopPortal`: runs awaitables of a thread in its call's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from inspect import isawaitable, iscoroutine
from typing import Any, Final, TypeVar

from pegboard.errors import CallStoppedError, RunningLoopError
from pegboard.threads import running_loop
from pegboard.timeout import as_coroutine

T = TypeVar("T")
_STOPPED: Final = "the call was cancelled"
_tasks: Final[set[asyncio.Task[Any]]] = set()  # strong references: an event loop holds only weak ones


class LoopPortal:
    """Portal from a call's thread to its event loop, until the call is over.

    Args:
        loop: The call's event loop.
        waiting: A context manager that is entered around each wait in the thread.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.loop = loop
        self._waiting = waiting
        self._waits: set[Future[Any]] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def emit(self, listener: Callable[[object], None], update: object) -> None:
        """Calls the listener in the loop, in order; does nothing in a thread that outlives its call."""
        if running_loop() is self.loop:
            listener(update)
        elif not self._is_closed:
            try:
                self.loop.call_soon_threadsafe(listener, update)
            except RuntimeError:
                return  # the loop is closed

    def wait(self, awaitable: Awaitable[T], remaining: Callable[[], float | None]) -> T:
        """Awaits the awaitable in the loop, and returns its result.

        Args:
            awaitable: Cancelled if the wait ends before it.
            remaining: Returns the seconds to wait at most, `None` for no limit. Called again when they have passed, as
                the call's clock may have been paused.

        Raises:
            CallStoppedError: The call was cancelled or has timed out.
            BaseException: Any exception of the awaitable.
        """
        future = self._started(awaitable)
        try:
            with self._waiting():
                return _result(future, remaining)
        except CancelledError:
            if self._is_closed:
                raise CallStoppedError(_STOPPED, kind="aborted") from None
            raise
        finally:
            future.cancel()
            self._waits.discard(future)

    def close(self) -> None:
        """Ends all waits, and ignores what a thread emits from now on: the call is over."""
        with self._lock:
            self._is_closed = True
            waits = list(self._waits)
        for future in waits:
            future.cancel()

    def _started(self, awaitable: Awaitable[T]) -> Future[T]:
        with self._lock:
            if not self._is_closed and not self.loop.is_closed():
                future = asyncio.run_coroutine_threadsafe(as_coroutine(awaitable), self.loop)
                self._waits.add(future)
                return future
        discard(awaitable)
        raise CallStoppedError(_STOPPED, kind="aborted")


def wait_without_loop(awaitable: Awaitable[T]) -> T:
    """The result of the awaitable, in a new event loop."""
    return asyncio.run(as_coroutine(awaitable))


def refuse_in_loop(awaitable: Awaitable[Any]) -> None:
    """Refuses to block the event loop.

    Raises:
        RunningLoopError: An event loop runs in this thread.
    """
    if running_loop() is not None:
        discard(awaitable)
        raise RunningLoopError(
            "context.wait(...) is for plain functions, which run in a thread; here, write 'await ...'"
        )


def run_in_background(work: Awaitable[Any] | Callable[[], Any]) -> str:
    """Runs background work of a call without a host: a coroutine in the running event loop, else immediately."""
    loop = running_loop()
    if not isawaitable(work):
        given = work()
        return run_in_background(given) if isawaitable(given) else "background"
    if loop is None:
        wait_without_loop(work)
        return "background"
    task = loop.create_task(as_coroutine(work))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return "background"


def discard(awaitable: Awaitable[Any]) -> None:
    """Closes a coroutine that won't be awaited."""
    if iscoroutine(awaitable):
        awaitable.close()


def _result(future: Future[T], remaining: Callable[[], float | None]) -> T:
    seconds = remaining()
    while True:
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():
                return future.result()  # it ended just now, or raised a TimeoutError itself
            seconds = remaining()
            if seconds == 0.0:
                raise CallStoppedError("the call's time limit has passed", kind="timeout") from None
