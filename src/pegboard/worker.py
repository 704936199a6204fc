"""Workers, which run tools on another machine; and their callers. Any transport that carries bytes connects the two.

The caller sends `SentCall.request`, passes what the worker sends meanwhile to `SentCall.handle`, and reads the answer
by `SentCall.response`. The worker passes the request to `Worker.run`, with a `RemoteCaller` for what the tool does
while it runs. Neither side trusts what the other has sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.executors.caller import error_from_json, error_to_json
from pegboard.dispatch.executors.execution import ExecutionRequest, ExecutionResponse
from pegboard.dispatch.executors.executor import ExecutorCall
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import (
    FatalToolError,
    PegboardError,
    ToolError,
    cause_of,
    detail_of,
    log_failure,
    operator_log,
    tuple_of,
)
from pegboard.execution import LocalExecutor
from pegboard.json import is_object, json_text, size_text, strict_json
from pegboard.schema.converter import ALWAYS, JsonRecord
from pegboard.threads import run_in_thread
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import CallError
from pegboard.tools.spec import check_queue
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry
    from pegboard.toolsets.predicates import Predicate

DEFAULT_QUEUE: Final = "default"
"""The queue of calls that name none."""
_MOST_EVENTS: Final = 10_000  # of one call that are sent, and that reach its listener
_MOST_UNSENT_BYTES: Final = 16 << 20  # of events of one call that wait to be sent
_FLUSH_SECONDS: Final = 10.0  # for which a question or an answer waits for the events before it
_MOST_QUESTIONS: Final = 10_000  # of one call that are answered
_MOST_WAITING: Final = 64  # of these at once


class Codec(Protocol):
    """Encrypts what travels between a caller and its workers; both have the same one."""

    def encode(self, data: bytes) -> bytes:
        """What is sent instead of `data`."""
        ...

    def decode(self, data: bytes) -> bytes:
        """The reverse; raises `ValueError` if it can't be read, or was changed."""
        ...


@frozen(kw_only=True)
class Wire:
    """How messages are written as bytes; caller and workers have the same.

    Attributes:
        codec: Encrypts them, or `None`.
        most_bytes: How many bytes one message may have.
        most_between: How many an event, a question or a reply may have, where the transport takes less of these.
    """

    codec: Codec | None = None
    most_bytes: int = 64 << 20
    most_between: int | None = None

    def write(self, message: JsonObject, most: int | None = None) -> bytes:
        """The bytes of a message.

        Raises:
            ValueError: It isn't JSON, has more bytes than `most_bytes` or `most`, or the codec fails.
        """
        try:
            data = json_text(message).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"it isn't JSON: {error}") from None
        data = data if self.codec is None else _convert(self.codec.encode, data)
        most = min(self.most_bytes, self.most_bytes if most is None else most)
        if len(data) > most:
            raise TooLongError(f"it has {size_text(len(data))}, at most {size_text(most)} can be sent")
        return data

    def read(self, data: bytes) -> JsonObject:
        """The message that these bytes hold.

        Raises:
            ValueError: They hold none, are more than `most_bytes`, or the codec fails.
        """
        if len(data) > self.most_bytes:
            raise TooLongError(f"it has {size_text(len(data))}, at most {size_text(self.most_bytes)} are read")
        message: Any = strict_json(data if self.codec is None else _convert(self.codec.decode, data))
        if not is_object(message):
            raise ValueError("it is not an object")
        return message


def _convert(step: Callable[[bytes], bytes], data: bytes) -> bytes:
    """What a step of a codec, which is another program's, makes of bytes."""
    try:
        return step(data)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"its codec failed: {cause_of(error)}") from error


class TooLongError(ValueError):
    """A message has more bytes than may be sent."""


PLAIN: Final = Wire()
"""Messages as JSON, in the clear."""


# The caller's side ----------------------------------------------------------------------------------------------------


