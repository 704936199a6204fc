from __future__ import annotations

import asyncio

import pytest

from pegboard.dispatch.limit import Clock, LimitExpiredError
from pegboard.dispatch.within import drive, running_task, watched, within


class Watchdog:
    """Writes down who came and went."""

    def __init__(self):
        self.seen = []

    def enter(self, name):
        self.seen.append(f"+{name}")
        return name

    def leave(self, step):
        self.seen.append(f"-{step}")


async def slowly(value):
    await asyncio.sleep(0)
    return value


async def forever():
    await asyncio.Event().wait()


def test_what_comes_in_time_is_given():
    async def at_once():
        return 1

    async def main():
        future = asyncio.get_running_loop().create_future()
        future.set_result(3)
        return [await within(60, each) for each in (at_once(), slowly(2), future)]

    assert asyncio.run(main()) == [1, 2, 3]


def test_what_takes_too_long_is_cancelled():
    ended = []

    async def stuck():
        try:
            await forever()
        finally:
            ended.append(1)

    with pytest.raises(LimitExpiredError):
        asyncio.run(within(0.01, stuck()))
    assert ended == [1]


def test_without_a_limit_there_is_none():
    assert asyncio.run(within(None, slowly(1))) == 1


def test_a_timeout_inside_ends_nothing_else():
    """Its cancellation is taken back; the time to tidy up must not go on counting."""

    async def patient():
        for _ in range(2):
            try:
                async with asyncio.timeout(0.001):
                    await forever()
            except TimeoutError:
                await asyncio.sleep(0.05)
        return "done"

    assert asyncio.run(within(60, patient(), grace=0.01)) == "done"


def test_the_watchdog_sees_each_step():
    watchdog = Watchdog()
    asyncio.run(within(60, slowly(1), watchdog=watchdog, name="a"))
    assert watchdog.seen == ["+a", "-a", "+a", "-a"]


def test_the_watchdog_sees_a_function_too():
    watchdog = Watchdog()
    assert watched(watchdog, "a", max, 1, 2) == 2
    with pytest.raises(ValueError, match="no"):
        watched(watchdog, "b", raising)
    assert watchdog.seen == ["+a", "-a", "+b", "-b"]
    assert watched(None, "c", max, 1, 2) == 2


def raising():
    raise ValueError("no")


def test_a_clock_that_stands_there_already_may_be_paused():
    async def main(pauses):
        clock = Clock(running_task(), 0.02)

        async def waits():
            if pauses:
                clock.pause()
            await asyncio.sleep(0.1)
            return "done"

        return await drive(clock, waits())

    assert asyncio.run(main(pauses=True)) == "done"
    with pytest.raises(LimitExpiredError):
        asyncio.run(main(pauses=False))


def test_what_needs_no_time_needs_no_clock():
    async def main():
        async def at_once():
            return 1

        return await drive(Clock(running_task(), 0.001), at_once())

    assert asyncio.run(main()) == 1
