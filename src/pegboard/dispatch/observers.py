"""`Observers`: who is told of every event, without ever being in the way of a call."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Final
from weakref import WeakValueDictionary

from attrs import define, field

from pegboard.callbacks import Callback
from pegboard.dispatch.events import CallEvent
from pegboard.dispatch.timeout import LimitExpiredError, within
from pegboard.errors import log_failure

MOST_WAITING: Final = 10_000
"""Events that may wait for observers; the newest beyond that are dropped, and counted."""

LIMIT_SECONDS: Final = 30.0
"""How long an async observer may take for one event."""

LINGER_SECONDS: Final = 10.0
"""How long the thread of a plain observer waits for more before it ends."""

CLOSE_SECONDS: Final = 5.0
"""How long closing waits for what has been told already."""


@define(eq=False)
class _Crowd:
    """The async observers of one event loop: a queue, and the task that empties it."""

    events: asyncio.Queue[tuple[tuple[Callback, ...], CallEvent]]
    task: asyncio.Task[None] | None = None


@define(eq=False)
class _Listener:
    """One plain observer: its queue, and the thread that empties it while there is anything."""

    link: Callback
    note: Callable[[Callback, BaseException], None]
    events: queue.SimpleQueue[Any] = field(factory=queue.SimpleQueue[Any], init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def is_at_work(self) -> bool:
        """Whether it has a thread, which may have an event in hand."""
        return self._thread is not None

    def put(self, heard: Any) -> None:
        """Adds an event, or a function to call when all before it has been heard."""
        with self._lock:
            self.events.put(heard)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._hear, name="pegboard-observer", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the system gives no thread; the next event tries again
                self._thread = None

    def _hear(self) -> None:
        while (heard := self._next()) is not None:
            try:
                if isinstance(heard, CallEvent):
                    self._show(heard)
                else:
                    heard()
            except BaseException as error:  # noqa: BLE001  an observer's SystemExit too
                self.note(self.link, error)

    def _show(self, event: CallEvent) -> None:
        answer = self.link.function(event)
        if answer is None or not isawaitable(answer):
            return
        if iscoroutine(answer):
            answer.close()
        raise TypeError("a plain observer gave an awaitable, which nobody awaits: register the async function itself")

    def _next(self) -> Any:
        """What comes next; `None` where the thread shall end."""
        try:
            return self.events.get(timeout=LINGER_SECONDS)
        except queue.Empty:
            with self._lock:
                if not self.events.empty():
                    return self.events.get()
                self._thread = None
                return None


@define(eq=False)
class Observers:
    """Delivers events, each observer's in order: plain ones hear in a thread of their own, others in a task.

    What they raise, and how long they take, disturbs no call, nor a plain one another. A failure is told to the
    operator once for each observer and type of exception.

    Attributes:
        most: How many events may wait for each plain one, and how many for the async ones.
        seconds: How long an async observer may take for one event.
        dropped: How many events were dropped, as observers were too slow, or as their event loop ended before.
    """

    most: int = MOST_WAITING
    seconds: float = LIMIT_SECONDS
    dropped: int = field(default=0, init=False)
    # Kept by who tells them and by their thread: one that was taken off goes when neither is left.
    _listeners: WeakValueDictionary[Callback, _Listener] = field(
        factory=WeakValueDictionary[Callback, _Listener], init=False
    )
    _crowds: dict[asyncio.AbstractEventLoop, _Crowd] = field(
        factory=dict[asyncio.AbstractEventLoop, _Crowd], init=False
    )
    _failures: set[tuple[str, type[BaseException]]] = field(factory=set[tuple[str, type[BaseException]]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def told(self, links: Iterable[Callback]) -> Callable[[CallEvent], None]:
        """The function that tells these observers of an event; to be called in an event loop."""
        links = tuple(links)
        in_loop = tuple(link for link in links if not link.blocking)
        plain = [self._listener(link) for link in links if link not in in_loop]

        def tell(event: CallEvent) -> None:
            for listener in plain:
                if listener.events.qsize() < self.most:
                    listener.put(event)
                else:
                    self._lose(1)
            if in_loop:
                self._tell_loop(in_loop, event)

        return tell

    async def drain(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Waits until all that was told in this event loop has been heard; false where that takes longer."""
        loop = asyncio.get_running_loop()
        waits = self._heard_in(loop)
        with self._lock:
            listeners = [*self._listeners.values()]
        for listener in listeners:
            if not listener.events.empty() or listener.is_at_work:
                heard: asyncio.Future[None] = loop.create_future()
                listener.put(partial(loop.call_soon_threadsafe, _settle, heard))
                waits.append(heard)
        return await _all_done(waits, seconds)

    async def drain_loop(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Waits for the async observers of this event loop only; plain ones hear in threads, after its end too."""
        return await _all_done(self._heard_in(asyncio.get_running_loop()), seconds)

    async def aclose(self, seconds: float = CLOSE_SECONDS) -> None:
        """Drains, then ends this event loop's task; a later event starts a new one."""
        await self.drain(seconds)
        crowd = self._crowds.get(asyncio.get_running_loop())
        if crowd is not None and crowd.task is not None:
            crowd.task.cancel()
            await asyncio.wait([crowd.task], timeout=seconds)

    def _listener(self, link: Callback) -> _Listener:
        with self._lock:
            return self._listeners.setdefault(link, _Listener(link, self._note))

    # Async ones --------------------------------------------------------------------------------------------------

    def _tell_loop(self, links: tuple[Callback, ...], event: CallEvent) -> None:
        loop = asyncio.get_running_loop()
        crowd = self._crowds.get(loop)
        if crowd is None:
            crowd = self._crowd_for(loop)
        try:
            crowd.events.put_nowait((links, event))
        except asyncio.QueueFull:
            self._lose(1)
            return
        if crowd.task is None or crowd.task.done():
            crowd.task = loop.create_task(self._attend(crowd.events))
            crowd.task.add_done_callback(partial(self._over, loop, crowd))

    def _crowd_for(self, loop: asyncio.AbstractEventLoop) -> _Crowd:
        """A new one; those whose event loop was closed without a word are dropped."""
        with self._lock:
            closed = [(each, crowd) for each, crowd in self._crowds.items() if each.is_closed()]
            crowd = self._crowds[loop] = _Crowd(asyncio.Queue(self.most))
        for each, left in closed:
            self._drop(each, left)
        return crowd

    def _over(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd, task: asyncio.Task[None]) -> None:
        """The task is the last to hold its event loop: what is told later begins anew."""
        if crowd.task is task:
            self._drop(loop, crowd)

    def _drop(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd) -> None:
        with self._lock:
            if self._crowds.get(loop) is not crowd:
                return
            del self._crowds[loop]
        self._lose(crowd.events.qsize())
        if not loop.is_closed():  # nobody waits in a closed one
            for _ in range(crowd.events.qsize()):
                crowd.events.get_nowait()
                crowd.events.task_done()

    def _lose(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    def _heard_in(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[Any]]:
        crowd = self._crowds.get(loop)
        return [] if crowd is None else [loop.create_task(crowd.events.join())]

    async def _attend(self, events: asyncio.Queue[tuple[tuple[Callback, ...], CallEvent]]) -> None:
        while True:
            links, event = await events.get()
            try:
                for link in links:
                    await self._show(link, event)
            except asyncio.CancelledError:
                self._lose(1)
                raise
            finally:
                events.task_done()

    async def _show(self, link: Callback, event: CallEvent) -> None:
        try:
            answer = link.function(event)
            if isawaitable(answer):
                await within(self.seconds, answer)
        except LimitExpiredError:
            self._note(link, TimeoutError(f"took longer than {self.seconds:g} s for one event"))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._note(link, error)
        except BaseException as error:  # noqa: BLE001  an observer's SystemExit too
            self._note(link, error)

    def _note(self, link: Callback, error: BaseException) -> None:
        failure = link.owner, type(error)
        with self._lock:
            if failure in self._failures:
                return
            self._failures.add(failure)
        log_failure(f"observer of {link.owner} (told once)", error)


async def _all_done(waits: list[asyncio.Future[Any]], seconds: float) -> bool:
    if not waits:
        return True
    _, late = await asyncio.wait(waits, timeout=seconds)
    for one in late:
        one.cancel()
    return not late


def _settle(heard: asyncio.Future[None]) -> None:
    if not heard.done():
        heard.set_result(None)


__all__ = ["Observers"]