@define(eq=False)
class SentCall:
    """One call on its way to a worker, for an executor's `execute_tool`.

    Attributes:
        call: The call.
        wire: As the worker has it.
    """

    call: ExecutorCall
    wire: Wire = PLAIN
    _events: int = field(default=0, init=False)
    _questions: int = field(default=0, init=False)
    _waiting: int = field(default=0, init=False)
    _is_over: bool = field(default=False, init=False)

    @property
    def request(self) -> bytes:
        """The request, for `Worker.run`; a `ValueError` if it is too long."""
        return self.wire.write(self.call.request.to_json())

    @property
    def may_run_again(self) -> bool:
        """Whether the tool may run again after its worker has died: it is idempotent, and of a trusted origin."""
        return self.call.tool.spec.annotations.idempotent_hint is True and self.call.tool.origin.trusted

    def start_hint(self, queue: str) -> str:
        """How the operator starts a worker for it."""
        return f"Start one: registry worker --executor {self.call.tool.policy.executor} --queue {queue}"

    async def handle(self, data: bytes) -> bytes | None:
        """Handles a message of the worker: passes an event on, or answers a question.

        Never raises but `CancelledError`. What is invalid, too much, or comes after the response, is left out.

        Returns:
            The reply to send; `None` for an event.
        """
        try:
            message = self.wire.read(data)
            if "event" not in message:
                return self._write_reply(await self._reply(message))
            self._events += 1
            if not self._is_over and self._events <= _MOST_EVENTS:
                self.call.emit(message["event"])
        except Exception as error:  # noqa: BLE001  an event, or the listener's error
            log_failure(f"a message of the worker of {self.call.request.tool}", error)
            return self._write_reply({"error": error_to_json(error)})
        return None

    def response(self, data: bytes) -> ExecutionResponse:
        """As `read_response`; what the worker sends later is left out."""
        self._is_over = True
        return read_response(data, self.wire)

    def _write_reply(self, reply: JsonObject) -> bytes:
        try:
            return self.wire.write(reply, self.wire.most_between)
        except TooLongError as error:
            return self.wire.write({"error": error_to_json(ToolError(f"The reply can't be sent: {error}."))})

    async def _reply(self, message: JsonObject) -> JsonObject:
        self._questions += 1
        if self._is_over or self._questions > _MOST_QUESTIONS or self._waiting >= _MOST_WAITING:
            why = "the call is over" if self._is_over else "there are too many questions"
            return {"error": error_to_json(LookupError(why))}
        question, given = message.get("question"), message.get("given")
        if not isinstance(question, str) or not is_object(given):
            return {"error": error_to_json(LookupError("the question is invalid"))}
        self._waiting += 1
        try:
            return {"value": await self.call.answer(question, given)}
        except BaseException as error:
            if cancels_the_call(error):
                raise
            return {"error": error_to_json(error)}
        finally:
            self._waiting -= 1


def not_run_response(name: str, why: str, detail: str | None = None) -> ExecutionResponse:
    """The response for a call of a tool that no worker has run; `detail` is for the operator."""
    return ExecutionResponse.failed("not_executed", f"{name} was not run: {why}. Continue without it.", detail=detail)


def lost_response(name: str, why: str) -> ExecutionResponse:
    """The response for a call of a tool that may have run or not."""
    text = f"{name} may have run or not: {why}. Check its effects before you repeat it."
    return ExecutionResponse.failed("unknown_outcome", text)


def read_response(data: bytes, wire: Wire = PLAIN) -> ExecutionResponse:
    """The response in the answer of `Worker.run`.

    Raises:
        FatalToolError: The tool ends the turn.
        ValueError: The answer is invalid.
    """
    message = wire.read(data)
    if isinstance(fatal := message.get("fatal"), str):
        raise FatalToolError(fatal)
    return ExecutionResponse.from_json(message.get("response"))


def has_not_started(data: bytes, wire: Wire = PLAIN) -> bool:
    """Whether the answer of `Worker.run` says that the worker refused the call before its tool started.

    A response alone doesn't tell: a tool that ran may end with any kind of error, also with `not_executed`.

    Raises:
        ValueError: The answer is invalid.
    """
    return wire.read(data).get("notStarted") is True


# The worker's side ----------------------------------------------------------------------------------------------------


