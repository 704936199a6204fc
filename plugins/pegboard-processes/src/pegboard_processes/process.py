"""One child Python: its start, its messages and output, and its end."""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, cast

from attrs import define, field

from pegboard.programs import OutputBuffer, ProcessTree
from pegboard_processes.rpc import PIECE, Frames, frame
from pegboard_processes.task import Task

MOST_PRINTED: Final = 8_192
"""How many of the last bytes of a call's output are stored."""

MOST_DRAINED: Final = 1 << 20
"""How many bytes of a pipe are read at once: a tool that prints without end must not block its host."""

LEAVING_SECONDS: Final = 0.5
"""How long a child that has closed its connection may take to exit."""

KILLING_SECONDS: Final = 5.0
"""How long the system may take to end a killed process."""

PROGRAM: Final = "import sys; sys.path[:] = sys.argv[3:]; from pegboard_processes.child import main; main()"


@define(eq=False)
class ChildProcess:
    """A child Python, connected by a socket; the leader of its own process group.

    It serves one call at a time. Only `start`, `end` and `kill` block.

    Attributes:
        process: The child.
        tree: The child and its process group, which end with this process, however that ends.
        link: The socket.
        output: The pipe of its standard output and standard error.
        most: How many bytes one message of it may have.
        calls: How many calls it was sent.
        is_ready: Whether it has reported that it takes tasks.
        is_disconnected: Whether it has closed its connection.
        is_importing: Whether it is still importing the module of the call's tool.
    """

    process: subprocess.Popen[bytes]
    tree: ProcessTree
    link: socket.socket
    output: io.FileIO
    most: int
    calls: int = field(default=0, init=False)
    is_ready: bool = field(default=False, init=False)
    is_disconnected: bool = field(default=False, init=False)
    is_importing: bool = field(default=False, init=False)
    _frames: Frames = field(init=False)
    _known: set[int] = field(factory=set[int], init=False)  # keys of the payloads that it was sent
    _outgoing: bytearray = field(factory=bytearray, init=False)
    _printed: OutputBuffer = field(factory=lambda: OutputBuffer(MOST_PRINTED, 0), init=False)
    _ending: threading.Lock = field(factory=threading.Lock, init=False)
    _at_exit: weakref.finalize[Any, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._frames = Frames(self.most)
        for stream in (self.link, self.output):
            os.set_blocking(stream.fileno(), False)
        # At the interpreter's exit, or once the child isn't referenced any more.
        self._at_exit = weakref.finalize(self, _kill, self.process, self.tree, (self.link, self.output))

    @classmethod
    def start(cls, most: int) -> ChildProcess:
        """Starts a child, without waiting until it is ready.

        Args:
            most: How many bytes one message of it may have.

        Raises:
            OSError: The system can't create a process, or files.
        """
        tree, (link, their_link) = ProcessTree(finds_daemons=False), socket.socketpair()
        try:
            with their_link:
                process: subprocess.Popen[Any] = subprocess.Popen(  # noqa: S603  (this Python, and numbers)
                    [*_python(), "-c", PROGRAM, str(their_link.fileno()), str(most), *filter(None, sys.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    pass_fds=(their_link.fileno(),),
                    **tree.options(),
                )
        except BaseException:
            link.close()
            raise
        tree.add(process.pid)
        return cls(process, tree, link, cast("io.FileIO", process.stdout), most)

    @property
    def is_idle(self) -> bool:
        """Whether it seems to wait for a call: it is connected, and has sent nothing unasked."""
        return not self.is_disconnected and not _readable([self.link], 0)

    @property
    def output_tail(self) -> str:
        """The end of the last call's output."""
        return self._printed.tail.decode(errors="replace")

    def begin(self, task: Task) -> None:
        """Queues a call for it, and discards the output of earlier ones."""
        self.read_output()
        self._printed.clear()
        self.calls += 1
        self.is_importing = task.payload.key not in self._known
        self.send(task if self.is_importing else task.without_payload())
        self._known.add(task.payload.key)

    def send(self, message: object) -> None:
        """Queues a message, which `flush` sends. Only messages to the child are pickled."""
        self._outgoing += frame(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def flush(self) -> bool:
        """Sends as much as possible without blocking; returns whether something is left."""
        while self._outgoing and not self.is_disconnected:
            try:
                sent = self.link.send(self._outgoing)
            except BlockingIOError:
                return True
            except OSError:  # it is gone; what it sent before can still be read
                self._outgoing.clear()
                return False
            del self._outgoing[:sent]
        return False

    def receive(self) -> list[bytes]:
        """The complete messages that have arrived.

        Raises:
            ProtocolError: The next message is too long.
        """
        try:
            piece = self.link.recv(PIECE)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece:
            self.is_disconnected = True
        return list(self._frames.feed(piece))

    def read_output(self) -> bool:
        """Reads its output; returns whether there may be more."""
        read = 0
        while read < MOST_DRAINED and (piece := self.output.read(PIECE)) is not None:
            if not piece:  # the pipe is closed
                return False
            read += len(piece)
            self._printed.add(piece)
        return True

    def end(self, grace: float) -> int | None:
        """Ends the child and its process group: by `SIGTERM`, and after the grace by `SIGKILL`. Blocks.

        Args:
            grace: Seconds between the two; with 0 only the second is sent.

        Returns:
            The exit code if it ended by itself (below 0 a signal's number), `None` if it had to be killed.
        """
        with self._ending:
            return None if self.link.fileno() < 0 else self._end(grace)

    def kill(self) -> None:
        """Kills it with its group, at once."""
        self._at_exit()

    def _end(self, grace: float) -> int | None:
        if grace > 0 and not self.is_disconnected:
            self.tree.signal(signal.SIGTERM)
            self._await_disconnection(grace)
        code = self._exit_code(LEAVING_SECONDS if self.is_disconnected else 0.0)
        # A group keeps its number while it has a member; after that the number is free, but systems assign numbers in
        # turn and don't reuse one soon.
        self.tree.kill()
        self._exit_code(KILLING_SECONDS)
        self.read_output()
        self._at_exit.detach()
        for stream in (self.link, self.output):
            stream.close()
        return code

    def _await_disconnection(self, seconds: float) -> None:
        """Reads until the child disconnects, so that it isn't blocked by full pipes."""
        until, streams = time.monotonic() + seconds, [self.link, self.output]
        while not self.is_disconnected and (left := until - time.monotonic()) > 0:
            readable = _readable(streams, left)
            if self.output in readable and not self.read_output():
                streams.remove(self.output)
            if self.link in readable:
                with suppress(OSError):
                    self.is_disconnected = not self.link.recv(PIECE)

    def _exit_code(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def exit_status(code: int | None) -> str:
    """`"was ended by signal 11 (SIGSEGV)"`, `"ended with exit code 3"`, ..."""
    if code is None:
        return "closed its connection and had to be killed"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def _readable(streams: Sequence[Any], seconds: float) -> list[Any]:
    """The streams that can be read or were closed by the child; by poll, as file descriptors may exceed 1024."""
    poll = select.poll()
    for stream in streams:
        poll.register(stream, select.POLLIN)
    ready = {number for number, _ in poll.poll(seconds * 1000)}
    return [stream for stream in streams if stream.fileno() in ready]


def _python() -> list[str]:
    """This Python, with the options of this process that affect code."""
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [sys.executable, "-P", *optimized, "-X", f"utf8={sys.flags.utf8_mode}"]


def _kill(process: subprocess.Popen[bytes], tree: ProcessTree, streams: Sequence[socket.socket | io.FileIO]) -> None:
    for stream in streams:
        stream.close()
    tree.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLING_SECONDS)
