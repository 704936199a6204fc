"""Fair reader/writer locks by key and counting semaphores for a registry's calls; a scheduler for a batch's."""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from operator import attrgetter
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from pegboard.json import canonical_json
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.typing import frozen

_ALL: Final = 1 << 60  # the size of a lock: a reader acquires 1 of it, a writer all
_by_order: Final = attrgetter("order")


@frozen
class LockRequest:
    """Lock request of one call: the global lock, the lock of a key, a slot of its tool."""

    exclusive: bool = False  # whether it excludes all other calls
    key: str | None = None  # key of the lock, or `None`
    writes: bool = True  # whether it locks the key for writing, else for reading
    slots: tuple[str, int] | None = None  # the tool's name and number of slots, if it has a limit: the call takes one
    # the path, ending in `/`, that it reads or writes with everything below it, within its batch; a writer's key, too
    path: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it needs at most a slot: it isn't exclusive and has neither key nor path."""
        return not self.exclusive and self.key is self.path is None

    def conflicts(self, other: LockRequest) -> bool:
        """Whether the two exclude each other, slots aside."""
        if self.exclusive or other.exclusive:
            return True
        if not (self.writes or other.writes):
            return False
        if self.path is None or other.path is None:
            return self.key is not None and self.key == other.key
        return self.path.startswith(other.path) or other.path.startswith(self.path)


SHARED: Final = LockRequest()
EXCLUSIVE: Final = LockRequest(exclusive=True)
UNKNOWN: Final = LockRequest(key="unknown")
"""Stands for a request that depends on the arguments, in a batch: it conflicts with all but shared ones."""


def lock_request(tool: Tool, arguments: Mapping[str, Any], context: ReadonlyContext) -> LockRequest:
    """The lock request of a call with validated arguments; an exclusive one if it can't be determined.

    Calls have the same key if its arguments have the same names and JSON values, also for different tools, so that a
    reader and a writer of one name conflict. A missing argument counts as null. A key of no arguments is the tool
    itself. A path is relative to the tool's `work_dir`, else to the context's; a missing one is that folder. Links are
    resolved, so that all names of a file are one key.
    """
    concurrency, most = tool.concurrency(arguments), tool.policy.max_concurrency
    mode, writes = concurrency.mode, concurrency.access == "write"
    slots = None if most is None else (tool.name, most)
    try:
        if mode == "key":
            key = canonical_json({name: arguments.get(name) for name in concurrency.key}) if concurrency.key else None
            return LockRequest(key=key or tool.spec.name, writes=writes, slots=slots)
        if mode == "path":
            own = None if tool.work_dir is None else tool.work_dir(dict(arguments), context)
            named = arguments.get(concurrency.key[0]) or ""
            path = os.path.realpath(os.path.join(context.work_dir or os.getcwd(), own or "", named))  # noqa: PTH109, PTH118
            path = os.path.join(os.path.normcase(path), "")  # noqa: PTH118
            return LockRequest(key=path if writes else None, writes=writes, slots=slots, path=path)
    except Exception:  # noqa: BLE001  also of a tool's `work_dir`
        mode = "exclusive"
    if slots is None:
        return SHARED if mode == "shared" else EXCLUSIVE
    return LockRequest(exclusive=mode != "shared", slots=slots)


@frozen
class LockClaim:
    """One lock that a call needs from a `LockBackend`.

    It can be held while the number of its holders is at most the least `most` of them: `most=1` is a writer, `None` a
    reader, and a number one of so many slots.

    Attributes:
        name: The lock's name, the same in every process; it may be long.
        most: How many calls may hold the lock together with this one, itself included; `None` is no limit.
    """

    name: str
    most: int | None = None


class HeldLocks(Protocol):
    """Locks that one call holds in a `LockBackend`.

    Attributes:
        token: The fencing token: higher than that of every earlier holder of one of these locks.
    """

    token: int

    def release(self) -> None:
        """Releases all of them; repeated calls do nothing. Thread-safe; never blocks or raises."""


