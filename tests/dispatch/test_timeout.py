from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref

import pytest

from pegboard.dispatch import timeout as watchdog
from pegboard.dispatch.timeout import (
    Deadline,
    LimitExpiredError,
    Watchdog,
    _log_blocked,
    place_of,
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


def test_a_coroutine_that_swallows_cancellation_is_closed():
    """After the time to clean up; its caller gets the answer, and the next await of the caller is undisturbed."""
    swallowed: list[str] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append("cancelled")

    async def call() -> None:
        with pytest.raises(LimitExpiredError):
            await within(0.01, stubborn(), grace=0.01)
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


class Steps:
    """Writes down the steps that it sees."""

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


async def test_what_comes_in_time_is_given():
    async def at_once():
        return 1

    future = asyncio.get_running_loop().create_future()
    future.set_result(3)
    assert [await within(60, each) for each in (at_once(), slowly(2), future)] == [1, 2, 3]


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


def test_the_watchdog_sees_each_step():
    watchdog = Steps()
    asyncio.run(within(60, slowly(1), watchdog=watchdog, name="a"))
    assert watchdog.seen == ["+a", "-a", "+a", "-a"]


def test_the_watchdog_sees_a_function_too():
    watchdog = Steps()
    assert watched(watchdog, "a", max, 1, 2) == 2
    with pytest.raises(ValueError, match="no"):
        watched(watchdog, "b", raising)
    assert watchdog.seen == ["+a", "-a", "+b", "-b"]
    assert watched(None, "c", max, 1, 2) == 2


def raising():
    raise ValueError("no")


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


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(watchdog, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(Watchdog, "_look_out", lambda _self: None)
    return Clock(monkeypatch)


@pytest.fixture
def reports():
    return []


@pytest.fixture
def watching(clock, reports):
    return Watchdog(report=lambda *facts: reports.append(facts))


def test_a_short_step_is_nothing_to_tell(watching, clock, reports):
    step = watching.enter("quick")
    clock.now = 0.05
    assert watching.look() is True
    watching.leave(step)
    assert reports == []
    assert watching.look() is False


def test_a_long_step_is_reported_while_it_lasts_once(watching, clock, reports):
    step = watching.enter("slow")
    clock.now = 0.2
    watching.look()
    clock.now = 0.4
    watching.look()
    watching.leave(step)
    ((name, seconds, where),) = reports
    assert (name, seconds) == ("slow", 0.2)
    assert "test_timeout.py" in where or "timeout.py" in where
    assert watching.blocked == 1


def test_a_long_step_that_nobody_saw_is_reported_at_its_end(watching, clock, reports):
    step = watching.enter("slow")
    clock.now = 0.2
    watching.leave(step)
    assert reports == [("slow", 0.2, "")]


def test_of_a_tool_that_calls_a_tool_the_one_that_blocks_is_named(watching, clock, reports):
    outer = watching.enter("outer")
    inner = watching.enter("inner")
    clock.now = 0.2
    watching.look()
    watching.leave(inner)
    watching.leave(outer)
    assert [name for name, _, _ in reports] == ["inner"]


def test_the_outer_tool_is_looked_after_again_when_the_inner_is_done(watching, clock, reports):
    outer = watching.enter("outer")
    watching.leave(watching.enter("inner"))
    clock.now = 0.2
    watching.look()
    watching.leave(outer)
    assert [name for name, _, _ in reports] == ["outer"]


def test_several_threads_are_told_apart(watching, clock, reports):
    entered, done = threading.Event(), threading.Event()

    def other():
        step = watching.enter("other")
        entered.set()
        done.wait()
        watching.leave(step)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    watching.leave(watching.enter("here"))
    clock.now = 0.2
    watching.look()
    clock.now = 0.0
    done.set()
    thread.join()
    assert [name for name, _, _ in reports] == ["other"]


def test_a_thread_sees_a_blocked_loop_and_ends_when_there_is_nothing_to_see():
    """The step goes on until the thread has told of it."""
    told = threading.Event()
    dog = Watchdog(limit=0.001, report=lambda *_: told.set())
    before = set(threading.enumerate())
    step = dog.enter("blocks")
    (looking,) = set(threading.enumerate()) - before
    assert told.wait(60)
    dog.leave(step)
    looking.join(60)
    assert not looking.is_alive()
    assert dog._is_looking is False


def test_a_step_that_begins_as_the_thread_would_end_is_looked_after(monkeypatch):
    """It has seen that somebody looks, just after the last look."""
    monkeypatch.setattr(watchdog, "IDLE_LOOKS", 1)
    begun = []

    class Late(Watchdog):
        def look(self):
            seen = super().look()
            if not begun:
                begun.append(self.enter("late"))
            return seen

    def tell(name, *_facts):
        told.append(name)
        dog.leave(begun[0])

    told = []
    dog = Late(limit=0.001, report=tell)
    dog._is_looking = True
    dog._keep_looking()
    assert told == ["late"]
    assert dog._is_looking is False


def test_a_thread_that_has_been_followed_by_another_ends():
    class Followed(Watchdog):
        def look(self):
            self._is_looking = True
            return True

    dog = Followed()
    assert dog._goes_on() is False
    assert dog._is_looking is True


def test_without_a_thread_it_is_told_at_the_end(monkeypatch, reports):
    def none(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    dog = Watchdog(limit=-1.0, report=lambda *facts: reports.append(facts))
    dog.leave(dog.enter("blocks"))
    assert [name for name, _, _ in reports] == ["blocks"]


def test_only_one_thread_looks(monkeypatch):
    dog = Watchdog()
    dog._is_looking = True
    monkeypatch.setattr(threading, "Thread", None)
    dog._look_out()


def test_the_operator_reads_it_in_the_log(caplog):
    with caplog.at_level(logging.WARNING, "pegboard"):
        _log_blocked("slow", 0.25, ", at tools.py:12 in compute")
    assert caplog.messages == [
        "slow blocks the event loop, for 0.2 s up to now, at tools.py:12 in compute; run it off the loop"
    ]


def test_a_report_that_raises_is_told_and_the_looking_goes_on(clock, caplog):
    def raises(*_facts):
        raise LookupError("the host's own")

    dog = Watchdog(report=raises)
    step = dog.enter("slow")
    clock.now = 0.2
    assert dog.look() is True
    dog.leave(step)
    assert "the watchdog's report failed" in caplog.text


def test_a_thread_that_has_gone_is_nowhere():
    assert place_of(-1) == ""
