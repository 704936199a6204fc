from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

from pegboard import ToolContext, timeout
from pegboard.timeout import (
    Deadline,
    LimitExpiredError,
    Watchdog,
    watched,
    within,
)

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


def test_waits_of_a_loop_share_a_timer(monkeypatch):
    timers, call_at = [], asyncio.base_events.BaseEventLoop.call_at
    monkeypatch.setattr(
        asyncio.base_events.BaseEventLoop,
        "call_at",
        lambda *facts, **more: timers.append(facts) or call_at(*facts, **more),
    )

    async def main():
        await asyncio.gather(*(within(LONG + number, patient()) for number in range(9)))

    asyncio.run(main())
    assert len(timers) == 1


async def test_each_wait_of_a_shared_timer_ends_at_its_own_limit():
    loop, limit = asyncio.get_running_loop(), 0.02

    async def ends():
        begun = loop.time()
        with pytest.raises(LimitExpiredError):
            await within(limit, never())
        return loop.time() - begun

    for _ in range(2):  # the second time, the first timer has ended
        early = asyncio.create_task(ends())
        await within(limit, patient())
        await asyncio.wait({early}, timeout=limit / 2)
        late = asyncio.create_task(ends())
        assert min(await early, await late) >= limit


async def test_many_limits_hold_as_one_does():
    waits = (within(0.001 * (number + 1), never()) for number in range(100))
    ended = await asyncio.gather(*waits, return_exceptions=True)
    assert {type(each) for each in ended} == {LimitExpiredError}


def test_a_closed_loop_is_not_referenced():
    async def main():
        await within(LONG, patient())
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


def test_the_coroutines_own_exception_is_raised():
    async def broken():
        await asyncio.sleep(0)
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        outcome(LONG, broken())


async def test_a_coroutine_may_answer_though_it_was_cancelled():
    """As with `asyncio.timeout`, it may catch the cancellation, clean up and return a value."""

    async def stubborn():
        try:
            await never()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
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
    """If both happen at once, the caller must not see a mere timeout."""

    async def stuck():
        task = asyncio.current_task()
        try:
            await never()
        finally:
            task.cancel()  # as from outside, during the limit's cancellation

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


async def test_pauses_give_no_time_away():
    """A limit goes on between them; those that overlap, or precede the first suspension, are one."""
    deadline = Deadline(0.05)

    async def pausing():
        deadline.pause()
        deadline.pause()
        deadline.resume()
        await asyncio.sleep(0.1)
        deadline.resume()
        while True:
            await asyncio.sleep(0.001)
            deadline.pause()
            deadline.resume()

    begun = time.monotonic()
    with pytest.raises(LimitExpiredError):
        await within(deadline, pausing())
    assert time.monotonic() - begun > 0.14


async def test_a_pause_moves_the_deadline_of_the_call():
    """It has none during the pause."""
    context = ToolContext(deadline=time.monotonic() + LONG)
    before, deadline = context.deadline, Deadline(LONG, context=context)
    deadline.pause()
    remaining = context.remaining
    await asyncio.sleep(0.01)
    deadline.resume()
    assert remaining is None
    assert context.deadline - before > 0.005


async def test_a_deadline_that_was_stopped_begins_anew():
    """A second attempt that ignores its cancellation is closed as the first one."""

    async def stubborn():
        while True:
            try:
                await never()
            except asyncio.CancelledError:
                continue

    deadline = Deadline(0.001, grace=0.001)
    for _ in range(2):
        with pytest.raises(LimitExpiredError):
            await within(deadline, stubborn())
    assert (deadline.was_ignored, asyncio.current_task().cancelling()) == (True, 0)


async def test_a_result_within_the_limit_is_returned():
    async def at_once():
        return 1

    future = asyncio.get_running_loop().create_future()
    future.set_result(3)
    assert [await within(60, each) for each in (at_once(), patient(2), future)] == [1, 2, 3]


def test_a_timeout_inside_ends_nothing_else():
    """Its cancellation is undone, and so must be the grace period."""

    async def patient():
        for _ in range(2):
            try:
                async with asyncio.timeout(0.001):
                    await never()
            except TimeoutError:
                await asyncio.sleep(0.05)
        return "done"

    assert asyncio.run(within(60, patient(), grace=0.01)) == "done"


