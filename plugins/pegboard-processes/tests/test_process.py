from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from running import PATIENCE, call_of, is_there, until

from pegboard_processes import process
from pegboard_processes.process import ChildProcess, exit_status
from pegboard_processes.task import task_for

MOST = 1 << 20


@pytest.fixture
def child():
    """A child that is ready."""
    made = ChildProcess.start(MOST)
    assert received(made).startswith(b'{"ready": ')
    yield made
    made.end(0.0)


def task(tool, **arguments):
    call = call_of(tool, **arguments)
    return task_for(call, call.request, (), arguments)


def received(child):
    """Waits for the next message, sending and reading output in between."""
    while True:
        assert process._readable([child.link], PATIENCE)
        child.flush()
        child.read_output()
        if messages := child.receive():
            return messages[0]
        assert not child.is_disconnected


@pytest.mark.slow
def test_a_child_that_is_stopped_is_killed(child):
    os.kill(child.process.pid, signal.SIGSTOP)
    assert child.end(0.05) is None
    assert not is_there(child.process.pid)


def test_sending_to_a_child_that_is_gone_is_ignored(child):
    child.process.kill()
    until(lambda: not is_there(child.process.pid))
    child.begin(task("add", a="x" * 5_000_000))
    assert not child.flush()
    while not child.is_disconnected:
        child.receive()
    assert not child.is_idle
    assert child.end(0.0) == -signal.SIGKILL


@pytest.mark.slow
def test_a_child_that_died_with_unread_data_is_disconnected(child):
    """The system then reports that the connection was reset, not that it has ended."""
    child.link.shutdown(socket.SHUT_WR)
    until(lambda: not is_there(child.process.pid))
    child._outgoing += b"never read"
    while not child.is_disconnected:
        child.flush()
        child.receive()
    assert child.end(0.0) == 0


def test_no_file_is_left_open_if_the_process_cant_be_started(monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    before = {*Path("/dev/fd").iterdir()}
    with pytest.raises(BlockingIOError):
        ChildProcess.start(MOST)
    assert {*Path("/dev/fd").iterdir()} <= before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "closed its connection and had to be killed"),
        (0, "ended with exit code 0"),
        (-9, "was ended by signal 9 (SIGKILL)"),
        (-200, "was ended by signal 200"),
    ],
)
def test_exit_statuses(code, words):
    assert exit_status(code) == words
