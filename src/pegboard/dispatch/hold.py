"""`Hold`: one call's place among all that run, from its arrival to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from pegboard.dispatch.claims import Claims

if TYPE_CHECKING:
    from pegboard.dispatch.gate import Gate
    from pegboard.dispatch.lane import Lane


class Hold:
    """What a call has of the gate. `Gate.enter` gives it; whoever has it releases it, once.

    A plain class whose defaults stand in the class: a call that nobody has to wait for sets three attributes.

    Attributes:
        gate: Where it belongs; the gate alone changes it.
        rank: When its outermost caller arrived: a nested call has its caller's place in the order.
        steps: Each lane that it needs, and how much of it, in the order in which they are taken.
        arrival: For a nested call, when it arrived itself.
        place: For a nested call, its place among those of the same rank.
        name: Whose it is, for people.
        claims: What it needs for itself.
        parent: What the calling tool holds, for a call from inside a tool.
        is_waiting: Whether it waits; then it has an end to wait for, `future`.
        is_over: Whether it was released, or withdrawn.
        at: In how many of its lanes it has a place, while it waits; a nested call has one in all.
        queued: The lane where it waits for a place, or `None`.
        children: How many nested calls of its are under way.
        lent: The lane whose share it gave back until its nested calls have ended, or `None`.
        waits: The nested calls inside this one that wait; `None` is none.
        future: Done when its turn has come.
    """

    arrival: int = 0
    place: float = 0
    name: str = "A call"
    claims: Claims | None = None
    parent: Hold | None = None
    is_waiting: bool = False
    is_over: bool = False
    at: int = 0
    queued: Lane | None = None
    children: int = 0
    lent: Lane | None = None
    waits: dict[Hold, None] | None = None
    future: asyncio.Future[None] | None = None

    def __init__(self, gate: Gate, rank: int, steps: tuple[tuple[Lane, int], ...]) -> None:
        self.gate = gate
        self.rank: float = rank
        self.steps = steps

    def __str__(self) -> str:
        return f"{self.name} ({self.claims or 'shared'})"

    @property
    def is_shared(self) -> bool:
        """Whether it claims no lock."""
        return self.claims is None or self.claims.is_shared

    @property
    def order(self) -> tuple[float, float, int]:
        """Who goes first where two have to wait for each other: the smaller."""
        return self.rank, self.place, self.arrival

    def release(self) -> None:
        """Gives everything back and lets the next ones go. From any thread.

        Raises:
            RuntimeError: It was released before.
        """
        if self.is_over:
            raise RuntimeError("this hold was released before")
        self.is_over = True
        self.gate.leave(self)

    def callers(self) -> Iterator[Hold]:
        """Who called it, and who called that, to the outermost."""
        caller = self.parent
        while caller is not None:
            yield caller
            caller = caller.parent

    def need_of(self, lane: Lane) -> int:
        """How much of this lane it needs, or has."""
        if lane is self.lent:
            return 0
        return next((need for each, need in self.steps if each is lane), 0)

    def shared_with_callers(self, lane: Lane) -> int:
        """How much of this lane its callers have, for which it doesn't wait."""
        total, caller = 0, self.parent
        while caller is not None:
            total += caller.need_of(lane)
            caller = caller.parent
        return total

    def give_up(self) -> None:
        """Releases it, unless somebody has."""
        if not self.is_over:
            self.release()

    def wake(self) -> bool:
        """Lets whoever awaits it go on, in his own loop; false where that loop is closed, and so nobody will."""
        future = self.future
        assert future is not None
        loop = future.get_loop()
        try:
            if asyncio._get_running_loop() is loop:  # noqa: SLF001  (as `get_running_loop`, which raises where there is none)
                _settle(future)
            else:
                loop.call_soon_threadsafe(_settle, future)
        except RuntimeError:
            return False
        return True


class Waiting:
    """What `Gate.enter` gives where a call has to wait: awaiting it gives its hold.

    Its place is kept from when it was made. Cancelling the wait gives the place up, and so does dropping it.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold: Hold | None = hold

    def __await__(self) -> Generator[Any, None, Hold]:
        hold, self._hold = self._hold, None
        if hold is None or hold.future is None:
            raise RuntimeError("a turn can be awaited once")
        try:
            yield from hold.future.__await__()
        except BaseException:
            hold.give_up()
            raise
        return hold

    def __del__(self) -> None:
        if self._hold is not None:
            self._hold.give_up()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


__all__ = ["Hold", "Waiting"]
