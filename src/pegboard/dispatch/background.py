"""Long-running tools: what goes on after the first result of its call, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import settle
from pegboard.dispatch.events import CallEvent, ended
from pegboard.dispatch.results import failure_result, limits_of, result_of, store_access
from pegboard.dispatch.state import CallState
from pegboard.dispatch.truncate import truncated
from pegboard.errors import OperationError, log_failure
from pegboard.schema.converter import JsonRecord
from pegboard.threads import running_loop
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.call import CallError
from pegboard.tools.content import TextContent, ToolResult


@frozen
class Operation(JsonRecord):
    """Something that goes on after the first result of its call.

    Attributes:
        id: Of the operation; the model reads it.
        call_id: Of the call.
        tool: The tool's name.
        session: The conversation's id, or `None`.
        started: When, in seconds since 1970 (UTC).
        replaces: Whether what comes of it replaces the call's result, which announces it; else it stands beside it.
        is_background: Whether it goes on in this process and completes itself; else the host has to complete it.
    """

    id: str
    call_id: str
    tool: str
    session: str | None
    started: float
    replaces: bool = True
    is_background: bool = False


@frozen
class Completion(JsonRecord):
    """Completion of a long-running operation: its result or error.

    Attributes:
        operation: What has ended.
        result: Shaped, and held to the tool's output schema and to limits as any result is.
    """

    operation: Operation
    result: ToolResult

    @property
    def call_id(self) -> str:
        """Of the call that it belongs to."""
        return self.operation.call_id

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.operation.tool

    @property
    def replaces(self) -> bool:
        """Whether it replaces the call's pending result; else it is a message of its own."""
        return self.operation.replaces


def later_result(state: CallState, value: object) -> ToolResult:
    """What a value is as the later result of a call. May block, as it writes what is too long into a file.

    Args:
        state: The call.
        value: A `ToolResult`, an exception, or what the tool would have given; text where the tool isn't known.
    """
    if isinstance(value, BaseException):
        return failure_result(state, value)
    try:
        if state.tool is None:
            result = value if isinstance(value, ToolResult) else ToolResult(f"{value}")  # pyright: ignore[reportArgumentType]
        else:
            result = result_of(state.tool, value)
        return truncated(result, limits_of(state), *store_access(state))
    except CallError as error:
        return error.result()
    except Exception as error:  # noqa: BLE001  what a value makes of being looked at costs its own result only
        return failure_result(state, error)


