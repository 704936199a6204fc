"""Locks: who waits for whom, in order, and what becomes of them when a connection, process or server is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pegboard.backends import LockClaim
from pegboard_postgres import DatabaseError, PostgresLocks


@pytest.fixture
def locks(database, opened, monkeypatch):
    """Two processes' locks, as each has its own connections; a call that isn't woken up would wait for ever."""
    monkeypatch.setattr("pegboard_postgres.locks.ASK_SECONDS", 3_600.0)
    monkeypatch.setattr("pegboard_postgres.session.BEAT_SECONDS", 0.05)
    return [PostgresLocks(opened()) for _ in range(2)]


class Lost:
    """What a call is told of the loss of its locks."""

    def __init__(self):
        self.reasons = []
        self.told = threading.Event()

    def __call__(self, reason):
        self.reasons.append(reason)
        self.told.set()

    async def wait(self):
        assert await asyncio.to_thread(self.told.wait, 60)


def claims(*pairs):
    return [LockClaim(name, most) for name, most in pairs]


async def acquire(locks, *pairs, within=(), lost=None):
    return await locks.acquire(claims(*pairs), within=within, lost=lost or Lost())


async def is_waiting(task, server, database):
    """Waits until the task's request is in its queue, and says whether it still waits."""
    for _ in range(10_000):
        found = await asyncio.to_thread(server.sql, f"SELECT count(*) FROM {database.schema}.locks WHERE is_blocked")
        if found[0][0] or task.done():
            break
    return not task.done()


@pytest.fixture
def waits(server, database):
    return lambda task: is_waiting(task, server, database)


PAIRS = [
    ([("key", 1)], [("key", 1)], True),
    ([("key", 1)], [("key", None)], True),
    ([("key", None)], [("key", 1)], True),
    ([("key", None)], [("key", None)], False),
    ([("key", 1)], [("other", 1)], False),
    ([("tool", 1), ("a", 1)], [("a", 1), ("b", 1)], True),
    ([("tool", 2)], [("tool", 2)], False),
    ([("x" * 100_000, 1)], [("x" * 100_000, 1)], True),
    ([("o'hara\0 \ud800 %s", 1)], [("o'hara\0 \ud800 %s", 1)], True),
    ([("calls", None)], [("calls", 1)], True),
]


@pytest.mark.parametrize(("first", "second", "excluded"), PAIRS)
async def test_a_process_waits_for_another_where_their_claims_exclude_each_other(locks, waits, first, second, excluded):
    held = await acquire(locks[0], *first)
    task = asyncio.create_task(acquire(locks[1], *second))
    assert await waits(task) == excluded
    held.release()
    other = await task
    assert other.token > held.token
    other.release()


async def test_no_more_hold_a_name_than_it_allows(locks, waits):
    held = [await acquire(locks[number % 2], ("tool", 3)) for number in range(3)]
    fourth = asyncio.create_task(acquire(locks[1], ("tool", 3)))
    assert await waits(fourth)
    held[0].release()
    await fourth


async def test_two_registries_of_one_process_exclude_each_other(locks, waits):
    held = await acquire(locks[0], ("key", 1))
    task = asyncio.create_task(acquire(locks[0], ("key", 1)))
    assert await waits(task)
    held.release()
    await task


async def test_those_who_wait_are_served_in_their_order(locks, waits):
    held, order = await acquire(locks[0], ("key", 1)), []

    async def take(number, most):
        got = await acquire(locks[number % 2], ("key", most))
        order.append(number)
        got.release()

    tasks = []
    for number, most in enumerate((1, None, 1, 1)):
        tasks.append(asyncio.create_task(take(number, most)))
        assert await waits(tasks[-1])
        await all_wait(locks, number + 1)
    held.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


async def all_wait(locks, count):
    """Waits until so many requests are in the queue."""
    while True:
        rows = await locks[0].database.run(count_blocked)
        if rows >= count:
            return


async def count_blocked(connection):
    return (await (await connection.execute("SELECT count(*) FROM locks WHERE NOT is_held")).fetchone())[0]


async def test_a_nested_call_has_what_its_callers_hold(locks):
    outer = await acquire(locks[0], ("calls", None), ("key", None))
    nested = await acquire(locks[0], ("calls", 1), ("key", 1), within=[outer])
    assert nested.token > outer.token
    nested.release()
    outer.release()


