"""Whether a nested call would wait for calls that wait for its callers: nobody of them would ever go on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pegboard.dispatch.hold import Hold
from pegboard.dispatch.lane import by_order


def stuck_with(hold: Hold) -> dict[Hold, None]:
    """Who would never go on if a nested call waited where it stands, itself among them; empty where it gets its turn.

    Who runs ends by and by, unless he waits for a nested call. So: of all that stand between `hold` and its turn,
    those are struck out who will end, then those whose turn comes when these have ended, until nothing changes.
    A lock comes free when all that are before have ended, a slot when enough of them have; one sum says both.
    """
    if _is_last(hold) and not _keeps_others_waiting(hold):
        return {}
    stuck = _all_before(hold)
    before = 0
    while len(stuck) != before and hold in stuck:
        before = len(stuck)
        for each in reversed(list(stuck)):
            if _comes_to_an_end(each, stuck):
                del stuck[each]
    return stuck if hold in stuck else {}


def first_to_overtake(hold: Hold, stuck: dict[Hold, None]) -> Hold | None:
    """Of those who wait, and whom a call that is stuck waits for: the first; `None` where all of them run."""
    in_the_way = (other for lane, need in hold.steps for other in lane.all_before(hold, need))
    return min((other for other in in_the_way if other.is_waiting and other in stuck), key=by_order, default=None)


def circle_of(hold: Hold, stuck: dict[Hold, None]) -> tuple[Hold, ...]:
    """One way from `hold` through those who are stuck, until it comes back to somebody."""
    circle: dict[Hold, None] = {}
    while hold not in circle:
        circle[hold] = None
        hold = next(other for other in _before(hold) if other in stuck)
    return tuple(circle)


def _is_last(hold: Hold) -> bool:
    """Whether it goes before no other nested call that waits; all of them stand in the lane of all."""
    return hold.steps[0][0].nested[-1] is hold


def _keeps_others_waiting(hold: Hold) -> bool:
    """Whether anybody who waits needs what the callers of `hold` have; nearly always nobody does."""
    return any(
        lane.running + lane.wanted - hold.need_of(lane) > lane.most
        for caller in hold.callers()
        for lane, _ in caller.steps
        if lane is not caller.lent
    )


def _all_before(hold: Hold) -> dict[Hold, None]:
    """Who would have to go on before `hold` can, near or far; it is among them."""
    found: dict[Hold, None] = {hold: None}
    found_last = [hold]
    while found_last:
        for other in _before(found_last.pop()):
            if other not in found:
                found[other] = None
                found_last.append(other)
    return found


def _before(hold: Hold) -> Iterator[Hold]:
    if hold.is_waiting:
        return chain.from_iterable(lane.all_before(hold, need) for lane, need in hold.steps)
    return iter(hold.waits or ())


def _comes_to_an_end(hold: Hold, stuck: dict[Hold, None]) -> bool:
    """Whether it ends, or gets its turn, once everybody has ended who isn't stuck."""
    if not hold.is_waiting:
        return not any(other in stuck for other in hold.waits or ())
    return all(
        need + sum(other.need_of(lane) for other in lane.all_before(hold, need) if other in stuck) <= lane.most
        for lane, need in hold.steps
    )


__all__ = ["circle_of", "first_to_overtake", "stuck_with"]