class LockBackend(Protocol):
    """Locks that several processes share, from `registry.provide` or a plugin; a value, or one for the registry.

    The registry's own locks come first. A process that dies must lose its locks.
    """

    async def acquire(
        self, claims: Sequence[LockClaim], *, within: Sequence[HeldLocks] = (), lost: Callable[[str], None]
    ) -> HeldLocks:
        """Waits until a call holds all of its locks. Called in several event loops.

        The core bounds the wait by cancelling it; then nothing may stay held or queued.

        Args:
            claims: The locks, in the order in which to acquire them, if one comes after the other.
            within: What enclosing calls hold: these don't count as holders.
            lost: To be called with the reason, in any thread, once another call may get one of the locks before they
                are released; the call ends as `unknown_outcome`.

        Raises:
            BaseException: The locks can't be acquired; the call isn't run.
        """
        ...


class Semaphore:
    """Weighted fair semaphore with `size` permits; as a reader/writer lock, a reader acquires 1 and a writer all."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"at least one call must be able to run at once, got {size!r}")
        self.size: Final = size
        self.used = 0  # permits held by running calls
        self.reserved = 0  # permits reserved for calls that still wait at another semaphore
        self.queue: list[LockHandle] = []  # the calls that wait here, in order
        self.nested = 0  # number of nested calls among these

    def admits(self, handle: LockHandle, need: int) -> bool:
        """Whether a call can acquire its permits now, without overtaking.

        A nested call may overtake calls that only have reservations, and those that wait for one of its callers.
        """
        if handle.parent is None:
            before = bool(self.queue) and self.queue[0].order < handle.order
            return not before and self.used + self.reserved + need <= self.size
        inherited = handle.inherited(self)
        if self.used - inherited + need > self.size:
            return False
        if inherited:
            return True
        earlier = takewhile(lambda other: other.order < handle.order, self.queue)
        return not any(other.parent or self.used + other.steps[self] > self.size for other in earlier)

    def enqueue(self, handle: LockHandle) -> None:
        """Adds a waiting call, in order."""
        insort(self.queue, handle, key=_by_order)
        self.nested += handle.parent is not None

    def dequeue(self, handle: LockHandle) -> None:
        """Removes a waiting call."""
        del self.queue[bisect_left(self.queue, handle.order, key=_by_order)]
        self.nested -= handle.parent is not None


class LockHandle:
    """Handle of one call's locks and slots, waiting or acquired; release it once. Only its manager changes it.

    A plain class with class-level defaults: a call that doesn't wait sets three attributes.
    """

    order: tuple[int, int] = (0, 0)  # place in queues: the arrival of its outermost caller, then its own
    parent: LockHandle | None = None  # of the calling tool, for a nested call
    is_shared: bool = True  # whether it holds no exclusive lock or key
    is_released: bool = False
    reached: int = -1  # index of the step that it waits at; the earlier ones are reserved. -1 once all are acquired
    children: int = 0  # number of its nested calls
    future: asyncio.Future[None] | None = None  # done when everything is acquired; `None` if it never waited
    held: tuple[tuple[Sequence[LockClaim], HeldLocks], ...] = ()  # what it holds in the `LockBackend`, with the claims
    lost: str | None = None  # why that was lost, or `None`

    def __init__(self, manager: LockManager, arrival: int) -> None:
        self.manager = manager
        # The semaphores to acquire, in order, and the permits of each; none of the global lock while a shared call
        # waits for its nested calls.
        self.steps: dict[Semaphore, int] = {}
        self.order = (arrival, arrival)

    def release(self) -> None:
        """Releases everything, or leaves the queues. Thread-safe; never blocks."""
        self.is_released = True
        for _, locks in self.held:
            locks.release()
        self.manager.leave(self)

    def callers(self) -> Iterator[LockHandle]:
        """The handles of the enclosing calls, the innermost first."""
        caller = self.parent
        while caller is not None:
            yield caller
            caller = caller.parent

    def inherited(self, semaphore: Semaphore) -> int:
        """The permits of a semaphore that its callers hold."""
        return 0 if self.parent is None else sum(caller.steps.get(semaphore, 0) for caller in self.callers())


class LockManager:
    """Lock manager: fair reader/writer locks by key and semaphores, for several threads and event loops.

    A call acquires in a fixed order: a slot of its batch, the global lock (an exclusive call writes it, all others
    read it), the lock of its key, a slot of its tool, a slot of the registry. Each is first come, first served. A
    waiting call reserves the earlier ones, but holds none, so that calls that aren't nested never deadlock.

    The locks are reentrant: a nested call, from inside a tool, has its callers' locks and slots, and takes no slot of
    its callers' batch or the registry. Its place in queues is that of its outermost caller, and it overtakes calls that
    only have reservations. While a shared caller has nested calls, it releases the global lock, so that two callers can
    each call an exclusive tool. Any other deadlock of nested calls ends with their time limits.
    """

    def __init__(self, max_concurrency: int | None = None) -> None:
        # Whether a `LockBackend` may be provided, so that every call needs a handle; set by `use_backend`.
        self.has_backend = False
        self._everything: Final = Semaphore(_ALL)
        self._slots: Final = None if max_concurrency is None else Semaphore(max_concurrency)
        self._semaphores: Final[WeakValueDictionary[Any, Semaphore]] = WeakValueDictionary()  # referenced by handles
        self._entered: Final[dict[Any, None]] = {}  # changed by atomic operations only, without the lock
        self._is_open = self._slots is None  # whether `enter` admits calls
        self._handles: Final[dict[Any, LockHandle]] = {}  # by the call that had entered, once others wait for it
        self._arrivals = 0
        self._lock: Final = threading.Lock()
        # A finalizer may release a handle while its thread holds the lock, so releases are queued.
        self._released: Final[deque[Any]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no lock is held or awaited."""
        is_held = self._everything.used or self._everything.reserved or self._semaphores or self._entered
        return not (is_held or self._everything.queue or self._released)

    def use_backend(self, has_backend: bool) -> None:
        """Sets `has_backend`."""
        with self._lock:
            self.has_backend = has_backend
            self._is_open = self._is_open and not has_backend  # without one again, it opens with the next release

    def enter(self, call: object) -> bool:
        """Fast path: admits a shared call without a handle, until `leave`, if nothing conflicts. Thread-safe."""
        self._entered[call] = None  # before the check: an exclusive call that arrives now waits for it
        if self._is_open:
            return True
        self.leave(call)
        return False

    def leave(self, call: object) -> None:
        """Ends a call that has entered, or releases a handle. Never blocks."""
        if self._entered.pop(call, self) is self:  # it has, or is, a handle
            self._released.append(call)
        if self._released:
            self._settle()

    def handle_of(self, call: object) -> LockHandle | None:
        """A handle for a call that has entered, for its nested calls; `leave` releases it. `None` for any other."""
        with self._lock:
            if self._entered.pop(call, self) is not self:
                self._make_handle(call)
            return self._handles.get(call)

    async def acquire(
        self, request: LockRequest = SHARED, *, slots: Semaphore | None = None, parent: LockHandle | None = None
    ) -> LockHandle:
        """Acquires the locks and slots of one call. Cancelling leaves the queues.

        `slots` are those of its batch; a nested call takes none that its callers hold. `parent` is the handle of the
        calling tool, ignored once that is released.
        """
        loop = asyncio.get_running_loop()
        try:
            with self._lock:
                if request.exclusive:
                    self._is_open = False
                    while self._entered:
                        self._make_handle(self._entered.popitem()[0])
                self._arrivals = arrival = self._arrivals + 1
                handle = LockHandle(self, arrival)
                handle.reached, handle.is_shared = 0, not request.exclusive and request.key is None
                if parent is not None and not parent.is_released:
                    handle.order = parent.order[0], arrival
                    self._add_child(parent, handle)
                handle.steps = dict(self._steps(handle, request, slots))
                if not self._advance(handle):
                    handle.future = loop.create_future()
                if handle.parent is not None:
                    self._serve(self._everything)  # a shared caller has released it just now
        finally:
            self._settle()
        try:
            if handle.future is not None:
                await handle.future
        except BaseException:
            if not handle.is_released:
                handle.release()
            raise
        return handle

    @contextmanager
    def lend(self, handle: LockHandle) -> Generator[None]:
        """A context in which a shared call doesn't hold the global lock, as if it had a nested call that needs none."""
        with self._lock:
            nested = LockHandle(self, handle.order[0])
            self._add_child(handle, nested)
            self._serve(self._everything)
        self._settle()
        try:
            yield
        finally:
            nested.release()

    def _settle(self) -> None:
        """Processes queued releases.

        If the lock is held, by another thread or an outer frame of this one, its holder does so after releasing it.
        """
        while self._released and self._lock.acquire(blocking=False):
            try:
                while self._released:
                    released = self._released.popleft()
                    self._end(self._handles.pop(released, released))
                everything, needs_handle = self._everything, self.has_backend or self._slots is not None
                self._is_open = not (needs_handle or everything.queue) and everything.used + everything.reserved < _ALL
            finally:
                self._lock.release()

    def _make_handle(self, call: object) -> None:
        """Creates a handle for a call that has entered, so that others can wait for it."""
        self._arrivals = arrival = self._arrivals + 1
        handle = self._handles[call] = LockHandle(self, arrival)
        handle.steps[self._everything] = 1
        self._everything.used += 1

    def _add_child(self, parent: LockHandle, handle: LockHandle) -> None:
        """Adds a nested call; while a shared caller has some, it doesn't hold the global lock."""
        handle.parent = parent
        parent.children += 1
        if parent.children == 1 and parent.is_shared:
            parent.steps[self._everything] = 0
            self._everything.used -= 1

    def _steps(
        self, handle: LockHandle, request: LockRequest, slots: Semaphore | None
    ) -> Iterator[tuple[Semaphore, int]]:
        if slots is not None and not handle.inherited(slots):
            yield slots, 1
        yield self._everything, _ALL if request.exclusive else 1
        if request.key is not None:
            yield self._semaphore(request.key, _ALL), _ALL if request.writes else 1
        if request.slots is not None:
            semaphore = self._semaphore(request.slots, request.slots[1])
            if not handle.inherited(semaphore):
                yield semaphore, 1
        if self._slots is not None and handle.parent is None:
            yield self._slots, 1

    def _semaphore(self, key: object, size: int) -> Semaphore:
        return self._semaphores.get(key) or self._semaphores.setdefault(key, Semaphore(size))

    def _advance(self, handle: LockHandle) -> bool:
        """Reserves one step after the other, and then acquires all; returns whether it has, or waits at a step."""
        for semaphore, need in islice(handle.steps.items(), handle.reached, None):
            if not semaphore.admits(handle, need):
                semaphore.enqueue(handle)
                return False
            semaphore.reserved += need
            handle.reached += 1
        for place, (semaphore, need) in enumerate(handle.steps.items()):
            if semaphore.used - handle.inherited(semaphore) + need > semaphore.size:  # a nested call has overtaken
                self._unreserve(handle, place)
                semaphore.enqueue(handle)
                return False
        for semaphore, need in handle.steps.items():
            semaphore.reserved -= need
            semaphore.used += need
        handle.reached = -1
        if handle.future is not None:
            from pegboard.threads import settle_from_thread  # only for calls that have waited

            if not settle_from_thread(handle.future) and not handle.is_released:
                handle.release()  # its event loop is closed
        return True

    def _unreserve(self, handle: LockHandle, start: int) -> None:
        """Gives up the reservations of a waiting call from a step on."""
        for semaphore, need in islice(handle.steps.items(), start, handle.reached):
            semaphore.reserved -= need
        handle.reached = start

    def _serve(self, semaphore: Semaphore) -> None:
        """Advances the waiting calls that the semaphore now admits."""
        for handle in tuple(semaphore.queue):
            if semaphore.admits(handle, handle.steps[semaphore]):
                semaphore.dequeue(handle)
                self._advance(handle)
            elif not semaphore.nested:
                break

    def _end(self, handle: LockHandle) -> None:
        """Returns the permits and reservations of a handle, and advances waiting calls."""
        if handle.reached < 0:
            for semaphore, need in handle.steps.items():
                semaphore.used -= need
        elif handle.steps:
            [*handle.steps][handle.reached].dequeue(handle)
            self._unreserve(handle, 0)
        handle.is_released = True
        steps, handle.steps = handle.steps, {}
        if (caller := handle.parent) is not None:
            caller.children -= 1
            if caller.children == 0 and caller.steps.get(self._everything) == 0:
                caller.steps[self._everything] = 1  # even if others hold it now
                self._everything.used += 1
        for semaphore in steps:
            self._serve(semaphore)


