"""Fair reader/writer locks by key and counting semaphores for the calls of one registry; the order within a batch."""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from attrs import frozen

from pegboard.schema.json import canonical_json
from pegboard.threads import settle_from_thread
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool

_ALL: Final = 1 << 60  # the size of a lock: a reader takes 1 of it, a writer everything
_by_order: Final = attrgetter("order")


@frozen
class LockRequest:
    """Lock request of one call: the lock of everything, the lock of a key, a slot of its tool.

    Attributes:
        exclusive: It runs alone among all.
        key: What it reads or writes, as text; `None` where it has no key.
        writes: Whether it has the key alone, else it shares it with other readers.
        slots: The tool whose slots it takes one of, and how many there are; `None` where the tool sets no limit.
        path: The path, ending in `/`, that it reads or writes with all below it; this holds for its own batch, and
            writers have it as a key, too.
    """

    exclusive: bool = False
    key: str | None = None
    writes: bool = True
    slots: tuple[str, int] | None = None
    path: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it waits for no other because of what it does, at most for a slot."""
        return not self.exclusive and self.key is self.path is None

    def conflicts(self, other: LockRequest) -> bool:
        """Whether the two exclude each other; slots don't count."""
        if self.exclusive or other.exclusive:
            return True
        if not (self.writes or other.writes):
            return False
        if self.path is None or other.path is None:
            return self.key is not None and self.key == other.key
        return self.path.startswith(other.path) or other.path.startswith(self.path)


SHARED: Final = LockRequest()
EXCLUSIVE: Final = LockRequest(exclusive=True)
_UNKNOWN: Final = LockRequest(key="unknown")


def lock_request(tool: Tool, arguments: Mapping[str, Any], context: ReadonlyContext) -> LockRequest:
    """What a call of `tool` with these validated arguments has to acquire.

    Two calls have the same key where the arguments that make it have the same names and the same JSON values,
    whichever their tools: so a reader and a writer of one name meet. An argument that is missing counts as null.
    A key of no arguments is the tool itself.

    A path starts from the tool's own `work_dir`, else from the context's; a missing one is that folder itself. It is
    compared as a normal path (`a/./b` is `a/b`), and links are not followed.

    What can't be worked out asks for everything.

    Args:
        tool: The tool, with its policy.
        arguments: By name.
        context: The request's.
    """
    concurrency, most = tool.concurrency(arguments), tool.policy.max_concurrency
    mode, writes = concurrency.mode, concurrency.access == "write"
    slots = None if most is None else (tool.name, most)
    try:
        if mode == "key":
            key = canonical_json({name: arguments.get(name) for name in concurrency.key}) if concurrency.key else None
            return LockRequest(key=key or tool.spec.name, writes=writes, slots=slots)
        if mode == "path":
            path = _place(tool, arguments.get(concurrency.key[0]), arguments, context)
            return LockRequest(key=path if writes else None, writes=writes, slots=slots, path=path)
    except Exception:  # noqa: BLE001  of a tool's `work_dir`, too
        mode = "exclusive"
    if slots is None:
        return SHARED if mode == "shared" else EXCLUSIVE
    return LockRequest(exclusive=mode != "shared", slots=slots)


def _place(tool: Tool, named: Any, arguments: Mapping[str, Any], context: ReadonlyContext) -> str:
    """The absolute path of what a call reads or writes; what is below it begins with it."""
    own = None if tool.work_dir is None else tool.work_dir(dict(arguments), context)
    # Texts all of them: nothing is looked up, and a `Path` would keep `a/../b` as it is.
    path = os.path.join(context.work_dir or os.getcwd(), own or "", named or "")  # noqa: PTH109, PTH118
    return os.path.join(os.path.normcase(os.path.normpath(path)), "")  # noqa: PTH118


class Semaphore:
    """Weighted fair semaphore; a reader/writer lock is one of which a reader takes 1 and a writer everything.

    Args:
        size: How much there is to acquire, at least 1.

    Attributes:
        used: What running calls hold.
        reserved: What waiting calls will take here, and still wait for elsewhere.
        queue: The calls that wait here, in their order.
        nested: How many of them are nested calls.

    Raises:
        ValueError: A size below 1.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"at least one call must be able to run at once, got {size!r}")
        self.size: Final = size
        self.used = 0
        self.reserved = 0
        self.queue: list[LockHandle] = []
        self.nested = 0

    def admits(self, handle: LockHandle, need: int) -> bool:
        """Whether a call can have its share now, without overtaking.

        A nested call overtakes those that have a share reserved, and those that wait for one of its callers.
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
        return not any(other.parent or self.used + other.need_of(self) > self.size for other in earlier)

    def enqueue(self, handle: LockHandle) -> None:
        """Lets a call wait here, in its place in the order."""
        insort(self.queue, handle, key=_by_order)
        self.nested += handle.parent is not None
        handle.queued = self

    def dequeue(self, handle: LockHandle) -> None:
        """Takes a call out that waits here."""
        del self.queue[bisect_left(self.queue, handle.order, key=_by_order)]
        self.nested -= handle.parent is not None
        handle.queued = None


