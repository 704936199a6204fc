"""`LoopPortal`: lets the thread of a call wait for what runs in the call's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, wait as wait_for_futures
from inspect import isawaitable, iscoroutine
from typing import Any, Final, TypeAlias, TypeVar

from attrs import field

from pegboard.errors import CallStoppedError, RunningLoopError
from pegboard.threads import running_loop, waiting
from pegboard.timeout import as_coroutine
from pegboard.typing import define

T = TypeVar("T")
_Context: TypeAlias = Any  # A `ToolContext`; its module imports this one
_STOPPED: Final = "the call was cancelled"
_tasks: Final[set[asyncio.Task[Any]]] = set()  # strong references: an event loop holds only weak ones


@define(eq=False)
class LoopPortal:
    """Portal from a call's thread to its event loop."""

    loop: asyncio.AbstractEventLoop
    _awaited: set[Future[Any]] = field(factory=set[Any], init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def emit(self, listener: Callable[[object], None], update: object) -> None:
        """Calls the listener in the loop, in order; does nothing in a thread that outlives its call."""
        if running_loop() is self.loop:
            listener(update)
        elif not self._is_closed:
            try:
                self.loop.call_soon_threadsafe(listener, update)
            except RuntimeError:
                return  # the loop is closed

    def wait(self, awaitable: Awaitable[T], context: _Context) -> T:
        """Waits for the awaitable, which runs in the loop, and returns its result; cancels it if the wait ends before.

        Raises `CallStoppedError` at the call's limit, and whatever the awaitable does.
        """
        with self._lock:
            if self._is_closed or self.loop.is_closed():
                discard(awaitable)
                raise CallStoppedError(_STOPPED, kind="aborted")
            future = asyncio.run_coroutine_threadsafe(as_coroutine(awaitable), self.loop)
            self._awaited.add(future)
        try:
            with waiting():
                while not wait_for_futures([future], context.remaining).done:
                    context.check()  # the call's clock may have been paused
                return future.result()
        except CancelledError:
            if self._is_closed:
                raise CallStoppedError(_STOPPED, kind="aborted") from None
            raise
        finally:
            future.cancel()
            self._awaited.discard(future)

    def close(self) -> None:
        """Ends all waits, and ignores what a thread emits from now on: the call is over."""
        with self._lock:
            self._is_closed = True
            futures = list(self._awaited)
        for future in futures:
            future.cancel()


def wait_in_thread(context: _Context, awaitable: Awaitable[T]) -> T:
    """`context.wait(awaitable)`: by the call's portal, or in a new event loop."""
    if running_loop() is not None:
        discard(awaitable)
        raise RunningLoopError("context.wait(...) is for plain functions, which run in threads: write 'await ...'")
    try:
        context.check()
    except CallStoppedError:
        discard(awaitable)
        raise
    if (portal := context.internals.portal) is None:
        return asyncio.run(as_coroutine(awaitable))
    return portal.wait(awaitable, context)


def run_in_background(work: Awaitable[Any] | Callable[[], Any]) -> str:
    """Runs background work of a call without a host: a coroutine in the running event loop, else immediately."""
    awaitable = work if isawaitable(work) else work()
    if isawaitable(awaitable):
        if (loop := running_loop()) is None:
            asyncio.run(as_coroutine(awaitable))
        else:
            task = loop.create_task(as_coroutine(awaitable))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
    return "background"


def discard(awaitable: Awaitable[Any]) -> None:
    """Closes a coroutine that won't be awaited."""
    if iscoroutine(awaitable):
        awaitable.close()
