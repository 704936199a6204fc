"""The lifeline: a pipe that the parent holds open, and never writes to, for as long as its child may live.

However the parent ends, the system closes its end, and the child's whole process group is killed. On Linux the kernel
does that by itself (the pipe's signal is set to `SIGKILL`, its owner to the group), even while the tool holds the
interpreter's lock or is stuck in C. `PR_SET_PDEATHSIG` would not do: it fires when the *thread* ends that started the
child, and it spares the grandchildren. Elsewhere a thread of the child waits for the end of the pipe.
"""

from __future__ import annotations

import os
import signal
import threading


def die_with(lifeline: int) -> None:
    """Binds the life of this process's group to the other end of a pipe.

    Args:
        lifeline: The file descriptor of the reading end.
    """
    try:
        _by_the_kernel(lifeline)
    except (AttributeError, OSError):  # not Linux, or a sandbox that forbids it
        threading.Thread(target=_by_waiting, args=(lifeline,), name="pegboard-lifeline", daemon=True).start()


def _by_the_kernel(lifeline: int) -> None:
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if _has_ended(lifeline):  # before the signal was set
        os.killpg(0, signal.SIGKILL)


def _has_ended(lifeline: int) -> bool:
    import select

    return bool(select.select([lifeline], [], [], 0)[0])


def _by_waiting(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)
