"""`Order`: the calls of a batch come to the gate in call order, as far as that matters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from attrs import define, field

from pegboard.dispatch.claims import Claims


@define(eq=False)
class _Group:
    """Calls of one kind that haven't passed.

    Attributes:
        members: Their places in the batch, a heap; some may have left since.
        waiting: The places of calls that wait until the members before them have passed, a heap; some may not wait
            any more.
    """

    members: list[int] = field(factory=list[int])
    waiting: list[int] = field(factory=list[int])


_Groups: TypeAlias = tuple[_Group, ...]


class Order:
    """Lets each call of one batch come to the gate after the earlier calls that it conflicts with, or might.

    Earlier calls may take longer before they come: they are approved, their callbacks wait, their code is loaded. What
    a call claims is known late, too. Until it is known, it might be anything that isn't shared.

    - An exclusive call waits for all earlier ones.
    - A call with a key waits for the earlier exclusive ones, for those with the same key (a reader only for writers),
      and for those that nothing is known of.
    - A shared call waits for the earlier exclusive ones.

    A call that waits here stands in no line of the gate, and so in no other batch's way. One batch runs in one event
    loop, and so does its order. Each call costs about as much in a large batch as in a small one: for each kind of
    call the first that hasn't passed is known.

    Args:
        calls: How many calls the batch has.
    """

    def __init__(self, calls: int) -> None:
        self._calls: Final = calls
        self._all: Final = _Group(list(range(calls)))
        self._unknown: Final = _Group(list(range(calls)))
        self._exclusive: Final = _Group()
        self._keys: Final[dict[tuple[str, bool], _Group]] = {}
        self._groups: Final[list[_Groups]] = [(self._all, self._unknown)] * calls
        self._before: Final[list[_Groups]] = [(self._all,)] * calls
        self._futures: Final[dict[int, asyncio.Future[None]]] = {}

    def know(self, index: int, claims: Claims | None) -> None:
        """Notes what a call claims, as soon as that is known, and again when it has changed.

        Args:
            index: The call's place in the batch, from 0.
            claims: `None` for a shared call.
        """
        left = self._groups[index]
        if not left:
            return  # it has passed
        joined, self._before[index] = self._grouped(claims)
        self._groups[index] = joined
        for group in joined:
            if group not in left:
                heappush(group.members, index)
        self._wake(left)
        self._look_again(index)

    def ready(self, index: int) -> bool:
        """Whether the call may go to the gate now."""
        return self._blocking(index) is None

    async def turn(self, index: int) -> None:
        """Waits until the call may go to the gate."""
        while (group := self._blocking(index)) is not None:
            self._futures[index] = future = asyncio.get_running_loop().create_future()
            heappush(group.waiting, index)
            try:
                await future
            finally:
                del self._futures[index]

    def passed(self, index: int) -> None:
        """Notes that a call has taken its place at the gate, or has ended; a second time changes nothing."""
        left, self._groups[index] = self._groups[index], ()
        self._wake(left)

    def _grouped(self, claims: Claims | None) -> tuple[_Groups, _Groups]:
        """The groups that a call belongs to, and those whose earlier members it waits for."""
        if claims is None or claims.is_shared:
            return (self._all,), (self._exclusive,)
        if claims.exclusive:
            return (self._all, self._exclusive), (self._all,)
        assert claims.key is not None
        users, writers = self._key(claims.key, writers=False), self._key(claims.key, writers=True)
        earlier = (self._exclusive, self._unknown)
        if claims.writes:
            return (self._all, users, writers), (*earlier, users)
        return (self._all, users), (*earlier, writers)

    def _key(self, key: str, *, writers: bool) -> _Group:
        group = self._keys.get((key, writers))
        if group is None:
            group = self._keys[key, writers] = _Group()
        return group

    def _blocking(self, index: int) -> _Group | None:
        return next((group for group in self._before[index] if self._first(group) < index), None)

    def _first(self, group: _Group) -> int:
        """The first call of this kind that hasn't passed; the number of calls where there is none."""
        members = group.members
        while members and group not in self._groups[members[0]]:
            heappop(members)
        return members[0] if members else self._calls

    def _wake(self, groups: Iterable[_Group]) -> None:
        """Lets those look again who may have waited for the last member of one of these groups."""
        for group in groups:
            if not group.waiting:
                continue
            first = self._first(group)
            while group.waiting and group.waiting[0] <= first:
                self._look_again(heappop(group.waiting))

    def _look_again(self, index: int) -> None:
        future = self._futures.get(index)
        if future is not None and not future.done():
            future.set_result(None)


__all__ = ["Order"]
