"""Events of calls, and the subscribers that get them."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable, iscoroutine
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast
from weakref import WeakValueDictionary

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import Callback
from pegboard.dispatch.callbacks import shown
from pegboard.dispatch.state import CallState
from pegboard.dispatch.timeout import LimitExpiredError, within
from pegboard.errors import log_failure
from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.context import DisplayUpdate, Progress
from pegboard.typing import JsonMapping, JsonObject

if TYPE_CHECKING:
    from pegboard.dispatch.approval.pending import PendingCall

CallStatus: TypeAlias = Literal[
    "pending", "running", "updated", "completed", "failed", "refused", "aborted", "skipped", "suspended"
]


@frozen
class CallEvent:
    """Something that happened to one call.

    Attributes:
        call_id: The call's id.
        name: The tool's name as the model wrote it, or as it was repaired.
        time: When, in seconds since 1970 (UTC).
        index: The call's place in its batch, from 0.
    """

    state: ClassVar[CallStatus]

    call_id: str
    name: str
    time: float
    index: int = 0

    def to_json(self) -> JsonObject:
        """All facts by name, `"state"` among them; what JSON can't say is written as text."""
        data: JsonObject = {"state": self.state}
        for attribute in attrs.fields(type(self)):
            data[attribute.name] = _as_json(getattr(self, attribute.name))
        return data


