"""`Turns`: one at a time for each thing that can do only one, in order of arrival, over threads and event loops."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from threading import Lock, RLock
from typing import Any

from attrs import define, field


@define(eq=False)
class Turn:
    """The right to go, until everybody who holds it has let go."""

    turns: Turns
    key: Hashable
    holders: int = 1

    def hold(self) -> Callable[[], None]:
        """One more holds it: a thread that can't be ended goes on with it.

        Returns:
            What lets go of it, from any thread; a second time changes nothing.
        """
        with self.turns.lock:
            self.holders += 1
        once = Lock()

        def let_go() -> None:
            if once.acquire(blocking=False):
                self.release()

        return let_go

    def release(self) -> None:
        """One holder lets go; the last passes the turn on. From any thread."""
        with self.turns.lock:
            self.holders -= 1
            if self.holders == 0:
                self.turns.pass_on(self.key)


@define(eq=False)
class _Place:
    """One that waits, in its own event loop."""

    loop: asyncio.AbstractEventLoop
    woken: asyncio.Future[None]
    has_turn: bool = False

    def wake(self) -> bool:
        """Gives it the turn; false where its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(_wake, self.woken)
        except RuntimeError:
            return False
        self.has_turn = True
        return True


@define(eq=False)
class Turns:
    """The queues, by what is waited for; an empty one isn't kept.

    Attributes:
        lock: Round every change of a queue. Reentrant: the end of a closed loop's task may come in the middle of one,
            when it is collected as garbage.
    """

    lock: AbstractContextManager[Any] = field(factory=RLock)
    _queues: dict[Hashable, deque[_Place]] = field(factory=dict[Hashable, deque[_Place]])

    async def take(self, key: Hashable) -> Turn:
        """Waits for the turn. Leaving the queue by cancellation loses nobody else's."""
        with self.lock:
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque()
                return Turn(self, key)
            loop = asyncio.get_running_loop()
            place = _Place(loop, loop.create_future())
            queue.append(place)
        try:
            await place.woken
        except BaseException:
            self._leave(key, place)
            raise
        return Turn(self, key)

    def pass_on(self, key: Hashable) -> None:
        """Gives the turn to the next; the caller has the lock."""
        queue = self._queues[key]
        while queue:
            if queue.popleft().wake():
                return
        del self._queues[key]

    def __len__(self) -> int:
        """How many turns are taken."""
        return len(self._queues)

    def _leave(self, key: Hashable, place: _Place) -> None:
        with self.lock:
            if place.has_turn:
                self.pass_on(key)
            elif (queue := self._queues.get(key)) and place in queue:
                queue.remove(place)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
