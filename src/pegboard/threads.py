"""Daemon threads: a pool for code that may block, and event loops for code that blocks its own."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary, finalize

from attrs import field

from pegboard.errors import ToolError, cause_of, log_failure
from pegboard.timeout import Renewed, renew_after_fork as renew_after_fork  # noqa: PLC0414  exported
from pegboard.typing import define

T = TypeVar("T")
STALL_SECONDS: Final = 1.0  # seconds without a started job, after which all threads of a full pool count as hanging
MOST_ABANDONED: Final = 16  # abandoned threads of one owner, at which its functions fail immediately


class HangingThreadsError(RuntimeError):
    """Too many threads hang, in the whole pool or of one owner.

    Attributes:
        culprit: The owner of most of them.
    """

    def __init__(self, culprit: str, number: int) -> None:
        self.culprit = culprit
        super().__init__(f"{number} threads hang, most of them in {culprit}, and no more can be started")


@define(eq=False)
class _Owner:
    """What one owner uses of a pool."""

    name: str
    working: int = 0  # jobs handed to the workers, less those abandoned or waiting for nested calls
    abandoned: int = 0
    backlog: deque[_Job] = field(factory=deque[Any])  # jobs beyond the limit


@define(eq=False)
class _Workers:
    """The threads that take jobs from one queue."""

    jobs: queue.SimpleQueue[_Job | None] = field(factory=queue.SimpleQueue[Any])
    spare: int = 0  # idle threads, less queued jobs
    threads: int = 0
    begun: float = 0.0  # when a thread last started a job


@define(eq=False)
class _Job:
    pool: WorkerPool
    owner: _Owner
    function: Callable[[], Any]
    context: contextvars.Context
    future: asyncio.Future[Any]
    workers: _Workers
    state: str = "waiting"  # -> "working" -> "ended"; or "abandoned" from either of the first two


@define(eq=False)
class WorkerPool(Renewed):
    """Thread pool of daemon threads, started on demand; they never delay exit.

    `SimpleQueue` and `call_soon_threadsafe` cost less than half of `asyncio.to_thread`.

    A hanging function occupies its thread until it ends. The number of threads per owner is limited, so that one
    owner's hanging functions don't block others; once 16 of an owner's threads are abandoned, its functions fail
    immediately. All functions fail while the pool is at its cap and no thread has started a job for a second.

    Attributes:
        most: Jobs that run at once for one owner; further jobs are queued. Abandoned ones don't count.
        cap: Threads in total, abandoned ones included.
        linger: Seconds after which an idle thread ends.
        abandoned: Threads that still run a job whose caller was cancelled.
    """

    most: int = 64
    cap: int = 256
    linger: float = 30.0
    abandoned: int = field(default=0, init=False)
    _workers: _Workers = field(factory=_Workers, init=False)
    _owners: WeakValueDictionary[str, _Owner] = field(factory=WeakValueDictionary[str, Any], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def renew(self) -> None:
        """Drops the threads, which a forked child process doesn't have."""
        self._workers, self._lock, self.abandoned = _Workers(), threading.Lock(), 0
        self._owners = WeakValueDictionary()

    async def run(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function in a thread, in a copy of the current context, and returns its result.

        Cancelling abandons the thread: the function runs on, and its result is dropped.

        Raises:
            HangingThreadsError: Too many threads hang.
            RuntimeError: The system can't start a thread.
            BaseException: The function's exception; a `StopIteration`, which a future can't hold, is the cause of a
                `RuntimeError`.
        """
        owner = getattr(function, "__qualname__", type(function).__qualname__)
        return await self.run_for(owner, partial(function, *arguments, **keywords))

    async def run_for(self, owner: str, work: Callable[[], Any], not_begun: Callable[[], None] | None = None) -> Any:
        """`run` on behalf of an owner, such as a tool or a plugin, whose share of the threads is limited.

        `not_begun` is called if the wait ends before a thread has started the work, which then never runs.
        """
        future, known = asyncio.get_running_loop().create_future(), self._owners.setdefault(owner, _Owner(owner))
        job = _Job(self, known, work, contextvars.copy_context(), future, self._workers)
        try:
            with self._lock:
                self._check_hanging(job)
                known.backlog.append(job)
                self._submit(known)
                is_queued = known.backlog or job.workers.spare < 0
            while is_queued:
                await asyncio.wait([future], timeout=STALL_SECONDS)
                with self._lock:
                    if is_queued := job.state == "waiting":
                        self._check_hanging(job)
            return await future
        except (asyncio.CancelledError, Exception):
            future.cancel()
            with self._lock:
                state, job.state = job.state, "abandoned"
                if state == "working":
                    self.abandoned += 1
                    known.abandoned += 1
                    known.working -= 1
                    self._submit(known)
            if state == "waiting" and not_begun is not None:
                not_begun()
            raise

    def count_working(self, owner: _Owner, change: int) -> None:
        """Changes the number of an owner's working jobs, as one begins or ends to wait for nested calls."""
        with self._lock:
            owner.working += change
            self._submit(owner)

    def close(self) -> None:
        """Ends idle threads, and busy ones after their job. A later call starts new ones."""
        with self._lock:
            workers, self._workers = self._workers, _Workers()
        for _ in range(workers.threads):
            workers.jobs.put(None)

    def _serve(self, workers: _Workers) -> None:
        while True:
            try:
                job = workers.jobs.get(timeout=self.linger)
            except queue.Empty:
                job = None
            with self._lock:
                if job is not None:
                    if begins := job.state == "waiting":
                        job.state, workers.begun = "working", monotonic()
                elif workers.spare > 0:  # else a job is being enqueued
                    workers.spare -= 1
                    workers.threads -= 1
                    return
                else:
                    continue
            _current.job = job
            outcome = _outcome_of(partial(job.context.run, job.function)) if begins else None
            _current.job = None
            with self._lock:
                workers.spare += 1
                if begins and job.state == "abandoned":
                    self.abandoned -= 1
                    job.owner.abandoned -= 1
                else:
                    job.state = "ended"
                    job.owner.working -= 1
                    self._submit(job.owner)
            if outcome is not None:
                settle_from_thread(job.future, *outcome)
            del job, outcome  # so that an idle thread keeps no reference to its last job

    # Under the lock --------------------------------------------------------------------------------------------------

    def _check_hanging(self, job: _Job) -> None:
        owner, workers = job.owner, job.workers
        if owner.abandoned >= MOST_ABANDONED:
            raise HangingThreadsError(owner.name, owner.abandoned)
        if workers.spare < 1 and workers.threads >= self.cap and monotonic() - workers.begun > STALL_SECONDS:
            culprit = max(self._owners.values(), key=lambda each: each.working + each.abandoned)
            raise HangingThreadsError(culprit.name, workers.threads)

    def _submit(self, owner: _Owner) -> None:
        """Enqueues an owner's next job, if it may have one more, and starts a thread for it if none is idle."""
        if not owner.backlog or owner.working >= self.most:
            return
        job = owner.backlog.popleft()
        workers = job.workers
        if workers.spare < 1 and workers.threads < self.cap:
            try:
                threading.Thread(target=self._serve, args=(workers,), name="pegboard-tool", daemon=True).start()
            except RuntimeError:
                if not workers.threads:
                    raise RuntimeError("the system can't start a thread") from None
            else:
                workers.spare += 1
                workers.threads += 1
        owner.working += 1
        workers.spare -= 1
        workers.jobs.put(job)


_current: Final = threading.local()  # `job`: the job that this thread runs, of any pool


@contextmanager
def waiting() -> Generator[None]:
    """Context in which the current thread waits for nested calls and doesn't count against its owner's limit.

    Otherwise recursive plain tools could occupy all threads and deadlock.
    """
    job: _Job | None = getattr(_current, "job", None)
    if job is None:
        yield
        return
    job.pool.count_working(job.owner, -1)
    try:
        yield
    finally:
        job.pool.count_working(job.owner, 1)


def _outcome_of(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as raised:  # noqa: BLE001  the caller gets it
        return None, raised


def settle_future(future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    """Sets a future's result or exception, unless it is done; to be called in its event loop."""
    if isinstance(error, StopIteration | GeneratorExit):
        # Raised into the coroutine that awaits the future, either would end it silently.
        wrapped = RuntimeError(f"the function raised {cause_of(error)}")
        wrapped.__cause__, error = error, wrapped
    if future.done():
        if isinstance(value, CoroutineType):
            value.close()  # never awaited: Python would warn of it somewhere else, later
    elif error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def settle_from_thread(future: asyncio.Future[Any], *outcome: Any) -> bool:
    """Thread-safe `settle_future`; returns false if the event loop is closed."""
    try:
        future.get_loop().call_soon_threadsafe(settle_future, future, *outcome)
    except RuntimeError:
        return False
    return True


@define(eq=False)
class LoopThreads(Renewed):
    """Event loops that stay, each in a daemon thread, for code that blocks the running loop of its own thread.

    One loop is enough, unless code on it blocks it, too: that code gets another.
    """

    loops: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = field(factory=list[Any], init=False)
    _of_parent: list[Any] = field(factory=list[Any], init=False)  # before a fork; kept, as they can't be closed
    _blocked: set[Any] = field(factory=set[Any], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def renew(self) -> None:
        """Drops the threads, which a forked child process doesn't have."""
        self._of_parent += self.loops
        self.loops.clear()
        self._blocked, self._lock = set(), threading.Lock()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine in another loop, in a copy of the current context, and blocks until its end.

        Raises as it does, and `concurrent.futures.CancelledError` if the loops were closed meanwhile.
        """
        own, future = running_loop(), None
        try:
            with self._lock:
                self._blocked.add(own)
                free = (loop for loop, _ in self.loops if loop not in self._blocked)
                loop = next(free, None) or self._start()
                future = asyncio.run_coroutine_threadsafe(make(), loop)
            return future.result()
        except BaseException:  # such as of Ctrl-C
            if future is not None:
                future.cancel()
            raise
        finally:
            self._blocked.discard(own)

    def _start(self) -> asyncio.AbstractEventLoop:
        if not self.loops:
            finalize(self, _stop_loops, self.loops).atexit = False
        runner = asyncio.Runner()
        loop = runner.get_loop()
        thread = threading.Thread(target=_run_loop, args=(runner,), name="pegboard-loop", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            runner.close()
            raise RuntimeError("the system can't start a thread") from None
        self.loops.append((loop, thread))
        return loop

    def close(self, seconds: float, own: asyncio.AbstractEventLoop | None = None) -> None:
        """Cancels what runs in the loops, and closes them, but for the caller's `own`; waits so long for their ends."""
        with self._lock:
            closed = [each for each in self.loops if each[0] is not own]
            self.loops[:] = [each for each in self.loops if each[0] is own]
            _stop_loops(closed)
        until = monotonic() + seconds
        for _, thread in closed:
            thread.join(max(until - monotonic(), 0.0))


def _run_loop(runner: asyncio.Runner) -> None:
    with runner:
        while True:
            try:
                return runner.get_loop().run_forever()
            except BaseException as error:  # noqa: BLE001  such as the SystemExit of a task that a tool has left
                log_failure("a task in the loop of call_sync", error)


def _stop_loops(loops: list[tuple[asyncio.AbstractEventLoop, threading.Thread]]) -> None:
    for loop, _ in loops:
        loop.call_soon_threadsafe(loop.stop)


# the jobs of `OwnThread`s that have led to this code, each as (its thread's queue, its future)
_outer: Final[contextvars.ContextVar[tuple[Any, ...]]] = contextvars.ContextVar("outer", default=())


@define(eq=False)
class OwnThread(Renewed):
    """Daemon thread of one owner, for objects that only one thread may use: it runs its jobs in their order.

    Its first job starts it. A job that hangs delays the later ones, but nothing else, not even exit.
    """

    owner: object  # kept alive
    name: str  # the owner's, for errors
    # of the thread, if there is one: (a lock that whoever takes it first keeps, future, function), where nobody waits
    # (`None`, `None`, function), and `None` at its end
    _jobs: queue.SimpleQueue[Any] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def renew(self) -> None:
        """Drops the thread, which a forked child process doesn't have."""
        self._jobs, self._lock = None, threading.Lock()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """`None` in another process."""
        return type(None), ()

    @property
    def waiting(self) -> int | None:
        """The number of jobs that haven't begun; `None` if there is no thread."""
        jobs = self._jobs
        return None if jobs is None else jobs.qsize()

    def put(self, work: Callable[[], object]) -> None:
        """Adds a job that nobody waits for and that raises nothing; `RuntimeError` if no thread can be started."""
        with self._lock:
            (self._jobs or self._begin()).put((None, None, work))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`run_in_thread`, in this thread."""
        return await _without_interrupt(self.run_for(self.name, partial(function, *arguments)))

    async def run_for(self, owner: str, work: Callable[[], Any], not_begun: Callable[[], None] | None = None) -> Any:
        """As `WorkerPool.run_for`; `owner` is only for errors.

        Raises a `ToolError`, too, if a job of this thread waits for this call, which would have to wait for that.
        """
        if any(jobs is self._jobs and not job.done() for jobs, job in _outer.get()):
            text = f"{owner} was not run: it would wait for its caller, as both run in the thread of {self.name}."
            raise ToolError(text)
        future, context = asyncio.get_running_loop().create_future(), contextvars.copy_context()
        claim = threading.Lock()
        with self._lock:
            jobs = self._begin()
            context.run(_outer.set, (*_outer.get(), (jobs, future)))
            jobs.put((claim, future, partial(context.run, work)))
        try:
            return await future
        except (asyncio.CancelledError, Exception):
            if claim.acquire(blocking=False) and not_begun is not None:
                not_begun()
            raise

    def _begin(self) -> queue.SimpleQueue[Any]:
        """The jobs of the thread, which is started if there is none."""
        if self._jobs is None:
            jobs = queue.SimpleQueue[Any]()
            threading.Thread(target=_serve, args=(jobs,), name="pegboard-own", daemon=True).start()
            self._jobs = jobs
        return self._jobs

    def close(self) -> None:
        """Ends the thread after the jobs that it has; a later job starts another."""
        with self._lock:
            if self._jobs is not None:
                self._jobs.put(None)
            self._jobs = None

    def __del__(self) -> None:
        self.close()  # nobody holds the lock of what nothing refers to


def _serve(jobs: queue.SimpleQueue[Any]) -> None:
    """Runs the jobs; keeps no reference to their owner, so that the thread ends with it."""
    while (job := jobs.get()) is not None:
        claim, future, function = job
        if claim is None:
            function()
        elif claim.acquire(blocking=False):
            settle_from_thread(future, *_outcome_of(function))
        del job, future, function


SHARED: Final = WorkerPool()  # for code outside of calls, such as toolsets; those have the pools of their registry


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The running event loop of this thread, or `None`."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function in a thread of the shared pool, in a copy of the current context, and returns its result.

    A thread can't be cancelled: if the wait is, the function runs on, and its result is dropped.
    """
    return await _without_interrupt(SHARED.run(function, *arguments))


async def _without_interrupt(run: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await run
    except KeyboardInterrupt as raised:  # not Ctrl-C: signals reach the main thread only
        raise RuntimeError(f"KeyboardInterrupt: {raised}") from raised
