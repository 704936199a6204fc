"""Batches: the calls of one model answer, run concurrently or in sequence, each with exactly one result."""

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
from pegboard.dispatch.background import deliver
from pegboard.dispatch.callbacks import Chain
from pegboard.dispatch.events import MOST_WAITING, CallEvent, CallUpdated, emit_ended, emit_pending
from pegboard.dispatch.locks import BatchScheduler
from pegboard.dispatch.results import failure_result
from pegboard.dispatch.running import overtaking_error, still_running_note
from pegboard.dispatch.stages import conclude, enclosing_call, finish, finish_inside, is_too_deep, run_call
from pegboard.dispatch.state import CallState, plain
from pegboard.errors import log_failure, near_or_known
from pegboard.schema.converter import JsonRecord, json_key
from pegboard.timeout import running_task
from pegboard.tools.call import Actions, CallError, ToolCall, merge_actions
from pegboard.tools.content import ToolResult
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.tools.limits import ResultLimits
    from pegboard.tools.tool import Tool

T = TypeVar("T")


@frozen
class Outcome(JsonRecord):
    """Outcome of a batch of calls: one result for each, in call order, and what ends the turn.

    Attributes:
        calls: As the model made them.
        results: One for each call, in the same order.
        fatal: The error that ends the turn (`FatalToolError`, `TurnAbortedError`), or `None`; raise it after
            storing the results.
        ended: Why the turn should end: `"fatal"`, `"rejected"`, `"cancelled"`, the reason given to `interrupt`
            (`"interrupted"` by steering), or `None`.
        actions: The actions that calls request of the host, merged in call order; `skip_summarization` if all do.
        pending: The calls that wait for a later answer.
        ignored: For a resumption: answers without a pending call.
        for_host: The permitted calls of tools without a handler, with their final arguments: the host has to run them.
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
        """`{"results": [...]}` in call order, with `id` and `name` of each call, and the other attributes."""
        results = [
            {"id": call.id, "name": call.name, "isError": result.is_error, **result.to_part()} for call, result in self
        ]
        return {"results": results, **super().to_json()}


class CallOptions(TypedDict, total=False):
    """Options of calls that batches and turns share; all are optional.

    Attributes:
        approver: The approver, instead of the registry's.
        ask_until: Once it is done, nobody is asked: calls that need an answer, or wait for one, stay pending, as if the
            approver had answered `Later()`.
        permissions: The permissions, instead of the registry's.
        max_concurrency: Calls that run at once.
        sequential: Whether each call waits for the previous one.
        on_steering: What happens to the calls when the user has spoken: `"skip"` (running ones finish, the rest is
            skipped; the default), `"abort"` (running ones are aborted too), `"finish"` (they all finish first).
        timeout: Upper bound in seconds on every tool's time limit.
        results: Limits on results of tools that declare none.
    """

    approver: AnyApprover | None
    ask_until: Future[None] | None
    permissions: Permissions | None
    max_concurrency: int | None
    sequential: bool
    on_steering: Interruption
    timeout: float | None
    results: ResultLimits | None


class BatchOptions(CallOptions, total=False):
    """Options of a batch of calls, besides those that it shares with turns (`CallOptions`); all are optional.

    Attributes:
        steering: Called between calls, plain or async: a true value means that the user has spoken.
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        instructions: The request's instructions, for repairers.
        listener: Plain function that gets each event, besides the registry's observers; called on the event loop.
    """

    steering: _Steering | None
    cut_off: bool
    instructions: str | None
    listener: Callable[[CallEvent], None] | None


def check_options(options: Mapping[str, Any], known: Collection[str] = BatchOptions.__annotations__) -> None:
    """Validates the options of a batch: `TypeError` for an unknown one, with near misses; `ValueError` for a value."""
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
"""How a batch is interrupted: running calls are aborted and the rest skipped; running calls finish and the rest is
skipped; all calls finish."""

_Steering: TypeAlias = Callable[[], Any]  # plain or async


@define(eq=False)
class Batch:
    """Runner for the calls of one answer. Made by `ToolRegistry.batch`; runs once.

    Attributes:
        states: The calls, in order.
        make_state: Creates the state of a call that is added to a scheduler, and may ask the user once an event is set.
        sequential: Whether each call waits for the previous one.
        steering: Asked between calls whether the user has spoken, or `None`.
        on_steering: How the batch is interrupted then.
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        unanswered: For a resumption: the calls that still wait.
        ignored: For a resumption: answers without a pending call.
        refused: For a resumption: the errors of the calls that were rejected or can't run.
        listener: Gets each event, besides the registry's observers, on the event loop; its errors are logged.
        started_early: The calls that were started before their answer was complete, as the answer has them.
        outcome: The outcome, once every call has its result, even if `run` was cancelled; before, `None`.
    """

    states: Sequence[CallState]
    make_state: Callable[[ToolCall, BatchScheduler, asyncio.Event | None], CallState]
    sequential: bool = False
    steering: _Steering | None = None
    on_steering: Interruption = "skip"
    cut_off: bool = False
    unanswered: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()
    listener: Callable[[CallEvent], None] | None = None
    refused: dict[CallState, CallError] = field(factory=dict[CallState, CallError], init=False)
    started_early: dict[CallState, ToolCall] = field(factory=dict[CallState, ToolCall], init=False)
    outcome: Outcome | None = field(default=None, init=False)
    _tasks: dict[CallState, asyncio.Task[None]] = field(factory=dict[CallState, "asyncio.Task[None]"], init=False)
    _started: set[CallState] = field(factory=set[CallState], init=False)
    _settled: set[CallState] = field(factory=set[CallState], init=False)
    _all_done: asyncio.Future[None] | None = field(default=None, init=False)
    _early: tuple[BatchScheduler, asyncio.Event] | None = field(default=None, init=False)
    _steering_task: asyncio.Task[None] | None = field(default=None, init=False)
    _has_run: bool = field(default=False, init=False)
    _ended: str | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _fatal: BaseException | None = field(default=None, init=False)

    async def run(self) -> Outcome:
        """Runs all calls.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the running calls were aborted, the rest was skipped,
                and `outcome` holds all their results.
            RuntimeError: It has been run already.
        """
        if self._has_run:
            raise RuntimeError("a batch runs once; make another by registry.batch(...)")
        self._has_run = True
        if self._early is not None:
            self._early[1].set()
        new = [state for state in self.states if state not in self.started_early]
        self._announce(new)
        try:
            await self._run_all(new)
        except asyncio.CancelledError:
            self.interrupt("cancelled", "abort")
            if self._tasks:
                await asyncio.wait(list(self._tasks.values()))  # each with its grace period
            for state in self.states:
                if state not in self._settled:
                    await finish_inside(state, error=self._interruption_error(state))
                    self._settle(state)
            raise
        finally:
            if self._steering_task is not None:
                self._steering_task.cancel()
            for state in self.states:
                self._settle(state)  # also those without a result after a second cancellation
            self.outcome = self._result(self.states)
        return self.outcome

    async def deliver(self, values: Mapping[str, Any], find: Callable[[str], Tool | None]) -> Outcome:
        """Instead of `run`, takes the results that the host gives its own calls, by id; callbacks see each."""
        for state in self.states:
            await deliver(state, find(state.name), values[state.call.id])
            self._fatal = self._fatal or state.fatal
        self._has_run, self.outcome = True, self._result(self.states)
        return self.outcome

    def _announce(self, states: Sequence[CallState]) -> None:
        if self.listener is not None and states:
            settings = states[0].settings
            settings = attrs.evolve(settings, emit=_sender(self.listener, settings.emit))
            for state in states:
                state.settings = settings
        for state in states:
            if state.settings.emit is not None:
                emit_pending(state)

    def start_early(self, calls: Sequence[ToolCall], may_start: Callable[[ToolCall], bool]) -> None:
        """Starts calls of an answer that is still streamed, up to the first that `may_start` refuses.

        Approvals wait for `run`. Once the answer is complete, pass its calls to `keep` and then to `add`.
        """
        if self._stopped or not all(map(_is_same, self.started_early.values(), calls)):
            return  # these calls belong to another answer
        for call in calls[len(self.started_early) :]:
            if not may_start(call):
                return
            if self._early is None:
                self._early = BatchScheduler(), asyncio.Event()
            state = self.make_state(call, *self._early)
            self.started_early[state] = call
            self._announce([state])
            self._start(state)

    async def keep(self, calls: Iterable[ToolCall] = ()) -> Outcome | None:
        """Aborts and removes the calls that were started early and aren't among these.

        Returns:
            Their outcome, or `None` if there are none.
        """
        kept = {state for _, state in self._match(calls)}
        others = [state for state in self.started_early if state not in kept]
        for state in others:
            if state in self._started and state.result is None:
                self._tasks[state].cancel()
        if tasks := [self._tasks[state] for state in others if state in self._tasks]:
            await asyncio.wait(tasks)
        for state in others:
            del self.started_early[state]
            if state.asking is not None and state.pending is not None:  # not resumed, as no answer has the call
                state.asking.replace_pending(None)
                conclude(state, failure_result(state, self._interruption_error(state)))
            self._settle(state)
        return self._result(others) if others else None

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Sets the calls of the complete answer, in order; those that were started early continue."""
        states: list[CallState] = []
        assert self._early is not None
        for call, early in self._match(calls):
            if early is not None:
                early.replace(attrs.evolve(early.call, id=call.id, provider_metadata=call.provider_metadata))
            states.append(early or self.make_state(call, self._early[0], None))
        self.states = states

    def _match(self, calls: Iterable[ToolCall]) -> Iterator[tuple[ToolCall, CallState | None]]:
        """Each call with the early one of the same tool and arguments, or `None`; each early one is used once."""
        left = dict(self.started_early)
        for call in calls:
            early = next((state for state, each in left.items() if _is_same(each, call)), None)
            left.pop(early, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
            yield call, early

    def events(self) -> AsyncGenerator[CallEvent]:
        """Runs the calls and yields their events; closing the generator aborts running calls."""
        queue: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        before = self.listener

        def listen(event: CallEvent) -> None:
            if before is not None:
                before(event)
            if queue.qsize() < MOST_WAITING or not isinstance(event, CallUpdated):  # only updates are dropped
                queue.put_nowait(event)

        self.listener = listen
        return events_of(self.run, queue)

    def interrupt(self, reason: str = "interrupted", how: Interruption = "abort") -> None:
        """Ends the batch early; every call still has a result, and finished ones keep theirs.

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
        if self._steering_task is not None and self._steering_task is not asyncio.current_task():
            self._steering_task.cancel()
        for state, task in list(self._tasks.items()):
            # A task cancelled before its first step would never run `_run_one`, which otherwise sees `_stopped`.
            is_open = state.result is None or state.is_seen  # of a call with its last result, only wrappers go on
            if state in self._started and is_open and (how == "abort" or state.started_at is None):
                task.cancel()

    def _start(self, state: CallState) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._run_one(state))
        if not task.done():  # with an eager task factory it may be
            self._tasks[state] = task
        return task

    async def _run_all(self, new: Sequence[CallState]) -> None:
        for state in new:
            task = self._start(state)
            if self.sequential:
                await asyncio.wait([task])
                if state is not new[-1]:
                    self._start_steering()
                if self._steering_task is not None:
                    await asyncio.wait([self._steering_task])
        if self._tasks:
            self._all_done = asyncio.get_running_loop().create_future()
            await self._all_done

    async def _run_one(self, state: CallState) -> None:
        self._started.add(state)
        try:
            enclosing_call.set(state)  # in this task's context
            if not is_too_deep(state):
                refused = self._refusal_of(state)
                await (run_call(state) if refused is None else finish_inside(state, error=refused))
        except asyncio.CancelledError:
            task = running_task()
            while task.cancelling():
                task.uncancel()
            if not state.is_seen:
                await finish(state, error=self._interruption_error(state))
        finally:  # also after another cancellation during `finish`
            self._settle(state)
            self._tasks.pop(state, None)
            if self._tasks and self._has_run:
                self._start_steering()
            elif self._all_done is not None and not self._all_done.done():
                self._all_done.set_result(None)

    def _refusal_of(self, state: CallState) -> CallError | None:
        """The error of a call that must not run any more."""
        if self.cut_off:
            text = f"{state.call.name} was not run: your message was cut off in this call. Make the whole call again."
            return CallError("cut_off", text)
        if self._stopped:
            return self._interruption_error(state)
        error, earlier = self.refused.get(state), self.states[: state.position.index] if self.sequential else ()
        if error is None and any(each.pending is not None for each in earlier):
            return overtaking_error(state)
        return error

    def _interruption_error(self, state: CallState) -> CallError:
        reason = self._ended or ("cancelled" if self._has_run else "the answer broke off")
        if state.started_at is None:
            return CallError("skipped", f"{state.call.name} was not run: the turn had ended ({reason}).")
        seconds = time.monotonic() - state.started_at
        note, text = still_running_note(state), f"{state.call.name} was aborted after {seconds:.1f} s ({reason})."
        return CallError("aborted", text if note is None else f"{text} {note}")

    def _settle(self, state: CallState) -> None:
        """Records the end of a call, and applies its consequences to the batch; once."""
        if state in self._settled:
            return
        self._settled.add(state)
        position = state.position
        if position.scheduler is not None:
            if state.pending is not None:
                position.scheduler.suspend(position.index)
            position.scheduler.mark_passed(position.index)
        if state.result is None:
            conclude(state, failure_result(state, state.error or self._interruption_error(state)))
        if state.settings.emit is not None:
            emit_ended(state)
        if state.fatal is not None:
            self._fatal = self._fatal or state.fatal
            self.interrupt("fatal", "skip")
        elif state.end_reason is not None:
            self.interrupt(state.end_reason, "skip")

    def _start_steering(self) -> None:
        """Starts asking whether the user has spoken, unless that is in progress."""
        is_free = self._steering_task is None or self._steering_task.done()
        if is_free and self.steering is not None and self._ended is None:
            self._steering_task = asyncio.get_running_loop().create_task(self._ask_steering(self.steering))

    async def _ask_steering(self, steering: _Steering) -> None:
        state, link = self.states[0], Callback(steering, "the host")
        try:
            if await Chain((link,), state.runtime, state.settings.limits).ask(link):
                self.interrupt("interrupted", self.on_steering)
        except ChainError as error:  # the host's function; the calls go on
            log_failure("steering", error)

    def _actions(self, states: Sequence[CallState]) -> Actions:
        """The merged actions of the calls, without those of pending calls."""
        made = (state.made_context for state in states if state.pending is None)
        asked = [None if each is None else each.internals.pending_actions for each in made]
        if not any(asked):
            return Actions()  # the usual case
        actions = [Actions() if each is None else each.actions for each in asked]
        skips = all(each.skip_summarization for each in actions)
        return attrs.evolve(merge_actions(actions, states[0].request.state), skip_summarization=skips)

    def _pending(self, states: Sequence[CallState]) -> PendingCalls:
        """The pending calls, up to the limit, with unique ids: tools may use one twice."""
        taken = {call.id for call in self.unanswered}
        for state in states:
            if state.asking is None or state.pending is None:
                continue
            if len(taken) >= MOST_CALLS:
                what = f"{MOST_CALLS:,} calls are waiting for answers"
                state.asking.replace_pending(None)
                text = f"{state.call.name} was not run: {what}. Call it again later."
                conclude(state, ToolResult.error("denied", text))
                continue
            if state.pending.id in taken:
                state.asking.replace_pending(attrs.evolve(state.pending, id=new_id()))
                if state.result is not None:
                    conclude(state, attrs.evolve(state.result, pending=state.pending))
            taken.add(state.pending.id)
        return PendingCalls((*(state.pending for state in states if state.pending is not None), *self.unanswered))

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
                if state.running is not None
                and state.running.runs_on_host
                and state.result is not None
                and state.result.kind == "not_executed"
            ),
        )


def _is_same(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments) == (other.name, other.arguments)


async def events_of(
    run: Callable[[], Coroutine[Any, Any, object]], queue: asyncio.Queue[T | None]
) -> AsyncGenerator[T]:
    """Yields what an async function puts into a queue, then raises its exception; closing cancels the function."""
    running = asyncio.ensure_future(run())
    running.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            queue.task_done()
            yield event
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # mark it as retrieved


def _sender(
    listener: Callable[[CallEvent], None], observers: Callable[[CallEvent], None] | None
) -> Callable[[CallEvent], None]:
    """Sends events to a listener, whose errors are logged, and to the registry's observers."""
    failed = False

    def send(event: CallEvent) -> None:
        nonlocal failed
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001  the host's own
            if not failed:
                failed = True
                log_failure("the listener of a batch (logged once)", error)
        if observers is not None:
            observers(event)

    return send