@frozen
class CallPending(CallEvent):
    """The call was taken in.

    Attributes:
        arguments: As the model wrote them: JSON text, or a mapping.
    """

    state: ClassVar[CallStatus] = "pending"
    arguments: str | Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class CallRunning(CallEvent):
    """The tool was started.

    Attributes:
        arguments: As judged, and as approved.
    """

    state: ClassVar[CallStatus] = "running"
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class CallUpdated(CallEvent):
    """The call reported something on the way.

    Attributes:
        progress: Done so far, in units of `total`, or `None`.
        total: The whole, or `None`.
        message: What it is doing, or `None`.
        content: A partial result, or `None`.
        title: Its new heading, or `None`.
        metadata: Facts for the user interface.
        note: What the registry did: `"repaired: ..."`, `"coerced: ..."`, `"retry 1: ..."`, or `None`.
    """

    state: ClassVar[CallStatus] = "updated"
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
        result: What the model gets.
        seconds: How long the call took from when it was taken in.
    """

    result: ToolResult = field(factory=ToolResult)
    seconds: float = 0.0


@frozen
class CallCompleted(CallEnded):
    """The tool, or a callback instead of it, gave a result; also a later one that replaces a pending one."""

    state: ClassVar[CallStatus] = "completed"


@frozen
class CallFailed(CallEnded):
    """The tool ran, and failed."""

    state: ClassVar[CallStatus] = "failed"


@frozen
class CallRefused(CallEnded):
    """The tool did not run: unknown, not offered, invalid, denied, rejected, over a limit, or nothing to run."""

    state: ClassVar[CallStatus] = "refused"


@frozen
class CallAborted(CallEnded):
    """The tool was interrupted."""

    state: ClassVar[CallStatus] = "aborted"


@frozen
class CallSkipped(CallEnded):
    """The tool was not started, because the turn had ended."""

    state: ClassVar[CallStatus] = "skipped"


@frozen
class CallSuspended(CallEnded):
    """The call waits for an answer that comes later.

    Attributes:
        pending: What has to be kept until then.
    """

    state: ClassVar[CallStatus] = "suspended"
    pending: PendingCall | None = None


_REFUSALS: Final[tuple[ErrorKind, ...]] = (
    "unknown_tool",
    "not_offered",
    "invalid_arguments",
    "denied",
    "rejected",
    "not_executed",
    "cut_off",
    "limit",
)

_ENDS: Final[dict[ErrorKind | None, type[CallEnded]]] = {
    **dict.fromkeys(_REFUSALS, CallRefused),
    "aborted": CallAborted,
    "skipped": CallSkipped,
    "confirmation_required": CallSuspended,
}


def ended(result: ToolResult) -> type[CallEnded]:
    """The kind of event that this result makes."""
    return _ENDS.get(result.kind, CallFailed) if result.is_error else CallCompleted


_STATES: Final[Mapping[str, type[CallEvent]]] = {
    each.state: each
    for each in (
        CallPending,
        CallRunning,
        CallUpdated,
        CallCompleted,
        CallFailed,
        CallRefused,
        CallAborted,
        CallSkipped,
        CallSuspended,
    )
}


def event_from_json(data: JsonMapping) -> CallEvent:
    """Reads what `CallEvent.to_json` writes.

    Raises:
        ValueError: It isn't an event.
    """
    kind = _STATES.get(data["state"]) if isinstance(data.get("state"), str) else None
    if kind is None:
        raise ValueError(f"not an event of a call: its state is {data.get('state')!r:.80}")
    names = {attribute.name for attribute in attrs.fields(kind)}
    facts = {name: _from_json(name, value) for name, value in data.items() if name in names}
    try:
        return kind(**facts)
    except TypeError as error:
        raise ValueError(f"not an event of a call: {error}") from None


def _as_json(value: Any) -> Any:
    if isinstance(value, ToolResult):
        return value.to_data()
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, MappingProxyType):
        value = dict(cast("Mapping[str, Any]", value))
    from pegboard.schema.dump import to_json_data

    try:
        return to_json_data(value)
    except (TypeError, ValueError):
        return repr(value)[:1000]


def _from_json(name: str, value: Any) -> Any:
    if name == "result":
        return ToolResult.from_data(value)
    if name == "pending" and value is not None:
        from pegboard.dispatch.approval.pending import PendingCall

        return PendingCall.from_json(value)
    return value


def _tell(state: CallState, kind: type[CallEvent], **facts: Any) -> None:
    """Emits one event; nothing without a listener."""
    sink = state.services.events
    if sink is not None:
        sink(kind(state.call.id, state.call.name, time.time(), state.index, **facts))


def emit_pending(state: CallState) -> None:
    """The call was taken in; from now on, what the tool reports becomes events too."""
    given = state.call.arguments
    _tell(state, CallPending, arguments=given.decode(errors="replace") if isinstance(given, bytes) else given)
    state.context.listener = partial(_heard, state, state.context.listener)
    state.taken_in = time.monotonic()


def emit_running(state: CallState) -> None:
    """The tool is started."""
    _tell(state, CallRunning, arguments=shown(state))  # read-only: a listener changes nothing that was approved


def emit_note(state: CallState, note: str) -> None:
    """What the registry did with the call, such as `"repaired: ..."`."""
    _tell(state, CallUpdated, note=note)


def emit_end(state: CallState) -> None:
    """The call has its result."""
    result = state.result
    assert result is not None
    facts: dict[str, Any] = {"result": result, "seconds": time.monotonic() - state.taken_in}
    if state.pending is not None and result.kind == "confirmation_required":
        facts["pending"] = state.pending
    _tell(state, ended(result), **facts)


def _heard(state: CallState, before: Callable[[object], None] | None, said: object) -> None:
    if before is not None:
        before(said)
    _tell(state, CallUpdated, **_update(said))


def _update(said: object) -> dict[str, Any]:
    if isinstance(said, Progress):
        return {"progress": said.progress, "total": said.total, "message": said.message}
    if isinstance(said, DisplayUpdate):
        return {"title": said.title, "metadata": said.facts}
    return {"content": said}


def note(state: CallState, what: str, changes: Sequence[str]) -> None:
    """Emits it as an event, `"coerced: a: string "1" -> number 1"`, and in the result's metadata, as a list.

    Args:
        state: The call.
        what: What was done: `"coerced"` or `"repaired"`; also the key in the metadata.
        changes: Each as one line.
    """
    emit_note(state, f"{what}: {'; '.join(changes)}")
    state.context.actions.show(None, {what: list(changes)})


MOST_WAITING: Final = 10_000
"""Events that may wait for observers; the newest beyond that are dropped, and counted."""

LIMIT_SECONDS: Final = 30.0
"""How long an async observer may take for one event."""

LINGER_SECONDS: Final = 10.0
"""How long the thread of a plain observer waits for more before it ends."""

_CLOSE_SECONDS: Final = 5.0
"""How long closing waits for events that were emitted already."""


@define(eq=False)
class _Crowd:
    """The async observers of one event loop: a queue, and the task that empties it."""

    events: asyncio.Queue[tuple[tuple[Callback, ...], CallEvent]]
    task: asyncio.Task[None] | None = None


@define(eq=False)
class _Listener:
    """One plain observer: its queue, and the thread that empties it while there is anything."""

    link: Callback
    note: Callable[[Callback, BaseException], None]
    events: queue.SimpleQueue[Any] = field(factory=queue.SimpleQueue[Any], init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def is_at_work(self) -> bool:
        """Whether it has a thread, which may have an event in hand."""
        return self._thread is not None

    def put(self, heard: Any) -> None:
        """Adds an event, or a function to call when all before it has been heard."""
        with self._lock:
            self.events.put(heard)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._hear, name="pegboard-observer", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the system gives no thread; the next event tries again
                self._thread = None

    def _hear(self) -> None:
        while (heard := self._next()) is not None:
            try:
                if isinstance(heard, CallEvent):
                    self._show(heard)
                else:
                    heard()
            except BaseException as error:  # noqa: BLE001  an observer's SystemExit too
                self.note(self.link, error)

    def _show(self, event: CallEvent) -> None:
        answer = self.link.function(event)
        if answer is None or not isawaitable(answer):
            return
        if iscoroutine(answer):
            answer.close()
        raise TypeError(
            "a plain observer gave an awaitable, which is never awaited: register the async function itself"
        )

    def _next(self) -> Any:
        """What comes next; `None` where the thread shall end."""
        try:
            return self.events.get(timeout=LINGER_SECONDS)
        except queue.Empty:
            with self._lock:
                if not self.events.empty():
                    return self.events.get()
                self._thread = None
                return None


@define(eq=False)
class Observers:
    """Delivers events, each observer's in order: plain ones hear in a thread of their own, others in a task.

    What they raise, and how long they take, disturbs no call, nor a plain one another. A failure is logged for the
    operator once for each observer and type of exception.

    Attributes:
        most: How many events may wait for each plain one, and how many for the async ones.
        seconds: How long an async observer may take for one event.
        dropped: How many events were dropped, as observers were too slow, or as their event loop ended before.
    """

    most: int = MOST_WAITING
    seconds: float = LIMIT_SECONDS
    dropped: int = field(default=0, init=False)
    # Referred to by their emitter and their thread: one that was removed goes when neither is left.
    _listeners: WeakValueDictionary[Callback, _Listener] = field(
        factory=WeakValueDictionary[Callback, _Listener], init=False
    )
    _crowds: dict[asyncio.AbstractEventLoop, _Crowd] = field(
        factory=dict[asyncio.AbstractEventLoop, _Crowd], init=False
    )
    _failures: set[tuple[str, type[BaseException]]] = field(factory=set[tuple[str, type[BaseException]]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def told(self, links: Iterable[Callback]) -> Callable[[CallEvent], None]:
        """The function that emits an event to these observers; to be called in an event loop."""
        links = tuple(links)
        in_loop = tuple(link for link in links if not link.blocking)
        plain = [self._listener(link) for link in links if link not in in_loop]

        def tell(event: CallEvent) -> None:
            for listener in plain:
                if listener.events.qsize() < self.most:
                    listener.put(event)
                else:
                    self._lose(1)
            if in_loop:
                self._tell_loop(in_loop, event)

        return tell

    async def drain(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Waits until all that was emitted in this event loop was handled; false where that takes longer."""
        loop = asyncio.get_running_loop()
        waits = self._heard_in(loop)
        with self._lock:
            listeners = [*self._listeners.values()]
        for listener in listeners:
            if not listener.events.empty() or listener.is_at_work:
                heard: asyncio.Future[None] = loop.create_future()
                listener.put(partial(loop.call_soon_threadsafe, _settle, heard))
                waits.append(heard)
        return await _all_done(waits, seconds)

    async def drain_loop(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Waits for the async observers of this event loop only; plain ones hear in threads, after its end too."""
        return await _all_done(self._heard_in(asyncio.get_running_loop()), seconds)

    async def aclose(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Drains, then ends this event loop's task; a later event starts a new one."""
        await self.drain(seconds)
        crowd = self._crowds.get(asyncio.get_running_loop())
        if crowd is not None and crowd.task is not None:
            crowd.task.cancel()
            await asyncio.wait([crowd.task], timeout=seconds)

    def _listener(self, link: Callback) -> _Listener:
        with self._lock:
            return self._listeners.setdefault(link, _Listener(link, self._note))

    # Async ones --------------------------------------------------------------------------------------------------

    def _tell_loop(self, links: tuple[Callback, ...], event: CallEvent) -> None:
        loop = asyncio.get_running_loop()
        crowd = self._crowds.get(loop)
        if crowd is None:
            crowd = self._crowd_for(loop)
        try:
            crowd.events.put_nowait((links, event))
        except asyncio.QueueFull:
            self._lose(1)
            return
        if crowd.task is None or crowd.task.done():
            crowd.task = loop.create_task(self._attend(crowd.events))
            crowd.task.add_done_callback(partial(self._over, loop, crowd))

    def _crowd_for(self, loop: asyncio.AbstractEventLoop) -> _Crowd:
        """A new one; those whose event loop was closed without a word are dropped."""
        with self._lock:
            closed = [(each, crowd) for each, crowd in self._crowds.items() if each.is_closed()]
            crowd = self._crowds[loop] = _Crowd(asyncio.Queue(self.most))
        for each, left in closed:
            self._drop(each, left)
        return crowd

    def _over(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd, task: asyncio.Task[None]) -> None:
        """The task is the last to hold its event loop: what is emitted later begins anew."""
        if crowd.task is task:
            self._drop(loop, crowd)

    def _drop(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd) -> None:
        with self._lock:
            if self._crowds.get(loop) is not crowd:
                return
            del self._crowds[loop]
        self._lose(crowd.events.qsize())
        if not loop.is_closed():  # no task waits in a closed one
            for _ in range(crowd.events.qsize()):
                crowd.events.get_nowait()
                crowd.events.task_done()

    def _lose(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    def _heard_in(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[Any]]:
        crowd = self._crowds.get(loop)
        return [] if crowd is None else [loop.create_task(crowd.events.join())]

    async def _attend(self, events: asyncio.Queue[tuple[tuple[Callback, ...], CallEvent]]) -> None:
        while True:
            links, event = await events.get()
            try:
                for link in links:
                    await self._show(link, event)
            except asyncio.CancelledError:
                self._lose(1)
                raise
            finally:
                events.task_done()

    async def _show(self, link: Callback, event: CallEvent) -> None:
        try:
            answer = link.function(event)
            if isawaitable(answer):
                await within(self.seconds, answer)
        except LimitExpiredError:
            self._note(link, TimeoutError(f"took longer than {self.seconds:g} s for one event"))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._note(link, error)
        except BaseException as error:  # noqa: BLE001  an observer's SystemExit too
            self._note(link, error)

    def _note(self, link: Callback, error: BaseException) -> None:
        failure = link.owner, type(error)
        with self._lock:
            if failure in self._failures:
                return
            self._failures.add(failure)
        log_failure(f"observer of {link.owner} (told once)", error)


async def _all_done(waits: list[asyncio.Future[Any]], seconds: float) -> bool:
    if not waits:
        return True
    _, late = await asyncio.wait(waits, timeout=seconds)
    for one in late:
        one.cancel()
    return not late


def _settle(heard: asyncio.Future[None]) -> None:
    if not heard.done():
        heard.set_result(None)


__all__ = ["Observers"]
