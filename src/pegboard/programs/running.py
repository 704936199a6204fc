"""A program that runs within limits: its output, its time limit, and its end."""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import selectors
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, Generic, TypeVar

from attrs import Factory, define, evolve, field

from pegboard.programs.tree import KILL, POLL_SECONDS, Leftovers, ProcessTree, pidfd

_CHUNK: Final = 1 << 16
_DRAIN_SECONDS: Final = 1.0  # how long the output may stay open once everything was killed
_DEATH_SECONDS: Final = 5.0  # how long a killed program may take to exit
_PAUSE: Final = 0.05  # between two events of output


@define(eq=False)
class OutputBuffer:
    """Buffer of the beginning and the end of what is written to it; for any thread.

    Attributes:
        most: How many bytes it stores.
        most_head: How many of them are of the beginning; half of them by default.
        size: How many bytes were written.
        lock: Held while it changes.
        head: The beginning.
        tail: What came last after that.
    """

    most: int
    most_head: int = Factory(lambda self: self.most // 2, takes_self=True)
    size: int = field(default=0, init=False)
    lock: threading.RLock = field(factory=threading.RLock, init=False)
    head: bytearray = field(factory=bytearray, init=False)
    tail: bytearray = field(factory=bytearray, init=False)

    def add(self, data: bytes) -> None:
        """Appends output."""
        with self.lock:
            self.size += len(data)
            room = self.most_head - len(self.head)
            self.head += data[:room]
            self.tail += data[room:]
            del self.tail[: max(len(self.tail) - self.most + self.most_head, 0)]

    def parts(self) -> tuple[bytes, int, bytes]:
        """The beginning, how many bytes after it were dropped, and the end."""
        with self.lock:
            return bytes(self.head), self.size - len(self.head) - len(self.tail), bytes(self.tail)

    def clear(self) -> None:
        """Removes everything."""
        with self.lock:
            self.size = 0
            self.head.clear()
            self.tail.clear()


Buffer = TypeVar("Buffer", bound=OutputBuffer)


@define(eq=False)
class RunningProgram(Generic[Buffer]):
    """A program that a thread of its own starts, reads, waits for and ends, with all processes that it starts.

    It is killed when this process exits. A fork of this process can't end it.

    Attributes:
        argv: Program and arguments.
        output: The buffer of its standard output.
        errors: The buffer of its standard error; `None` is that of `output`, where both are interleaved.
        env: Its complete environment; this process's by default.
        folder: Its working folder; this process's by default.
        stdin: Its input; with `None` it is what `write` sends.
        limit: Time limit in seconds, or `None`.
        grace: Seconds between `SIGTERM` and `SIGKILL`.
        linger: Seconds that other processes may hold its output open once it has exited, before they are killed.
        ends_floods: Whether it is ended as soon as it writes more than a buffer stores; else the middle is dropped.
        tree: Its processes.
        holds: A descriptor that holds its folder open, or `None`; closed when it ends.
        pid: The id of its process and group; `None` until it was started.
        code: Once it has ended: its exit code, or minus the number of the signal that ended it.
        failure: The exception of starting or reading it, or `None`.
        leftovers: The processes that it left running, once it has ended.
        started: Start time, as of `time.monotonic()`.
        seconds: Run time, once it has ended.
        timed_out: Whether it was ended at its limit.
        flooded: Whether it was ended for its output.
        is_over: Whether it has ended and everything is cleaned up.
    """

    argv: Sequence[str]
    output: Buffer
    errors: OutputBuffer | None = field(default=None, kw_only=True)
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    folder: str | None = field(default=None, kw_only=True)
    stdin: bytes | None = field(default=b"", kw_only=True)
    limit: float | None = field(default=None, kw_only=True)
    grace: float = field(default=2.0, kw_only=True)
    linger: float = field(default=0.0, kw_only=True)
    ends_floods: bool = field(default=False, kw_only=True)
    tree: ProcessTree = field(factory=ProcessTree, kw_only=True)
    holds: int | None = field(default=None, kw_only=True)
    pid: int | None = field(default=None, init=False)
    code: int | None = field(default=None, init=False)
    failure: BaseException | None = field(default=None, init=False)
    leftovers: Leftovers = field(factory=Leftovers, init=False)
    started: float = field(factory=time.monotonic, init=False)
    seconds: float = field(default=0.0, init=False)
    timed_out: bool = field(default=False, init=False)
    flooded: bool = field(default=False, init=False)
    is_over: bool = field(default=False, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)  # conditions are evaluated while it is held
    _orders: tuple[int, int] = field(factory=os.pipe, init=False)
    _input: IO[bytes] | None = field(default=None, init=False)
    _unwritten: memoryview = field(default=memoryview(b""), init=False)
    _selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector, init=False)
    _end_at: float = field(default=math.inf, init=False)  # as of `time.monotonic()`, like all times here
    _kill_at: float = field(default=math.inf, init=False)
    _open: dict[int, OutputBuffer] = field(factory=dict[int, OutputBuffer], init=False)  # buffers by descriptor
    _polled: subprocess.Popen[bytes] | None = field(default=None, init=False)  # where no descriptor shows its exit
    _exited: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _changes: int = field(default=0, init=False)
    _waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event, bool]] = field(factory=set[Any], init=False)

    def start(self) -> None:
        """Starts it in a thread; it has succeeded once there is a `pid`, and failed if it is over without one."""
        if os.name != "posix":  # the pipes of a program can't be polled
            self.failure = OSError("programs can be run on Linux and macOS, but not on Windows")
            self._finish()
            return
        self._thread = threading.Thread(target=self._run, name=f"pegboard-program {self.argv[0]:.40}", daemon=True)
        _STARTED.add(self)
        try:
            self._thread.start()
        except RuntimeError as error:  # too many threads
            self._thread, self.failure = None, error
            self._finish()

    # From outside, in any thread ---------------------------------------------------------------------------------

    def end(self, *, now: bool = False) -> None:
        """Terminates it, and kills it after the grace; or kills it now."""
        if self._thread is None or self._thread.is_alive():  # a fork doesn't have the thread
            with self._lock:
                if not self.is_over:
                    os.write(self._orders[1], b"k" if now else b"t")

    def write(self, data: bytes | memoryview) -> int:
        """Writes to its input without blocking; returns how many bytes were written.

        Raises:
            BrokenPipeError: It has closed its input, or has ended.
        """
        with self._lock:
            if self._input is None:
                raise BrokenPipeError
            try:
                return os.write(self._input.fileno(), data)
            except BlockingIOError:
                return 0

    def close_input(self) -> None:
        """Closes its input."""
        with self._lock:
            if self._input is not None:
                self._input.close()
                self._input = None

    def join(self, seconds: float) -> None:
        """Blocks until it has ended, for at most so long."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))

    async def until(self, condition: Callable[[], bool] | None, seconds: float | None = None) -> bool:
        """Waits for a condition, evaluated at each output and at the end, or for the end if there is none.

        Returns:
            Whether it became true within so many seconds.
        """
        holds, changed = condition or (lambda: self.is_over), asyncio.Event()
        waiter = (asyncio.get_running_loop(), changed, condition is None)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while True:
                        with self._lock:
                            changed.clear()
                            if holds() or self.is_over:
                                break
                            self._waiting.add(waiter)
                        await changed.wait()
        finally:
            with self._lock:
                self._waiting.discard(waiter)
        return holds()

    async def wait(self, on_output: Callable[[], None] | None = None) -> None:
        """Waits until it has ended, or for its limit and the time to end it; kills it if the caller is cancelled.

        Args:
            on_output: Called after new output.
        """
        seen, last = 0, None if self.limit is None else self.started + self.limit + self.grace

        def seconds_left() -> float | None:
            return None if last is None else max(last - time.monotonic(), 0.0)

        try:
            while on_output is not None and not self.is_over and seconds_left() != 0.0:
                await self.until(lambda seen=seen: self._changes != seen, seconds_left())
                seen = self._changes
                on_output()
                await self.until(None, _PAUSE)
            await self.until(None, seconds_left())
            await self.until(None, _DEATH_SECONDS)  # perhaps this process was stopped meanwhile
        except BaseException as error:
            self.end(now=True)
            if isinstance(error, asyncio.CancelledError):
                await self.until(None, _DEATH_SECONDS)
            raise

    # In its thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            with subprocess.Popen[bytes](
                self.argv,
                stdin=null if self.stdin == b"" else pipe,
                stdout=pipe,
                stderr=subprocess.STDOUT if self.errors is None else pipe,
                bufsize=0,
                cwd=self.folder,
                **self.tree.options(self.env),
            ) as process:
                self.tree.add(process.pid)
                try:
                    self._watch(process)
                    self._follow(lambda: self._exited)
                    self._end_at = math.inf
                    self._follow(lambda: not self._open, self.linger)
                finally:
                    left = self.tree.kill()
                    self.code = process.wait()
                    self._follow(lambda: not self._open, _DRAIN_SECONDS)
                    self.close_input()
                    self.leftovers = evolve(left, holds_output=bool(self._open) and not left.running)
        except BaseException as error:  # noqa: BLE001  it is reported to the caller
            self.failure = error
        self._finish()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        register, reads = self._selector.register, selectors.EVENT_READ
        register(self._orders[0], reads, self._obey)
        for stream, buffer in ((process.stdout, self.output), (process.stderr, self.errors)):
            if stream is not None and buffer is not None:
                self._open[stream.fileno()] = buffer
                register(stream, reads, self._read)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            if self.stdin:
                self._unwritten = memoryview(self.stdin)
                register(process.stdin, selectors.EVENT_WRITE, self._feed)
        if (ended := pidfd(process.pid)) is not None:
            register(ended, reads, self._exit)
        else:
            self._polled = process
        if self.limit is not None:
            self._end_at = self.started + self.limit
        with self._lock:
            self._input, self.pid = process.stdin, process.pid
        self._notify()

    def _follow(self, is_done: Callable[[], bool], seconds: float = math.inf) -> None:
        """Reads, writes, and ends it when that is due, until a condition holds, for at most so long."""
        last = time.monotonic() + seconds
        while not is_done() and (now := time.monotonic()) < last:
            if now >= self._end_at:
                self._end_at, self.timed_out = math.inf, True
                self._terminate()
            if now >= self._kill_at:
                self._kill_at = math.inf
                self.tree.signal(KILL)
            wait = min(last, self._end_at, self._kill_at) - now
            if self._polled is not None:
                wait, self._exited = min(wait, POLL_SECONDS), self._polled.poll() is not None
            for key, _ in self._selector.select(None if wait == math.inf else wait):
                key.data(key.fd)

    def _read(self, descriptor: int) -> None:
        data, buffer = os.read(descriptor, _CHUNK), self._open[descriptor]
        if not data:
            del self._open[descriptor]
            self._selector.unregister(descriptor)
        buffer.add(data)
        if self.ends_floods and not self.flooded and buffer.size > buffer.most:
            self.flooded = True
            self._terminate()
        self._notify()

    def _feed(self, descriptor: int) -> None:
        """Writes what its input takes, and closes it after the last of it, or if the program has."""
        try:
            self._unwritten = self._unwritten[self.write(self._unwritten[:_CHUNK]) :]
        except BrokenPipeError:
            self._unwritten = memoryview(b"")
        if not self._unwritten:
            self._selector.unregister(descriptor)
            self.close_input()

    def _obey(self, descriptor: int) -> None:
        if b"k" in os.read(descriptor, 64):
            self._kill_at = 0.0
        else:
            self._terminate()

    def _exit(self, descriptor: int) -> None:
        self._exited = True
        self._selector.unregister(descriptor)
        os.close(descriptor)

    def _terminate(self) -> None:
        if self._kill_at == math.inf:
            self.tree.signal(signal.SIGTERM)
            self.tree.signal(signal.SIGCONT)
            self._kill_at = time.monotonic() + self.grace

    def _finish(self) -> None:
        self.seconds = time.monotonic() - self.started
        with self._lock:
            for descriptor in (*self._orders, self.holds):
                if descriptor is not None:
                    os.close(descriptor)
            self._selector.close()
            self.is_over = True
        self._notify()

    def _notify(self) -> None:
        """Wakes the waiters for output, and at the end all waiters."""
        with self._lock:
            self._changes += 1
            waiters = {each for each in self._waiting if self.is_over or not each[2]}
            self._waiting -= waiters
        for loop, event, _ in waiters:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(event.set)


_STARTED: Final = weakref.WeakSet[RunningProgram[Any]]()


@atexit.register
def _end_at_exit() -> None:
    """Kills what still runs, and waits: the guard that kills it without this can't find daemons."""
    programs, last = [*_STARTED], time.monotonic() + _DEATH_SECONDS
    for program in programs:
        program.end(now=True)
    for program in programs:
        program.join(last - time.monotonic())
