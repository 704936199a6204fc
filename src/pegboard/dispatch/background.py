"""Long-running operations: background work after the first result of a call, and its later results."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable, iscoroutine
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import attrs
from attrs import field

from pegboard.callbacks import maybe_await
from pegboard.dispatch.arguments import parse
from pegboard.dispatch.executors.execution import ExecutionRequest
from pegboard.dispatch.operations import (
    NO_CALL,
    Completion,
    Operation,
    OperationStore,
    StoredCall,
    read_calls,
    read_completions,
    write_completion,
)
from pegboard.dispatch.results import failure_result, result_of, truncate_result
from pegboard.dispatch.stages import conclude, finish, finish_inside
from pegboard.dispatch.state import CallState
from pegboard.errors import OperationError, detail_of, log_failure
from pegboard.threads import running_loop, waiting
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.call import CallError
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.tool import Tool
from pegboard.typing import define

if TYPE_CHECKING:
    from pegboard.dispatch.events import CallEvent


def later_result(state: CallState, value: object) -> ToolResult:
    """A `ToolResult`, an exception or a tool's return value as the later result of a call.

    May block, as it stores a truncated text in a file.
    """
    if isinstance(value, BaseException):
        return failure_result(state, value)
    try:
        if state.tool is not None:
            result = result_of(state.tool, value)
        else:
            result = value if isinstance(value, ToolResult) else ToolResult(f"{value}")  # pyright: ignore[reportArgumentType]
        return truncate_result(state, result)
    except Exception as error:  # noqa: BLE001  a value may raise anything
        return failure_result(state, error)


async def deliver(state: CallState, tool: Tool | None, value: object) -> None:
    """Sets the result of a call that its host has run, as the after callbacks leave it."""
    state.set_tool(tool)
    with suppress(CallError):
        state.change_arguments(parse(state.raw, state.settings.limits))
    await finish_inside(state, await state.runtime.threads.run(later_result, state, value))


async def _make_completion(operation: Operation, state: CallState, result: ToolResult) -> Completion:
    """The completion with a result, as the after callbacks leave it."""
    if "after_tool" not in state.snapshot.callbacks:
        return Completion(operation, result)
    context = attrs.evolve(state.context, cancelled=False, deadline=None)
    later = CallState(state.name, state.raw, state.id, context, state.snapshot, state.settings)
    later.replace(state.call)
    later.tool, later.arguments, later.position = state.tool, state.arguments, state.position
    await finish(later, result)
    return Completion(operation, later.result or result, later.fatal)


def _make_completion_now(operation: Operation, state: CallState, result: ToolResult) -> Completion:
    """`_make_completion`, in an event loop of its own: the caller's can't run meanwhile."""
    if "after_tool" not in state.snapshot.callbacks:
        return Completion(operation, result)
    from concurrent.futures import ThreadPoolExecutor

    with waiting(), ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, asyncio.run, _make_completion(operation, state, result)).result()


CLAIM_SECONDS: Final = 60.0  # in which the process that completes a stored operation keeps others from it


@define(eq=False)
class Operations:
    """Registry of long-running operations and their completions. Thread-safe.

    A long-running tool returns a first result, marked as pending, and the host completes it later; or the tool
    continues in the background, by `context.background(...)`. Background work of another tool gives an additional
    result.

    With an `OperationStore`, operations that the host completes are there, so that any of its processes completes them
    and takes their results. Background work belongs to its process, and only its result is stored.
    """

    # operations at once. Beyond that, the oldest that the host should complete ends as `unknown_outcome`; if all run in
    # this process, new ones are refused. Also the limit of completions that wait to be taken, of which the oldest are
    # dropped.
    most: int = 10_000
    seconds: float | None = 3600.0  # time limit of background work; `None` is no limit
    emit: Callable[[CallEvent], None] | None = None  # receives each completion as an event, or `None`
    find_store: Callable[[], OperationStore | None] = lambda: None  # returns the provided store
    revive: Callable[[StoredCall], CallState] | None = None  # makes the state of a call of another process
    _pending: dict[str, tuple[Operation, CallState]] = field(factory=dict[str, tuple[Operation, CallState]], init=False)
    _completed: dict[str, Completion] = field(factory=dict[str, Completion], init=False)
    _forgotten: set[str] = field(factory=set[str], init=False)
    _by_call: WeakKeyDictionary[CallState, str] = field(factory=WeakKeyDictionary[CallState, str], init=False)
    _tasks: set[asyncio.Task[Completion]] = field(factory=set["asyncio.Task[Completion]"], init=False)
    _publishing: set[asyncio.Task[None]] = field(factory=set["asyncio.Task[None]"], init=False)  # never cancelled
    _lock: Lock = field(factory=Lock, init=False)

    @property
    def pending(self) -> tuple[Operation, ...]:
        """The pending operations, the oldest first; those in a store are read from there, which may block."""
        store = self.find_store()
        stored = () if store is None else (each.operation for each in read_calls(store.find()))
        with self._lock:
            return (*stored, *(operation for operation, _ in self._pending.values()))

    @property
    def is_stored(self) -> bool:
        """Whether there is a store, so that `mark_pending`, `pending` and `take` may block."""
        return self.find_store() is not None

    def mark_pending(self, state: CallState) -> Operation | None:
        """Marks the first result of a long-running call as pending; returns the operation.

        Its background work, if any, is the operation; if that has already ended, its result becomes the call's, and
        nothing is pending (`None`), as with too many operations (`limit`).
        """
        with self._lock:
            id_ = self._by_call.pop(state, "")
            known = self._pending.get(id_)
            ended = self._completed.pop(id_, None)
        if ended is not None:
            state.mark_seen()
            state.end_turn(error=ended.fatal)
            conclude(state, ended.result)
            return None
        try:
            operation = self._add(state) if known is None else known[0]
        except CallError:
            conclude(state, ToolResult.error("limit", f"{state.context.tool} ran, but {self._limit_text()}"))
            return None
        except Exception as error:  # noqa: BLE001  a host's store
            text = f"{state.context.tool} ran, but its operation can't be stored, so that its result can't follow."
            text += " Find out what it has done before calling it again."
            conclude(state, ToolResult.error("unknown_outcome", text, detail=detail_of(error)))
            return None
        first = state.result or ToolResult()
        note = f"This is pending as operation {operation.id}. The result will follow automatically."
        note += f" Don't call {operation.tool} again for it."
        metadata = {**first.metadata, "pending": True, "operation": operation.id}
        conclude(state, attrs.evolve(first, content=(*first.content, TextContent(note)), metadata=metadata))
        return operation

    def start_background(self, state: CallState, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Starts background work, an awaitable or a function for a thread; returns the operation's id. Thread-safe.

        With too many operations it raises `limit`, and without an open event loop of the call a `RuntimeError`.
        """
        try:
            portal = state.context.internals.portal  # of a tool that runs in a thread
            loop = running_loop() or (portal and portal.loop)
            if loop is None or loop.is_closed():
                raise RuntimeError("context.background(...) has to be called in the call's event loop or thread")  # noqa: TRY301  as `_add`
            operation = self._add(state, is_background=True)

            def start() -> None:
                task = loop.create_task(self._run_work(operation, state, work))
                self._tasks.add(task)
                task.add_done_callback(end)

            def end(task: asyncio.Task[Completion]) -> None:  # `_run_work` may be cancelled before its first step
                self._tasks.discard(task)
                if iscoroutine(work):
                    work.close()
                with self._lock:
                    self._pending.pop(operation.id)
                text = f"{operation.tool} was aborted after {time.time() - operation.started:.1f} s in the background."
                aborted = Completion(operation, ToolResult.error("aborted", text))
                self._complete(state, aborted if task.cancelled() else task.result())
                self._publish(operation, state, loop)

            if loop is running_loop():
                start()
            else:
                loop.call_soon_threadsafe(start)
        except BaseException:
            if iscoroutine(work):
                work.close()
            raise
        return operation.id

    def complete(self, name: str, value: Any) -> Completion:
        """Sets the final result of a long-running call, once; it replaces the pending one. Thread-safe.

        It stores long texts, runs the `after_tool` callbacks, and may block: in an event loop,
        `await asyncio.to_thread(registry.operations.complete, call_id, value)`.

        Args:
            name: The operation's id, or its call's if only one operation has that.
            value: A `ToolResult`, an exception, or a return value of the tool.

        Raises:
            OperationError: No operation of that id is pending (it may have its result already), several calls are,
                it runs in the background and completes itself, or another process completes it now.
        """
        store = self.find_store()
        stored = {} if store is None else {each.operation: each for each in read_calls(store.find(name))}
        operation, state = self._pop(name, stored)
        if state is not None:
            return self._complete(state, _make_completion_now(operation, state, later_result(state, value)))
        assert store is not None
        assert self.revive is not None
        if not store.claim(operation.id, CLAIM_SECONDS):
            raise OperationError(f"{name!r:.80} has its result already, or another process is completing it")
        state = self.revive(stored[operation])
        completion = _make_completion_now(operation, state, later_result(state, value))
        if not store.finish(operation.id, write_completion(completion)):
            raise OperationError(f"{name!r:.80} has its result already")
        self._announce(state, completion)
        return completion

    def take(
        self,
        session: str | None = None,
        calls: Collection[str] | None = None,
        users: Collection[str | None] | None = None,
    ) -> tuple[Completion, ...]:
        """The final results of a session's calls, each returned once, in order.

        Args:
            session: The conversation's id; `None`: calls made without one.
            calls: Only those of calls with these ids; the others stay queued. `None`: all.
            users: Only those of these users' calls, as a turn takes those of its user. `None`: all.
        """
        with self._lock:
            completed = tuple(
                self._completed.pop(id_)
                for id_, each in [*self._completed.items()]
                if each.operation.session == session
                and (calls is None or each.call_id in calls)
                and (users is None or each.operation.user in users)
            )
        store = self.find_store()
        return completed if store is None else (*completed, *read_completions(store.take(session, calls, users)))

    def forget(self, operation: str) -> None:
        """Drops the final result of background work, now or when it ends: whoever waits for it has it already.

        The event of its end is still emitted. A result that is in an `OperationStore` already stays there.
        """
        with self._lock:
            if operation in self._pending:
                self._forgotten.add(operation)
            self._completed.pop(operation, None)

    async def aclose(self, seconds: float = 5.0) -> None:
        """Cancels background work and waits `seconds` for its end; its result is `aborted`."""
        loop = asyncio.get_running_loop()
        for task in list(self._tasks):
            with suppress(RuntimeError):  # its loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)
        for tasks in (self._tasks, self._publishing):  # as the first end, they make the others
            if here := [task for task in tuple(tasks) if task.get_loop() is loop]:
                await asyncio.wait(here, timeout=seconds)

    def _add(self, state: CallState, *, is_background: bool = False) -> Operation:
        import secrets

        assert state.tool is not None
        context, dropped = state.context, None
        own = Operation(
            f"op_{secrets.token_hex(8)}",
            context.call_id,
            context.tool,
            context.session,
            time.time(),
            user=context.user,
            is_background=is_background,
        )
        store = None if is_background else self.find_store()
        if store is not None:
            request = ExecutionRequest.of_call(context.tool, state.arguments, context)
            data = json.dumps(StoredCall(own, request, state.position.index).to_json())
            store.add(own.id, data, call_id=own.call_id, user=own.user, session=own.session)
            return own
        with self._lock:
            if len(self._pending) >= self.most:  # drop the oldest that the host has to complete
                oldest = next((id_ for id_, (each, _) in self._pending.items() if not each.is_background), None)
                if oldest is None:
                    raise CallError("limit", f"{context.tool} can't run in the background: {self._limit_text()}")
                dropped = self._pending.pop(oldest)
            replaces = state.tool.spec.long_running and state not in self._by_call
            operation = attrs.evolve(own, replaces=replaces)
            self._pending[own.id] = operation, state
            if replaces and is_background:
                self._by_call[state] = own.id
        if dropped is not None:
            lost = dropped[0]
            text = f"{lost.tool} ran, but operation {lost.id} was never completed and is no longer tracked."
            text += " Find out what it has done before calling it again."
            self._complete(dropped[1], _make_completion_now(*dropped, ToolResult.error("unknown_outcome", text)))
        return operation

    def _limit_text(self) -> str:
        return f"{self.most:,} operations are already running, which is the limit. Wait until one ends."

    def _pop(self, name: str, stored: Iterable[Operation]) -> tuple[Operation, CallState | None]:
        """The operation of this name, which isn't pending here any more; its call's state, unless it is stored."""
        with self._lock:
            known = (*stored, *(each for each, _ in self._pending.values()))
            found = [each for each in known if each.id == name]
            found = found or [each for each in known if each.call_id == name and each.replaces]
            if len(found) == 1 and not found[0].is_background:
                return found[0], self._pending.pop(found[0].id, (None, None))[1]
        if not found:
            raise OperationError(f"no call or operation {name!r:.80} is pending; it may have its result already")
        if len(found) == 1:
            raise OperationError(f"{name!r:.80} runs in the background and completes itself")
        ids = " or ".join(each.id for each in found[:3])
        raise OperationError(f"{len(found)} calls {name!r:.80} are pending: name the operation, {ids}")

    def _complete(self, state: CallState, completion: Completion) -> Completion:
        with self._lock:
            if completion.operation.id in self._forgotten:
                self._forgotten.discard(completion.operation.id)
            else:
                self._completed[completion.operation.id] = completion
            while len(self._completed) > self.most:
                del self._completed[next(iter(self._completed))]
        self._announce(state, completion)
        return completion

    def _publish(self, own: Operation, state: CallState, loop: asyncio.AbstractEventLoop) -> None:
        """Stores the result of background work, unless it will be the first of its call."""
        store = self.find_store()
        with self._lock:
            completion = None if store is None or state in self._by_call else self._completed.pop(own.id, None)
        if store is None or completion is None:
            return

        def publish() -> None:
            try:
                store.add(own.id, NO_CALL, call_id=own.call_id, user=own.user, session=own.session)
                store.finish(own.id, write_completion(completion))
            except Exception as error:  # noqa: BLE001  a host's store
                log_failure("storing a completion", error)
                with self._lock:
                    self._completed[own.id] = completion

        task = loop.create_task(state.runtime.threads.run(publish))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    def _announce(self, state: CallState, completion: Completion) -> None:
        if self.emit is None:
            return
        from pegboard.dispatch.events import class_of_end  # loaded with the first observer

        own, result, now = completion.operation, completion.result, time.time()
        facts = own.call_id, own.tool, now, state.position.index
        try:
            self.emit(class_of_end(result)(*facts, result=result, seconds=now - own.started))
        except Exception as error:  # noqa: BLE001  an observer disturbs no call
            log_failure("emitting a completion", error)

    async def _run_work(
        self, operation: Operation, state: CallState, work: Awaitable[Any] | Callable[[], Any]
    ) -> Completion:
        runtime = state.runtime

        async def given() -> ToolResult:
            value = work if isawaitable(work) else await runtime.tool_threads.run_for(operation.tool, work)
            return await runtime.threads.run(later_result, state, await maybe_await(value))

        try:
            result = await within(self.seconds, given())
        except LimitExpiredError:
            text = f"{operation.tool} gave no result within {self.seconds:g} s in the background."
            result = ToolResult.error("timeout", text)
        except BaseException as error:  # a tool's SystemExit costs its own result only
            if cancels_the_call(error):
                raise
            result = later_result(state, error)
        return await _make_completion(operation, state, result)
