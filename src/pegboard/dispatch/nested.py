"""Calls from inside a tool: what they mean for their callers, and their place in the order."""

from __future__ import annotations

from itertools import takewhile

from pegboard.dispatch.hold import Hold
from pegboard.dispatch.lane import EVERYTHING, Lane, insert
from pegboard.dispatch.standstill import circle_of, first_to_overtake, stuck_with


def lend(caller: Hold, everybody: Lane) -> None:
    """A shared caller gives its share back while nested calls are under way: it is in nobody's way."""
    caller.children += 1
    if caller.children == 1 and caller.is_shared:
        caller.lent = everybody
        everybody.taken -= 1
        everybody.running -= 1


def give_back(caller: Hold) -> None:
    """The caller goes on once its last nested call has ended, whoever runs meanwhile."""
    caller.children -= 1
    if caller.children == 0 and caller.lent is not None:
        caller.lent.taken += 1
        caller.lent.running += 1
        caller.lent = None


def join(hold: Hold) -> None:
    """A nested call that waits has its place in all its lanes at once, and its callers wait with it."""
    for lane, need in hold.steps:
        lane.taken += need
        _insert(lane, hold)
    for caller in takewhile(lambda caller: not caller.is_over, hold.callers()):  # nobody waits for what outlives a call
        if caller.waits is None:
            caller.waits = {}
        caller.waits[hold] = None
        for lane, _ in caller.steps:
            if lane is not caller.lent:
                lane.add_caller(caller)


def forget(caller: Hold, hold: Hold) -> None:
    """A caller doesn't wait for this nested call any more."""
    if caller.waits is not None and hold in caller.waits:
        del caller.waits[hold]
        if not caller.waits:
            for lane, _ in caller.steps:
                lane.drop_caller(caller)


def find_place(hold: Hold) -> tuple[Hold, ...]:
    """Finds a place in the order where a nested call gets its turn; gives the circle where there is none.

    The place of its outermost caller nearly always does. Else it is looked for from the end, as if the call had come
    alone. From either it goes as far to the front as it has to: before the first that waits for its callers.
    """
    stuck: dict[Hold, None] = {}
    for rank in (hold.rank, hold.arrival):
        _move(hold, rank, hold.arrival)
        while stuck := stuck_with(hold):
            first = first_to_overtake(hold, stuck)
            if first is None:
                break
            _move(hold, first.rank, first.place - 0.5)
        if not stuck:
            return ()
    return circle_of(hold, stuck)


def _move(hold: Hold, rank: float, place: float) -> None:
    for lane, _ in hold.steps:
        lane.take_out(hold)
    hold.rank, hold.place = rank, place
    for lane, _ in hold.steps:
        _insert(lane, hold)


def _insert(lane: Lane, hold: Hold) -> None:
    insert(lane.nested, hold)
    if hold.need_of(lane) == EVERYTHING:
        insert(lane.writers, hold)


__all__ = ["find_place", "forget", "give_back", "join", "lend"]