@define(eq=False)
class Operations:
    """Registry of long-running operations and of their completions that were not taken yet. Thread-safe.

    A long-running tool gives its first result, marked as pending, and the host completes it later; or it
    goes on by itself, by `context.background(...)`. Another tool may go on in the background, too: what comes of
    that stands beside its result.

    Attributes:
        most: How many may go on at once. Beyond that, the oldest that was never completed ends as `unknown_outcome`;
            where all go on in this process, more are refused. As many results may wait to be taken; beyond that the
            oldest are dropped.
        seconds: How long something in the background may take; `None` is no limit.
        emit: Gets each completion as an event, or `None`.
    """

    most: int = 10_000
    seconds: float | None = 3600.0
    emit: Callable[[CallEvent], None] | None = None
    _pending: dict[str, tuple[Operation, CallState]] = field(factory=dict[str, tuple[Operation, CallState]], init=False)
    _completed: OrderedDict[str, Completion] = field(factory=OrderedDict[str, Completion], init=False)
    _by_call: WeakKeyDictionary[CallState, str] = field(factory=WeakKeyDictionary[CallState, str], init=False)
    _tasks: set[asyncio.Task[ToolResult]] = field(factory=set["asyncio.Task[ToolResult]"], init=False)
    _lock: Lock = field(factory=Lock, init=False)

    @property
    def pending(self) -> tuple[Operation, ...]:
        """What goes on, the oldest first."""
        with self._lock:
            return tuple(operation for operation, _ in self._pending.values())

    def begin(self, state: CallState) -> Operation | None:
        """Makes the result of a long-running tool a pending one.

        Args:
            state: It has its first result. Where the tool goes on in the background, that is the operation; where that
                has ended already, what came of it is the result, and nothing is pending.

        Returns:
            The operation, or `None` where nothing is pending: it has ended already, or too many are (`limit`).
        """
        with self._lock:
            id_ = self._by_call.pop(state, "")
            known = self._pending.get(id_)
            ended = self._completed.pop(id_, None)
        if ended is not None:
            state.result = ended.result
            return None
        try:
            operation = self._added(state) if known is None else known[0]
        except CallError:
            state.result = ToolResult.error("limit", f"{state.context.tool} ran, but {self._full()}")
            return None
        first = state.result or ToolResult()
        note = (
            f"This is pending as operation {operation.id}. Its result comes later by itself: "
            f"don't call {operation.tool} again for it meanwhile."
        )
        metadata = {**first.metadata, "pending": True, "operation": operation.id}
        state.result = attrs.evolve(first, content=(*first.content, TextContent(note)), metadata=metadata)
        return operation

    def go_on(self, state: CallState, doing: Awaitable[Any] | Callable[[], Any]) -> str:
        """Goes on in the background, in the call's event loop; gives the operation's id. From any thread.

        Args:
            state: The call that it belongs to.
            doing: What goes on; a plain function runs in a thread.

        Raises:
            CallError: `limit`: too many go on already.
            RuntimeError: The call's event loop isn't known in this thread, or is closed.
        """
        try:
            loop = _loop_of(state)
            operation = self._added(state, is_background=True)

            def start() -> None:
                task = loop.create_task(self._result(operation, state, doing))
                self._tasks.add(task)
                task.add_done_callback(end)

            def end(task: asyncio.Task[ToolResult]) -> None:  # it may be cancelled before it has begun
                self._tasks.discard(task)
                if iscoroutine(doing):
                    doing.close()
                with self._lock:
                    self._pending.pop(operation.id)
                seconds = time.time() - operation.started
                text = f"{operation.tool} was aborted after {seconds:.1f} s in the background."
                self._note(operation, state, ToolResult.error("aborted", text) if task.cancelled() else task.result())

            if loop is running_loop():
                start()
            else:
                loop.call_soon_threadsafe(start)
        except BaseException:
            if iscoroutine(doing):
                doing.close()
            raise
        return operation.id

    def complete(self, name: str, value: Any) -> Completion:
        """Notes what has come of a long-running tool, once. From any thread; may block, as it keeps long texts.

        Args:
            name: The operation's id, or its call's where that is the only one of its name.
            value: A `ToolResult`, an exception, or what the tool would have given.

        Raises:
            OperationError: Nothing of that id is pending (it may have its result already), several calls are, or it
                goes on in the background and will complete itself.
        """
        operation, state = self._taken(name)
        return self._note(operation, state, later_result(state, value))

    def take(self, session: str | None = None, calls: Container[str] | None = None) -> tuple[Completion, ...]:
        """What has been completed in a session, by some of its calls or any, and not been taken yet, in order."""
        with self._lock:
            mine = [
                id_
                for id_, each in self._completed.items()
                if each.operation.session == session and (calls is None or each.call_id in calls)
            ]
            return tuple(self._completed.pop(id_) for id_ in mine)

    async def aclose(self, seconds: float = 5.0) -> None:
        """Cancels what goes on in the background, and waits so long; each has its result all the same, `aborted`."""
        loop, here = asyncio.get_running_loop(), set[asyncio.Task[ToolResult]]()
        for task in list(self._tasks):
            if task.get_loop() is loop:
                task.cancel()
                here.add(task)
            else:
                with suppress(RuntimeError):  # that loop is closed
                    task.get_loop().call_soon_threadsafe(task.cancel)
        if here:
            await asyncio.wait(here, timeout=seconds)

    # How it does it ----------------------------------------------------------------------------------------------

    def _added(self, state: CallState, *, is_background: bool = False) -> Operation:
        import secrets

        assert state.tool is not None
        context, id_, given_up = state.context, f"op_{secrets.token_hex(8)}", None
        with self._lock:
            if len(self._pending) >= self.most:  # the oldest that the host should have completed makes room
                oldest = next((id_ for id_, (each, _) in self._pending.items() if not each.is_background), None)
                if oldest is None:
                    raise CallError("limit", f"{context.tool} can't go on in the background: {self._full()}")
                given_up = self._pending.pop(oldest)
            replaces = state.tool.spec.long_running and state not in self._by_call
            operation = Operation(
                id_, context.call_id, context.tool, context.session, time.time(), replaces, is_background
            )
            self._pending[id_] = operation, state
            if replaces and is_background:
                self._by_call[state] = id_
        if given_up is not None:
            lost = given_up[0]
            text = (
                f"{lost.tool} ran, but operation {lost.id} was never completed, and it is awaited no more. "
                "Find out what it has done before calling it again."
            )
            self._note(*given_up, ToolResult.error("unknown_outcome", text))
        return operation

    def _full(self) -> str:
        return f"{self.most:,} operations go on already, and the result of one more can't be awaited."

    def _taken(self, name: str) -> tuple[Operation, CallState]:
        with self._lock:
            among = self._pending.items()
            ids = [id_ for id_, (each, _) in among if id_ == name or (each.call_id == name and each.replaces)]
            ids = [name] if name in ids else ids
            if len(ids) == 1 and not self._pending[ids[0]][0].is_background:
                return self._pending.pop(ids[0])
        if not ids:
            raise OperationError(f"no call or operation {name!r:.80} is pending; it may have its result already")
        if len(ids) == 1:
            raise OperationError(f"{name!r:.80} goes on in the background, and completes itself")
        raise OperationError(f"{len(ids)} calls {name!r:.80} are pending: name the operation, {' or '.join(ids[:3])}")

    def _note(self, operation: Operation, state: CallState, result: ToolResult) -> Completion:
        completion = Completion(operation, result)
        with self._lock:
            self._completed[operation.id] = completion
            while len(self._completed) > self.most:
                self._completed.popitem(last=False)
        if self.emit is not None:
            now = time.time()
            event = ended(result)(
                operation.call_id, operation.tool, now, state.index, result=result, seconds=now - operation.started
            )
            try:
                self.emit(event)
            except Exception as error:  # noqa: BLE001  an observer disturbs no call
                log_failure("emitting a completion", error)
        return completion

    async def _result(
        self, operation: Operation, state: CallState, doing: Awaitable[Any] | Callable[[], Any]
    ) -> ToolResult:
        services = state.services

        async def given() -> ToolResult:
            value = doing if isawaitable(doing) else await services.tool_threads.run_for(operation.tool, doing)
            return await services.threads.run(later_result, state, await settle(value))

        try:
            return await within(self.seconds, given())
        except LimitExpiredError:
            text = f"{operation.tool} gave no result within {self.seconds:g} s in the background."
            return ToolResult.error("timeout", text)
        except BaseException as error:  # a tool's SystemExit costs its own result only
            if cancels_the_call(error):
                raise
            return later_result(state, error)


def _loop_of(state: CallState) -> asyncio.AbstractEventLoop:
    """The event loop of a call, in it or in the thread that its tool runs in."""
    loop, bridge = running_loop(), state.context.internals.portal
    if loop is None and bridge is not None:
        loop = bridge.loop
    if loop is None or loop.is_closed():
        raise RuntimeError("context.background(...) has to be called in the call's event loop or thread")
    return loop
