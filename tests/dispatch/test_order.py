from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.claims import ALONE, Claims
from pegboard.dispatch.order import Order

READ, WRITE = Claims(key="a", writes=False), Claims(key="a")
OTHER = Claims(key="b")
SLOTS = Claims(slots=("tool", 1))


def order_of(*claims):
    order = Order(len(claims))
    for place, each in enumerate(claims):
        order.know(place, each)
    return order


@pytest.mark.parametrize(
    ("earlier", "later", "waits"),
    [
        (None, None, False),
        (None, WRITE, False),
        (None, ALONE, True),
        (SLOTS, WRITE, False),
        (ALONE, None, True),
        (ALONE, SLOTS, True),
        (ALONE, READ, True),
        (READ, READ, False),
        (READ, WRITE, True),
        (WRITE, READ, True),
        (WRITE, WRITE, True),
        (WRITE, OTHER, False),
        (WRITE, None, False),
    ],
)
def test_a_call_waits_for_an_earlier_one_that_conflicts(earlier, later, waits):
    order = order_of(earlier, later)
    assert order.ready(0)
    assert order.ready(1) is not waits
    order.passed(0)
    assert order.ready(1)


def test_nobody_waits_for_a_later_call():
    order = order_of(WRITE, ALONE, WRITE)
    order.passed(1)
    assert order.ready(0)


def test_a_call_with_claims_waits_for_one_of_which_nothing_is_known():
    order = Order(3)
    order.know(1, WRITE)
    order.know(2, None)
    assert not order.ready(1)
    assert order.ready(2)
    order.know(0, OTHER)
    assert order.ready(1)


def test_what_is_known_may_change_with_the_arguments():
    order = order_of(WRITE, WRITE)
    order.know(0, OTHER)
    assert order.ready(1)
    order.know(0, ALONE)
    assert not order.ready(1)


def test_what_has_passed_is_out_of_the_way_for_good():
    order = order_of(WRITE, WRITE)
    order.passed(0)
    order.passed(0)
    order.know(0, WRITE)
    assert order.ready(1)


def test_who_waits_goes_on_when_the_last_of_those_before_has_passed():
    async def main():
        order = order_of(WRITE, READ, WRITE)
        gone, first = [], asyncio.Event()

        async def go(place):
            await order.turn(place)
            gone.append(place)
            first.set()

        tasks = [asyncio.ensure_future(go(place)) for place in (2, 1)]
        await asyncio.sleep(0)
        assert gone == []
        order.passed(0)
        await first.wait()
        assert gone == [1]
        order.passed(1)
        await asyncio.gather(*tasks)
        return gone

    assert asyncio.run(main()) == [1, 2]


def test_who_waits_goes_on_when_it_is_known_that_it_need_not():
    async def main():
        order = Order(2)
        order.know(1, WRITE)
        waiting = asyncio.ensure_future(order.turn(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        order.know(0, OTHER)
        await waiting

    asyncio.run(main())


def test_who_waits_looks_again_when_what_is_known_changes_meanwhile():
    async def main():
        order = order_of(ALONE, WRITE, WRITE)
        waiting = asyncio.ensure_future(order.turn(2))
        await asyncio.sleep(0)
        order.passed(0)
        order.know(1, ALONE)
        await asyncio.sleep(0)
        assert not waiting.done()
        order.passed(1)
        await waiting

    asyncio.run(main())


def test_who_gives_up_waiting_is_in_nobodys_way():
    async def main():
        order = order_of(ALONE, WRITE)
        waiting = asyncio.ensure_future(order.turn(1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        order.passed(0)
        return order.ready(1)

    assert asyncio.run(main())


def conflict(first, second):
    if first is None or first.is_shared:
        return second is not None and second.exclusive
    if second is None or second.is_shared:
        return first.exclusive
    if first.exclusive or second.exclusive:
        return True
    return first.key == second.key and (first.writes or second.writes)


CLAIMS = st.sampled_from([None, ALONE, READ, WRITE, OTHER, Claims(key="b", writes=False), SLOTS])


@given(st.lists(CLAIMS, max_size=8), st.randoms(use_true_random=False))
def test_ready_is_what_a_look_at_all_earlier_calls_says(claims, random):
    """Whatever passes in whatever order."""
    order = order_of(*claims)
    left = set(range(len(claims)))
    while left:
        for place in left:
            waits = any(other < place and conflict(claims[other], claims[place]) for other in left)
            assert order.ready(place) is not waits
        gone = random.choice(sorted(left))
        order.passed(gone)
        left.discard(gone)


@given(st.lists(CLAIMS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_all_get_their_turn_and_those_that_conflict_in_call_order(claims, random):
    async def main():
        order, gone = order_of(*claims), []

        async def go(place):
            await order.turn(place)
            gone.append(place)
            order.passed(place)

        places = list(range(len(claims)))
        random.shuffle(places)
        await asyncio.gather(*map(go, places))
        return gone

    gone = asyncio.run(main())
    for number, place in enumerate(gone):
        assert not any(other < place and conflict(claims[other], claims[place]) for other in gone[number + 1 :])


class Calls:
    """The calls of a batch, each of which waits for its turn as soon as it is known."""

    def __init__(self, claims):
        self.claims, self.order = claims, Order(len(claims))
        self.gone, self.tasks = set(), {}

    async def go(self, place):
        await self.order.turn(place)
        self.gone.add(place)

    def happen(self, place, change, *, ends):
        if place not in self.tasks:
            self.order.know(place, self.claims[place])
            self.tasks[place] = asyncio.ensure_future(self.go(place))
        elif ends:
            self.tasks[place].cancel()
            self.order.passed(place)
        elif place not in self.gone:
            self.order.know(place, change)

    async def check(self):
        for _ in range(4):
            await asyncio.sleep(0)
        for place, task in self.tasks.items():
            assert task.done() or not self.order.ready(place)


@given(
    st.lists(CLAIMS, min_size=6, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.none() | CLAIMS, st.booleans()), max_size=20),
)
def test_nobody_waits_longer_than_it_has_to(claims, events):
    """Whatever becomes known, changes, ends or is cancelled, in whatever order."""

    async def main():
        calls = Calls(claims)
        for place, change, ends in events:
            calls.happen(place, change, ends=ends)
            await calls.check()
        for place in range(6):
            calls.order.passed(place)
        await calls.check()
        assert not calls.order._futures

    asyncio.run(main())
