from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from pegboard.dispatch.limit import MOST_IDLE, Clock as CallClock, LimitExpiredError, _Watch, _watches, rest_within
from pegboard.tools.context import ToolContext

LONG = 3600.0


def clock_of(seconds):
    return CallClock(asyncio.current_task(), seconds)


async def within(seconds, coroutine):
    return await rest_within(clock_of(seconds), coroutine, coroutine.send(None))


async def never():
    await asyncio.Event().wait()


def outcome(seconds, coroutine):
    async def main():
        return await within(seconds, coroutine)

    return asyncio.run(main())


async def patient(value="value"):
    await asyncio.sleep(0)
    return value


def count_timers(monkeypatch):
    """How often a timer is set."""
    timers = []
    call_at = asyncio.base_events.BaseEventLoop.call_at

    def counted(loop, when, *rest, **options):
        timers.append(when)
        return call_at(loop, when, *rest, **options)

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "call_at", counted)
    return timers


def test_without_a_limit_there_is_no_timer(monkeypatch):
    timers = count_timers(monkeypatch)
    assert outcome(None, patient()) == "value"
    assert timers == []


def test_calls_with_one_limit_share_one_timer(monkeypatch):
    """A timer for each call costs as much as the call."""
    timers = count_timers(monkeypatch)

    async def main():
        first = await asyncio.gather(*(within(LONG, patient(number)) for number in range(50)))
        return first, [await within(LONG, patient(number)) for number in range(3)]

    assert asyncio.run(main()) == (list(range(50)), [0, 1, 2])
    assert len(timers) == 1


def test_each_limit_has_its_own_time():
    async def main():
        long = asyncio.ensure_future(within(LONG, never()))
        with pytest.raises(LimitExpiredError):
            await within(0.001, never())
        stays = not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        return stays

    assert asyncio.run(main())


class Clock:
    """Stands in for a loop: its time is set, and its timers are only written down."""

    def __init__(self):
        self.now, self.timers, self.kept = 0.0, [], []

    def time(self):
        return self.now

    def call_at(self, when, function, *arguments):
        self.timers.append(when)
        self.kept.append(Job())
        return self.kept[-1]


class Job:
    """Stands in for a task."""

    cancelled = False

    def cancel(self):
        self.cancelled = True


def test_deadlines_pass_one_after_the_other():
    clock, watch, jobs = Clock(), _Watch(10.0), [Job() for _ in range(4)]
    deadlines = []
    for clock.now, job in zip((0.0, 0.0, 3.0, 5.0), jobs, strict=True):
        deadlines.append(watch.add(clock, job))
    del watch.deadlines[deadlines[2]]  # its call has ended
    clock.now = 10.0
    watch.look(clock)
    assert [job.cancelled for job in jobs] == [True, True, False, False]
    assert clock.timers == [10.0, 15.0]
    clock.now = 15.0
    watch.look(clock)
    assert [job.cancelled for job in jobs] == [True, True, False, True]
    clock.now = 20.0
    watch.add(clock, Job())
    assert clock.timers == [10.0, 15.0, 30.0]


def test_a_deadline_is_not_kept_when_the_call_has_ended():
    async def main():
        await within(LONG, patient())
        return [watch.deadlines for watch in _watches[asyncio.get_running_loop()].values()]

    assert asyncio.run(main()) == [{}]


def test_a_loop_that_is_gone_is_not_kept():
    async def main():
        await within(LONG, patient())
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


def test_a_coroutine_that_waits_gives_its_value():
    async def waiting():
        await asyncio.sleep(0)
        first = await asyncio.sleep(0, "first")
        return first, await asyncio.get_running_loop().run_in_executor(None, lambda: "second")

    assert outcome(LONG, waiting()) == ("first", "second")


def test_what_it_raises_comes_out_as_it_is():
    async def broken():
        await asyncio.sleep(0)
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        outcome(LONG, broken())


def test_at_the_limit_it_is_cancelled():
    cleaned = []

    async def stuck():
        try:
            await never()
        finally:
            await asyncio.sleep(0)
            cleaned.append("cleaned")

    with pytest.raises(LimitExpiredError):
        outcome(0.001, stuck())
    assert cleaned == ["cleaned"]


def test_the_task_goes_on_uncancelled_after_the_limit():
    async def main():
        with pytest.raises(LimitExpiredError):
            await within(0.001, never())
        await asyncio.sleep(0)
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


def test_a_coroutine_may_answer_though_it_was_cancelled():
    """As with `asyncio.timeout`: who catches the cancellation and answers has answered."""

    async def stubborn():
        try:
            await never()
        except asyncio.CancelledError:
            return "anyway"

    async def main():
        value = await within(0.001, stubborn())
        return value, asyncio.current_task().cancelling()

    assert asyncio.run(main()) == ("anyway", 0)


