"""Waiting for what other processes do."""

from __future__ import annotations

import os
import time
from pathlib import Path

PATIENCE = 20  # seconds; only a broken test waits so long


def is_there(pid):
    """Whether a process runs; a zombie that waits for init doesn't."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not Path("/proc/self").exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition):
    """Polls until it holds; what it waits for is another process."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def written(file):
    """What another process has written into a file."""
    until(lambda: file.exists() and file.read_text())
    return file.read_text()
