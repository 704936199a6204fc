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
from time import monotonic
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

from attrs import define, field

from pegboard.errors import cause_of

PATIENCE: Final = 1.0
"""Seconds without a thread that begins with anything, after which all of them are taken to hang."""

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
    working: int = 0  # its jobs that have a thread or wait for one, less the abandoned and those that wait for calls
    abandoned: int = 0
    backlog: deque[_Job] = field(factory=deque[Any])  # has come while as many work as may


@define(eq=False)
class _Workers:
    """The threads that take jobs from one queue."""

    jobs: queue.SimpleQueue[_Job | None] = field(factory=queue.SimpleQueue[Any])
    spare: int = 0  # the idle, less the jobs that wait
    threads: int = 0
    begun: float = 0.0  # when a thread has last begun with a job


@define(eq=False)
class _Job:
    pool: WorkerPool
    share: _Share
    function: Callable[[], Any]
    context: contextvars.Context
    future: asyncio.Future[Any]
    workers: _Workers
    state: str = "waiting"  # -> "working" -> "finished"; or "abandoned" from either of the first two


@define(eq=False)
class WorkerPool:
    """Pool of daemon threads, started on demand; they never delay exit.

    A hand-over by `SimpleQueue` and `call_soon_threadsafe` costs less than half of `asyncio.to_thread`.

    A function that hangs holds its thread until it ends. One owner never has more threads than may work for it, so that
    one whose functions hang doesn't keep others from running; once 16 of them hang that callers have given up on, its
    functions fail at once. So do all where there are as many threads as there may be, and none has begun with anything
    for a second.

    Attributes:
        most: How many may work at once for one owner; further calls wait their turn. The abandoned don't count.
        cap: How many there may be at all, the abandoned included.
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
        job = _Job(self, share, function, contextvars.copy_context(), loop.create_future(), self._workers)
        with self._lock:
            self._check_hanging(job)
            if share.working < self.most:
                self._hand_over(job)
            else:
                share.backlog.append(job)
            has_to_wait = share.backlog or job.workers.spare < 0
        if has_to_wait:
            loop.call_later(PATIENCE, self._look_after, job)
        try:
            return await job.future
        except asyncio.CancelledError:
            if not self._abandon(job) and not_begun is not None:
                not_begun()
            raise

    @contextmanager
    def while_waiting(self, job: _Job) -> Generator[None]:
        """While this job waits in its thread, another of its owner's may run."""
        with self._lock:
            self._leave(job.share)
        try:
            yield
        finally:
            with self._lock:
                job.share.working += 1

    def close(self) -> None:
        """Lets idle threads end; working ones end after their work. A later call starts new ones."""
        with self._lock:
            workers, self._workers = self._workers, _Workers()
        for _ in range(workers.threads):
            workers.jobs.put(None)

    def _look_after(self, job: _Job) -> None:
        """Fails a job that still waits for a thread where all of them hang."""
        with self._lock:
            if job.state != "waiting":
                return None
            try:
                self._check_hanging(job)
            except HangingThreadsError as error:
                job.state = "abandoned"
                return settle_future(job.future, None, error)
        job.future.get_loop().call_later(PATIENCE, self._look_after, job)
        return None

    def _serve(self, workers: _Workers) -> None:
        while (job := self._next(workers)) is not None:
            if self._begin(job):
                _here.job = job
                outcome = _outcome(job)
                self._finish(job)
                settle_from_thread(job.future, *outcome)
                del outcome
            _here.job = None
            del job  # an idle thread holds nothing of its last job

    def _next(self, workers: _Workers) -> _Job | None:
        """The next job, or `None` where this thread shall end."""
        while True:
            with suppress(queue.Empty):
                if (job := workers.jobs.get(timeout=self.linger)) is not None:
                    return job
            with self._lock:
                if workers.spare > 0:  # else a job is on its way
                    workers.spare -= 1
                    workers.threads -= 1
                    return None

    def _begin(self, job: _Job) -> bool:
        with self._lock:
            if job.state == "waiting":
                job.state = "working"
                job.workers.begun = monotonic()
                return True
            job.workers.spare += 1
            self._leave(job.share)
            return False

    def _finish(self, job: _Job) -> None:
        with self._lock:
            job.workers.spare += 1
            if job.state == "abandoned":
                self.abandoned -= 1
                job.share.abandoned -= 1
            else:
                job.state = "finished"
                self._leave(job.share)

    def _abandon(self, job: _Job) -> bool:
        """Notes that the caller has given up this job; whether a thread had begun with it."""
        with self._lock:
            has_begun = job.state != "waiting"
            if job.state == "working":
                self.abandoned += 1
                job.share.abandoned += 1
                self._leave(job.share)
            if job.state != "finished":
                job.state = "abandoned"
            return has_begun

    # Under the lock --------------------------------------------------------------------------------------------------

    def _check_hanging(self, job: _Job) -> None:
        share, workers = job.share, job.workers
        if share.abandoned >= MOST_ABANDONED:
            raise HangingThreadsError(share.owner, share.abandoned)
        if workers.spare < 1 and workers.threads >= self.cap and monotonic() - workers.begun > PATIENCE:
            culprit = max(self._shares.values(), key=lambda each: each.working + each.abandoned)
            raise HangingThreadsError(culprit.owner, workers.threads)

    def _hand_over(self, job: _Job) -> None:
        """Gives a job to a thread that is idle, to one more, or to the next that has finished."""
        workers = job.workers
        if workers.spare < 1 and workers.threads < self.cap:
            try:
                threading.Thread(target=self._serve, args=(workers,), name="pegboard-tool", daemon=True).start()
            except RuntimeError:
                if not workers.threads:
                    raise RuntimeError("the system gives no thread to run this in") from None
            else:
                workers.spare += 1
                workers.threads += 1
        job.share.working += 1
        workers.spare -= 1
        workers.jobs.put(job)

    def _leave(self, share: _Share) -> None:
        """Lets the next job of an owner go on, as one has ended or waits."""
        share.working -= 1
        if share.backlog and share.working < self.most:
            self._hand_over(share.backlog.popleft())


_here: Final = threading.local()  # `job`: what this thread works at, for whichever pool


def waiting() -> AbstractContextManager[None]:
    """While a function waits in its thread for other calls, another of its owner's may run.

    Otherwise plain tools that call themselves could take all threads, and wait for one for ever.
    """
    job: _Job | None = getattr(_here, "job", None)
    return nullcontext() if job is None else job.pool.while_waiting(job)


def _outcome(job: _Job) -> tuple[Any, BaseException | None]:
    try:
        return job.context.run(job.function), None
    except BaseException as raised:  # noqa: BLE001  the caller gets it, whatever it is
        return None, raised


def settle_future(future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    """Gives a future its value or error, unless it is done; in its event loop."""
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


def settle_from_thread(future: asyncio.Future[Any], *outcome: Any) -> bool:
    """`settle_future` from any thread; false where its event loop is closed, so that nobody waits any more."""
    try:
        future.get_loop().call_soon_threadsafe(settle_future, future, *outcome)
    except RuntimeError:
        return False
    return True


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
