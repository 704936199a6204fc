"""`Lane`: one thing that calls wait for, one behind the other."""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pegboard.dispatch.hold import Hold

EVERYTHING: Final = 1 << 60
"""What a writer takes of a lock; a reader takes 1."""

by_order: Final = attrgetter("order")


class Lane:
    """A fair semaphore: who comes first goes first, however much he needs.

    A lock of readers and writers is one of which a reader takes 1 and a writer everything (the way of tokio's
    `RwLock`); so locks and slots are one thing, and wait in one way.

    Nobody waits for a call that waits too and comes after him in the order, in no lane: so those who wait never wait
    in a circle. That is why it matters here who has a place and who runs: a place goes to whoever comes first, even
    if he comes late to this lane; what runs is left alone.

    Attributes:
        most: How much there is to take.
        key: Whose a lane is that is made at need.
        in_order: Whether calls come here in their order: to the locks, as all take these first, and to the slots of a
            batch, where they get their place in the order. To other slots a call may come late, as it waited elsewhere.
        taken: By those that run or have a place.
        running: By those that run.
        wanted: By those that wait, here or elsewhere.
        wanting: Those that wait, here or elsewhere, in order; nested calls excepted.
        to_write: Those of them that need everything.
        queue: Those of the wanting that wait for a place here, in order.
        passed: Those of the wanting that have a place here and wait elsewhere.
        nested: The nested calls that wait, here or elsewhere, in order; all have a place.
        writers: Those of them that need everything.
        barred: Who have a place in all their lanes and wait for those that run in this one, in order.
        callers: Who run here and have nested calls that wait.
        writing: Those of them that have everything.
    """

    def __init__(self, most: int = EVERYTHING, key: object = None) -> None:
        self.most: Final = most
        self.key: Final = key
        self.in_order: Final = most == EVERYTHING or isinstance(self, Slots)
        self.taken = 0
        self.running = 0
        self.wanted = 0
        self.wanting: OrderedDict[Hold, None] = OrderedDict()
        self.to_write: OrderedDict[Hold, None] = OrderedDict()
        self.queue: list[Hold] = []
        self.passed: OrderedDict[Hold, None] = OrderedDict()
        self.nested: list[Hold] = []
        self.writers: list[Hold] = []
        self.barred: list[Hold] = []
        self.callers: dict[Hold, None] = {}
        self.writing: dict[Hold, None] = {}

    @property
    def is_lock(self) -> bool:
        """Whether readers and writers wait here; else it is a number of slots."""
        return self.most == EVERYTHING

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here, and nobody will come who waits elsewhere."""
        return self.taken == 0 and self.wanted == 0

    def lets_pass(self, hold: Hold, need: int) -> bool:
        """Whether a call that comes here now, and is no nested one, gets a place."""
        return (not self.queue or hold.order < self.queue[0].order) and self.has_room(hold, need)

    def has_room(self, hold: Hold, need: int) -> bool:
        """Whether enough is left beside those that run and those that come before."""
        taken = self.taken
        if self.nested:
            taken -= sum(later.need_of(self) for later in self.nested[bisect(self.nested, hold.order, key=by_order) :])
        if not self.in_order:
            taken -= sum(later.order > hold.order for later in self.passed)
        return taken + need <= self.most

    def bars(self, hold: Hold, need: int) -> bool:
        """Whether a call that has a place here still may not run: others run, or come before a nested one."""
        total = self.running - hold.shared_with_callers(self) + need
        if total > self.most:
            return True
        if hold.parent is None:
            return False
        for older in self._before(hold, need):
            total += older.need_of(self)
            if total > self.most:
                return True
        return False

    def all_before(self, hold: Hold, need: int) -> Iterator[Hold]:
        """Who wait for something, and have or get here before `hold` what it needs."""
        if self.running + self.wanted <= self.most:
            return iter(())  # there is enough for all
        kin = set(hold.callers())
        callers, wanting, nested = self.callers, self.wanting, self.nested
        if self.is_lock and need == 1:  # readers are in no reader's way
            callers, wanting, nested = self.writing, self.to_write, self.writers
        older = (takewhile(lambda other: other.order < hold.order, group) for group in (wanting, nested))
        return chain((caller for caller in callers if caller not in kin), *older)

    def want(self, hold: Hold, need: int) -> None:
        """A call waits that needs something here."""
        self.wanted += need
        if hold.parent is None:
            self.wanting[hold] = None
            if need == EVERYTHING:
                self.to_write[hold] = None

    def stop_wanting(self, hold: Hold, need: int) -> None:
        """It does no longer."""
        self.wanted -= need
        self.wanting.pop(hold, None)
        self.to_write.pop(hold, None)

    def add_caller(self, caller: Hold) -> None:
        """A call that runs here waits for a nested one."""
        self.callers[caller] = None
        if caller.need_of(self) == EVERYTHING:
            self.writing[caller] = None

    def drop_caller(self, caller: Hold) -> None:
        """It does no longer."""
        self.callers.pop(caller, None)
        self.writing.pop(caller, None)

    def take_out(self, hold: Hold) -> None:
        """Whoever had a place here has it no more."""
        if hold.parent is None:
            del self.passed[hold]
            return
        for group in (self.nested, self.writers):
            remove(group, hold)

    def _before(self, hold: Hold, need: int) -> Iterator[Hold]:
        """Who wait here and come before a nested call, as many of them as tell."""
        passed: Iterable[Hold] = self.passed
        nested: Iterable[Hold] = self.nested
        if self.is_lock:  # those who passed are readers or one writer; of those in a writer's way, one is enough
            passed, nested = islice(passed, 1), self.writers if need == 1 else islice(nested, 1)
        older = (takewhile(lambda other: other.order < hold.order, group) for group in (self.queue, nested))
        return chain((other for other in passed if other.order < hold.order), *older)


class Slots(Lane):
    """How many calls of one batch may run at once. Made for one batch, and given to one gate only.

    Args:
        most: At least 1.

    Raises:
        ValueError: Fewer than 1.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"at least one call must be able to run at once, got {most!r}")
        super().__init__(most)


def insert(group: list[Hold], hold: Hold) -> None:
    """Into its place in the order."""
    insort(group, hold, key=by_order)


def remove(group: list[Hold], hold: Hold) -> None:
    """Takes it out, if it is there."""
    place = bisect_left(group, hold.order, key=by_order)
    if place < len(group) and group[place] is hold:
        del group[place]


__all__ = ["EVERYTHING", "Lane", "Slots", "by_order", "insert", "remove"]
