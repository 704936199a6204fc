"""`Turns`: whose turn it is in the lanes of one gate; what is done under the gate's lock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from pegboard.dispatch.hold import Hold
from pegboard.dispatch.lane import EVERYTHING, Lane, Slots, insert, remove
from pegboard.dispatch.nested import find_place, forget, give_back, join, lend
from pegboard.dispatch.work import CallError


class Turns:
    """Whose turn it is in the lanes of one gate. One thread at a time may use it.

    Attributes:
        everybody: The lock of all: every call reads it, an exclusive one writes it.
        slots: How many calls may run at once, or `None`.
        made: The lanes that are made at need, one for each key and each tool with slots.
        arrivals: How many calls have arrived.
        waiting: How many wait.
        woken: Who waited and may run now, until they are told.
    """

    def __init__(self, max_concurrency: int | None) -> None:
        self.everybody: Final = Lane()
        self.slots: Final = None if max_concurrency is None else Lane(max_concurrency)
        self.made: Final[dict[Any, Lane]] = {}
        self.arrivals = 0
        self.waiting = 0
        self.woken: Final[deque[Hold]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether no call runs or waits, and nothing is kept."""
        return self.waiting == 0 and self.everybody.taken == 0 and not self.made

    def come(self, hold: Hold, slots: Slots | None, loop: asyncio.AbstractEventLoop) -> None:
        """Takes a place in the lanes that a call needs, in as many as it gets one now; in the others in time.

        Args:
            hold: Says who calls, and what it claims.
            slots: Those of its batch, or `None`.
            loop: Where it is awaited if it has to wait.

        Raises:
            CallError: `limit`: a nested call that would never get its turn.
        """
        if hold.parent is not None:
            self._come_nested(hold, hold.parent, loop)
        elif slots is not None and not slots.lets_pass(hold, 1):
            hold.steps = ((slots, 1),)
            self._wait(hold, loop)
            _queue(slots, hold)
        else:
            hold.steps = (*(() if slots is None else ((slots, 1),)), *self._steps(hold))
            self._come(hold, loop)

    def leave(self, hold: Hold) -> None:
        """Takes back what a call has, or its place if it waits, and lets those go on whose turn it is then."""
        if hold.is_waiting:
            self._withdraw(hold)
        elif hold.steps:  # else it has left before: its loop was closed just as it gave up
            self._end(hold)

    def _steps(self, hold: Hold) -> Iterator[tuple[Lane, int]]:
        """All that it needs but for a slot of its batch."""
        claims = hold.claims
        yield self.everybody, EVERYTHING if claims is not None and claims.exclusive else 1
        if claims is not None and claims.key is not None:
            yield self._lane(claims.key), EVERYTHING if claims.writes else 1
        if claims is not None and claims.slots is not None:
            lane = self._lane(claims.slots, claims.slots[1])
            if not hold.shared_with_callers(lane):
                yield lane, 1
        if self.slots is not None and hold.parent is None:
            yield self.slots, 1

    def _lane(self, key: object, most: int = EVERYTHING) -> Lane:
        lane = self.made.get(key)
        if lane is None:
            lane = self.made[key] = Lane(most, key)
        return lane

    def _come(self, hold: Hold, loop: asyncio.AbstractEventLoop) -> None:
        if all(lane.lets_pass(hold, need) for lane, need in hold.steps):
            _take(hold)
        else:
            self._wait(hold, loop)
            self._advance(hold)

    def _come_nested(self, hold: Hold, parent: Hold, loop: asyncio.AbstractEventLoop) -> None:
        hold.steps = tuple(self._steps(hold))
        hold.arrival = self.arrivals
        hold.rank, hold.place = parent.rank, hold.arrival
        lend(parent, self.everybody)
        if not any(lane.bars(hold, need) for lane, need in hold.steps):
            _take(hold)
        else:
            self._wait(hold, loop)
            join(hold)
            circle = find_place(hold)
            if circle:
                self._withdraw(hold)
                raise _refusal(circle)
            self._start(hold)
        self._serve(self.everybody)

    def _wait(self, hold: Hold, loop: asyncio.AbstractEventLoop) -> None:
        hold.is_waiting, hold.future = True, loop.create_future()
        self.waiting += 1
        for lane, need in hold.steps:
            lane.want(hold, need)

    def _stop_waiting(self, hold: Hold) -> None:
        hold.is_waiting = False
        self.waiting -= 1
        for lane, need in hold.steps:
            lane.stop_wanting(hold, need)
        for caller in hold.callers():
            forget(caller, hold)

    def _advance(self, hold: Hold) -> None:
        """Goes from lane to lane, until one has no place for it."""
        for lane, need in hold.steps[hold.at :]:
            if not lane.lets_pass(hold, need):
                _queue(lane, hold)
                return
            _pass(hold, lane, need)
        self._start(hold)

    def _start(self, hold: Hold) -> Lane | None:
        """Lets a call run that has a place in all its lanes; gives the lane where it still has to wait."""
        for lane, need in hold.steps:
            if lane.bars(hold, need):
                insert(lane.barred, hold)
                return lane
        self._stop_waiting(hold)
        for lane, need in hold.steps:
            lane.running += need
            lane.take_out(hold)
        self.woken.append(hold)
        return None

    def _serve(self, lane: Lane) -> None:
        """Lets those go on whose turn has come here."""
        while lane.queue and lane.has_room(lane.queue[0], need := lane.queue[0].need_of(lane)):
            hold = lane.queue.pop(0)
            hold.queued = None
            _pass(hold, lane, need)
            if isinstance(lane, Slots):  # until now it stood in no other line
                self._line_up(hold)
            self._advance(hold)
        if lane.barred:
            self._look_again(lane)

    def _line_up(self, hold: Hold) -> None:
        self.arrivals += 1
        hold.rank = self.arrivals
        steps = tuple(self._steps(hold))
        hold.steps += steps
        for lane, need in steps:
            lane.want(hold, need)

    def _look_again(self, lane: Lane) -> None:
        """Lets those run that waited here for those that ran."""
        barred, lane.barred = lane.barred, []
        refused: set[bool] = set()  # nested or not: whether those after this one have to wait as well
        for hold in barred:
            is_nested = hold.parent is not None
            if is_nested in refused:
                lane.barred.append(hold)
            elif self._start(hold) is lane and not (is_nested and lane.is_lock and hold.need_of(lane) == 1):
                refused.add(is_nested)

    def _withdraw(self, hold: Hold) -> None:
        """As if it had never come."""
        self._stop_waiting(hold)
        for lane, need in hold.steps if hold.parent is not None else hold.steps[: hold.at]:
            lane.taken -= need
            lane.take_out(hold)
            remove(lane.barred, hold)
        if hold.queued is not None:
            remove(hold.queued.queue, hold)
        self._free(hold)

    def _end(self, hold: Hold) -> None:
        for orphan in hold.waits or ():  # its own callers waited for it, and never for what it leaves behind
            for caller in hold.callers():
                forget(caller, orphan)
        for lane, need in hold.steps:
            lane.drop_caller(hold)
            if lane is not hold.lent:
                lane.taken -= need
                lane.running -= need
        hold.lent = None
        self._free(hold)

    def _free(self, hold: Hold) -> None:
        """Its caller has its share again before anybody else gets his; then the next ones go."""
        steps, hold.steps = hold.steps, ()
        if hold.parent is not None:
            give_back(hold.parent)
        for lane, _ in steps:
            self._serve(lane)
            if lane.key is not None and lane.is_idle:
                del self.made[lane.key]


def _take(hold: Hold) -> None:
    for lane, need in hold.steps:
        lane.taken += need
        lane.running += need


def _pass(hold: Hold, lane: Lane, need: int) -> None:
    lane.taken += need
    lane.passed[hold] = None
    hold.at += 1


def _queue(lane: Lane, hold: Hold) -> None:
    hold.queued = lane
    insert(lane.queue, hold)


def _refusal(circle: tuple[Hold, ...]) -> CallError:
    text = (
        f"{circle[0].name} was not run: it would have to wait for a call that waits for what its caller has. "
        "Try again when the calls beside it have ended."
    )
    detail = f"each of these waits for the next, and the last for one before it: {', '.join(map(str, circle))}"
    return CallError("limit", text, detail=detail)


__all__ = ["Turns"]
