"""Batches: the calls of one answer, run together or one by one, each with exactly one result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import Callback, ChainError
from pegboard.dispatch.approval.pending import MOST_CALLS, PendingCalls
from pegboard.dispatch.approval.request import new_id
from pegboard.dispatch.callbacks import Chain
from pegboard.dispatch.events import MOST_WAITING, CallEvent, CallUpdated, emit_end, emit_pending
from pegboard.dispatch.locks import BatchScheduler
from pegboard.dispatch.results import failure_result
from pegboard.dispatch.run import may_go_on, overtaking, still_going_on
from pegboard.dispatch.stages import call_round, finish, is_too_deep, run_stages
from pegboard.dispatch.state import CallState, plain
from pegboard.errors import log_failure, near_or_known
from pegboard.schema.converter import JsonRecord, json_key
from pegboard.tools.call import Actions, CallError, ToolCall, merged
from pegboard.tools.content import ToolResult
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.tools.spec import ResultLimits

T = TypeVar("T")


@frozen
class Outcome(JsonRecord):
    """Outcome of a batch of calls: one result for each, in call order, and beside them what ends the turn.

    Attributes:
        calls: As the model made them.
        results: One for each call, in the same order.
        fatal: What ends the turn (`FatalToolError`, `TurnAbortedError`), or `None`; raise it once the results are kept.
        ended: Why the turn should end all the same: `"fatal"`, `"rejected"`, `"cancelled"`, what `interrupt` was given
            (`"interrupted"` by steering), or `None`.
        actions: What the calls ask the host to do, merged in call order; `skip_summarization` where all ask for it.
        pending: The calls that wait for an answer that comes later.
        ignored: For a resumption: answers that fit no pending call.
        for_host: The calls of tools without a handler, allowed and with the arguments as they are to be run with: the
            host has to run them.
    """

    calls: tuple[ToolCall, ...] = field(metadata=json_key(""))
    results: tuple[ToolResult, ...] = field(metadata=json_key(""))
    fatal: BaseException | None = field(default=None, metadata=json_key(""))
    ended: str | None = None
    actions: Actions = field(factory=Actions)
    pending: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()
    for_host: tuple[ToolCall, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether any result is an error."""
        return any(result.is_error for result in self.results)

    def __iter__(self) -> Iterator[tuple[ToolCall, ToolResult]]:
        return zip(self.calls, self.results, strict=True)

    def __len__(self) -> int:
        return len(self.results)

    def to_json(self) -> JsonObject:
        """`{"results": [...]}` in call order, with the `id` and `name` of each call, and what else there is."""
        heads = ({"id": call.id, "name": call.name, "isError": result.is_error} for call, result in self)
        results = [{**head, **result.to_part()} for head, result in zip(heads, self.results, strict=True)]
        return {"results": results, **super().to_json()}


class CallOptions(TypedDict, total=False):
    """Options of calls that batches and turns share; everything may be left out.

    Attributes:
        approver: Asks a person, instead of the registry's own.
        permissions: What may run, instead of the registry's own.
        max_concurrency: How many of the calls may run at once.
        sequential: Whether each waits for the one before it.
        on_steering: What becomes of the calls once the user has spoken: `"skip"` (running ones finish, the rest is
            skipped; the default), `"abort"` (running ones are aborted too), `"finish"` (they all finish first).
        timeout: Seconds that no call may exceed, whatever its tool declares.
        results: How long a result's text may be, for tools that say nothing else.
    """

    approver: AnyApprover | None
    permissions: Permissions | None
    max_concurrency: int | None
    sequential: bool
    on_steering: Interruption
    timeout: float | None
    results: ResultLimits | None


class BatchOptions(CallOptions, total=False):
    """Options of a batch of calls; everything may be left out.

    Those that turns have, too: `approver` and `permissions` instead of the registry's own, `max_concurrency` of these
    calls, `sequential`, `on_steering`, `timeout` for each call, and `results`, how long a text may be.

    Attributes:
        steering: Asked between calls, plain or async: anything true means that the user spoke.
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        instructions: The request's instructions, for repairers.
        listener: Gets each event, beside the registry's observers; plain, called on the event loop, must not raise.
    """

    steering: _Steering | None
    cut_off: bool
    instructions: str | None
    listener: Callable[[CallEvent], None] | None