_Steps: TypeAlias = tuple[tuple[Semaphore, int], ...]


class LockHandle:
    """One call's acquisition of locks and slots, waiting or held; release it once.

    A plain class whose defaults stand in the class: a call that doesn't wait sets three attributes.

    Attributes:
        manager: Where it belongs; only the manager changes it.
        steps: Each semaphore that it needs, and how much of it, in the order in which they are acquired.
        order: Its place among those that wait: when its outermost caller arrived, then when it did itself.
        parent: The handle of the calling tool, for a nested call.
        is_shared: Whether it holds no lock for itself.
        is_over: Whether it was released.
        reached: In how many steps it has its share reserved, while it waits; -1 once it holds everything.
        queued: The semaphore that it waits at, or `None`.
        children: How many nested calls of its are under way.
        suspended: The semaphore whose share it gives up until its nested calls have ended, or `None`.
        future: Done when everything is acquired; `None` where it never waited.
    """

    order: tuple[int, int] = (0, 0)
    parent: LockHandle | None = None
    is_shared: bool = True
    is_over: bool = False
    reached: int = -1
    queued: Semaphore | None = None
    children: int = 0
    suspended: Semaphore | None = None
    future: asyncio.Future[None] | None = None

    def __init__(self, manager: LockManager, steps: _Steps, arrival: int) -> None:
        self.manager = manager
        self.steps = steps
        self.order = (arrival, arrival)

    def release(self) -> None:
        """Releases everything, or gives up its place. From any thread; never blocks."""
        self.is_over = True
        self.manager.leave(self)

    def need_of(self, semaphore: Semaphore) -> int:
        """How much of a semaphore it needs, or holds."""
        if semaphore is self.suspended:
            return 0
        return next((need for each, need in self.steps if each is semaphore), 0)

    def inherited(self, semaphore: Semaphore) -> int:
        """How much of a semaphore its callers hold."""
        total, caller = 0, self.parent
        while caller is not None:
            total += caller.need_of(semaphore)
            caller = caller.parent
        return total