@define(eq=False)
class RemoteCaller:
    """The caller of one request, as a worker reaches it: a `Caller` over a transport.

    Attributes:
        wire: As the caller has it.
        tell: Sends events in their order, one call of it after the other; `None` if the transport can't. If it raises,
            the caller is gone, and gets no more events.
        ask: Sends a question and returns the reply; `None` if the transport can't. If it raises, the caller is gone.
    """

    wire: Wire = PLAIN
    tell: Callable[[Sequence[bytes]], Awaitable[None]] | None = None
    ask: Callable[[bytes], Awaitable[bytes]] | None = None
    _events: deque[bytes] = field(factory=deque[bytes], init=False)
    _size: int = field(default=0, init=False)  # of these
    _emitted: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)  # since the last notice of it
    _telling: asyncio.Task[None] | None = field(default=None, init=False)

    def emit(self, event: JsonObject) -> None:
        """Sends an event of the tool, without waiting; one that can't be sent is replaced by a notice.

        Only 10,000 are sent, and where more than 16 MiB wait, the oldest are left out.
        """
        self._emitted += 1
        if self.tell is None or self._emitted > _MOST_EVENTS:
            return
        try:
            data = self.wire.write({"event": event}, self.wire.most_between)
        except ValueError as error:
            data = self._notice(f"({event.get('type')} left out: {error})")
        if data is None:
            return
        self._events.append(data)
        self._size += len(data)
        while self._size > _MOST_UNSENT_BYTES and len(self._events) > 1:
            self._size -= len(self._events.popleft())
            self._left_out += 1
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(self.tell))

    def _notice(self, text: str) -> bytes | None:
        """The event that says what isn't sent; `None` if nothing can be sent, and then nothing more is."""
        try:
            return self.wire.write({"event": {"type": "partial", "data": text}})
        except ValueError as error:
            self.tell = None
            log_failure("sending events to the caller", error)
            return None

    async def flush(self) -> None:
        """Waits until the events so far have been sent, at most 10 s."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=_FLUSH_SECONDS)

    def stop(self) -> None:
        """Sends no more events, also none of those that wait."""
        self.tell = None
        if self._telling is not None:
            operator_log().warning("events of a call were left out, as its caller takes them too slowly")
            self._telling.cancel()

    async def answer(self, question: str, given: JsonObject) -> Any:
        """The caller's answer to a question, as `ExecutorCall.answer` gives it.

        Raises:
            ToolError: The transport can't ask, or the question is too long.
            CallError: `aborted`: the caller is gone.
            BaseException: What the caller raised.
        """
        if self.ask is None:
            raise ToolError("This tool needs its caller, which can't be reached from here.")
        try:
            data = self.wire.write({"question": question, "given": given}, self.wire.most_between)
        except TooLongError as error:
            raise ToolError(f"What the tool asks its caller can't be sent: {error}.") from None
        await self.flush()
        try:
            reply = self.wire.read(await self.ask(data))
        except Exception as error:
            text = "The program that called this can't be reached any more."
            raise CallError("aborted", text, detail=detail_of(error)) from error
        if "value" in reply:
            return reply["value"]
        raise error_from_json(reply.get("error") or {})

    async def _tell(self, tell: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        try:
            while self._events:
                events, self._size, left_out, self._left_out = [*self._events], 0, self._left_out, 0
                self._events.clear()
                if left_out and (notice := self._notice(f"({left_out} events left out)")) is not None:
                    events.insert(0, notice)
                await tell(events)
        except Exception as error:  # noqa: BLE001  of the transport: the caller is gone
            self.tell = None
            log_failure("sending events to the caller", error)
        finally:
            self._telling = None


@define(eq=False)
class Worker:
    """Runs the calls that a transport brings; `registry worker` makes one, and passes it to the executor's `serve`.

    Attributes:
        executor: Has the tools, their services and the rules here.
        queue: The queue whose calls it takes.
        max_concurrency: How many it runs at once.
        name: Its name, for lists; by default `HOST-PID`.
        started: Set by the executor once it takes calls.
        stopping: Set once it has to take no more calls, and end when those that run have ended.
        running: The calls that run: a number -> the request.
    """

    executor: LocalExecutor
    queue: str = field(default=DEFAULT_QUEUE, converter=check_queue)
    max_concurrency: int = 8
    name: str = field(factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    started: asyncio.Event = field(factory=asyncio.Event, init=False)
    stopping: asyncio.Event = field(factory=asyncio.Event, init=False)
    running: dict[int, ExecutionRequest] = field(factory=dict[int, ExecutionRequest], init=False)
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    @classmethod
    async def of_registry(
        cls, registry: ToolRegistry, executor: str, *, where: Predicate | str | None = None, **facts: Any
    ) -> Worker:
        """A worker with the tools, services and limits of a registry.

        What a caller sends was approved there: the registry's rules only deny, or ask the caller's user again.

        Args:
            registry: The registry, which must not be closed before the worker has ended.
            executor: The name of the executor that brings the calls: its tools run here.
            where: Only these tools.
            facts: `queue`, `max_concurrency`, `name`.
        """
        tools = [
            tool.evolve(policy=attrs.evolve(tool.policy, executor=None)) if tool.policy.executor == executor else tool
            for tool in await registry.resolve(where=where)
        ]
        others = {name for each in tools if (name := each.policy.executor) not in (None, "loop", "thread")}
        executors = dict[str, Any]()
        for name in others:
            with suppress(LookupError, PegboardError):  # its tools aren't executed
                executors[name] = await run_in_thread(registry.contributions.executor, name)
        permissions = Permissions(mode="bypass")
        if (own := registry.permissions) is not None:
            permissions = attrs.evolve(own, rules=[Rule("*", "*", "allow"), *own.rules.rules])
        limits, services = registry.limits, registry.services
        local = LocalExecutor(tools, permissions=permissions, limits=limits, executors=executors, services=services)
        return cls(local, **facts)

    async def run(self, data: bytes, caller: RemoteCaller) -> bytes:
        """Runs the call of a request, and returns the answer to send.

        Never raises but `CancelledError`, which ends the call.

        Args:
            data: The request, as `SentCall.request` has written it.
            caller: Its caller.
        """
        number = next(self._numbers)
        try:
            request = ExecutionRequest.from_json(caller.wire.read(data))
        except ValueError as error:
            response = not_run_response("The tool", "the worker can't read the request", f"{error}")
            return caller.wire.write(_refusal(response))
        self.running[number] = request
        try:
            answer = await self._run(request, caller)
            await caller.flush()
            return self._write_answer(request, answer, caller.wire)
        finally:
            caller.stop()
            del self.running[number]

    async def _run(self, request: ExecutionRequest, caller: RemoteCaller) -> JsonObject:
        if request.tool not in self.executor:
            detail = (
                "Workers need the tools of their callers, with equal [rename], [prefix] and transforms; "
                "queues tell workers apart."
            )
            return _refusal(not_run_response(request.tool, "its worker has no such tool", detail))
        if (other := self.executor.refusal_of(request)) is not None:
            return _refusal(other)
        try:
            return _answer(await self.executor.execute(request, caller))
        except FatalToolError as error:
            return {"fatal": f"{error}"}
        except BaseException as error:
            if cancels_the_call(error):
                raise
            log_failure(f"the call of {request.tool}", error)
            text = f"{request.tool} was not completed: its worker failed. Its effects so far may remain."
            return _answer(ExecutionResponse.failed("crashed", text, detail=detail_of(error)))

    def _write_answer(self, request: ExecutionRequest, answer: JsonObject, wire: Wire) -> bytes:
        try:
            return wire.write(answer)
        except ValueError as error:
            text = f"{request.tool} ran, but its result can't be sent: {error}."
            kind, more = ("limit", " Request less.") if isinstance(error, TooLongError) else ("invalid_output", "")
            return wire.write(_answer(ExecutionResponse.failed(kind, f"{text}{more}")))


def _answer(response: ExecutionResponse) -> JsonObject:
    return {"response": response.to_json()}


def _refusal(response: ExecutionResponse) -> JsonObject:
    return {**_answer(response), "notStarted": True}


# Lists ----------------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class WorkerInfo(JsonRecord):
    """A worker that takes calls.

    Attributes:
        name: Its name.
        queue: Its queue.
        max_concurrency: How many calls it runs at once; `None` if that isn't known.
        running: The calls that run there: the call's id or key -> the tool.
    """

    name: str
    queue: str = DEFAULT_QUEUE
    max_concurrency: int | None = None
    running: Mapping[str, str] = field(factory=dict[str, str])


@frozen(kw_only=True)
class ExecutorStatus(JsonRecord):
    """What an executor's `status` reports.

    Attributes:
        workers: The workers that it reaches.
        queues: How many calls wait, by queue; `None` where the engine doesn't tell.
    """

    workers: tuple[WorkerInfo, ...] = field(default=(), converter=tuple_of("workers", WorkerInfo), metadata=ALWAYS)
    queues: Mapping[str, int | None] = field(factory=dict[str, "int | None"])


class WorkerExecutor(Protocol):
    """What `registry worker` needs of an executor, besides `execute_tool`.

    It may have an attribute `queue`: that of calls that name none, where it isn't `DEFAULT_QUEUE`.
    """

    async def serve(self, worker: Worker) -> None:
        """Takes calls of `worker.queue` and answers each by `worker.run`, at most `worker.max_concurrency` at once.

        Sets `worker.started` once it does. Returns once `worker.stopping` is set and the calls that run have ended.
        """
        ...

    async def status(self) -> ExecutorStatus:
        """The workers, queues and running calls."""
        ...
