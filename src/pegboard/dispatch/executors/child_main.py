"""The program of a child process: it takes calls, one at a time, until its parent hangs up.

Plain functions run in the main thread, where signals reach them and where nothing stands between them and the
system; async ones in an event loop that is made for the first of them and kept.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import NoReturn

from pegboard.dispatch.executors.child_line import ChildLine, Ended
from pegboard.dispatch.executors.lifeline import die_with


def main() -> None:
    """Serves the parent that started this process; `sys.argv` holds what it was given."""
    _, link, lifeline, most, *_ = sys.argv
    sys.argv[1:] = []
    die_with(int(lifeline))
    signal.signal(signal.SIGTERM, _end)
    line = ChildLine(socket.socket(fileno=int(link)), int(most))
    _watch_forks(line)
    _say_what_crashed()
    from pegboard.dispatch.executors.child_calls import ChildCalls

    try:
        line.say({"ready": os.getpid()})
        ChildCalls(line).serve()
    except (Ended, OSError):
        return


def _end(*_: object) -> NoReturn:
    raise Ended


def _watch_forks(line: ChildLine) -> None:
    """What a tool forks has no business on the line: it would answer twice, and keep the line open."""
    os.register_at_fork(after_in_child=line.link.close)


def _say_what_crashed() -> None:
    """A crash in C leaves a Python traceback on standard error, which the parent keeps."""
    import faulthandler

    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, errors="backslashreplace")
