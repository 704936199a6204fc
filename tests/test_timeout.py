from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

from pegboard import timeout
from pegboard.timeout import (
    Deadline,
    LimitExpiredError,
    Watchdog,
    running_task,
    watched,
    within,
)
from pegboard.tools.context import ToolContext

LONG = 3600.0


async def never():
    await asyncio.Event().wait()


def outcome(seconds, coroutine):
    async def main():
        return await within(seconds, coroutine)

    return asyncio.run(main())


async def patient(value="value"):
    await asyncio.sleep(0)
    return value


def test_without_a_limit_there_is_no_timer(monkeypatch):
    timers = []
    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "call_at", lambda *facts: timers.append(facts))
    assert outcome(None, patient()) == "value"
    assert timers == []


async def test_each_limit_has_its_own_time():
    long = asyncio.ensure_future(within(LONG, never()))
    with pytest.raises(LimitExpiredError):
        await within(0.001, never())
    assert asyncio.current_task().cancelling() == 0
    stays = not long.done()
    long.cancel()
    await asyncio.gather(long, return_exceptions=True)
    assert stays


def test_a_loop_that_is_gone_is_not_kept():
    async def main():
        await within(LONG, patient())
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


def test_what_it_raises_comes_out_as_it_is():
    async def broken():
        await asyncio.sleep(0)
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        outcome(LONG, broken())


async def test_a_coroutine_may_answer_though_it_was_cancelled():
    """As with `asyncio.timeout`: who catches the cancellation and answers has answered."""

    async def stubborn():
        try:
            await never()
        except asyncio.CancelledError:
            return "anyway"

    value = await within(0.001, stubborn())
    assert (value, asyncio.current_task().cancelling()) == ("anyway", 0)


