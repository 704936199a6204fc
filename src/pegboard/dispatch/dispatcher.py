"""`Dispatcher`: what one registry's calls share, and the batches that they run in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import attrs

from pegboard.callbacks import Callback, is_read_only
from pegboard.dispatch.locks import (
    EXCLUSIVE,
    SHARED,
    UNKNOWN,
    BatchScheduler,
    LockBackend,
    LockManager,
    LockRequest,
    Semaphore,
    lock_request,
)
from pegboard.dispatch.stages import DispatchHost, decide, make_state, run_call, state_in_batch
from pegboard.dispatch.state import BATCH, BatchPosition, CallSnapshot, CallState, CurrentPermissions, Runtime, Settings
from pegboard.errors import PendingError
from pegboard.tools.call import CallError, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.limits import Limits
from pegboard.typing import frozen

if TYPE_CHECKING:
    from typing import Unpack

    from pegboard.dispatch.approval.grants import Grants
    from pegboard.dispatch.approval.pending import PendingCalls, ResumedCall
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.background import Operations
    from pegboard.dispatch.batch import Batch, BatchOptions
    from pegboard.dispatch.events import CallEvent, Observers
    from pegboard.dispatch.operations import OperationStore, StoredCall
    from pegboard.dispatch.permissions.evaluation import Decision
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.dispatch.truncate import ResultStore, ResultTexts
    from pegboard.tools.services import Services
    from pegboard.tools.tool import Tool

T = TypeVar("T")

_CLOSE_SECONDS: Final = 5.0  # for the loops of `call_sync` to end
_MOST_UNDER_WAY: Final = 256  # calls of one tool by `call_sync`


@frozen
class Health:
    """Health counters of a registry: leaked threads and coroutines, blocked loops, lost events. All should be zero.

    Attributes:
        abandoned_threads: Threads that still run for calls that have ended. They never delay exit.
        abandoned_coroutines: Coroutines that ignored cancellation and were closed.
        blocked: How often an async tool has blocked the event loop for more than 100 ms.
        dropped_events: Events that were dropped for slow observers.
    """

    abandoned_threads: int = 0
    abandoned_coroutines: int = 0
    blocked: int = 0
    dropped_events: int = 0


class Dispatcher:
    """What the calls of one registry share, and how they are made."""

    # For `ToolRegistry.call`, which imports no stages; `new` is quicker, and takes no `ToolContext`.
    new: ClassVar = CallState
    make_state: ClassVar = staticmethod(make_state)
    run: ClassVar = staticmethod(run_call)

    def __init__(
        self,
        limits: Limits,
        provided: Services,
        grants: Grants | None,
        executor: Callable[[str], Awaitable[Any]],
        prepared: Callable[[], tuple[CallSnapshot, Settings]],
    ) -> None:
        """`prepared` returns what calls can reach now, and the settings."""
        self.settings: Final = Settings(limits, host=DispatchHost())  # without approver and observers, which may change
        self.emit: Callable[[Any], None] | None = None  # sends an event to the observers
        self.observers: Observers | None = None  # delivers events to observers, once there are some
        self._provided: Final = provided
        self._prepared: Final = prepared
        self._under_way: Final[list[str]] = []  # the names of the calls by `call_sync` that run
        self.runtime: Final = Runtime(  # what its calls share
            locks=LockManager(limits.max_concurrency),
            grants=grants or None,
            awaits_grants=iscoroutinefunction(getattr(grants, "rules", None)),
            texts=self._find_texts,
            new_operations=self._new_operations,
            executor=executor,
            provided=provided,
        )
        provided.run = lambda *call: self.runtime.threads.run(*call)  # noqa: PLW0108  the threads are made at the first

    @property
    def store(self) -> ResultStore:
        """The full texts of truncated results."""
        return cast("ResultStore", self.runtime.store)

    @property
    def operations(self) -> Operations:
        """The long-running operations."""
        return self.runtime.operations

    def _new_operations(self) -> Operations:
        from pegboard.dispatch.background import Operations  # loaded when something asks for them

        def emit(event: CallEvent) -> None:
            if self.emit is not None:
                self.emit(event)

        return Operations(emit=emit, find_store=self._find_operation_store, revive=self.revive)

    def _find_texts(self) -> ResultTexts | None:
        from pegboard.dispatch.truncate import ResultTexts

        return self._find_service(ResultTexts)

    def _find_operation_store(self) -> OperationStore | None:
        from pegboard.dispatch.operations import OperationStore

        return self._find_service(OperationStore)

    def _find_service(self, kind: type[T]) -> T | None:
        """The service of a type, if the host or a plugin provides one."""
        provided = self._provided
        return provided.use_now(kind, ToolContext()) if provided.may_find(kind) and kind in provided else None

    def revive(self, stored: StoredCall) -> CallState:
        """The state of a call that another process has begun, to complete its operation here."""
        snapshot, settings = self._prepared()
        request, position = stored.request, BatchPosition(stored.index)
        call = ToolCall(request.tool, request.arguments, request.call_id)
        state = state_in_batch(call, request.context(), snapshot, settings, position)
        with suppress(CallError):  # it isn't registered here
            state.set_tool(snapshot.find(request.tool))
        state.change_arguments(request.arguments)
        return state

    def prepare(
        self,
        find: Callable[[str], Tool],
        tools: Iterable[Tool],
        callbacks: Callable[[str], tuple[Callback, ...]],
        approver: AnyApprover | None,
    ) -> tuple[CallSnapshot, Settings]:
        """What calls can reach, and the registry's settings, valid until the catalogue or the approver changes.

        `find` returns the tool of a name, or raises `CallError`; `callbacks` the catalogue's callbacks of a hook.
        """
        self.runtime.locks.use_backend(self._provided.may_find(LockBackend))
        tools = tuple(tool for tool in tools if tool.offered)
        hooks = ("before_tool", "after_tool", "on_tool_error", "wrap_tool", "repair_call", "approve_call", "wrap_call")
        called = {hook: chain for hook in hooks if (chain := callbacks(hook))}
        emit = None
        if watching := callbacks("observe"):
            from pegboard.dispatch.events import Observers  # loaded with the first observer

            self.observers = self.observers or Observers()
            emit = self.observers.sender(watching)
        self.emit = emit
        snapshot = CallSnapshot(self.runtime, find, tools, {tool.name: tool for tool in tools}, called)
        return snapshot, attrs.evolve(self.settings, approver=approver, emit=emit)

    def set_permissions(self, permissions: Permissions | None) -> None:
        """Sets the permissions, also for calls that are waiting to run."""
        self.settings.current.permissions = permissions

    def health(self) -> Health:
        """The health counters."""
        watchdog, dropped = self.runtime.watchdog, 0 if self.observers is None else self.observers.dropped
        abandoned = sum(pool.abandoned for pool in self.runtime.pools)
        return Health(abandoned, watchdog.given_up, watchdog.blocked, dropped)

    async def aclose(self, executors: Iterable[Any]) -> None:
        """Closes background work first, then observers, then executors and threads."""
        made = vars(self.runtime)
        if "operations" in made:
            await self.operations.aclose()
        if self.observers is not None:
            await self.observers.aclose()
        if executors:
            from pegboard.dispatch.executors.executor import close_executors

            await close_executors(executors)
        if "store" in made:
            self.store.close()
        if "loops" in made and self.runtime.loops.loops:
            await self.runtime.threads.run(self.runtime.loops.close, _CLOSE_SECONDS, asyncio.get_running_loop())
        for pool in self.runtime.pools:
            pool.close()

    def call_and_wait(self, name: str, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """The result of a call, which this thread waits for; see `ToolRegistry.call_sync`."""
        from pegboard.threads import running_loop, waiting  # loaded with the first call of a plain tool

        async def run() -> ToolResult:
            try:
                return await call()
            finally:
                if self.observers is not None:  # async observers get no events once the loop is closed
                    await self.observers.drain(threads=False)

        self._under_way.append(name)  # a list's operations are atomic
        try:
            if self._under_way.count(name) > _MOST_UNDER_WAY:
                text = f"{name} was not run: {_MOST_UNDER_WAY} calls of it are under way. Does it call itself?"
                return ToolResult.error("limit", text)
            with waiting():
                return asyncio.run(run()) if running_loop() is None else self.runtime.loops.run(run)
        except CancelledError:
            return ToolResult.error("aborted", f"{name} was aborted: it cancelled itself, or its registry was closed.")
        finally:
            self._under_way.remove(name)

    async def decide(
        self,
        name: str,
        arguments: Any,
        context: ReadonlyContext | ToolContext,
        snapshot: CallSnapshot,
        settings: Settings,
    ) -> Decision:
        """The decision on a call, which isn't run; see `ToolRegistry.decide`."""
        links = {hook: snapshot.callbacks.get(hook, ()) for hook in ("before_tool", "approve_call")}
        marked = {hook: tuple(each for each in links[hook] if is_read_only(each.function)) for hook in links}
        unmarked = [each for each in links["before_tool"] if not is_read_only(each.function)]
        snapshot = attrs.evolve(snapshot, callbacks={hook: chain for hook, chain in marked.items() if chain})
        state = make_state(name, arguments, "", context, snapshot, attrs.evolve(settings, emit=None))
        return await decide(state, unmarked)

    async def attach(
        self, call: ToolCall, context: ReadonlyContext | ToolContext, snapshot: CallSnapshot, settings: Settings
    ) -> ToolResult | None:
        """The result of a call that another process has sent; see `ToolRegistry.attach`."""
        from pegboard.dispatch.approve import asking_of

        state = self.make_state(call.name, call.arguments, call.id, context, snapshot, settings)
        no_run = CallError("unknown_outcome", f"{call.name} has no run to attach to.")
        asking_of(state, no_run_error=no_run)
        await self.run(state, is_alone=True)
        if state.fatal is not None:
            raise state.fatal
        return state.result if no_run.__traceback__ is None else None  # it was raised, whatever callbacks made of it

    def batch(
        self,
        calls: Iterable[ToolCall],
        context: ReadonlyContext,
        snapshot: CallSnapshot,
        settings: Settings,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """A batch of the calls of one answer."""
        from pegboard.dispatch.batch import Batch, check_options  # loaded with the first batch

        check_options(options)
        settings = _with_options(settings, options)
        values = {} if context.values is None else context.values
        message = f"{BATCH}{os.urandom(16).hex()}" if context.message is None else context.message
        context = attrs.evolve(context, values=values, message=message)
        calls = tuple(calls)
        requests = [_first_request(call, snapshot.find) for call in calls]
        needs_order = not options.get("sequential") and any(each is not SHARED for each in requests)
        scheduler = BatchScheduler(requests) if needs_order else None
        states = [
            state_in_batch(call, context, snapshot, settings, BatchPosition(index, scheduler))
            for index, call in enumerate(calls)
        ]

        def make(call: ToolCall, scheduler: BatchScheduler, hold_until: asyncio.Event | None) -> CallState:
            index = scheduler.add(_first_request(call, snapshot.find))
            position = BatchPosition(index, scheduler, hold_until=hold_until)
            return state_in_batch(call, context, snapshot, settings, position)

        own = ("sequential", "steering", "on_steering", "cut_off", "listener")
        given: dict[str, Any] = {name: value for name, value in options.items() if name in own}
        return Batch(states, make, **given)

    async def resume_batch(
        self,
        pending: PendingCalls,
        answered: Mapping[str, ResumedCall],
        context: ReadonlyContext,
        snapshot: CallSnapshot,
        settings: Settings,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """A batch of the pending calls that have been answered, by their ids."""
        from pegboard.dispatch.approval.pending import PendingCalls  # loaded when a call isn't simply allowed
        from pegboard.dispatch.approve import resume

        ruled = next((each.pending for each in answered.values() if each.pending.has_own_permissions), None)
        if ruled is not None and options.get("permissions") is None:
            text = f"{ruled.call.name} was suspended under permissions of its own batch: pass them again, to"
            raise PendingError(f"{text} resume(permissions=...) or to the turn")
        is_sequential = options.get("sequential", False)
        runnable = _without_conflicts(pending, answered, snapshot.find, context, sequential=is_sequential)
        batch = self.batch((each.pending.call for each in runnable.values()), context, snapshot, settings, **options)
        batch.unanswered = PendingCalls(call for call in pending if call.id not in runnable)
        batch.ignored = tuple(id_ for id_ in answered if id_ not in runnable)
        for state, resumed in zip(batch.states, runnable.values(), strict=True):
            state.mark_prepared()
            if (error := await resume(state, resumed)) is not None:
                batch.refused[state] = error
        return batch


def _without_conflicts(
    pending: PendingCalls,
    answered: Mapping[str, ResumedCall],
    find: Callable[[str], Tool],
    context: ReadonlyContext,
    *,
    sequential: bool,
) -> dict[str, ResumedCall]:
    """The answered calls, without those that conflict with an earlier call that still waits for its answer."""
    runnable, waiting = dict(answered), list[LockRequest]()
    for call in pending:
        try:
            request = lock_request(find(call.call.name), call.arguments, context)
        except (CallError, ValueError):  # it won't run
            request = SHARED
        each = runnable.get(call.id)
        overtakes = any(sequential or request.conflicts(other) for other in waiting)
        if each is None or (overtakes and not each.is_refusal):
            waiting.append(request)
            runnable.pop(call.id, None)
    return runnable


def _with_options(settings: Settings, options: BatchOptions) -> Settings:
    """The settings with the options of one batch."""
    names = {"approver": "approver", "ask_until": "ask_until", "instructions": "instructions", "timeout": "longest"}
    given = ((name, value) for name, value in options.items() if name in names and value is not None)
    changes: dict[str, Any] = {names[name]: value for name, value in given}
    if (permissions := options.get("permissions")) is not None:
        changes["current"] = CurrentPermissions(permissions, are_own=True)
    if (most := options.get("max_concurrency")) is not None:
        changes["slots"] = Semaphore(most)
    if (results := options.get("results")) is not None:
        changes["limits"] = attrs.evolve(settings.limits, results=results)
    return attrs.evolve(settings, **changes) if changes else settings


def _first_request(call: ToolCall, find: Callable[[str], Tool]) -> LockRequest:
    """A call's lock request, as far as it is known without its arguments."""
    try:
        mode = find(call.name).spec.concurrency.mode
    except (CallError, TypeError):  # there is no such tool, but the name may still be repaired
        return UNKNOWN
    return {"shared": SHARED, "exclusive": EXCLUSIVE}.get(mode, UNKNOWN)
