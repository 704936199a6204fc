"""A running command, which a thread of its own starts, reads, waits for and ends, with all processes that it starts.

A command has a session and a process group of its own, so that one signal reaches its processes. Those that leave the
group (`setsid`, a daemon) are found on Linux by a variable in their environment. A sandbox ends all processes in it.
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
"""The exit code of a command that was ended at its time limit, as in `timeout`."""

_CHUNK: Final = 1 << 16
_DRAIN_SECONDS: Final = 1.0  # how long the output may stay open once everything was killed
_DEATH_SECONDS: Final = 5.0  # how long a killed process may take to exit
_PAUSE: Final = 0.05  # between two events of output
_POLL_SECONDS: Final = 0.02  # interval of polling for the end of a process, without pidfd
_MOST_PROBED: Final = 512  # process ids that are tried one by one; for more, the system's list is read
_ROUNDS: Final = 5
_EXEC_PAUSES: Final = (0.0, 0.001, 0.004, 0.015)  # before each reading of processes whose environment was empty
_LONG_EXEC_PAUSES: Final = (0.06, 0.25, 1.0)  # further ones, for those that are still within `execve`
_SIZE_AT: Final = 20  # index of `vsize` in `/proc/PID/stat`, after the name
_ENVIRONMENT_END_AT: Final = 48  # index of `env_end`

_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event, bool]
"""An event loop, an event to set in it, and whether only the command's end sets it."""


@frozen
class Leftovers:
    """Processes that a command has left running.

    Attributes:
        ended: How many were killed.
        running: The ids of those that couldn't be killed.
        holds_output: Whether an unknown process still holds the output open.
    """

    ended: int = 0
    running: tuple[int, ...] = ()
    holds_output: bool = False