async def test_a_nested_call_overtakes_those_who_wait_for_its_caller(locks, waits):
    outer = await acquire(locks[0], ("calls", None))
    exclusive = asyncio.create_task(acquire(locks[1], ("calls", 1)))
    assert await waits(exclusive)
    nested = await acquire(locks[0], ("calls", None), ("key", 1), within=[outer])
    nested.release()
    outer.release()
    await exclusive


async def test_a_cancelled_request_leaves_the_queue(locks, waits):
    held = await acquire(locks[0], ("key", 1))
    task = asyncio.create_task(acquire(locks[1], ("key", 1)))
    assert await waits(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.release()
    (await acquire(locks[1], ("key", 1))).release()


@pytest.mark.slow
async def test_nothing_stays_held_whenever_a_request_is_cancelled(locks):
    """Cancelled after ever more steps of the loop: before, while and after it is granted."""
    for steps in range(60):
        task = asyncio.create_task(acquire(locks[0], ("key", 1)))
        for _ in range(steps * 20):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            task.result().release()
    (await acquire(locks[1], ("key", 1))).release()


async def test_releasing_twice_releases_once(locks, waits):
    first = await acquire(locks[0], ("key", 1))
    first.release()
    second = await acquire(locks[0], ("key", 1))
    first.release()
    task = asyncio.create_task(acquire(locks[1], ("key", 1)))
    assert await waits(task)
    second.release()
    await task


def end_session(server, database):
    rows = server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 "
        f"AND classid::integer = hashtext('{database.schema}')"
    )
    assert rows == [(True,)]


async def test_a_call_is_told_that_its_locks_are_lost_and_another_process_gets_them(locks, server, database):
    lost = Lost()
    held = await acquire(locks[0], ("key", 1), lost=lost)
    await asyncio.to_thread(end_session, server, database)
    other = await acquire(locks[1], ("key", 1))
    await lost.wait()
    assert lost.reasons == ["the connection to the shared database was lost"]
    assert other.token > held.token
    held.release()
    other.release()
    (await acquire(locks[0], ("key", 1))).release()  # by a new session


async def test_a_call_that_has_released_its_locks_is_told_nothing(locks, server, database):
    lost, last = Lost(), Lost()
    held = await acquire(locks[0], ("key", 1), lost=lost)
    held.release()
    await acquire(locks[0], ("key", 1), lost=last)
    await asyncio.to_thread(end_session, server, database)
    await last.wait()
    assert lost.reasons == []


@pytest.mark.slow
async def test_a_request_that_waits_while_the_server_crashes_is_an_error(locks, server, waits):
    lost = Lost()
    before = await acquire(locks[0], ("key", 1), lost=lost)
    task = asyncio.create_task(acquire(locks[1], ("key", 1)))
    assert await waits(task)
    server.kill()
    server.start()
    with pytest.raises(DatabaseError, match=r"was lost|can't be reached|is being stopped"):
        await task
    await lost.wait()
    after = await acquire(locks[1], ("key", 1))
    assert after.token > before.token
    after.release()


async def test_processes_that_begin_together_have_sessions_of_their_own(database, opened):
    made = [PostgresLocks(opened()) for _ in range(6)]
    holds = await asyncio.gather(*(acquire(each, ("key", None)) for each in made))
    assert len({hold.session.id for hold in holds}) == len({hold.token for hold in holds}) == 6


@pytest.mark.slow
async def test_locks_of_many_tasks_in_two_processes_never_overlap(locks):
    inside, most, tokens = {}, {}, []

    async def work(number):
        name, limit = (f"key {number % 3}", 1) if number % 2 else ("tool", 4)
        held = await acquire(locks[number % 2], ("calls", None), (name, limit))
        inside[name] = inside.get(name, 0) + 1
        most[name] = max(most.get(name, 0), inside[name])
        tokens.append(held.token)
        await asyncio.sleep(0)
        inside[name] -= 1
        held.release()

    await asyncio.gather(*(work(number) for number in range(200)))
    assert len(set(tokens)) == 200
    assert {name: count for name, count in most.items() if name != "tool"} == dict.fromkeys(sorted(most)[:3], 1)
    assert 1 < most["tool"] <= 4