def test_cancellation_from_outside_reaches_the_coroutine_and_stays_a_cancellation():
    seen = []

    async def stuck():
        try:
            await never()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main():
        task = asyncio.ensure_future(within(LONG, stuck()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(main())
    assert seen == ["cancelled"]


def test_cancellation_from_outside_wins_over_the_limit():
    """Both at once: whoever waits outside must not be told that only a limit has passed."""

    async def stuck():
        task = asyncio.current_task()
        try:
            await never()
        finally:
            task.cancel()  # as from outside, while the limit's own is on its way

    async def main():
        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(within(0.001, stuck()))

    asyncio.run(main())


def test_limits_within_limits_end_the_one_that_has_passed():
    async def inner():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await never()
        with pytest.raises(LimitExpiredError):
            await within(0.001, never())
        return "went on"

    assert outcome(LONG, inner()) == "went on"


def test_an_outer_timeout_of_the_host_still_works():
    async def main():
        async with asyncio.timeout(0.001):
            await within(LONG, never())

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_closing_the_wait_closes_the_coroutine():
    closed = []

    class Forever:
        def __await__(self):
            yield

    async def open_ended():
        try:
            await Forever()
        finally:
            closed.append(True)

    async def main():
        coroutine = open_ended()
        waiting = rest_within(clock_of(LONG), coroutine, coroutine.send(None))
        waiting.send(None)
        waiting.close()

    asyncio.run(main())
    assert closed == [True]


def test_a_coroutine_that_swallows_cancellation_is_closed(monkeypatch):
    """After the time to tidy up; its caller gets the answer, and the next await of the caller is undisturbed."""
    from pegboard.dispatch import limit

    monkeypatch.setattr(limit, "GRACE_SECONDS", 0.01)
    swallowed: list[str] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append("cancelled")

    async def call() -> None:
        running = stubborn()
        with pytest.raises(LimitExpiredError):
            await limit.rest_within(clock_of(0.01), running, running.send(None))
        await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(call())
    assert swallowed == ["cancelled"]


def test_a_cancelled_coroutine_may_tidy_up():
    """What it awaits on its way out is awaited."""
    tidied: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append("yes")

    async def call() -> None:
        running = tidy()
        with pytest.raises(LimitExpiredError):
            await rest_within(clock_of(0.01), running, running.send(None))

    asyncio.run(call())
    assert tidied == ["yes"]


def test_pauses_give_no_time_away():
    async def main():
        clock = clock_of(LONG)
        clock.start()
        left = [clock.seconds]
        for _ in range(20):
            clock.pause()
            clock.resume()
            left.append(clock.seconds)
        clock.stop()
        return left

    left = asyncio.run(main())
    assert left == sorted(left, reverse=True)
    assert left[-1] < LONG


def test_a_pause_moves_the_deadline_of_the_call():
    """Meanwhile it has none; pauses may overlap."""

    async def main():
        context = ToolContext(deadline=time.monotonic() + LONG)
        before, clock = context.deadline, CallClock(asyncio.current_task(), LONG, context=context)
        clock.start()
        clock.pause()
        clock.pause()
        await asyncio.sleep(0.01)
        clock.resume()
        meanwhile = context.remaining
        clock.resume()
        clock.stop()
        return meanwhile, context.deadline - before

    meanwhile, moved = asyncio.run(main())
    assert meanwhile is None
    assert moved > 0.005


def test_many_different_limits_leave_few_timers():
    async def main():
        for number in range(3 * MOST_IDLE):
            await within(LONG + number, patient())
        return len(_watches[asyncio.get_running_loop()])

    assert asyncio.run(main()) == MOST_IDLE


def test_a_limit_whose_timer_has_run_is_not_kept():
    async def main():
        with pytest.raises(LimitExpiredError):
            await within(0.001, never())
        return list(_watches[asyncio.get_running_loop()])

    assert 0.001 not in asyncio.run(main())


def test_a_clock_that_was_stopped_begins_anew():
    """A second attempt that ignores its cancellation is given up as a first one is."""

    async def stubborn():
        while True:
            try:
                await never()
            except asyncio.CancelledError:
                continue

    async def main():
        clock = CallClock(asyncio.current_task(), 0.001, grace=0.001)
        for _ in range(2):
            running = stubborn()
            with pytest.raises(LimitExpiredError):
                await rest_within(clock, running, running.send(None))
        return clock.was_ignored, asyncio.current_task().cancelling()

    assert asyncio.run(main()) == (True, 0)
