from __future__ import annotations

import logging
import threading

import pytest

from pegboard.dispatch import watchdog
from pegboard.dispatch.watchdog import Watchdog, log_blocked, place_of


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
    assert "test_watchdog.py" in where or "watchdog.py" in where
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
        log_blocked("slow", 0.25, ", at tools.py:12 in compute")
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
