"""One at a time, in order of arrival, over threads and event loops."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.approval.queue import KeyedLock


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_turns_are_taken_in_order():
    async def main():
        turns, order = KeyedLock(), []

        async def go(name):
            turn = await turns.take("one")
            order.append(name)
            await asyncio.sleep(0)
            order.append(name)
            turn.release()

        await asyncio.gather(*map(go, "abc"))
        assert "".join(order) == "aabbcc"
        assert len(turns) == 0

    asyncio.run(main())


def test_different_things_dont_wait_for_each_other():
    async def main():
        turns = KeyedLock()
        held = [await turns.take(key) for key in "ab"]
        assert len(turns) == 2
        for turn in held:
            turn.release()

    asyncio.run(main())


def test_every_holder_has_to_let_go():
    async def main():
        turns = KeyedLock()
        turn = await turns.take("one")
        let_go = turn.hold()
        turn.release()
        waiting = asyncio.create_task(turns.take("one"))
        await settled()
        assert not waiting.done()
        let_go()
        let_go()
        (await waiting).release()
        assert len(turns) == 0

    asyncio.run(main())


@pytest.mark.parametrize("woken", [False, True])
def test_leaving_the_queue_loses_nobodys_turn(woken):
    """Neither before the turn has come nor in the moment when it does."""

    async def main():
        turns = KeyedLock()
        first = await turns.take("one")
        leaves, stays = (asyncio.create_task(turns.take("one")) for _ in range(2))
        await settled()
        if woken:
            first.release()
        leaves.cancel()
        await settled()
        assert leaves.cancelled()
        if not woken:
            first.release()
        (await stays).release()
        assert len(turns) == 0

    asyncio.run(main())


def test_a_closed_loop_is_passed_over():
    turns = KeyedLock()

    async def take():
        return await turns.take("one")

    first = asyncio.run(take())
    loop = asyncio.new_event_loop()
    task = loop.create_task(take())
    loop.run_until_complete(settled())
    loop.close()
    first.release()
    assert len(turns) == 0
    task._log_destroy_pending = False


def test_threads_with_loops_of_their_own_share_them():
    turns, inside, most = KeyedLock(), [], []

    async def go():
        for _ in range(20):
            turn = await turns.take("one")
            inside.append(1)
            most.append(len(inside))
            await asyncio.sleep(0)
            inside.pop()
            turn.release()

    threads = [threading.Thread(target=lambda: asyncio.run(go())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (max(most), len(most), len(turns)) == (1, 80, 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["take", "cancel", "release"]), max_size=20))
def test_whatever_happens_no_turn_is_lost_or_doubled(steps):
    async def main():
        turns, tasks = KeyedLock(), []
        for step in steps:
            held = [task for task in tasks if task.done() and not task.cancelled()]
            open_ = [task for task in tasks if not task.done()]
            assert len(held) <= 1
            if step == "take":
                tasks.append(asyncio.create_task(turns.take("one")))
            elif step == "cancel" and open_:
                open_[-1].cancel()
            elif step == "release" and held:
                tasks.remove(held[0])
                held[0].result().release()
            await settled()
        while tasks := [task for task in tasks if not task.cancelled()]:
            (await tasks.pop(0)).release()
        assert len(turns) == 0

    asyncio.run(main())
