"""Events of calls, and their delivery to observers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, cast, get_args
from weakref import WeakValueDictionary

from attrs import define, field, frozen

from pegboard.callbacks import Callback, maybe_await
from pegboard.dispatch.approval.pending import PendingCall
from pegboard.dispatch.state import CallState, read_only
from pegboard.errors import log_failure, tuple_of
from pegboard.schema.converter import read_by, read_record, tagged
from pegboard.threads import OwnThread, settle_from_thread
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.content import ErrorKind, SayableRecord, ToolResult
from pegboard.tools.context import DisplayUpdate, Progress
from pegboard.typing import JsonMapping


@frozen
class CallEvent(SayableRecord):
    """Event of one call.

    Attributes:
        call_id: The call's id.
        name: The tool's name as the model wrote it, or as repaired.
        time: In seconds since 1970 (UTC).
        index: The call's place in its batch, from 0.
    """

    type: ClassVar[str]

    call_id: str
    name: str
    time: float
    index: int = 0


@frozen
class CallPending(CallEvent):
    """The call was received.

    Attributes:
        arguments: As the model wrote them: JSON text, or a mapping.
    """

    type: ClassVar[str] = "call_pending"
    arguments: str | Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class ApprovalRequested(CallEvent):
    """The user is asked to approve the call, or asked a question by the running call.

    Attributes:
        request: The request's id.
        permission: The requested permission.
        patterns: What it is requested for, such as paths.
        reason: Why the user is asked.
        hint: The tool's own question, or `""`.
    """

    type: ClassVar[str] = "approval_requested"
    request: str = ""
    permission: str = ""
    patterns: tuple[str, ...] = field(default=(), converter=tuple_of("patterns", str))
    reason: str = ""
    hint: str = ""


@frozen
class ApprovalAnswered(CallEvent):
    """The user has answered.

    Attributes:
        request: The request's id.
        answer: `"once"`, `"always"`, `"reject"` or `"later"`.
    """

    type: ClassVar[str] = "approval_answered"
    request: str = ""
    answer: str = ""


@frozen
class CallRunning(CallEvent):
    """The tool was started.

    Attributes:
        arguments: As validated and approved.
    """

    type: ClassVar[str] = "call_running"
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class CallUpdated(CallEvent):
    """The call reported progress or a partial result.

    Attributes:
        progress: Progress so far, in units of `total`, or `None`.
        total: The total, or `None`.
        message: A description of the progress, or `None`.
        content: A partial result, or `None`.
        title: A new title, or `None`.
        metadata: Data for the user interface.
        note: What the registry did: `"repaired: ..."`, `"coerced: ..."`, `"retry 1: ..."`, or `None`.
    """

    type: ClassVar[str] = "call_updated"
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: Any = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    note: str | None = None


@frozen
class CallEnded(CallEvent):
    """The call has its one result.

    Attributes:
        result: The result for the model.
        seconds: Duration since the call was received.
    """

    result: ToolResult = field(factory=ToolResult)
    seconds: float = 0.0


@frozen
class CallCompleted(CallEnded):
    """The tool, or a callback instead, gave a result; also a later one that replaces a pending one."""

    type: ClassVar[str] = "call_completed"


@frozen
class CallFailed(CallEnded):
    """The tool or a callback failed, or the call ran out of time."""

    type: ClassVar[str] = "call_failed"


@frozen
class CallRefused(CallEnded):
    """The call was unknown, not offered, invalid, denied, rejected or over a limit, or there is nothing to run.

    After a `CallRunning` of the call, the tool may have run until then: what it asked for was denied, say.
    """

    type: ClassVar[str] = "call_refused"


@frozen
class CallAborted(CallEnded):
    """The tool was interrupted."""

    type: ClassVar[str] = "call_aborted"


@frozen
class CallSkipped(CallEnded):
    """The tool was not started, because the turn had ended."""

    type: ClassVar[str] = "call_skipped"


@frozen
class CallSuspended(CallEnded):
    """The call waits for a later answer.

    Attributes:
        pending: The pending call, to be stored until then.
    """

    type: ClassVar[str] = "call_suspended"
    pending: PendingCall | None = None


_ENDS: Final[dict[ErrorKind | None, type[CallEnded]]] = {
    **dict.fromkeys(("unknown_tool", "not_offered", "invalid_arguments", "denied"), CallRefused),
    **dict.fromkeys(("rejected", "not_executed", "cut_off", "limit"), CallRefused),
    "aborted": CallAborted,
    "skipped": CallSkipped,
    "confirmation_required": CallSuspended,
}


def class_of_end(result: ToolResult) -> type[CallEnded]:
    """The class of the event for a result."""
    return _ENDS.get(result.kind, CallFailed) if result.is_error else CallCompleted


_AnyEnd: TypeAlias = CallCompleted | CallFailed | CallRefused | CallAborted | CallSkipped | CallSuspended
AnyCallEvent: TypeAlias = CallPending | ApprovalRequested | ApprovalAnswered | CallRunning | CallUpdated | _AnyEnd
"""An event of a call, of any class."""
read_by(AnyCallEvent, tagged(*get_args(AnyCallEvent)))


def event_from_json(data: JsonMapping) -> CallEvent:
    """Parses the output of `CallEvent.to_json`.

    Raises:
        ValueError: It isn't a valid event; the error names the path.
    """
    return read_record(cast("Any", AnyCallEvent), data, "event")


def emit(state: CallState, kind: type[CallEvent], **facts: Any) -> None:
    """Emits an event, if there is a listener."""
    send = state.settings.emit
    if send is not None:
        send(kind(state.call.id, state.call.name, time.time(), state.position.index, **facts))


def emit_pending(state: CallState) -> None:
    """Emits `CallPending`; from now on, reports of the tool become events, too."""
    given = state.call.arguments
    if isinstance(given, Mapping):
        given = read_only(given)
    emit(state, CallPending, arguments=given.decode(errors="replace") if isinstance(given, bytes) else given)
    state.context.listener = partial(_report, state, state.context.listener)
    state.received_at = time.monotonic()


def emit_ended(state: CallState) -> None:
    """Emits the event for the call's result."""
    result = state.result
    assert result is not None
    facts: dict[str, Any] = {"result": result, "seconds": time.monotonic() - state.received_at}
    if state.pending is not None and result.kind == "confirmation_required":
        facts["pending"] = state.pending
    emit(state, class_of_end(result), **facts)