def check_options(options: Mapping[str, Any], known: Collection[str] = BatchOptions.__annotations__) -> None:
    """Refuses options that there aren't, and values that can't be meant.

    Raises:
        TypeError: An option that there isn't; with near misses.
        ValueError: A value that isn't allowed.
    """
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}.{near_or_known(name, known)}")
    timeout = options.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    how = options.get("on_steering", "skip")
    if how not in ("abort", "skip", "finish"):
        raise ValueError(f'on_steering must be "abort", "skip" or "finish", got {how!r}')


Interruption: TypeAlias = Literal["abort", "skip", "finish"]
"""What becomes of a batch that is interrupted: running calls are aborted and the rest is skipped; running calls finish
and the rest is skipped; everything finishes."""

_Steering: TypeAlias = Callable[[], Any]  # asked between calls, plain or async: anything true means that the user spoke


@define(eq=False)
class Batch:
    """The calls of one answer on their way. Made by `ToolRegistry.batch`; runs once.

    Attributes:
        states: The calls, in their order.
        further: Makes the state of one more call, behind those that a scheduler knows.
        sequential: Whether each waits for the one before it.
        steering: Asked between calls whether the user spoke, or `None`.
        on_steering: What becomes of the batch then.
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        left: For a resumption: the calls that still wait.
        ignored: For a resumption: answers that fit no pending call.
        listener: Gets each event, beside the registry's observers, on the event loop; what it raises costs no call.
        early: The calls that were started before their answer was whole, as it has them.
        outcome: What came of it; `None` until every call has its result. It is there even if `run` was cancelled.
    """

    states: Sequence[CallState]
    further: Callable[[ToolCall, BatchScheduler], CallState]
    sequential: bool = False
    steering: _Steering | None = None
    on_steering: Interruption = "skip"
    cut_off: bool = False
    left: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()
    listener: Callable[[CallEvent], None] | None = None
    early: dict[CallState, ToolCall] = field(factory=dict[CallState, ToolCall], init=False)
    outcome: Outcome | None = field(default=None, init=False)
    _tasks: dict[CallState, asyncio.Task[None]] = field(factory=dict[CallState, "asyncio.Task[None]"], init=False)
    _begun: set[CallState] = field(factory=set[CallState], init=False)
    _settled: set[CallState] = field(factory=set[CallState], init=False)
    _all_done: asyncio.Future[None] | None = field(default=None, init=False)
    _scheduler: BatchScheduler | None = field(default=None, init=False)
    _whole: asyncio.Event | None = field(default=None, init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _has_run: bool = field(default=False, init=False)
    _ended: str | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _fatal: BaseException | None = field(default=None, init=False)

    async def run(self) -> Outcome:
        """Runs every call to its one result.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the running calls were aborted, the rest was skipped,
                and `outcome` holds all their results.
            RuntimeError: It has been run already.
        """
        if self._has_run:
            raise RuntimeError("a batch runs once; make another by registry.batch(...)")
        self._has_run = True
        if self._whole is not None:
            self._whole.set()
        new = [state for state in self.states if state not in self.early]
        self._take_in(new)
        try:
            await self._run_all(new)
        except asyncio.CancelledError:
            self.interrupt("cancelled", "abort")
            await self._tidy_up()
            raise
        finally:
            if self._looking is not None:
                self._looking.cancel()
            for state in self.states:
                self._settle(state)  # those that a second cancellation has left without a result
            self.outcome = self._result(self.states)
        return self.outcome

    def _take_in(self, states: Sequence[CallState]) -> None:
        if self.listener is not None and states:
            services = states[0].services
            services = services.evolve(events=_emitter(self.listener, services.events))
            for state in states:
                state.services = services
        for state in states:
            if state.services.events is not None:
                emit_pending(state)

    def start_early(self, calls: Sequence[ToolCall], may_start: Callable[[ToolCall], bool]) -> None:
        """Starts calls before the answer is whole that they stand in, up to the first that may not.

        What has begun goes on; whatever asks a person waits for `run`. Once the answer is whole, `keep` and then `add`
        take its calls.
        """
        if self._stopped or not all(map(_is_same, self.early.values(), calls)):
            return  # it was asked for another answer
        for call in calls[len(self.early) :]:
            if not may_start(call):
                return
            if self._scheduler is None:
                self._scheduler, self._whole = BatchScheduler(), asyncio.Event()
            state = self.further(call, self._scheduler)
            state.held = self._whole
            self.early[state] = call
            self._take_in([state])
            self._start(state)

    async def keep(self, calls: Iterable[ToolCall] = ()) -> Outcome | None:
        """Keeps what was started early and is among these calls; all else is aborted, unless it has ended.

        Returns:
            What came of that; `None` where there is nothing else.
        """
        kept = {state for _, state in self._matched(calls)}
        others = [state for state in self.early if state not in kept]
        for state in others:
            if state in self._begun and state.result is None:
                self._tasks[state].cancel()
            elif state.result is None:
                state.error = self._interrupted(state)
        if tasks := [self._tasks[state] for state in others if state in self._tasks]:
            await asyncio.wait(tasks)
        for state in others:
            del self.early[state]
            if state.pending is not None:  # nothing goes on that no answer calls for
                state.pending, state.result = None, failure_result(state, self._interrupted(state))
            self._settle(state)
        return self._result(others) if others else None

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Takes the calls of the whole answer, in their order; those that were started early go on as they are."""
        states: list[CallState] = []
        assert self._scheduler is not None
        for call, early in self._matched(calls):
            if early is not None:
                early.call = attrs.evolve(early.call, id=call.id, provider_metadata=call.provider_metadata)
            states.append(early or self.further(call, self._scheduler))
        self.states = states

    def _matched(self, calls: Iterable[ToolCall]) -> list[tuple[ToolCall, CallState | None]]:
        """Each call with that of the early ones which it is: a tool and arguments, each once."""
        left, found = dict(self.early), list[tuple[ToolCall, CallState | None]]()
        for call in calls:
            state = next((state for state, each in left.items() if _is_same(each, call)), None)
            if state is not None:
                del left[state]
            found.append((call, state))
        return found

    def events(self) -> AsyncGenerator[CallEvent]:
        """Runs the calls and gives each event as it happens; leaving early aborts what runs."""
        queue: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        before = self.listener

        def listen(event: CallEvent) -> None:
            if before is not None:
                before(event)
            if queue.qsize() < MOST_WAITING or not isinstance(event, CallUpdated):  # it never misses a result
                queue.put_nowait(event)

        self.listener = listen
        return events_of(self.run, queue)

    def interrupt(self, reason: str = "interrupted", how: Interruption = "abort") -> None:
        """Ends the batch early; every call still gets its result, and finished ones keep theirs.

        Args:
            reason: Why, for the model and for `Outcome.ended`.
            how: `"abort"`: running calls are cancelled, the rest is skipped; `"skip"`: running calls finish, the
                rest is skipped; `"finish"`: everything finishes, and the outcome has the reason.
        """
        if self._ended is None:
            self._ended = reason
        if how == "finish":
            return
        self._stopped = True
        if self._looking is not None and self._looking is not asyncio.current_task():
            self._looking.cancel()
        for state, task in list(self._tasks.items()):
            # A task that is cancelled before its first step never makes it; one that is not will see that all is over.
            if state in self._begun and state.result is None and (how == "abort" or state.since is None):
                task.cancel()

    # How it does it ----------------------------------------------------------------------------------------------

    def _start(self, state: CallState) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._one(state))
        if not task.done():  # a loop may run it at once
            self._tasks[state] = task
        return task

    async def _run_all(self, new: Sequence[CallState]) -> None:
        for state in new:
            task = self._start(state)
            if self.sequential:
                await asyncio.wait([task])
                if state is not new[-1]:
                    self._look()
                if self._looking is not None:
                    await asyncio.wait([self._looking])
        if self._tasks:
            self._all_done = asyncio.get_running_loop().create_future()
            await self._all_done

    async def _tidy_up(self) -> None:
        """Waits for the calls that were cancelled, each of which has its own time to end, and skips the others."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        for state in self.states:
            if state not in self._settled:
                state.error = self._interrupted(state)
                await finish(state)
                self._settle(state)

    async def _one(self, state: CallState) -> None:
        self._begun.add(state)
        try:
            call_round.set(state)  # for this task
            if not is_too_deep(state):
                await self._run_or_refuse(state)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            state.error = self._interrupted(state)
            await finish(state)
        finally:  # even where it was cancelled once more, while callbacks saw the end
            self._settle(state)
            self._tasks.pop(state, None)
            if self._tasks and self._has_run:
                self._look()
            elif self._all_done is not None and not self._all_done.done():
                self._all_done.set_result(None)

    async def _run_or_refuse(self, state: CallState) -> None:
        if self.cut_off:
            text = f"{state.call.name} was not run: the answer was cut off before it was whole. Call it again, in full."
            state.error = CallError("cut_off", text)
        elif self._stopped:
            state.error = self._interrupted(state)
        elif state.error is not None:
            pass  # a resumed call that was rejected
        elif self.sequential and any(earlier.pending is not None for earlier in self.states[: state.index]):
            state.error = overtaking(state)
        else:
            return await run_stages(state)
        return await finish(state)

    def _interrupted(self, state: CallState) -> CallError:
        reason = self._ended or ("cancelled" if self._has_run else "the answer broke off")
        if state.since is None:
            return CallError("skipped", f"{state.call.name} was not run: the turn had ended ({reason}).")
        seconds = time.monotonic() - state.since
        note = f" {still_going_on(state)}" if may_go_on(state) else ""
        return CallError("aborted", f"{state.call.name} was aborted after {seconds:.1f} s ({reason}).{note}")

    def _settle(self, state: CallState) -> None:
        """Keeps what came of one call, and what it means for the others; once."""
        if state in self._settled:
            return
        self._settled.add(state)
        if state.scheduler is not None:
            if state.pending is not None:
                state.scheduler.suspend(state.index)
            state.scheduler.passed(state.index)
        if state.result is None:
            state.result = failure_result(state, state.error or self._interrupted(state))
        if state.services.events is not None:
            emit_end(state)
        if state.fatal is not None:
            self._fatal = self._fatal or state.fatal
            self.interrupt("fatal", "skip")
        elif state.ends is not None:
            self.interrupt(state.ends, "skip")

    def _look(self) -> None:
        """Between calls: begins to ask whether the user spoke meanwhile, unless that is under way."""
        is_free = self._looking is None or self._looking.done()
        if is_free and self.steering is not None and self._ended is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_up())

    async def _look_up(self) -> None:
        services, steering = self.states[0].services, self.steering
        assert steering is not None
        link = Callback(steering, "the host")
        try:
            if await Chain((link,), services).ask(link):
                self.interrupt("interrupted", self.on_steering)
        except ChainError as error:  # the host's own fault; its calls go on
            log_failure("steering", error)

    def _actions(self, states: Sequence[CallState]) -> Actions:
        """What the calls ask for together; those that wait for an answer are asked later."""
        asked = [state.context.internals.pending_actions for state in states if state.pending is None]
        if not any(asked):
            return Actions()  # the usual case
        actions = [Actions() if each is None else each.actions for each in asked]
        base = states[0].context.request.state if states else None
        return attrs.evolve(merged(actions, base), skip_summarization=all(each.skip_summarization for each in actions))

    def _pending(self, states: Sequence[CallState]) -> PendingCalls:
        """What waits for an answer: as many as may, each under an id of its own, as tools may give one twice."""
        taken = {call.id for call in self.left}
        for state in states:
            if state.pending is not None and len(taken) >= MOST_CALLS:
                text = (
                    f"{state.call.name} was not run: {MOST_CALLS:,} calls wait for answers. Call it again after them."
                )
                state.pending, state.result = None, ToolResult.error("denied", text)
            elif state.pending is not None:
                if state.pending.id in taken:
                    state.pending = attrs.evolve(state.pending, id=new_id())
                taken.add(state.pending.id)
        return PendingCalls((*(state.pending for state in states if state.pending is not None), *self.left))

    def _result(self, states: Sequence[CallState]) -> Outcome:
        pending = self._pending(states)
        return Outcome(
            tuple(state.call for state in states),
            tuple(state.result or ToolResult() for state in states),
            self._fatal,
            self._ended,
            self._actions(states),
            pending,
            self.ignored,
            tuple(
                attrs.evolve(state.call, arguments=plain(state.arguments))
                for state in states
                if state.for_host and state.result is not None and state.result.kind == "not_executed"
            ),
        )


def _is_same(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments) == (other.name, other.arguments)


async def events_of(
    run: Callable[[], Coroutine[Any, Any, object]], queue: asyncio.Queue[T | None]
) -> AsyncGenerator[T]:
    """What an async function puts into a queue while it runs, and then what it raises; leaving early cancels it."""
    running = asyncio.ensure_future(run())
    running.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # else asyncio complains that it was never retrieved


def _emitter(
    listener: Callable[[CallEvent], None], observers: Callable[[CallEvent], None] | None
) -> Callable[[CallEvent], None]:
    """Emits an event to a listener, which disturbs no call even where it raises, and to the registry's observers."""
    failed = False

    def emit(event: CallEvent) -> None:
        nonlocal failed
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001  the host's own
            if not failed:
                failed = True
                log_failure("the listener of a batch (logged once)", error)
        if observers is not None:
            observers(event)

    return emit