# Watchdog -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def reports():
    return []


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand, and a watchdog without a thread."""
    monkeypatch.setattr(Watchdog, "start", lambda _self: None)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timeout, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def watching(clock, reports):
    """Runs a function that takes some seconds, and is checked after each, under a watchdog."""
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
    watchdog = watching("slow", *seconds)
    assert [(name, round(after, 2)) for name, after, _ in reports] == expected
    assert all("timeout.py" in where for _, _, where in reports)
    assert (watchdog.blocked, watchdog.check()) == (len(expected), False)


def test_a_long_step_that_no_thread_saw_is_reported_at_its_end(clock, reports):
    """Whether it ends well or not; so is each step of a coroutine."""
    watchdog = Watchdog(limit=-1.0, report=lambda *facts: reports.append(facts))

    async def main():
        await within(Deadline(60, watchdog=watchdog, name="a"), patient(1))

    asyncio.run(main())
    with pytest.raises(TypeError):
        watched(watchdog, "b", max)
    assert reports == [("a", 0.0, ""), ("a", 0.0, ""), ("b", 0.0, "")]
    assert watched(None, "c", max, 1, 2) == 2


def test_of_a_tool_that_calls_a_tool_the_one_that_blocks_is_named(watching, reports):
    """The outer one is watched again once the inner has ended."""
    watching("outer", inside=lambda: watching("inner", 0.2))
    watching("outer", 0.2, inside=lambda: watching("inner"))
    assert [name for name, _, _ in reports] == ["inner", "outer"]


def test_steps_that_begin_while_the_watchdog_looks_disturb_it_in_nothing(clock, reports):
    """A garbage collection in the middle of a look lets other threads go on."""
    watchdog = Watchdog(report=lambda *facts: reports.append(facts))
    watchdog.steps.update({thread: ["slow", clock.now, None] for thread in range(100)})

    def begin_another(phase, _):
        if phase == "start":
            watchdog.steps[len(watchdog.steps)] = ["another", clock.now, None]

    threshold = gc.get_threshold()
    gc.callbacks.append(begin_another)
    gc.set_threshold(1)
    try:
        assert watchdog.check() is True
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(begin_another)
    assert len(watchdog.steps) > 100
    assert reports == []


def test_each_thread_has_its_own_step(watching, reports):
    thread = threading.Thread(target=watching, args=("there", 0.2))
    watching("here", inside=lambda: (thread.start(), thread.join()))
    assert [name for name, _, _ in reports] == ["here", "there"]


def test_a_thread_sees_a_blocked_loop_and_ends_when_there_is_nothing_to_see(monkeypatch):
    """Two steps, each reported by a thread of its own."""
    monkeypatch.setattr(timeout, "IDLE_CHECKS", 1)
    seen = threading.Event()
    watchdog = Watchdog(limit=0.001, report=lambda *_: seen.set())
    for _ in range(2):
        before = set(threading.enumerate())
        assert watched(watchdog, "blocks", seen.wait, 60)
        for looking in set(threading.enumerate()) - before:
            looking.join(60)
            assert not looking.is_alive()
        assert watchdog.is_running is False
        seen.clear()


def test_a_step_that_begins_just_before_the_thread_ends_is_looked_after():
    started = []

    class Late(Watchdog):
        def check(self):
            self.steps[0] = ["late", 0.0, None]
            return False

        def start(self):
            started.append(self.is_running)

    watchdog = Late(limit=0.001)
    watchdog.is_running = True
    watchdog._watch()
    assert started == [False]


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_the_watchdog_looks_at_threads(monkeypatch, reports, collects):
    """In Python 3.11 it would now and then hang the whole process."""
    seen, current_frames = [], sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or current_frames())
    watchdog = Watchdog(limit=-1.0, report=lambda *facts: reports.append(facts))
    watchdog.is_running = True
    try:
        if not collects:
            gc.disable()
        watched(watchdog, "blocks", watchdog.check)
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        gc.enable()
    assert reports[0][0] == "blocks"


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
