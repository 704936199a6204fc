"""`Outbox`: events on their way to whoever reads a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from attrs import define, field

E = TypeVar("E")
MOST_WAITING: Final = 1_000
"""Events that may wait before whoever sends more of them is held up."""


@define(eq=False)
class Outbox(Generic[E]):
    """A queue that holds up those who can wait, and loses nothing from those who can't."""

    _events: deque[E] = field(factory=deque[E], init=False)
    _come: asyncio.Event = field(factory=asyncio.Event, init=False)
    _room: asyncio.Event = field(factory=asyncio.Event, init=False)
    _closed: bool = field(default=False, init=False)

    def put_now(self, event: E) -> None:
        """Sends an event from where nobody can wait."""
        self._events.append(event)
        self._come.set()

    async def put(self, event: E) -> None:
        """Sends an event, once there is room."""
        while len(self._events) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self.put_now(event)

    def close(self) -> None:
        """Sends nothing more."""
        self._closed = True
        self._come.set()

    async def get(self) -> E | None:
        """The next event, or `None` behind the last."""
        while not self._events:
            if self._closed:
                return None
            self._come.clear()
            await self._come.wait()
        self._room.set()
        return self._events.popleft()


__all__ = ["Outbox"]
