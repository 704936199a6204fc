"""One client for each event loop."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pegboard.request.client import Clients, check_alone


class Client:
    """Notes whether it was closed."""

    def __init__(self):
        self.closed = 0

    async def close(self):
        self.closed += 1


def clients(first=None, again=Client):
    return Clients(first or Client(), again, Client.close)


async def now(of):
    return of.now()


def test_the_first_loop_gets_the_first_client_and_keeps_it():
    of = clients()

    async def main():
        assert of.now() is of.now() is of.first

    asyncio.run(main())


def test_a_further_loop_gets_a_client_of_its_own():
    of = clients()
    assert asyncio.run(now(of)) is of.first
    second, third = asyncio.run(now(of)), asyncio.run(now(of))
    assert len({of.first, second, third}) == 3


def test_a_client_that_was_given_serves_all_and_stays_open():
    of = clients(again=None)
    assert asyncio.run(now(of)) is asyncio.run(now(of)) is of.first
    asyncio.run(of.aclose())
    assert of.first.closed == 0


def test_one_is_made_only_where_none_was_given():
    given = Client()
    made = Clients.of(None, Client, Client.close)
    assert (Clients.of(given, Client, Client.close).first, made.again) == (given, Client)
    assert Clients.of(given, Client, Client.close).again is None
    assert isinstance(made.first, Client)


def test_nothing_that_would_go_unheard_is_said_beside_a_client():
    check_alone(None, {"key": "x"})
    check_alone(Client(), {"key": None})
    with pytest.raises(TypeError, match=r"^client=\.\.\. is used as it is; leave out key, timeout$"):
        check_alone(Client(), {"key": "x", "address": None, "timeout": 0})


def test_a_loop_closes_its_own_client():
    of = clients()

    async def main():
        client = of.now()
        await of.aclose()
        await of.aclose()
        return client

    assert asyncio.run(main()) is of.first
    assert of.first.closed == 1
    second = asyncio.run(main())
    assert (second.closed, of.first.closed) == (1, 1)


def test_whoever_asks_again_behind_the_end_gets_another_one():
    of = clients()

    async def main():
        before = of.now()
        await of.aclose()
        return before, of.now()

    before, after = asyncio.run(main())
    assert (before.closed, after.closed, before is after) == (1, 0, False)


def test_a_client_that_nobody_used_is_closed_too():
    of = clients()
    asyncio.run(of.aclose())
    assert of.first.closed == 1


def test_the_client_of_another_loop_is_left_to_it():
    of = clients()
    asyncio.run(now(of))
    asyncio.run(of.aclose())
    assert of.first.closed == 0


def test_clients_of_loops_that_are_gone_are_forgotten():
    of = clients()
    for _ in range(5):
        asyncio.run(now(of))
    gc.collect()
    assert len(of._of_loop) == 0


def test_loops_in_threads_never_share_one():
    of, got, begin = clients(), [], threading.Barrier(8)

    def work():
        begin.wait()
        got.append(asyncio.run(now(of)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 8