class LockManager:
    """Fair reader/writer locks by key and semaphores, from any thread and several event loops at once.

    A call acquires what it needs in a fixed order: a slot of its batch, the lock of everything (all calls read it, an
    exclusive call writes it), the lock of its key, a slot of its tool, a slot of the registry. Each is first come,
    first served. A call that waits has earlier shares reserved, but holds none: so calls that aren't nested never
    deadlock.

    The locks are reentrant: a nested call, from inside a tool, has its callers' locks and slots, and takes no slot of
    the batch or the registry.
    It waits in the place of its outermost caller, and passes calls that only have reservations. While a shared caller
    has nested calls, it gives up its share of the lock of everything, so that two of them can each call an exclusive
    tool. Any other deadlock of nested calls ends with their time limits.

    Args:
        max_concurrency: How many calls may run at once, nested ones excepted; `None` is no limit.
    """

    def __init__(self, max_concurrency: int | None = None) -> None:
        self._everything: Final = Semaphore(_ALL)
        self._slots: Final = None if max_concurrency is None else Semaphore(max_concurrency)
        self._made: Final[WeakValueDictionary[Any, Semaphore]] = WeakValueDictionary()  # while calls need them
        self._shared: Final[_Steps] = ((self._everything, 1),)
        self._overtaken: Final[list[LockHandle]] = []
        self._entered: Final[dict[Any, None]] = {}  # read and changed by single steps, which need no lock
        self._is_open = self._slots is None
        self._counted: Final[dict[Any, LockHandle]] = {}
        self._arrivals = 0
        self._lock: Final = threading.Lock()
        # A finaliser may release a handle while this very thread holds the lock, so releases queue up here.
        self._released: Final[deque[Any]] = deque()
        self._woken: Final[deque[LockHandle]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held or awaited."""
        everything = self._everything
        return not (
            everything.used or everything.reserved or everything.queue or self._made or self._released or self._entered
        )

    def enter(self, call: object) -> bool:
        """Lets a shared call run that need not wait, without a handle; `leave` ends that. From any thread."""
        self._entered[call] = None  # before the look: an exclusive call that comes meanwhile counts it
        if self._is_open:
            return True
        self.leave(call)
        return False

    def leave(self, call: object) -> None:
        """Ends what `enter` has begun, or releases a handle. Never blocks."""
        if self._entered.pop(call, self) is self:  # it was counted, or is a handle
            self._released.append(call)
        if self._released:
            self._settle()

    def handle_of(self, call: object) -> LockHandle | None:
        """The handle of a call that has entered, for its nested calls; `leave` releases it. `None` for any other."""
        with self._lock:
            if self._entered.pop(call, self) is not self:
                self._count(call)
            return self._counted.get(call)

    async def acquire(
        self, request: LockRequest = SHARED, *, slots: Semaphore | None = None, parent: LockHandle | None = None
    ) -> LockHandle:
        """Acquires what one call needs, and waits until it has it. Cancelling gives up the place.

        Args:
            request: What it needs for itself.
            slots: Those of its batch, or `None`. A nested call takes none.
            parent: The handle of the calling tool, for a nested call; once that is released, the call is one like any
                other.
        """
        loop = asyncio.get_running_loop()
        try:
            with self._lock:
                if request.exclusive:
                    self._is_open = False
                    while self._entered:
                        self._count(self._entered.popitem()[0])
                self._arrivals = arrival = self._arrivals + 1
                handle = LockHandle(self, (), arrival)
                handle.reached, handle.is_shared = 0, not request.exclusive and request.key is None
                if parent is not None and not parent.is_over:
                    handle.parent, handle.order = parent, (parent.order[0], arrival)
                    self._suspend(parent)
                handle.steps = tuple(self._steps(handle, request, slots))
                if not self._advance(handle):
                    handle.future = loop.create_future()
                if handle.parent is not None:
                    self._serve(self._everything)  # what the caller has given up
        finally:
            self._settle()
        try:
            if handle.future is not None:
                await handle.future
        except BaseException:
            if not handle.is_over:
                handle.release()
            raise
        return handle

    def _settle(self) -> None:
        """Carries out releases, and wakes the calls that have everything now.

        Where another thread holds the lock, or this one further up, that does it once it has let go of it.
        """
        while (self._released or self._woken) and self._lock.acquire(blocking=False):
            try:
                while self._released:
                    released = self._released.popleft()
                    self._end(self._counted.pop(released, released))
                everything = self._everything
                self._is_open = (
                    self._slots is None and not everything.queue and everything.used + everything.reserved < _ALL
                )
                woken = tuple(self._woken)
                self._woken.clear()
            finally:
                self._lock.release()
            for handle in woken:
                assert handle.future is not None
                if not settle_from_thread(handle.future) and not handle.is_over:
                    handle.is_over = True
                    self._released.append(handle)

    # Under the lock --------------------------------------------------------------------------------------------------

    def _count(self, call: object) -> None:
        """Gives a call that has entered a handle, so that others can wait for it."""
        self._arrivals = arrival = self._arrivals + 1
        self._counted[call] = LockHandle(self, self._shared, arrival)
        self._everything.used += 1

    def _steps(
        self, handle: LockHandle, request: LockRequest, slots: Semaphore | None
    ) -> Iterator[tuple[Semaphore, int]]:
        if slots is not None and handle.parent is None:
            yield slots, 1
        yield self._everything, _ALL if request.exclusive else 1
        if request.key is not None:
            yield self._semaphore(request.key, _ALL), _ALL if request.writes else 1
        if request.slots is not None:
            semaphore = self._made.get(request.slots)
            if semaphore is None or not handle.inherited(semaphore):
                yield self._semaphore(request.slots, request.slots[1]), 1
        if self._slots is not None and handle.parent is None:
            yield self._slots, 1

    def _semaphore(self, key: object, size: int) -> Semaphore:
        semaphore = self._made.get(key)
        if semaphore is None:
            semaphore = self._made[key] = Semaphore(size)
        return semaphore

    def _suspend(self, caller: LockHandle) -> None:
        caller.children += 1
        if caller.children == 1 and caller.is_shared:
            caller.suspended = self._everything
            self._everything.used -= 1

    def _advance(self, handle: LockHandle) -> bool:
        """Reserves one share after the other; whether the handle has everything."""
        for semaphore, need in handle.steps[handle.reached :]:
            if not semaphore.admits(handle, need):
                semaphore.enqueue(handle)
                return False
            semaphore.reserved += need
            handle.reached += 1
        if not self._start(handle):
            self._overtaken.append(handle)
            return False
        return True

    def _start(self, handle: LockHandle) -> bool:
        """Turns reservations into holdings, unless a nested call has overtaken."""
        if any(each.used - handle.inherited(each) + need > each.size for each, need in handle.steps):
            return False
        for semaphore, need in handle.steps:
            semaphore.reserved -= need
            semaphore.used += need
        handle.reached = -1
        if handle.future is not None:
            self._woken.append(handle)
        return True

    def _serve(self, semaphore: Semaphore) -> None:
        """Lets those go on whose turn has come here."""
        for handle in tuple(semaphore.queue):
            if semaphore.admits(handle, handle.need_of(semaphore)):
                semaphore.dequeue(handle)
                self._advance(handle)
            elif not semaphore.nested:
                break

    def _end(self, handle: LockHandle) -> None:
        """Takes back what a handle holds or has reserved, and lets the next calls go on."""
        if handle.reached < 0:
            for semaphore, need in handle.steps:
                semaphore.used -= 0 if semaphore is handle.suspended else need
        else:
            for semaphore, need in handle.steps[: handle.reached]:
                semaphore.reserved -= need
            if handle.queued is not None:
                handle.queued.dequeue(handle)
            elif handle in self._overtaken:
                self._overtaken.remove(handle)
        handle.is_over = True
        steps, handle.steps, handle.suspended = handle.steps, (), None
        if handle.parent is not None:
            self._resume(handle.parent)
        self._overtaken[:] = [each for each in self._overtaken if not self._start(each)]
        for semaphore, _ in steps:
            self._serve(semaphore)

    def _resume(self, caller: LockHandle) -> None:
        """A caller has its share again once its last nested call has ended, whatever has started meanwhile."""
        caller.children -= 1
        if caller.children == 0 and caller.suspended is not None:
            caller.suspended.used += 1
            caller.suspended = None


class BatchScheduler:
    """Dependency scheduler: each call of a batch acquires its locks after the earlier calls that it conflicts with.

    Earlier calls may take longer before they come: they are approved, their callbacks wait, their code is loaded. What
    a call needs is known late, too; until then it might be anything that isn't shared. So an exclusive call waits for
    all earlier ones; a call with a key for the exclusive ones, for those that conflict on the key, and for those that
    nothing is known of; a shared call for the exclusive ones. A call that waits here is in no other batch's way.
    Where paths conflict it waits for the end of the earlier call: one that runs holds no lock for what is below its.
    Where the answer of a person comes in another turn, the calls that would have waited must not run at all.

    Args:
        calls: How many calls the batch has to begin with. It runs in one event loop.
    """

    def __init__(self, calls: int = 0) -> None:
        self._requests: Final[list[LockRequest]] = [_UNKNOWN] * calls
        self._left: Final = list(range(calls))
        self._suspended: Final[set[int]] = set()
        self._changes: Final[dict[int, asyncio.Event]] = {}  # of calls that others wait for

    def add(self) -> int:
        """Adds one more call behind the others, and gives its index."""
        self._requests.append(_UNKNOWN)
        self._left.append(len(self._requests) - 1)
        return self._left[-1]

    def know(self, index: int, request: LockRequest) -> None:
        """Notes what a call needs, as soon as that is known, and again when it has changed; before its turn."""
        self._requests[index] = request
        self._wake(index)

    async def turn(self, index: int) -> None:
        """Waits until the call may acquire its locks."""
        while (blocker := self._blocker(index)) is not None:
            await self._changes.setdefault(blocker, asyncio.Event()).wait()

    def passed(self, index: int, *, has_ended: bool = True) -> None:
        """Notes that a call has its locks, or has ended; a second time changes nothing."""
        if not has_ended and self._requests[index].path is not None:
            return
        place = bisect_left(self._left, index)
        if place < len(self._left) and self._left[place] == index:
            del self._left[place]
            self._wake(index)

    def suspend(self, index: int) -> None:
        """Notes that a call goes on in another turn."""
        self._suspended.add(index)

    def overtakes(self, index: int) -> bool:
        """Whether the call conflicts with an earlier one that goes on in another turn."""
        return any(each < index and self._conflict(each, index) for each in self._suspended)

    def _blocker(self, index: int) -> int | None:
        """The last of the earlier calls that this one has to wait for."""
        earlier = reversed(self._left[: bisect_left(self._left, index)])
        return next((each for each in earlier if self._conflict(each, index)), None)

    def _conflict(self, earlier: int, later: int) -> bool:
        ones, others = self._requests[earlier], self._requests[later]
        return others.conflicts(ones) or (ones is _UNKNOWN and not others.is_shared)

    def _wake(self, index: int) -> None:
        if (change := self._changes.pop(index, None)) is not None:
            change.set()
