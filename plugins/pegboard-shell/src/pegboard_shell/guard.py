"""Guard process that kills the commands of this program when it ends without ending them, even by `SIGKILL`.

It is a small shell that reads process groups from a pipe. Only this program holds the pipe's other end: once it is
closed, the program has ended. (`PR_SET_PDEATHSIG` doesn't work: it fires when a thread ends, and only on Linux.)
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

from attrs import define, field

_SCRIPT: Final = r"""
trap '' HUP INT TERM
groups=' '
while read -r word group; do
  case $word in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


@define(eq=False)
class Guard:
    """The guard process of this program, started with the first command."""

    _groups: set[int] = field(factory=set[int], init=False)
    _pipe: int | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def add(self, group: int) -> None:
        """Adds a process group, which is killed when the program ends."""
        with self._lock:
            self._groups.add(group)
            self._write(f"+ {group}\n", self._groups)

    def remove(self, group: int) -> None:
        """Removes a process group that has ended, as its number may be reused."""
        with self._lock:
            self._groups.discard(group)
            if self._pipe is not None:
                self._write(f"- {group}\n", self._groups)

    def forget(self) -> None:
        """Resets the guard in a fork, whose parent owns the commands."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _write(self, line: str, groups: set[int]) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
            except OSError:  # it was killed
                os.close(self._pipe)
                self._pipe = None
            else:
                return
        with suppress(OSError):  # without a shell, there is no guard
            self._pipe = _start()
            os.write(self._pipe, "".join(f"+ {group}\n" for group in groups).encode())


def _start() -> int:
    """Starts a guard process, and returns the writing end of its pipe."""
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    try:
        os.posix_spawn("/bin/sh", ["sh", "-c", _SCRIPT], {"PATH": "/usr/bin:/bin"}, file_actions=actions, setpgroup=0)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
        os.close(null)
    return writing


GUARD: Final = Guard()
os.register_at_fork(after_in_child=GUARD.forget)
