"""A guard that kills the commands of a program which ends without ending them, whatever it ends by.

It is one small shell that reads the process groups from a pipe. The pipe's other end is this program's alone: once it
is closed, the program has ended. (`PR_SET_PDEATHSIG` would not do: it fires when a thread ends, and only on Linux.)
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
    """The guard of this program; its shell is started with the first command."""

    _groups: set[int] = field(factory=set[int], init=False)
    _pipe: int | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def add(self, group: int) -> None:
        """This process group has to end with the program."""
        with self._lock:
            self._groups.add(group)
            self._write(f"+ {group}\n", self._groups)

    def remove(self, group: int) -> None:
        """It has ended; its number may become another's."""
        with self._lock:
            self._groups.discard(group)
            if self._pipe is not None:
                self._write(f"- {group}\n", self._groups)

    def forget(self) -> None:
        """In a program that was forked off: what its parent has started isn't its own."""
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
        with suppress(OSError):  # without a shell there is no guard
            self._pipe = _started()
            os.write(self._pipe, "".join(f"+ {group}\n" for group in groups).encode())


def _started() -> int:
    """The writing end of the pipe that a new guard reads."""
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