async def test_cancellation_from_outside_reaches_the_coroutine_and_stays_a_cancellation():
    seen = []

    async def stuck():
        try:
            await never()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(within(LONG, stuck()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert seen == ["cancelled"]


async def test_cancellation_from_outside_wins_over_the_limit():
    """Both at once: whoever waits outside must not be told that only a limit has passed."""

    async def stuck():
        task = asyncio.current_task()
        try:
            await never()
        finally:
            task.cancel()  # as from outside, while the limit's own is on its way

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(within(0.001, stuck()))


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


async def test_closing_the_wait_closes_the_coroutine():
    closed = []

    class Forever:
        def __await__(self):
            yield

    async def open_ended():
        try:
            await Forever()
        finally:
            closed.append(True)

    waiting = within(LONG, open_ended())
    waiting.send(None)
    waiting.close()
    assert closed == [True]


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
        with pytest.raises(LimitExpiredError):
            await within(0.01, tidy())

    asyncio.run(call())
    assert tidied == ["yes"]


async def test_pauses_give_no_time_away():
    deadline = Deadline(running_task(), LONG)
    deadline.start()
    left = [deadline.seconds]
    for _ in range(20):
        deadline.pause()
        deadline.resume()
        left.append(deadline.seconds)
    deadline.stop()
    assert left == sorted(left, reverse=True)
    assert left[-1] < LONG


async def test_a_pause_moves_the_deadline_of_the_call():
    """Meanwhile it has none; pauses may overlap."""
    context = ToolContext(deadline=time.monotonic() + LONG)
    before, deadline = context.deadline, Deadline(running_task(), LONG, context=context)
    deadline.start()
    deadline.pause()
    deadline.pause()
    await asyncio.sleep(0.01)
    deadline.resume()
    meanwhile = context.remaining
    deadline.resume()
    deadline.stop()
    assert meanwhile is None
    assert context.deadline - before > 0.005


async def test_a_deadline_that_was_stopped_begins_anew():
    """A second attempt that ignores its cancellation is given up as a first one is."""

    async def stubborn():
        while True:
            try:
                await never()
            except asyncio.CancelledError:
                continue

    deadline = Deadline(running_task(), 0.001, grace=0.001)
    for _ in range(2):
        with pytest.raises(LimitExpiredError):
            await within(deadline, stubborn())
    assert (deadline.was_ignored, asyncio.current_task().cancelling()) == (True, 0)


async def test_what_comes_in_time_is_given():
    async def at_once():
        return 1

    future = asyncio.get_running_loop().create_future()
    future.set_result(3)
    assert [await within(60, each) for each in (at_once(), patient(2), future)] == [1, 2, 3]


def test_a_timeout_inside_ends_nothing_else():
    """Its cancellation is taken back; the time to clean up must not go on counting."""

    async def patient():
        for _ in range(2):
            try:
                async with asyncio.timeout(0.001):
                    await never()
            except TimeoutError:
                await asyncio.sleep(0.05)
        return "done"

    assert asyncio.run(within(60, patient(), grace=0.01)) == "done"


def test_a_deadline_may_be_paused():
    async def main(pauses):
        deadline = Deadline(running_task(), 0.02)

        async def waits():
            if pauses:
                deadline.pause()
            await asyncio.sleep(0.1)
            return "done"

        return await within(deadline, waits())

    assert asyncio.run(main(pauses=True)) == "done"
    with pytest.raises(LimitExpiredError):
        asyncio.run(main(pauses=False))


# Watchdog -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def reports():
    return []


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand, and no thread that looks."""
    monkeypatch.setattr(Watchdog, "start", lambda _self: None)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timeout, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def watching(clock, reports):
    """A watchdog, and a function that takes so many seconds and is looked at meanwhile."""
    watching = Watchdog(report=lambda *facts: reports.append(facts))

    def passing(name, *seconds, inside=lambda: None):
        def work():
            inside()
            for each in seconds:
                clock.now += each
                assert watching.check() is True
            return "done"

        assert watched(watching, name, work) == "done"
        return watching

    return passing


@pytest.mark.parametrize(("seconds", "expected"), [((0.05,), []), ((0.2, 0.2), [("slow", 0.2)])])
def test_a_long_step_is_reported_once_while_it_lasts_and_a_short_one_not(watching, reports, seconds, expected):
    dog = watching("slow", *seconds)
    assert [(name, round(after, 2)) for name, after, _ in reports] == expected
    assert all("timeout.py" in where for _, _, where in reports)
    assert (dog.blocked, dog.check()) == (len(expected), False)


def test_a_long_step_that_no_thread_saw_is_reported_at_its_end(clock, reports):
    """Whether it ends well or not; so is each step of a coroutine."""
    dog = Watchdog(limit=-1.0, report=lambda *facts: reports.append(facts))

    async def main():
        await within(Deadline(running_task(), 60, watchdog=dog, name="a"), patient(1))

    asyncio.run(main())
    with pytest.raises(TypeError):
        watched(dog, "b", max)
    assert reports == [("a", 0.0, ""), ("a", 0.0, ""), ("b", 0.0, "")]
    assert watched(None, "c", max, 1, 2) == 2


def test_of_a_tool_that_calls_a_tool_the_one_that_blocks_is_named(watching, reports):
    """The outer one is looked after again when the inner is done."""
    watching("outer", inside=lambda: watching("inner", 0.2))
    watching("outer", 0.2, inside=lambda: watching("inner"))
    assert [name for name, _, _ in reports] == ["inner", "outer"]


def test_each_thread_has_its_own_step(watching, reports):
    thread = threading.Thread(target=watching, args=("there", 0.2))
    watching("here", inside=lambda: (thread.start(), thread.join()))
    assert [name for name, _, _ in reports] == ["here", "there"]


def test_a_thread_sees_a_blocked_loop_and_ends_when_there_is_nothing_to_see(monkeypatch):
    """One step after the other is seen, each by one thread."""
    monkeypatch.setattr(timeout, "IDLE_CHECKS", 1)
    seen = threading.Event()
    dog = Watchdog(limit=0.001, report=lambda *_: seen.set())
    for _ in range(2):
        before = set(threading.enumerate())
        assert watched(dog, "blocks", seen.wait, 60)
        for looking in set(threading.enumerate()) - before:
            looking.join(60)
            assert not looking.is_alive()
        assert dog.is_running is False
        seen.clear()


def test_a_step_that_begins_just_before_the_thread_ends_is_looked_after():
    started = []

    class Late(Watchdog):
        def check(self):
            self.steps[0] = ["late", 0.0, None]
            return False

        def start(self):
            started.append(self.is_running)

    dog = Late(limit=0.001)
    dog.is_running = True
    dog._watch()
    assert started == [False]


def test_without_a_thread_it_is_reported_at_the_end(monkeypatch, reports):
    def none(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    watched(Watchdog(limit=-1.0, report=lambda *facts: reports.append(facts)), "blocks", print)
    assert [name for name, _, _ in reports] == ["blocks"]


def test_the_operator_reads_it_in_the_log(clock, caplog):
    with caplog.at_level(logging.WARNING, "pegboard"):
        watched(Watchdog(limit=-1.0), "slow", print)
    assert caplog.messages == ["slow blocks the event loop, for 0.0 s so far; run it in a thread"]


def test_a_report_that_raises_is_logged_and_the_step_goes_on(clock, caplog):
    def raises(*_facts):
        raise LookupError("the host's own")

    assert watched(Watchdog(limit=-1.0, report=raises), "slow", max, 1, 2) == 2
    assert "the watchdog's report failed" in caplog.text
