"""A running command: started, read, waited for and ended in a thread of its own, with all that it has started.

A command has a session and a process group of its own, so one signal reaches what it starts. What leaves the group
(`setsid`, a daemon) is found on Linux by a variable in its environment. What is inside of a sandbox ends with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from pegboard_shell.guard import GUARD
from pegboard_shell.output import Output, OutputBuffer

MARK: Final = "PEGBOARD_SHELL_COMMAND"
"""The variable that all processes of one command have in their environment."""

TIMED_OUT: Final = 124
"""The exit code of a command that was ended at its time limit, as `timeout` has it."""

_CHUNK: Final = 1 << 16
_DRAIN_SECONDS: Final = 1.0  # how long the output may stay open once everything was killed
_DEATH_SECONDS: Final = 5.0  # how long a killed process may take to be gone
_PAUSE: Final = 0.05  # between two hand-outs of output
_LOOK_SECONDS: Final = 0.02  # between two looks, where the system doesn't tell of the end of a process
_MOST_PROBED: Final = 512  # process ids that are tried one by one; of more, the system's list is read
_ROUNDS: Final = 5


_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event, bool]
"""A loop, an event to be set in it, and whether only the end sets it."""


@frozen
class Leftovers:
    """What a command has left running.

    Attributes:
        ended: How many processes were ended.
        running: Those that couldn't be ended, by id.
        holds_output: Whether something that isn't known still holds its output.
    """

    ended: int = 0
    running: tuple[int, ...] = ()
    holds_output: bool = False


@define(eq=False)
class RunningCommand:
    """One command, from its start to its end.

    Attributes:
        argv: Program and arguments.
        environment: All of its environment.
        folder: Where it starts.
        output: What it writes, to both streams, in its order.
        grace: Seconds between asking it to end and killing it.
        limit: Seconds after which it is ended, or `None`.
        has_input: Whether it can be written to; else its input is empty.
        holds: A descriptor that its folder is held open by, or `None`; closed once it has started.
        pid: Its process id, also that of its group; `None` until it has one.
        exit_code: Once it has ended: its own, or 128 and the number of the signal that ended it.
        failure: Why it couldn't be started or followed.
        leftovers: What it left running, once it has ended.
        started: When, in seconds of `time.monotonic()`.
        seconds: How long it took, once it has ended.
        timed_out: Whether its limit has passed, and it was ended for that.
        is_over: Whether it has ended and everything is cleaned up.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    output: OutputBuffer
    grace: float = 2.0
    limit: float | None = None
    has_input: bool = False
    holds: int | None = None
    pid: int | None = field(default=None, init=False)
    exit_code: int | None = field(default=None, init=False)
    failure: BaseException | None = field(default=None, init=False)
    leftovers: Leftovers = field(factory=Leftovers, init=False)
    started: float = field(factory=time.monotonic, init=False)
    seconds: float = field(default=0.0, init=False)
    timed_out: bool = field(default=False, init=False)
    is_over: bool = field(default=False, init=False)
    _mark: str = field(factory=lambda: secrets.token_hex(8), init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)  # conditions are asked while it is held
    _orders: tuple[int, int] = field(factory=os.pipe, init=False)
    _input: IO[bytes] | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _changes: int = field(default=0, init=False)
    _waiting: list[_Waiter] = field(factory=list[Any], init=False)

    def start(self) -> None:
        """Starts it; whether that goes well is known once it has a pid or is over."""
        self._thread = threading.Thread(target=self._run, name=f"pegboard-shell {self.argv[0]:.40}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # there are too many
            self.failure = error
            self._let_go()
            self._finish(None)

    # From outside, in any thread ---------------------------------------------------------------------------------

    def end(self, *, now: bool = False) -> None:
        """Asks it to end, and kills it after the grace; or kills it now."""
        with self._lock:
            if not self.is_over:
                os.write(self._orders[1], b"k" if now else b"t")

    def write(self, data: bytes) -> int:
        """Writes to its input what it takes at once; gives how many bytes that were.

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
        """Lets it read the end of its input."""
        with self._lock:
            if self._input is not None:
                self._input.close()
                self._input = None

    def new_text(self) -> str:
        """The output that wasn't handed out yet."""
        with self._lock:
            return self.output.new_text()

    def has_written(self, text: str) -> bool:
        """Whether this text is in its output."""
        with self._lock:
            return self.output.holds(text.encode())

    def taken(self) -> Output:
        """Its output so far, which is its no more."""
        with self._lock:
            return self.output.taken()

    def join(self, seconds: float) -> None:
        """Blocks until it has ended, and so long at most."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))

    async def until(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        """Waits until a condition holds, which is asked at each output and at the end; whether it does in time."""
        return await self._wait(condition, seconds, ends_only=False)

    async def over(self, seconds: float | None = None) -> bool:
        """Waits until it has ended; whether it has in time."""
        return await self._wait(lambda: self.is_over, seconds, ends_only=True)

    async def follow(self, show: Callable[[str, int], None] | None) -> None:
        """Waits for its end; not much longer than its limit, and what its end takes.

        Args:
            show: Gets new output as text, and how many bytes there are in all.
        """
        seen, last = 0, None if self.limit is None else self.started + self.limit + self.grace + _DEATH_SECONDS
        try:
            while not self.is_over:
                left = None if last is None else last - time.monotonic()
                if left is not None and left <= 0:
                    break
                if show is None:
                    await self.over(left)
                    continue
                await self.until(lambda seen=seen: self._changes != seen, left)
                seen = self._changes
                show(self.new_text(), self.output.size)
                await self.over(_PAUSE)
        except BaseException as error:
            self.end(now=True)
            if isinstance(error, asyncio.CancelledError):
                await self.over(_DEATH_SECONDS)
            raise

    async def _wait(self, condition: Callable[[], bool], seconds: float | None, *, ends_only: bool) -> bool:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    waiter = (loop, asyncio.Event(), ends_only)
                    with self._lock:
                        if condition() or self.is_over:
                            break
                        self._waiting.append(waiter)
                    try:
                        await waiter[1].wait()
                    finally:
                        with self._lock, suppress(ValueError):
                            self._waiting.remove(waiter)
        return condition()

    # In its thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        try:
            try:
                process = self._started()
            finally:
                self._let_go()
            self._follow(process)
        except BaseException as error:  # noqa: BLE001  it is told to the caller
            self.failure = error
        finally:
            self._finish(process)

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603  running it is what this is for
            self.argv,
            stdin=subprocess.PIPE if self.has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd=self.folder,
            env={**self.environment, MARK: self._mark},
            start_new_session=True,
        )
        GUARD.add(process.pid)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        with self._lock:
            self._input, self.pid = process.stdin, process.pid
        self._tell()
        return process

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Reads its output until it has ended, ends it at its limit, and carries out orders."""
        assert process.stdout is not None
        output, orders = process.stdout.fileno(), self._orders[0]
        poller, kill_at = select.poll(), None
        end_at = None if self.limit is None else self.started + self.limit
        poller.register(output, select.POLLIN)
        poller.register(orders, select.POLLIN)
        with _told_of_end(process.pid) as ended:
            if ended is not None:
                poller.register(ended, select.POLLIN)
            while True:
                waits = [max(each - time.monotonic(), 0.0) for each in (kill_at, end_at) if each is not None]
                waits += [] if ended is not None else [_LOOK_SECONDS]
                ready = [each for each, _ in poller.poll(min(waits) * 1_000 + 1 if waits else None)]
                if output in ready and not self._read(output):
                    poller.unregister(output)
                given = os.read(orders, 64) if orders in ready else b""
                if end_at is not None and time.monotonic() >= end_at:
                    end_at, self.timed_out, given = None, True, given or b"t"
                if b"k" in given:
                    kill_at = 0.0
                elif given and kill_at is None:
                    _signal_group(process.pid, signal.SIGTERM)
                    _signal_group(process.pid, signal.SIGCONT)
                    kill_at = time.monotonic() + self.grace
                if kill_at is not None and time.monotonic() >= kill_at:
                    _signal_group(process.pid, signal.SIGKILL)
                    kill_at = None
                if ended in ready or (ended is None and process.poll() is not None):
                    return

    def _read(self, output: int) -> bool:
        """Keeps what is there to be read; whether there may be more."""
        data = os.read(output, _CHUNK)
        with self._lock:
            self.output.add(data)
        self._tell()
        return bool(data)

    def _let_go(self) -> None:
        if self.holds is not None:
            os.close(self.holds)
            self.holds = None

    def _finish(self, process: subprocess.Popen[bytes] | None) -> None:
        """Ends what is left of it, and tells of its end."""
        if process is not None:
            try:
                self._clean_up(process)
            except OSError as error:
                self.failure = self.failure or error
            GUARD.remove(process.pid)
        self.seconds = time.monotonic() - self.started
        with self._lock:
            for descriptor in self._orders:
                os.close(descriptor)
            if self._input is not None:
                self._input.close()
                self._input = None
            self.is_over = True
        self._tell()

    def _clean_up(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        left = set(_marked(process.pid, self._mark)) - {process.pid}
        _signal_group(process.pid, signal.SIGKILL)  # the group can't be another's: its leader isn't waited for yet
        code = process.wait()
        self.exit_code = 128 - code if code < 0 else code
        running = _killed(left, lambda: _marked(process.pid, self._mark))
        holds = not self._drained(process.stdout.fileno())
        process.stdout.close()
        self.leftovers = Leftovers(len(left) - len(running), tuple(sorted(running)), holds and not running)

    def _drained(self, output: int) -> bool:
        """Keeps what is left in the pipe; whether its end was reached."""
        os.set_blocking(output, False)
        poller, limit = select.poll(), time.monotonic() + _DRAIN_SECONDS
        poller.register(output, select.POLLIN)
        while (left := limit - time.monotonic()) > 0 and poller.poll(left * 1_000):
            with suppress(BlockingIOError):
                if not self._read(output):
                    return True
        return False

    def _tell(self) -> None:
        """Wakes up those that wait for output or the end."""
        with self._lock:
            self._changes += 1
            told = [each for each in self._waiting if self.is_over or not each[2]]
            for each in told:
                self._waiting.remove(each)
        for loop, event, _ in told:
            with suppress(RuntimeError):  # a loop that was closed waits for nothing
                loop.call_soon_threadsafe(event.set)


class _told_of_end:  # noqa: N801  (a context manager, used as a function)
    """A descriptor that can be read once a process has ended; `None` where the system has no such thing."""

    def __init__(self, pid: int) -> None:
        self._descriptor = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._descriptor = os.pidfd_open(pid)

    def __enter__(self) -> int | None:
        return self._descriptor

    def __exit__(self, *_: object) -> Literal[False]:
        if self._descriptor is not None:
            os.close(self._descriptor)
        return False


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it is empty, or all that is left runs as another user
        os.killpg(group, number)


def _killed(found: set[int], more: Callable[[], Iterator[int]]) -> set[int]:
    """Kills processes, and what they have started meanwhile; gives those that go on."""
    running = set[int]()
    for _ in range(_ROUNDS):
        if not found:
            break
        running |= _outliving(found)
        found = set(more()) - running
    return running | found


def _outliving(pids: Iterable[int]) -> set[int]:
    """Kills processes and waits for their end; gives those that go on.

    One that is dying gives up its memory, and with that its mark, before it has ended.
    """
    limit, poller, descriptors = time.monotonic() + _DEATH_SECONDS, select.poll(), dict[int, int]()
    try:
        for pid in pids:
            with suppress(OSError):  # it is gone
                os.kill(pid, signal.SIGKILL)
                descriptors[descriptor := os.pidfd_open(pid)] = pid
                poller.register(descriptor, select.POLLIN)
        left = set(descriptors)
        while left and (ready := poller.poll(max(limit - time.monotonic(), 0.0) * 1_000)):
            for descriptor, _ in ready:
                poller.unregister(descriptor)
                left.discard(descriptor)
        return {descriptors[each] for each in left}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _marked(first: int, mark: str) -> Iterator[int]:
    """The processes since `first` that have the mark in their environment; none where the system doesn't show them.

    Ids are given in turn, so where no other was given since, nothing has to be looked at.
    """
    try:
        last = int(Path("/proc/loadavg").read_bytes().split()[-1])
    except (OSError, ValueError, IndexError):
        return
    wanted = f"{MARK}={mark}".encode()
    if first <= last <= first + _MOST_PROBED:
        candidates: Iterator[int] = iter(range(first + 1, last + 1))
    else:
        wrapped = last < first
        candidates = (pid for name in os.listdir("/proc") if name.isdigit() and ((pid := int(name)) > first or wrapped))  # noqa: PTH208
    for pid in candidates:
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  half the price of a Path
            if wanted in file.read():
                yield pid
