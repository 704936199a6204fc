"""The processes of a program, and their end.

A program has a session and a process group of its own, so that one signal reaches its processes. Those that leave the
group (`setsid`, a daemon) are found on Linux by a variable in their environment.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

JOB: Final = "PEGBOARD_JOB"
"""Environment variable of the marks of all trees that a process belongs to; `ProcessTree.options` adds to it."""

_DEATH_SECONDS: Final = 5.0  # how long a killed process may take to exit
POLL_SECONDS: Final = 0.02  # interval of polling for the end of a process, without pidfd
_MOST_PROBED: Final = 512  # process ids that are tried one by one; for more, the system's list is read
_ROUNDS: Final = 10
_EXEC_PAUSES: Final = (0.0, 0.001, 0.004, 0.015)  # before each reading of processes whose environment was empty
_LONG_EXEC_PAUSES: Final = (0.06, 0.25, 1.0)  # further ones, for those that are still within `execve`
_SIZE_AT: Final = 20  # index of `vsize` in `/proc/PID/stat`, after the name
_ENVIRONMENT_END_AT: Final = 48  # index of `env_end`
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, the latter kills


@frozen
class Leftovers:
    """Processes that a program has left running.

    Attributes:
        ended: How many were killed.
        running: The ids of those that couldn't be killed.
        holds_output: Whether an unknown process still holds the output open.
    """

    ended: int = 0
    running: tuple[int, ...] = ()
    holds_output: bool = False


@define(eq=False)
class ProcessTree:
    """A program's process and those that it starts, for a program that is started in any way.

    `options` are for its start, `add` comes right after it, and `kill` ends all. If this program ends before, even by
    `SIGKILL`, the process group is killed. A fork of this program can't signal or kill it.

    Attributes:
        finds_daemons: Whether processes that leave the group are killed too; only Linux shows them.
        pid: The id of the program's process and group; `None` until it was started.
    """

    finds_daemons: bool = True
    pid: int | None = field(default=None, init=False)
    _mark: str = field(factory=lambda: secrets.token_hex(8), init=False)

    def options(self, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The options of `Popen`, or of asyncio, for a program with this environment, by default this process's."""
        marks = [os.environ.get(JOB, ""), self._mark if self.finds_daemons else ""]
        marked = {JOB: " ".join(filter(None, marks))} if any(marks) else {}
        return {"env": {**(os.environ if env is None else env), **marked}, "start_new_session": True}

    def add(self, pid: int) -> None:
        """Sets the id of the process that was started."""
        self.pid = pid
        GUARD.add(pid)

    def signal(self, number: int) -> None:
        """Sends a signal to the process group, until it was killed: after that, its number may be another's."""
        if self.pid is not None and self.pid in GUARD.groups:
            with suppress(ProcessLookupError, PermissionError):  # it is empty, or the rest belongs to another user
                getattr(os, "killpg", os.kill)(self.pid, number)

    def kill(self) -> Leftovers:
        """Kills all processes; best before the program's own is waited for, as its number can be reused after that."""
        if self.pid is None or self.pid not in GUARD.groups:
            return Leftovers()
        left = self._find(self.pid)
        self.signal(KILL)
        GUARD.remove(self.pid)
        found, running, empty = left, set[int](), 0
        for _ in range(_ROUNDS):
            running |= _outliving(found)
            found = self._find(self.pid) - running
            left = left | found
            empty = 0 if found else empty + 1
            if empty == 2:  # one search misses a process that forks and ends between the listing and the reading
                break
        running |= found
        return Leftovers(len(left) - len(running), tuple(sorted(running)))

    def _find(self, first: int) -> set[int]:
        return set(_find_marked(first, self._mark)) - {first} if self.finds_daemons else set()


