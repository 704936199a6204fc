"""A pipe by which tests see that programs have ended."""

from __future__ import annotations

import os
import time

import pytest
from attrs import frozen


@frozen
class Lifeline:
    """A named pipe that a program, and what it starts, holds as long as it lives.

    Attributes:
        held: What a shell's script begins with, to hold it.
    """

    held: str
    _fd: int

    def wait(self) -> None:
        """Comes back once nothing holds it."""
        deadline = time.monotonic() + 30
        while True:
            try:
                if os.read(self._fd, 100) == b"":
                    return
            except BlockingIOError:
                os.sched_yield()
            assert time.monotonic() < deadline, "something lives on"


@pytest.fixture
def lifeline(tmp_path):
    path = tmp_path / "lifeline"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield Lifeline(f"exec 9>{path}; ", fd)
    os.close(fd)