class BatchScheduler:
    """Dependency scheduler: each call of a batch acquires its locks after the earlier calls that it conflicts with.

    An earlier call may reach its locks later, as approval, callbacks and imports take time. Its lock request isn't
    known from the start, either; until then it conflicts with all calls but shared ones. A call that waits here
    doesn't block other batches. If paths conflict, it waits for the end of the earlier call, whose locks don't cover
    the paths below. If the user's answer to an earlier call comes in another turn, conflicting calls must not run.
    All calls of the batch run in one event loop.
    """

    def __init__(self, requests: Iterable[LockRequest] = ()) -> None:
        self._requests: Final = [*requests]
        self._left: Final = [*range(len(self._requests))]  # ascending
        self._suspended: Final[set[int]] = set()
        self._changes: Final[dict[int, asyncio.Event]] = {}  # for calls that others wait for

    def add(self, request: LockRequest) -> int:
        """Adds a call at the end, and returns its index."""
        index = len(self._requests)
        self._requests.append(request)
        self._left.append(index)
        return index

    def set_request(self, index: int, request: LockRequest) -> None:
        """Sets the lock request of a call, again if it has changed; before `wait`."""
        self._requests[index] = request
        self._wake(index)

    async def wait(self, index: int) -> None:
        """Waits until the call may acquire its locks."""
        while (blocker := self._blocker(index)) is not None:
            await self._changes.setdefault(blocker, asyncio.Event()).wait()

    def mark_passed(self, index: int, *, has_ended: bool = True) -> None:
        """Records that a call has its locks, or has ended; idempotent."""
        if not has_ended and self._requests[index].path is not None:
            return
        place = bisect_left(self._left, index)
        if self._left[place : place + 1] == [index]:
            del self._left[place]
            self._wake(index)

    def suspend(self, index: int) -> None:
        """Records that a call continues in another turn."""
        self._suspended.add(index)

    def overtakes(self, index: int) -> bool:
        """Whether the call conflicts with an earlier one that continues in another turn."""
        return any(each < index and self._conflict(each, index) for each in self._suspended)

    def _blocker(self, index: int) -> int | None:
        """The last of the earlier calls that this one has to wait for."""
        earlier = reversed(self._left[: bisect_left(self._left, index)])
        return next((each for each in earlier if self._conflict(each, index)), None)

    def _conflict(self, earlier: int, later: int) -> bool:
        ones, others = self._requests[earlier], self._requests[later]
        return others.conflicts(ones) or (ones is UNKNOWN and not others.is_shared)

    def _wake(self, index: int) -> None:
        if (change := self._changes.pop(index, None)) is not None:
            change.set()