def _outliving(pids: Iterable[int]) -> set[int]:
    """Kills processes and waits until they have ended, and with that their marks; returns those that still run."""
    limit, descriptors = time.monotonic() + _DEATH_SECONDS, dict[int, int]()
    for pid in pids:
        with suppress(OSError):  # it is gone
            os.kill(pid, KILL)
            if (descriptor := pidfd(pid)) is None:
                time.sleep(POLL_SECONDS)
            else:
                descriptors[descriptor] = pid
    running = set[int]()
    for descriptor, pid in descriptors.items():
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(max(limit - time.monotonic(), 0.0) * 1_000):
            running.add(pid)
        os.close(descriptor)
    return running


def pidfd(pid: int) -> int | None:
    """A descriptor that can be read once a process has ended, if the system has them."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def _find_marked(first: int, mark: str) -> Iterator[int]:
    """The processes since `first` that have the mark in their environment; none if the system doesn't show them.

    Ids are assigned in turn, so only those since `first` have to be searched. Within `execve`, a process has no
    environment for a moment, so those without one are read again; on a busy machine that moment may be long.
    """
    try:
        last = int(Path("/proc/loadavg").read_bytes().split()[-1])
        names = range(first, last + 1) if 0 <= last - first <= _MOST_PROBED else os.listdir("/proc")  # noqa: PTH208
    except (OSError, ValueError, IndexError):
        return
    wanted, candidates = mark.encode(), [pid for name in names if str(name).isdigit() and (pid := int(name))]
    for pause in (*_EXEC_PAUSES, *_LONG_EXEC_PAUSES):
        time.sleep(pause)
        empty = list[int]()
        for pid in candidates:
            with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  twice as fast as a Path
                environment = file.read()
                if wanted in environment:
                    yield pid
                elif not environment and _may_be_in_execve(pid, surely=pause >= _EXEC_PAUSES[-1]):
                    empty.append(pid)
        if not (candidates := empty):
            return


def _may_be_in_execve(pid: int, *, surely: bool) -> bool:
    """Whether a process without environment has memory, unlike a zombie; `surely`: and not even an empty one yet."""
    facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return facts[_SIZE_AT] != b"0" and (not surely or facts[_ENVIRONMENT_END_AT] == b"0")


_SCRIPT: Final = r"""
trap '' HUP INT TERM
while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


@define(eq=False)
class _Guard:
    """Guard process, started with the first program, that kills those that run when this process ends, however.

    It is a small shell that reads from a pipe, line by line, which process groups there are now. Only this process
    holds the pipe's other end: once it is closed, this process has ended. (`PR_SET_PDEATHSIG` doesn't work: it fires
    when a thread ends, and only on Linux.)
    """

    groups: set[int] = field(factory=set[int], init=False)
    _pipe: int | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def add(self, group: int) -> None:
        with self._lock:
            self.groups.add(group)
            self._write()

    def remove(self, group: int) -> None:
        """Removes a group that has ended, as its number may be reused."""
        with self._lock:
            self.groups.discard(group)
            self._write()

    def forget(self) -> None:
        """Resets the guard in a fork, whose parent owns the programs."""
        self._lock = threading.Lock()
        self.groups.clear()
        self._close()

    def _write(self) -> None:
        for _ in range(2):  # the guard may have been killed
            try:
                if self._pipe is None:
                    self._pipe = _start_guard()
                os.write(self._pipe, f"{' '.join(map(str, self.groups))}\n".encode())
            except (OSError, ValueError):  # likewise without a shell, or on Windows: then there is no guard
                self._close()
            else:
                return

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _start_guard() -> int:
    """Starts a guard process, and returns the writing end of its pipe."""
    null, env = subprocess.DEVNULL, {"PATH": "/usr/bin:/bin"}
    guard = subprocess.Popen(  # noqa: S603  our own script
        ["/bin/sh", "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=null, stderr=null, env=env, process_group=0
    )
    guard.returncode = 0  # it outlives this process, and is never waited for
    assert guard.stdin is not None
    with guard.stdin:
        return os.dup(guard.stdin.fileno())


GUARD: Final = _Guard()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=GUARD.forget)
