"""A pipe by which tests detect that programs have ended."""

from __future__ import annotations

import os
import time

import pytest
from attrs import frozen

from pegboard_commands import file_tools


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, a file may take a while to load."""
    monkeypatch.setattr(file_tools, "LOAD_SECONDS", 60.0)


@frozen
class Lifeline:
    """A named pipe that a program and its child processes hold open until they end.

    Attributes:
        hold: The beginning of a shell script that holds it open.
    """

    hold: str
    _fd: int

    def wait(self) -> None:
        """Returns once no process holds it open."""
        deadline = time.monotonic() + 60
        while True:
            try:
                if os.read(self._fd, 100) == b"":
                    return
            except BlockingIOError:
                os.sched_yield()
            assert time.monotonic() < deadline, "a process still runs"


@pytest.fixture
def lifeline(tmp_path):
    path = tmp_path / "lifeline"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield Lifeline(f"exec 9>{path}; ", fd)
    os.close(fd)
