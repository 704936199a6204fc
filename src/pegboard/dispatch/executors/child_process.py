"""`ChildProcess`: one child Python, as its parent holds it."""

from __future__ import annotations

import io
import math
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, TypeVar

from attrs import define, field

from pegboard.dispatch.executors.frames import Frames, framed
from pegboard.dispatch.executors.luggage import Errand

PIECE: Final = 65_536
MOST_PRINTED: Final = 8_192
"""How many bytes of what a call prints are kept: the last ones."""

LEAVING_SECONDS: Final = 0.5
"""How long a child that has hung up may take to be gone."""

KILLING_SECONDS: Final = 5.0
"""How long the system may take to end what was killed."""

PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; from pegboard.dispatch.executors.child_main import main; main()"
)

End = TypeVar("End", socket.socket, io.FileIO)


@define(eq=False)
class ChildProcess:
    """One child Python: the leader of its own process group, at the other end of a socket.

    It belongs to one thread at a time; only `ring` may be called by any.

    Attributes:
        process: The child.
        link: What is said and heard.
        output: What it prints, on standard output and standard error.
        lifeline: While this is open, it may live.
        bell: Wakes the thread that listens; the first end is listened to.
        most: How many bytes one message of it may have.
        calls: How many calls it was given.
        is_ready: Whether it has begun to listen.
        has_hung_up: Whether it will say no more.
    """

    process: subprocess.Popen[bytes]
    link: socket.socket
    output: io.FileIO
    lifeline: io.FileIO
    bell: tuple[socket.socket, socket.socket]
    most: int
    calls: int = field(default=0, init=False)
    is_ready: bool = field(default=False, init=False)
    has_hung_up: bool = field(default=False, init=False)
    _frames: Frames = field(init=False)
    _known: set[int] = field(factory=set[int], init=False)  # the parcels that it has
    _outgoing: bytearray = field(factory=bytearray, init=False)
    _printed: bytearray = field(factory=bytearray, init=False)
    _poll: Any = field(factory=select.poll, init=False)
    _last_will: weakref.finalize[Any, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._frames = Frames(self.most)
        for stream in (self.link, self.output, *self.bell):
            os.set_blocking(stream.fileno(), False)
        for stream in (self.link, self.output, self.bell[0]):
            self._poll.register(stream, select.POLLIN)
        # At exit, and where nobody holds it any more.
        streams = (self.link, self.output, self.lifeline, *self.bell)
        self._last_will = weakref.finalize(self, _kill, self.process, os.getpid(), streams)

    @classmethod
    def start(cls, most: int) -> ChildProcess:
        """Starts a child; it is ready a moment later.

        Args:
            most: How many bytes one message of it may have.

        Raises:
            OSError: The system gives no process, or no files.
        """
        with ExitStack() as ours, ExitStack() as theirs:
            link, their_link = map(_entered, (ours, theirs), socket.socketpair())
            output, printed = map(_entered, (ours, theirs), _pipe())
            their_lifeline, lifeline = map(_entered, (theirs, ours), _pipe())
            heard, rung = map(_entered, (ours, ours), socket.socketpair())
            numbers = (their_link.fileno(), their_lifeline.fileno())
            process = subprocess.Popen(  # noqa: S603  (this Python, and numbers)
                [*_python(), "-c", PROGRAM, *map(str, (*numbers, most)), *filter(None, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=numbers,
                start_new_session=True,
            )
            ours.pop_all()
        return cls(process, link, output, lifeline, (heard, rung), most)

    @property
    def is_well(self) -> bool:
        """Whether it waits for a call, as far as can be seen: it is there, and says nothing unasked."""
        return not self.has_hung_up and not any(number == self.link.fileno() for number, _ in self._poll.poll(0))

    @property
    def printed(self) -> str:
        """What the last call printed, its end."""
        return self._printed.decode(errors="replace")

    def say(self, message: object) -> None:
        """Sends something, as soon as the child takes it. Pickle goes this way only."""
        self._outgoing += framed(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        self._send()

    def begin(self, errand: Errand) -> None:
        """Gives it a call; what it printed before isn't this one's."""
        self._printed.clear()
        self.calls += 1
        self.say(errand.sent(with_parcel=errand.key not in self._known))
        self._known.add(errand.key)

    def ring(self) -> None:
        """Wakes the thread that listens; from any thread."""
        with suppress(OSError):  # it rings already, or the child is gone
            self.bell[1].send(b"!")

    def listen(self, seconds: float | None) -> list[bytes]:
        """What the child says next; nothing where time is up, the bell rings, or it only prints.

        Args:
            seconds: How long to wait; `None` is no limit.

        Raises:
            FrameError: It announces a message that is too long.
        """
        wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
        self._poll.modify(self.link, wanted)
        ready = {
            number for number, _ in self._poll.poll(None if seconds is None else math.ceil(max(seconds, 0) * 1000))
        }
        if self.output.fileno() in ready:
            self._read_output()
        if self.bell[0].fileno() in ready:
            self.bell[0].recv(PIECE)
        if self.link.fileno() not in ready:
            return []
        self._send()
        return self._hear()

    def end(self, grace: float) -> int | None:
        """Ends the child and all of its process group: asks it to end, and kills what is left after a moment.

        Args:
            grace: How many seconds it has.

        Returns:
            The code that it ended with by itself (a signal's number below 0), `None` where it had to be killed.
        """
        self._signal(signal.SIGTERM)
        self._await_end(grace)
        return self.bury()

    def bury(self) -> int | None:
        """Sees to it that a child that has hung up is gone, and everything that it has started in its group.

        Returns:
            As `end`.
        """
        code = self._exit_code(LEAVING_SECONDS if self.has_hung_up else 0.0)
        # A group lives for as long as one of its members does, and keeps its number; once all are gone, the number is
        # free, but systems hand numbers out in turn, not the same one twice.
        self._signal(signal.SIGKILL)
        self._exit_code(KILLING_SECONDS)
        self._read_output()
        self._last_will.detach()
        self._close()
        return code

    def _close(self) -> None:
        for stream in (self.link, self.output, self.lifeline, *self.bell):
            stream.close()

    def _send(self) -> None:
        while self._outgoing and not self.has_hung_up:
            try:
                sent = self.link.send(self._outgoing)
            except BlockingIOError:
                return
            except OSError:  # it has hung up; what it said before is still to be heard
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    def _hear(self) -> list[bytes]:
        try:
            piece = self.link.recv(PIECE)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece:
            self.has_hung_up = True
        return list(self._frames.feed(piece))

    def _read_output(self) -> None:
        piece = self.output.read(PIECE)
        if piece == b"":  # nobody is left who could print
            with suppress(KeyError):
                self._poll.unregister(self.output)
        elif piece is not None:
            self._printed += piece
            del self._printed[:-MOST_PRINTED]

    def _await_end(self, seconds: float) -> None:
        """Listens until the child has hung up, so that it doesn't have to wait for its parent to take what it says."""
        until = time.monotonic() + seconds
        while not self.has_hung_up and (left := until - time.monotonic()) > 0:
            with suppress(ValueError):
                self.listen(left)

    def _exit_code(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: PermissionError for a group of zombies
            os.killpg(self.process.pid, number)


def _pipe() -> tuple[io.FileIO, io.FileIO]:
    """A pipe's reading end and its writing end."""
    reading, writing = os.pipe()
    return io.FileIO(reading, "r"), io.FileIO(writing, "w")


def _entered(stack: ExitStack, end: End) -> End:
    return stack.enter_context(end)


def _python() -> list[str]:
    """This Python, run as this one is as far as code depends on it."""
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [sys.executable, "-P", *optimized, "-X", f"utf8={sys.flags.utf8_mode}"]


def _kill(process: subprocess.Popen[bytes], owner: int, streams: Sequence[socket.socket | io.FileIO]) -> None:
    for stream in streams:
        stream.close()
    if os.getpid() != owner:
        return  # a fork of the parent: the child isn't its own
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