def _report(state: CallState, listener: Callable[[object], None] | None, update: object) -> None:
    if listener is not None:
        listener(update)
    if isinstance(update, Progress):
        facts: dict[str, Any] = {"progress": update.progress, "total": update.total, "message": update.message}
    elif isinstance(update, DisplayUpdate):
        facts = {"title": update.title, "metadata": update.facts}
    else:
        facts = {"content": update}
    emit(state, CallUpdated, **facts)


MOST_WAITING: Final = 10_000
"""Length of the queue of each plain observer, of the async ones, and of a stream; further events are dropped."""

LIMIT_SECONDS: Final = 30.0  # for an async observer and one event
_CLOSE_SECONDS: Final = 5.0  # for emitted events to be delivered when closing

_Events: TypeAlias = asyncio.Queue[tuple[tuple[Callback, ...], CallEvent]]
_Loops: TypeAlias = dict[asyncio.AbstractEventLoop, tuple[_Events, asyncio.Task[None]]]
"""For each event loop: the queue for async observers, and the task that delivers it."""


@define(eq=False)
class Observers:
    """Delivers events to observers, in order: to each plain one in its own thread, to the others in a task.

    Errors and delays of observers don't affect calls. A failure is logged once per observer and exception type.
    """

    # number of events dropped as an observer was too slow, its event loop had ended, or no thread could be started
    dropped: int = field(default=0, init=False)
    # Referenced by their senders and events: that of a removed one ends after its last event.
    _threads: WeakValueDictionary[Callback, OwnThread] = field(
        factory=WeakValueDictionary[Callback, OwnThread], init=False
    )
    _loops: _Loops = field(factory=_Loops, init=False)
    _failures: set[tuple[str, type[BaseException]]] = field(factory=set[tuple[str, type[BaseException]]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def sender(self, links: Iterable[Callback]) -> Callable[[CallEvent], None]:
        """A function that sends an event to these observers; to be called in an event loop."""
        links = tuple(links)
        in_loop = tuple(link for link in links if not link.blocking)
        with self._lock:
            own = [
                (link, self._threads.setdefault(link, OwnThread(link, link.owner))) for link in links if link.blocking
            ]

        def send(event: CallEvent) -> None:
            for link, thread in own:
                with suppress(RuntimeError):  # no thread can be started; the next event tries again
                    if (thread.waiting or 0) < MOST_WAITING:
                        thread.put(partial(self._show_in_thread, link, event, thread))
                        continue
                self._drop(1)
            if in_loop:
                self._emit_in_loop(in_loop, event)

        return send

    async def drain(self, seconds: float = _CLOSE_SECONDS, *, threads: bool = True) -> bool:
        """Waits until the events emitted in this event loop are delivered; returns false on a timeout.

        `threads` says whether to wait also for plain observers, whose threads outlive the event loop.
        """
        loop = asyncio.get_running_loop()
        waits: list[asyncio.Future[Any]] = []
        with self._lock:
            begun = [each for each in self._threads.values() if threads and each.waiting is not None]
        for thread in begun:
            waits.append(loop.create_future())
            thread.put(partial(settle_from_thread, waits[-1]))
        if (own := self._loops.get(loop)) is not None:
            waits.append(loop.create_task(own[0].join()))
        if not waits:
            return True
        _, late = await asyncio.wait(waits, timeout=seconds)
        for each in late:
            each.cancel()
        return not late

    async def aclose(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Drains, then ends this event loop's task; a later event starts a new one."""
        await self.drain(seconds)
        own = self._loops.get(asyncio.get_running_loop())
        if own is not None:
            own[1].cancel()
            await asyncio.wait([own[1]], timeout=seconds)

    def _emit_in_loop(self, links: tuple[Callback, ...], event: CallEvent) -> None:
        loop = asyncio.get_running_loop()
        own = self._loops.get(loop)
        if own is None:
            for each in tuple(self._loops):  # a copy, as other threads change it
                if each.is_closed():  # before its task could end
                    self._end(each)
            events: _Events = asyncio.Queue(MOST_WAITING)
            own = self._loops[loop] = events, loop.create_task(self._deliver(events))
            own[1].add_done_callback(lambda _: self._end(loop))  # the task holds the last reference to the loop
        try:
            own[0].put_nowait((links, event))
        except asyncio.QueueFull:
            self._drop(1)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Removes a loop, and counts its undelivered events as dropped."""
        own = self._loops.pop(loop, None)
        if own is None:
            return
        events = own[0]
        self._drop(events.qsize())
        while not events.empty() and not loop.is_closed():  # release `join` in `drain`
            events.get_nowait()
            events.task_done()

    def _drop(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    async def _deliver(self, events: _Events) -> None:
        while True:
            links, event = await events.get()
            try:
                for link in links:
                    await self._show(link, event)
            except asyncio.CancelledError:
                self._drop(1)
                raise
            finally:
                events.task_done()

    def _show_in_thread(self, link: Callback, event: CallEvent, _thread: OwnThread) -> None:
        """Calls a plain observer, in its thread, which is kept until then."""
        try:
            link.function(event)
        except BaseException as error:  # noqa: BLE001  also SystemExit
            self._log_once(link, error)

    async def _show(self, link: Callback, event: CallEvent) -> None:
        try:
            await within(LIMIT_SECONDS, maybe_await(link.function(event)))
        except LimitExpiredError:
            self._log_once(link, TimeoutError(f"took longer than {LIMIT_SECONDS:g} s for one event"))
        except BaseException as error:
            if cancels_the_call(error):
                raise
            self._log_once(link, error)

    def _log_once(self, link: Callback, error: BaseException) -> None:
        failure = link.owner, type(error)
        with self._lock:
            if failure in self._failures:
                return
            self._failures.add(failure)
        log_failure(f"observer of {link.owner} (logged once)", error)