@define(eq=False)
class RunningCommand:
    """One command, from its start to its end.

    Attributes:
        argv: Program and arguments.
        environment: Its complete environment.
        folder: Its working folder.
        output: The buffer of both output streams.
        grace: Seconds between `SIGTERM` and `SIGKILL`.
        limit: Time limit in seconds, or `None`.
        has_input: Whether it can be written to; else its input is empty.
        holds: A descriptor that holds its folder open, or `None`; closed once it has started.
        pid: The id of its process and group; `None` until it was started.
        exit_code: Once it has ended: its exit code, or 128 plus the number of the signal that ended it.
        failure: The exception of starting or reading it, or `None`.
        leftovers: The processes that it left running, once it has ended.
        started: Start time, as of `time.monotonic()`.
        seconds: Run time, once it has ended.
        timed_out: Whether it was ended at its limit.
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
    _lock: threading.RLock = field(factory=threading.RLock, init=False)  # conditions are evaluated while it is held
    _orders: tuple[int, int] = field(factory=os.pipe, init=False)
    _input: IO[bytes] | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _changes: int = field(default=0, init=False)
    _waiting: list[_Waiter] = field(factory=list[Any], init=False)

    def start(self) -> None:
        """Starts it in a thread; it has succeeded once there is a `pid`, and failed if it is over without one."""
        self._thread = threading.Thread(target=self._run, name=f"pegboard-shell {self.argv[0]:.40}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # too many threads
            self.failure = error
            self._release_folder()
            self._finish(None)

    # From outside, in any thread ---------------------------------------------------------------------------------

    def end(self, *, now: bool = False) -> None:
        """Terminates it, and kills it after the grace; or kills it now."""
        with self._lock:
            if not self.is_over:
                os.write(self._orders[1], b"k" if now else b"t")

    def write(self, data: bytes) -> int:
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

    def new_text(self) -> str:
        """The output since the last call of this."""
        with self._lock:
            return self.output.new_text()

    def has_written(self, text: str) -> bool:
        """Whether this text is in its output."""
        with self._lock:
            return self.output.holds(text.encode())

    def take(self) -> Output:
        """Returns its output so far, and removes it from the buffer."""
        with self._lock:
            return self.output.take()

    def join(self, seconds: float) -> None:
        """Blocks until it has ended, for at most so long."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))

    async def until(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        """Waits for a condition, evaluated at each output and at the end; returns whether it became true in time."""
        return await self._wait(condition, seconds, ends_only=False)

    async def over(self, seconds: float | None = None) -> bool:
        """Waits until it has ended; returns whether it has in time."""
        return await self._wait(lambda: self.is_over, seconds, ends_only=True)

    async def follow(self, show: Callable[[str, int], None] | None) -> None:
        """Waits until it has ended, or for its limit and the time to end it.

        Args:
            show: Called with new output as text, and with the number of bytes in all.
        """
        seen, last = 0, None if self.limit is None else self.started + self.limit + self.grace
        try:
            while not self.is_over:
                left = None if last is None else last - time.monotonic()
                if left is not None and left <= 0:  # perhaps long ago, if this program was stopped meanwhile
                    await self.over(_DEATH_SECONDS)
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
                process = self._start()
            finally:
                self._release_folder()
            self._follow(process)
        except BaseException as error:  # noqa: BLE001  it is reported to the caller
            self.failure = error
        finally:
            self._finish(process)

    def _start(self) -> subprocess.Popen[bytes]:
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
        self._notify()
        return process

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Reads its output until it has ended, ends it at its limit, and executes orders to end it."""
        assert process.stdout is not None
        output, orders = process.stdout.fileno(), self._orders[0]
        poller, kill_at = select.poll(), None
        end_at = None if self.limit is None else self.started + self.limit
        poller.register(output, select.POLLIN)
        poller.register(orders, select.POLLIN)
        with _pidfd(process.pid) as ended:
            if ended is not None:
                poller.register(ended, select.POLLIN)
            while True:
                waits = [max(each - time.monotonic(), 0.0) for each in (kill_at, end_at) if each is not None]
                waits += [] if ended is not None else [_POLL_SECONDS]
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
        """Reads available output into the buffer; returns whether there may be more."""
        data = os.read(output, _CHUNK)
        with self._lock:
            self.output.add(data)
        self._notify()
        return bool(data)

    def _release_folder(self) -> None:
        if self.holds is not None:
            os.close(self.holds)
            self.holds = None

    def _finish(self, process: subprocess.Popen[bytes] | None) -> None:
        """Cleans up after it, and wakes the waiters."""
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
        self._notify()

    def _clean_up(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        left = set(_find_marked(process.pid, self._mark)) - {process.pid}
        _signal_group(process.pid, signal.SIGKILL)  # its number can't be reused, as its leader wasn't waited for yet
        code = process.wait()
        self.exit_code = 128 - code if code < 0 else code
        running = _kill(left, lambda: _find_marked(process.pid, self._mark))
        holds = not self._drain(process.stdout.fileno())
        process.stdout.close()
        self.leftovers = Leftovers(len(left) - len(running), tuple(sorted(running)), holds and not running)

    def _drain(self, output: int) -> bool:
        """Reads the rest of the pipe; returns whether its end was reached."""
        os.set_blocking(output, False)
        poller, limit = select.poll(), time.monotonic() + _DRAIN_SECONDS
        poller.register(output, select.POLLIN)
        while (left := limit - time.monotonic()) > 0 and poller.poll(left * 1_000):
            with suppress(BlockingIOError):
                if not self._read(output):
                    return True
        return False

    def _notify(self) -> None:
        """Wakes the waiters for output, and at the end all waiters."""
        with self._lock:
            self._changes += 1
            waiters = [each for each in self._waiting if self.is_over or not each[2]]
            for each in waiters:
                self._waiting.remove(each)
        for loop, event, _ in waiters:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(event.set)


class _pidfd:  # noqa: N801  (a context manager, used as a function)
    """Context manager of a descriptor that can be read once a process has ended; `None` if there are none here."""

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
    with suppress(ProcessLookupError, PermissionError):  # it is empty, or all that is left belongs to another user
        os.killpg(group, number)


def _kill(found: set[int], more: Callable[[], Iterator[int]]) -> set[int]:
    """Kills processes, and those that they have started since; returns those that still run."""
    running = set[int]()
    for _ in range(_ROUNDS):
        if not found:
            break
        running |= _outliving(found)
        found = set(more()) - running
    return running | found


def _outliving(pids: Iterable[int]) -> set[int]:
    """Kills processes and waits until they have ended; returns those that still run.

    It waits since a dying process releases its memory, and with that its mark, before it has ended.
    """
    if not hasattr(os, "pidfd_open"):
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
        return set()
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


def _find_marked(first: int, mark: str) -> Iterator[int]:
    """The processes since `first` that have the mark in their environment; none if the system doesn't show them.

    Ids are assigned in turn, so only those since `first` have to be searched. Within `execve`, a process has no
    environment for a moment, so those without one are read again; on a busy machine that moment may be long.
    """
    try:
        last = int(Path("/proc/loadavg").read_bytes().split()[-1])
    except (OSError, ValueError, IndexError):
        return
    wanted = f"{MARK}={mark}".encode()
    if first <= last <= first + _MOST_PROBED:
        candidates = list(range(first + 1, last + 1))
    else:
        wrapped = last < first
        candidates = [pid for name in os.listdir("/proc") if name.isdigit() and ((pid := int(name)) > first or wrapped)]  # noqa: PTH208
    for pause in (*_EXEC_PAUSES, *_LONG_EXEC_PAUSES):
        time.sleep(pause)
        empty = list[int]()
        for pid in candidates:
            with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  twice as fast as a Path
                environment = file.read()
                if wanted in environment:
                    yield pid
                elif not environment and (pause < _EXEC_PAUSES[-1] or _is_in_execve(pid)):
                    empty.append(pid)
        if not (candidates := empty):
            return


def _is_in_execve(pid: int) -> bool:
    """Whether a process is within `execve`: it has memory, unlike a zombie, but no environment yet, not even none."""
    facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return facts[_SIZE_AT] != b"0" and facts[_ENVIRONMENT_END_AT] == b"0"
