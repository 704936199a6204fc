"""`Gate`: where the calls of one registry wait for each other.

A call takes what it needs in a fixed order, and keeps its place in each lane while it waits in the next:

1. a slot of its batch, so that a batch with few slots fills no other queue;
2. the lock of all (everybody reads it, an exclusive call writes it), then the lock of its key;
3. a slot of its tool, then one of the registry.

Each lane serves in order of arrival. As all take the lanes in one order, and nobody waits for somebody who waits too
and comes after him, those who wait never wait in a circle; slots and locks can't block each other.

A call from inside a tool, a *nested* one, has what its callers have:

- It doesn't wait for them: neither for their locks nor for a slot of a tool that one of them has. It takes no slot of
  the batch or of the registry.
- While it is under way, a shared caller is in nobody's way. (A caller that goes on though its nested call hasn't ended
  goes on beside whoever has started meanwhile.)
- It has the place of its outermost caller in the order: before calls that arrived after that and still wait, behind
  those that waited before. So a stream of nested calls starves nobody.
- Where it would wait there for a call that waits for its callers, it goes before that one; where a call would wait for
  it that it waits for itself, it goes behind that one. Where neither helps, the circle is one of calls that run: then
  it is refused at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Final

from pegboard.dispatch.claims import Claims
from pegboard.dispatch.hold import Hold, Waiting
from pegboard.dispatch.lane import EVERYTHING, Slots
from pegboard.dispatch.turns import Turns


class Gate:
    """Where the calls of one registry wait for each other; from any thread, and in several event loops at once.

    Args:
        max_concurrency: How many calls may run at once, nested ones excepted; `None` is no limit.

    Raises:
        ValueError: A limit below 1.
    """

    def __init__(self, max_concurrency: int | None = None) -> None:
        if max_concurrency is not None and max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, got {max_concurrency!r}")
        self._turns: Final = Turns(max_concurrency)
        self._everybody: Final = self._turns.everybody
        self._shared: Final = ((self._everybody, 1),)
        self._simple_below: Final = EVERYTHING if max_concurrency is None else 0
        self._lock: Final = threading.Lock()
        # What is given back goes through here: a finaliser may do so while this very thread has the lock.
        self._left: Final[deque[Hold]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether no call runs or waits."""
        return self._turns.is_empty and not self._left

    def enter(
        self,
        claims: Claims | None = None,
        *,
        slots: Slots | None = None,
        parent: Hold | None = None,
        name: str = "A call",
    ) -> Hold | Awaitable[Hold]:
        """Takes the place of one call.

        Args:
            claims: What it needs for itself; `None` for a shared call.
            slots: Those of its batch, or `None`. A nested call takes none.
            parent: What the calling tool holds, for a call from inside a tool; once that is released, the call is one
                like any other.
            name: Whose place it is, for people: the tool's name.

        Returns:
            The hold, where its turn is now; else what gives it when it is awaited, in this event loop. The place in the
            order is that of this call of `enter` either way. Cancelling the wait gives the place up.

        Raises:
            CallError: `limit`: a nested call that would wait for calls that wait for its callers.
            RuntimeError: No event loop runs here, and the call is no simple one (shared, with no limit in its way).
        """
        if claims is not None or slots is not None or parent is not None:
            return self._enter(claims, slots, parent, name)
        everybody = self._everybody
        self._lock.acquire()  # by hand: `with` costs twice as much, and nothing in between raises
        if everybody.taken >= self._simple_below or everybody.queue:
            self._lock.release()
            return self._enter(None, None, None, name)
        everybody.taken += 1
        everybody.running += 1
        self._turns.arrivals = rank = self._turns.arrivals + 1
        self._lock.release()
        if self._left:
            self._settle()
        return Hold(self, rank, self._shared)

    def leave(self, hold: Hold) -> None:
        """Takes back what a hold has, or its place; `Hold.release` calls it. Never waits."""
        if hold.steps is self._shared and self._lock.acquire(False):  # noqa: FBT003  (a keyword costs as much as the lock)
            everybody = self._everybody
            is_simple = not everybody.wanted and hold.lent is None  # nobody waits whose turn it might be
            if is_simple:
                hold.steps = ()
                everybody.taken -= 1
                everybody.running -= 1
            self._lock.release()
            if is_simple:
                if self._left:
                    self._settle()
                return
        self._left.append(hold)
        self._settle()

    def _enter(
        self, claims: Claims | None, slots: Slots | None, parent: Hold | None, name: str
    ) -> Hold | Awaitable[Hold]:
        loop, turns = asyncio.get_running_loop(), self._turns
        try:
            with self._lock:
                turns.arrivals += 1
                hold = Hold(self, turns.arrivals, ())
                hold.name, hold.claims = name, claims
                hold.parent = parent if parent is None or not parent.is_over else None
                turns.come(hold, slots, loop)
        finally:
            self._settle()
        return hold if hold.future is None else Waiting(hold)

    def _settle(self) -> None:
        """Takes back what was left, and wakes those who can go on.

        Where another thread has the lock, or this one has it further up, it does this once it has let go of it.
        """
        turns = self._turns
        while (self._left or turns.woken) and self._lock.acquire(blocking=False):
            try:
                while self._left:
                    turns.leave(self._left.popleft())
                woken = tuple(turns.woken)
                turns.woken.clear()
            finally:
                self._lock.release()
            for hold in woken:
                if not hold.wake():
                    hold.is_over = True
                    self._left.append(hold)


__all__ = ["Gate", "Hold", "Slots"]
