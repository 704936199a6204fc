"""`Batch`: the calls of one answer, run together or one by one, each with exactly one result."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field

from pegboard.chains import settle
from pegboard.dispatch.approval.pending import PendingCalls
from pegboard.dispatch.events import CallEvent, CallUpdated
from pegboard.dispatch.limits import CallError
from pegboard.dispatch.outcome import Outcome
from pegboard.dispatch.results import failure_result
from pegboard.dispatch.run import may_go_on, overtaking
from pegboard.dispatch.stages import Way, finish, travel
from pegboard.dispatch.telling import tell_end, tell_pending
from pegboard.dispatch.work import Work
from pegboard.errors import log_failure
from pegboard.tools.actions import merged
from pegboard.tools.content import ToolResult

Interruption: TypeAlias = Literal["abort", "skip", "finish"]
"""What becomes of a batch that is interrupted: running calls are aborted and the rest is skipped; running calls finish
and the rest is skipped; everything finishes."""

Steering: TypeAlias = Callable[[], Any]
"""Asked between calls, plain or async: anything true says that the user spoke."""

MOST_WAITING: Final = 10_000
"""Events that a slow listener may leave waiting before it misses updates; it never misses a result."""


@define(eq=False)
class Batch:
    """The calls of one answer on their way. Made by `ToolRegistry.batch`; runs once.

    Attributes:
        works: The calls, in their order.
        way: The stages that they pass.
        sequential: Whether each waits for the one before it.
        steering: Asked between calls whether the user spoke, or `None`.
        on_steering: What becomes of the batch then.
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        left: For a resumption: the calls that still wait.
        ignored: For a resumption: answers that fit no pending call.
        listener: Gets each event, beside the registry's observers, on the event loop; what it raises costs no call.
    """

    works: Sequence[Work]
    way: Way
    sequential: bool = False
    steering: Steering | None = None
    on_steering: Interruption = "skip"
    cut_off: bool = False
    left: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()
    listener: Callable[[CallEvent], None] | None = None
    _outcome: Outcome | None = field(default=None, init=False)
    _tasks: dict[int, asyncio.Task[None]] = field(factory=dict[int, "asyncio.Task[None]"], init=False)
    _begun: set[int] = field(factory=set[int], init=False)
    _settled: set[int] = field(factory=set[int], init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _left: int = field(default=-1, init=False)
    _all_done: asyncio.Future[None] | None = field(default=None, init=False)
    _ended: str | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _fatal: BaseException | None = field(default=None, init=False)

    @property
    def outcome(self) -> Outcome | None:
        """What came of it; `None` until every call has its result. It is there even if `run` was cancelled."""
        return self._outcome

    async def run(self) -> Outcome:
        """Runs every call to its one result.

        Raises:
            asyncio.CancelledError: Whoever waits was cancelled; the running calls were aborted, the rest was skipped,
                and `outcome` holds all their results.
            RuntimeError: It has been run already.
        """
        if self._left >= 0:
            raise RuntimeError("a batch runs once; make another by registry.batch(...)")
        self._left = len(self.works)
        self._take_in()
        try:
            await (self._one_by_one() if self.sequential else self._together())
        except asyncio.CancelledError:
            self.interrupt("cancelled", "abort")
            await self._tidy_up()
            raise
        finally:
            if self._looking is not None:
                self._looking.cancel()
            for work in self.works:
                self._settle(work)  # those that a second cancellation has left without a result
            self._outcome = self._result()
        return self._outcome

    async def events(self) -> AsyncGenerator[CallEvent]:
        """Runs the calls and gives each event as it happens; leaving early aborts what runs."""
        queue: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        before = self.listener

        def listen(event: CallEvent) -> None:
            if before is not None:
                before(event)
            if queue.qsize() < MOST_WAITING or not isinstance(event, CallUpdated):
                queue.put_nowait(event)

        self.listener = listen
        running = asyncio.ensure_future(self.run())
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await running
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running])

    def interrupt(self, reason: str = "interrupted", how: Interruption = "abort") -> None:
        """Ends the batch early; every call still gets its result, and finished ones keep theirs.

        Args:
            reason: Why, for the model and for `Outcome.ended`.
            how: `"abort"`: running calls are cancelled, the rest is skipped; `"skip"`: running calls finish, the
                rest is skipped; `"finish"`: everything finishes, and the outcome tells.
        """
        if self._ended is None:
            self._ended = reason
        if how == "finish":
            return
        self._stopped = True
        if self._looking is not None and self._looking is not asyncio.current_task():
            self._looking.cancel()
        for index, task in list(self._tasks.items()):
            work = self.works[index]
            # A task that is cancelled before its first step never makes it; one that is not will see that all is over.
            if index in self._begun and work.result is None and (how == "abort" or work.since is None):
                task.cancel()

    # How it does it ----------------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        if self.listener is not None and self.works:
            around = self.works[0].around
            around = around.evolve(events=_both(_guarded(self.listener), around.events))
            for work in self.works:
                work.around = around
        for work in self.works:
            if work.around.events is not None:
                tell_pending(work)

    async def _together(self) -> None:
        if not self.works:
            return
        loop = asyncio.get_running_loop()
        self._all_done = loop.create_future()
        for work in self.works:
            self._tasks[work.index] = loop.create_task(self._one(work))
        await self._all_done

    async def _one_by_one(self) -> None:
        loop = asyncio.get_running_loop()
        for work in self.works:
            self._tasks[work.index] = task = loop.create_task(self._one(work))
            await asyncio.wait([task])
            if self._left and self._looks():
                self._looking = loop.create_task(self._look_up())
                await asyncio.wait([self._looking])

    async def _tidy_up(self) -> None:
        """Waits for the calls that were cancelled, each of which has its own time to end, and skips the others."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        for work in self.works:
            if work.index not in self._settled:
                work.error = self._interrupted(work)
                await finish(work, self.way)
                self._settle(work)

    async def _one(self, work: Work) -> None:
        self._begun.add(work.index)
        try:
            await self._travel_to_the_end(work)
        finally:  # even where it was cancelled once more, while callbacks were told of the end
            self._settle(work)
            self._count(work)

    async def _travel_to_the_end(self, work: Work) -> None:
        try:
            await self._travel(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            work.error = self._interrupted(work)
            await finish(work, self.way)

    async def _travel(self, work: Work) -> None:
        if self.cut_off:
            text = f"{work.call.name} was not run: the answer was cut off before it was whole. Call it again, in full."
            work.error = CallError("cut_off", text)
        elif self._stopped:
            work.error = self._interrupted(work)
        elif work.error is not None:
            pass  # a resumed call that was rejected
        elif self.sequential and any(earlier.pending is not None for earlier in self.works[: work.index]):
            work.error = overtaking(work)
        else:
            return await travel(work, self.way)
        return await finish(work, self.way)

    def _interrupted(self, work: Work) -> CallError:
        reason = self._ended or "cancelled"
        if work.since is None:
            return CallError("skipped", f"{work.call.name} was not run: the turn had ended ({reason}).")
        seconds = time.monotonic() - work.since
        note = " Its work may still be going on." if may_go_on(work) else ""
        return CallError("aborted", f"{work.call.name} was aborted after {seconds:.1f} s ({reason}).{note}")

    def _settle(self, work: Work) -> None:
        """Keeps what came of one call, and what it means for the others; once."""
        if work.index in self._settled:
            return
        self._settled.add(work.index)
        if work.scheduler is not None:
            if work.pending is not None:
                work.scheduler.suspend(work.index)
            work.scheduler.passed(work.index)
        if work.result is None:
            work.result = failure_result(work, work.error or self._interrupted(work))
        if work.around.events is not None:
            tell_end(work)
        if work.fatal is not None:
            self._fatal = self._fatal or work.fatal
            self.interrupt("fatal", "skip")
        elif work.ends is not None:
            self.interrupt(work.ends, "skip")

    def _count(self, work: Work) -> None:
        self._tasks.pop(work.index, None)
        self._left -= 1
        if self._all_done is None:
            return
        if not self._left and not self._all_done.done():
            self._all_done.set_result(None)
        elif self._left and self._looks() and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look_up())

    def _looks(self) -> bool:
        return self.steering is not None and self._ended is None

    async def _look_up(self) -> None:
        """Between calls: whether the user spoke meanwhile."""
        around, steering = self.works[0].around, self.steering
        assert steering is not None
        try:
            async with asyncio.timeout(around.limits.callback_timeout):
                if inspect.iscoroutinefunction(steering):
                    spoken = await steering()
                else:
                    spoken = await settle(await around.threads.run(steering))
        except Exception as error:  # noqa: BLE001  the host's own fault; its calls go on
            if around.observe is not None:
                around.observe("steering", error)
            return
        if spoken:
            self.interrupt("interrupted", self.on_steering)

    def _result(self) -> Outcome:
        works = self.works
        return Outcome(
            tuple(work.call for work in works),
            tuple(work.result or ToolResult() for work in works),
            self._fatal,
            self._ended,
            merged([said.actions for work in works if (said := work.context.said) is not None]),
            PendingCalls((*(work.pending for work in works if work.pending is not None), *self.left)),
            self.ignored,
        )


def _guarded(listener: Callable[[CallEvent], None]) -> Callable[[CallEvent], None]:
    """The listener, which disturbs no call even where it raises; the operator is told of the first time."""
    failed = False

    def tell(event: CallEvent) -> None:
        nonlocal failed
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001  the host's own
            if not failed:
                failed = True
                log_failure("the listener of a batch (told once)", error)

    return tell


def _both(
    first: Callable[[CallEvent], None], second: Callable[[CallEvent], None] | None
) -> Callable[[CallEvent], None]:
    if second is None:
        return first

    def tell(event: CallEvent) -> None:
        first(event)
        second(event)

    return tell
