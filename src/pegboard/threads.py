"""Pool of daemon threads: what may block runs outside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

from attrs import define, field

from pegboard.errors import cause_of

PATIENCE: Final = 1.0
"""Seconds that a function waits for a thread; then it gets one beyond those that may work at once."""

MOST_ABANDONED: Final = 16
"""Threads that one owner may leave hanging; then its functions fail at once."""


class HangingThreadsError(RuntimeError):
    """As many threads as there may be hang.

    Attributes:
        culprit: The owner of most of them.
    """

    def __init__(self, culprit: str, number: int) -> None:
        self.culprit = culprit
        super().__init__(f"{number} threads hang, most of them in {culprit}, and there may be no more of them")


_renewed: Final[WeakSet[Any]] = WeakSet()


def renew_after_fork(thing: Any) -> None:
    """Has `thing.renew()` called in each forked child process: threads stay behind in the parent."""
    _renewed.add(thing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [thing.renew() for thing in tuple(_renewed)])


@define(eq=False)
class _Share:
    """What one owner of functions uses of a pool."""

    owner: str
    working: int = 0  # its threads, the abandoned too, less those that wait for other calls
    abandoned: int = 0
    backlog: deque[_Job] = field(factory=deque[Any])  # has come to its turn while as many work as may


@define(eq=False)
class _Workers:
    """The threads that take jobs from one queue."""

    jobs: queue.SimpleQueue[_Job | None] = field(factory=queue.SimpleQueue[Any])
    serving: int = 0  # all but the abandoned
    spare: int = 0  # the idle, less the jobs that wait
    threads: int = 0  # all, the abandoned too
    begun: float = 0.0  # when a thread has last begun with a job


@define(eq=False)
class _Job:
    pool: WorkerPool
    share: _Share
    function: Callable[[], Any]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    workers: _Workers
    state: str = "waiting"  # -> "working" -> "finished"; or "abandoned" from either of the first two


@define(eq=False)
class WorkerPool:
    """Pool of daemon threads, started on demand; they never delay exit.

    A hand-over by `SimpleQueue` and `call_soon_threadsafe` costs less than half of `asyncio.to_thread`.

    A function that hangs holds its thread until it ends. One that has waited for a second for the others gets a thread
    beyond those that may work at once, so that some that hang don't keep all others from running. One owner never has
    more than those, and once 16 of them hang that callers have given up on, its functions fail at once. So do all
    where there are as many threads as there may be, and none has begun with anything for a second.

    Attributes:
        most: How many may work at once; further calls wait their turn. The abandoned don't count.
        cap: How many there may be at all, the abandoned and those that others had to wait for included.
        linger: How many seconds a thread without work waits for more before it ends.
        abandoned: How many still work for a caller that has given up on them.
    """

    most: int = 64
    cap: int = 256
    linger: float = 30.0
    abandoned: int = field(default=0, init=False)
    _workers: _Workers = field(factory=_Workers, init=False)
    _shares: WeakValueDictionary[str, _Share] = field(factory=WeakValueDictionary[str, Any], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the threads, which a forked child process doesn't have."""
        self._workers, self._lock, self.abandoned = _Workers(), threading.Lock(), 0
        self._shares = WeakValueDictionary()

    async def run(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function in a thread, in a copy of this context, and gives back what it gives.

        Cancelling the wait abandons the thread: what it works at goes on, its answer is dropped.

        Raises:
            HangingThreadsError: As many threads as there may be hang.
            RuntimeError: The system gives no thread.
            BaseException: Whatever the function raised; a `StopIteration`, which no future takes, as the cause of a
                `RuntimeError`.
        """
        owner = getattr(function, "__qualname__", type(function).__qualname__)
        return await self.run_for(owner, partial(function, *arguments, **keywords))

    async def run_for(
        self, owner: str, function: Callable[[], Any], not_begun: Callable[[], None] | None = None
    ) -> Any:
        """`run` for an owner, such as a tool or a plugin: its hanging functions take no threads from others'.

        Args:
            owner: By default, functions of one name have one.
            function: Without arguments.
            not_begun: Called where the wait is cancelled while no thread had begun, and none will.
        """
        loop = asyncio.get_running_loop()
        share = self._shares.setdefault(owner, _Share(owner))
        job = _Job(self, share, function, contextvars.copy_context(), loop, loop.create_future(), self._workers)
        self._hand_over(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            if not self._abandon(job) and not_begun is not None:
                not_begun()
            raise

    @contextmanager
    def while_waiting(self, job: _Job) -> Generator[None]:
        """While this job waits in its thread, another may take its place."""
        with self._lock:
            job.workers.serving -= 1
            job.share.working -= 1
            self._next_of(job)
            if job.workers.spare < 0:
                self._start(job.workers)
        try:
            yield
        finally:
            with self._lock:
                job.workers.serving += 1
                job.share.working += 1

    def close(self) -> None:
        """Lets idle threads end; working ones end after their work. A later call starts new ones."""
        with self._lock:
            workers, self._workers = self._workers, _Workers()
        for _ in range(workers.serving):
            workers.jobs.put(None)

    def _hand_over(self, job: _Job) -> None:
        workers = job.workers
        with self._lock:
            self._check_abandoned(job)
            if workers.spare < 1 and not self._start(workers):
                self._check_hanging(workers)
                if workers.serving == 0:
                    raise RuntimeError("the system gives no thread to run this in")
            workers.spare -= 1
            waits = workers.spare < 0
            workers.jobs.put(job)
        if waits:
            job.loop.call_later(PATIENCE, self._relieve, job)

    def _relieve(self, job: _Job) -> None:
        """Starts another thread for a job that waits; fails it where there can't be one, and all others hang."""
        with self._lock:
            if job.state != "waiting":
                return None
            try:
                self._check_abandoned(job)
                if job.share.working < self.most and not self._start(job.workers, beyond=True):
                    self._check_hanging(job.workers)
            except HangingThreadsError as error:
                job.state = "abandoned"
                return _settle(job.future, None, error)
        job.loop.call_later(PATIENCE, self._relieve, job)
        return None

    def _check_abandoned(self, job: _Job) -> None:
        if job.share.abandoned >= MOST_ABANDONED:
            raise HangingThreadsError(job.share.owner, job.share.abandoned)

    def _check_hanging(self, workers: _Workers) -> None:
        if workers.threads >= self.cap and monotonic() - workers.begun > PATIENCE:
            culprit = max(self._shares.values(), key=attrgetter("working"))
            raise HangingThreadsError(culprit.owner, workers.threads)

    def _start(self, workers: _Workers, *, beyond: bool = False) -> bool:
        """Adds a thread, unless there are as many as may be, or the system gives none."""
        if workers.threads >= self.cap or (workers.serving >= self.most and not beyond):
            return False
        try:
            threading.Thread(target=self._serve, args=(workers,), name="pegboard-tool", daemon=True).start()
        except RuntimeError:
            return False
        workers.serving += 1
        workers.spare += 1
        workers.threads += 1
        return True

    def _abandon(self, job: _Job) -> bool:
        """Notes that the caller has given up this job; another thread takes the place of one that works at it.

        Returns:
            Whether a thread had begun with it.
        """
        with self._lock:
            has_begun = job.state != "waiting"
            if job.state == "working":
                self.abandoned += 1
                job.share.abandoned += 1
                job.workers.serving -= 1
                if job.workers.spare < 0:
                    self._start(job.workers)
            if job.state != "finished":
                job.state = "abandoned"
            return has_begun

    def _serve(self, workers: _Workers) -> None:
        serves = True
        while serves and (job := self._next(workers)) is not None:
            if self._begin(job):
                _here.job = job
                outcome = _outcome(job)
                serves = self._finish(job)
                with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                    job.loop.call_soon_threadsafe(_settle, job.future, *outcome)
                del outcome
            _here.job = None
            del job  # an idle thread holds nothing of its last job
        with self._lock:
            workers.threads -= 1

    def _next(self, workers: _Workers) -> _Job | None:
        """The next job, or `None` where this thread shall end."""
        while True:
            try:
                return workers.jobs.get(timeout=self.linger)
            except queue.Empty:
                with self._lock:
                    if workers.spare > 0:
                        workers.serving -= 1
                        workers.spare -= 1
                        return None

    def _begin(self, job: _Job) -> bool:
        with self._lock:
            if job.state == "waiting" and job.share.working < self.most:
                job.state = "working"
                job.share.working += 1
                job.workers.begun = monotonic()
                return True
            job.workers.spare += 1
            if job.state == "waiting":
                job.share.backlog.append(job)
            else:
                self._next_of(job)
            return False

    def _next_of(self, job: _Job) -> None:
        """Lets the next job of the same owner go on, where as many worked as may."""
        share, workers = job.share, job.workers
        if share.backlog:
            workers.jobs.put(share.backlog.popleft())
            workers.spare -= 1

    def _finish(self, job: _Job) -> bool:
        """Counts the thread among the idle; false where its place has been taken meanwhile."""
        with self._lock:
            workers = job.workers
            job.share.working -= 1
            self._next_of(job)
            if job.state == "abandoned":
                self.abandoned -= 1
                job.share.abandoned -= 1
                if workers.serving >= self.most or workers is not self._workers:  # closed meanwhile
                    return False
                workers.serving += 1
            job.state = "finished"
            workers.spare += 1
            return True


_here: Final = threading.local()  # `job`: what this thread works at, for whichever pool


def waiting() -> AbstractContextManager[None]:
    """While a function waits in its thread for other calls, another thread may take its place.

    Otherwise plain tools that call plain tools could take all threads, and wait for one for ever.
    """
    job: _Job | None = getattr(_here, "job", None)
    return nullcontext() if job is None else job.pool.while_waiting(job)


def _outcome(job: _Job) -> tuple[Any, BaseException | None]:
    try:
        return job.context.run(job.function), None
    except BaseException as raised:  # noqa: BLE001  the caller gets it, whatever it is
        return None, raised


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration | GeneratorExit):
        # Raised into the coroutine that awaits the future, either would end it silently.
        wrapped = RuntimeError(f"the function raised {cause_of(error)}")
        wrapped.__cause__ = error
        future.set_exception(wrapped)
    else:
        future.set_exception(error)


SHARED: Final = WorkerPool()
"""The pool of what isn't a tool's: callbacks, toolsets, predicates."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, or `None`."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function in a thread of the shared pool, in a copy of this context, and gives what it gives.

    A thread can't be ended: where the wait is cancelled, what it does goes on, and its answer is dropped.
    """
    try:
        return await SHARED.run(function, *arguments)
    except KeyboardInterrupt as raised:  # never the user's: signals reach the main thread only
        raise RuntimeError(f"KeyboardInterrupt: {raised}") from raised
