"""A person at a terminal, in which `registry` runs as a process of its own."""
# pyright: basic

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from contextlib import suppress

SECONDS = 120  # for anything that is waited for


def command(*argv):
    """The command `registry` as this Python runs it."""
    return [sys.executable, "-m", "pegboard", *argv]


class Terminal:
    """A person at a terminal: reads until something is shown, and types."""

    def __init__(self, argv, environ, folder=None):
        ours, its = pty.openpty()
        mode = termios.tcgetattr(its)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(its, termios.TCSANOW, mode)
        self.process = subprocess.Popen(
            command(*argv),
            env=environ,
            cwd=folder,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=lambda: _take(its),  # noqa: PLW1509  one thread forks here
        )
        os.close(its)
        self.ours = ours
        self.raw, self.shown, self.seen = b"", "", 0

    def until(self, text):
        """Waits until this was shown, once more than the last time it was waited for."""
        while (found := self.shown.find(text, self.seen)) < 0:
            assert select.select([self.ours], [], [], SECONDS)[0], self.shown
            try:
                piece = os.read(self.ours, 4096)
            except OSError as error:  # its other side has gone
                raise AssertionError(f"{text!r} was never shown: {self.shown}") from error
            self._show(piece)
        self.seen = found + len(text)

    def type(self, text):
        """Types it."""
        os.write(self.ours, text.encode())

    def end(self):
        """Waits for the end; gives the exit code."""
        with suppress(OSError):  # a terminal whose other side has gone
            while piece := os.read(self.ours, 4096):
                self._show(piece)
        os.close(self.ours)
        return self.process.wait(timeout=SECONDS)

    def _show(self, piece):
        """Adds what was read, which may end within a character or a line end."""
        self.raw += piece
        self.shown = self.raw.decode(errors="replace").replace("\r\n", "\n")


def _take(terminal):
    """Makes it the terminal of the new session."""
    import fcntl

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
