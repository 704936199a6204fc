from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from dispatch.executors.isolated_tools import tool_named
from dispatch.executors.watching import PATIENCE, is_there, until
from pegboard.dispatch.executors import child_process
from pegboard.dispatch.executors.child_process import ChildProcess
from pegboard.dispatch.executors.luggage import errand_for
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.context import ToolContext

MOST = 1 << 20


@pytest.fixture
def child():
    """A child that listens."""
    made = ChildProcess.start(MOST)
    assert made.listen(PATIENCE)[0].startswith(b'{"ready": ')
    yield made
    if not made.link._closed:
        made.end(0.0)


def errand(text):
    request = ExecutionRequest(tool="length_of", arguments={"text": text})
    return errand_for(tool_named("length_of"), request, ToolContext())


def answer(child):
    while not (heard := child.listen(PATIENCE)):
        assert not child.has_hung_up
    return heard[0]


def test_it_takes_errands_longer_than_a_socket_holds(child):
    child.begin(errand("x" * 5_000_000))
    assert b'"result": 5000000' in answer(child)


def test_a_bell_that_is_rung_from_elsewhere_ends_the_wait(child):
    child.ring()
    assert child.listen(PATIENCE) == []
    assert child.is_well


def test_a_bell_may_be_rung_without_end_and_after_the_end(child):
    for _ in range(100_000):
        child.ring()
    child.end(1.0)
    child.ring()


def test_ending_it_gives_the_code_that_it_ended_with_by_itself(child):
    assert child.end(PATIENCE) == 0
    assert child.has_hung_up
    assert not is_there(child.process.pid)


def test_one_that_is_stopped_has_to_be_killed(child):
    os.kill(child.process.pid, signal.SIGSTOP)
    assert child.end(0.05) is None
    assert not is_there(child.process.pid)


def test_saying_something_to_one_that_is_gone_is_no_fault(child):
    child.process.kill()
    until(lambda: not is_there(child.process.pid))
    child.begin(errand("x" * 5_000_000))
    while not child.has_hung_up:
        child.listen(PATIENCE)
    assert not child.is_well
    assert child.bury() == -signal.SIGKILL


def test_one_that_died_with_something_unheard_has_hung_up(child):
    """The system then says that the connection was reset, not that it has ended."""
    child.link.shutdown(socket.SHUT_WR)
    until(lambda: not is_there(child.process.pid))
    child._outgoing += b"never heard"
    while not child.has_hung_up:
        child.listen(PATIENCE)
    assert child.bury() == 0


def test_of_what_it_prints_the_end_is_kept(child):
    """Its standard output is closed before it is full: the parent reads all the time."""
    child.begin(
        errand_for(tool_named("say"), ExecutionRequest(tool="say", arguments={"words": "y" * 300_000}), ToolContext())
    )
    answer(child)
    assert len(child.printed) == child_process.MOST_PRINTED
    assert "y" * 1000 in child.printed


def test_a_fork_of_the_parent_leaves_the_child_alone(child):
    """Its exit would run the same last will."""
    child_process._kill(child.process, os.getpid() + 1, ())
    assert is_there(child.process.pid)


def test_nothing_is_left_open_where_the_system_gives_no_process(monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError

    monkeypatch.setattr(child_process.subprocess, "Popen", refuse)
    before = len([*Path("/dev/fd").iterdir()])
    with pytest.raises(BlockingIOError):
        ChildProcess.start(MOST)
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_it_is_this_python_run_as_this_one_is(monkeypatch):
    monkeypatch.setattr(child_process.sys, "flags", type("Flags", (), {"optimize": 2, "utf8_mode": 1}))
    assert child_process._python() == [sys.executable, "-P", "-OO", "-X", "utf8=1"]
