"""`TemporalExecutor`: calls as standalone activities, each with its `ExecutionRequest.key` as the id."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from secrets import token_hex
from time import monotonic
from typing import Any, Final, TypeAlias

from temporalio.client import ActivityExecutionStatus, ActivityFailureError, ActivityHandle, Client
from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, RawValue
from temporalio.exceptions import (
    ActivityAlreadyStartedError,
    CancelledError as CancelledFailure,
    TimeoutError as TimeoutFailure,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from pegboard.execution import ExecutionResponse, ExecutorCall
from pegboard.json import strict_json
from pegboard.worker import (
    Codec,
    ExecutorStatus,
    SentCall,
    Wire,
    Worker,
    has_not_started,
    lost_response,
    not_run_response,
    read_response,
)
from pegboard_temporal.link import FIRST_TRY_SECONDS, ClosedError, Link, refusal, result_of, started
from pegboard_temporal.payloads import Payloads
from pegboard_temporal.serving import PREFIX, beating, serve
from pegboard_temporal.settings import Settings
from pegboard_temporal.status import read_status

_ATTEMPTS: Final = 3  # of a tool that may run again, after its worker died
_MOST_UNRUN: Final = 100  # activities of one call that weren't run
_MOST_SHOWN: Final = 30  # characters of a call's id, for lists; the server takes 400 bytes, where each may have 12
_REFUSALS: Final = (
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
    RPCStatusCode.UNIMPLEMENTED,
)
"""After any other status the server may have got the request: a connection that is cut gives several."""
_REACHED_SECONDS: Final = 30.0  # a request that took longer has reached the server: the SDK gives up after 10 s
_Run: TypeAlias = ActivityHandle[RawValue]
_Handler: TypeAlias = Callable[[bytes], Awaitable["bytes | None"]]


class TemporalExecutor:
    """Executor that sends calls to workers on other machines by a Temporal server, and gets their results by key.

    Args:
        settings: Where the server is, and so on.
        codec: Encrypts what travels; the workers have the same.

    Attributes:
        settings: As given.
        queue: The queue of calls that name none.
        start_seconds: How long a call may take besides its runs: until a worker takes it, and the death of one shows.
    """

    def __init__(self, settings: Settings = Settings(), codec: Codec | None = None) -> None:  # noqa: B008  frozen
        self.settings: Final = settings
        self.queue: Final = settings.queue
        self.start_seconds: Final = _ATTEMPTS * (settings.wait + settings.heartbeat)
        self._payloads: Final = Payloads(settings.folder)
        self._wire: Final = Wire(codec=codec, most_bytes=self._payloads.most_bytes)
        self._calls: Final = dict[str, tuple[str, _Handler]]()  # by token: the key, and what handles messages
        self._link: Link | None = None
        self._opening: Final = threading.Lock()  # calls come from several threads

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs one call of a tool by a worker.

        Raises:
            FatalToolError: The tool ends the turn.
        """
        sent, name, token = SentCall(call, self._wire), call.request.tool, token_hex(16)
        key, loop, context = call.request.key or token_hex(16), asyncio.get_running_loop(), contextvars.copy_context()
        messages = set[Future[bytes | None]]()

        async def handle_here(data: bytes) -> bytes | None:
            """In the caller's loop: handles a message, unless the call has ended since it came."""
            return await sent.handle(data) if token in self._calls else None

        def handle(data: bytes) -> Awaitable[bytes | None]:
            """In the link's loop: lets the caller's loop handle a message, and waits for it."""
            if loop.is_closed():
                raise LookupError("the call's loop was closed")
            message = context.run(asyncio.run_coroutine_threadsafe, handle_here(data), loop)
            messages.add(message)
            message.add_done_callback(messages.discard)
            return asyncio.wrap_future(message)

        try:
            request = await self._payloads.write(sent.request, key)
        except ValueError as error:
            return ExecutionResponse.failed("limit", f"{name} was not run: the call can't be sent: {error}. Send less.")
        except OSError as error:
            return not_run_response(name, "its arguments can't be written to the shared folder", error.strerror)
        self._calls[token], link = (key, handle), self._open()
        try:
            if not link.ready.done():
                await asyncio.wrap_future(link.ready)
            await call.decide_again()
            args = [token, link.queue, call.is_watched], request
            response = await link.run(partial(self._send, sent, key, args))
        except _NotRunError as error:
            return error.response
        except ClosedError:
            return lost_response(name, "its executor was closed meanwhile")
        except ConnectionError as error:
            return not_run_response(name, "its workers can't be reached", f"{error}")
        finally:
            del self._calls[token]
            _cancel([*messages])  # questions of a worker that has ended
        return response or lost_response(name, "Temporal doesn't know it any more")

    async def attach(self, key: str) -> ExecutionResponse | None:
        """The response of the run with this key, once it has ended; `None` if there is none.

        Raises:
            ConnectionError: The server can't be reached.
            FatalToolError: The tool has ended the turn.
        """

        async def find(client: Client) -> ExecutionResponse | None:
            for activity_id in _ids_of(key):
                with suppress(_NotRunError):
                    return await self._response(_run_of(client, activity_id), key)
            return None

        return await self._open().run(find)

    async def serve(self, worker: Worker) -> None:
        """Takes the calls of the worker's queue until it stops, and those that run have ended.

        Raises:
            ConnectionError: The server can't be reached, or refuses.
        """
        try:
            return await serve(self.settings, self._wire, self._payloads, worker)
        except ConnectionError as error:
            failure = f"{error}"  # without its traceback, which has the client
        finally:
            gc.collect()  # frees the client, whose threads may abort the interpreter if they outlive it
        raise ConnectionError(failure)

    async def status(self) -> ExecutorStatus:
        """The workers, the queues and the running calls.

        Raises:
            ConnectionError: The server can't be reached, or refuses.
        """
        return await self._open().run(partial(read_status, self.queue))

    async def aclose(self) -> None:
        """Cancels the calls that run, and ends the connection."""
        with self._opening:
            link, self._link = self._link, None
        if link is not None:
            await asyncio.get_running_loop().run_in_executor(None, link.close)

    def _open(self) -> Link:
        with self._opening:
            if self._link is None or not self._link.is_open:
                self._link = Link(self.settings, self._answer)
            return self._link

    # In the link's loop -----------------------------------------------------------------------------------------------

    async def _answer(self, args: Sequence[RawValue]) -> RawValue:
        """Activity by which a worker sends messages: events, or one question, whose reply it returns."""
        token, *messages = args
        call, reply = self._calls.get(f"{strict_json(token.payload.data)}"), None
        if call is None:
            raise LookupError("the call is over")
        key, handle = call
        with beating(self.settings):
            for message in messages:
                reply = await handle(await self._payloads.read(message, key))
            return await self._payloads.write(reply or b"", key)

    async def _send(self, sent: SentCall, key: str, args: Sequence[Any], client: Client) -> ExecutionResponse | None:
        """The response of the call's activity: a new one, one that runs, or one that has run; `None` if it is gone.

        Cancelling this cancels only a new one.

        Raises:
            _NotRunError: No worker has run the tool.
        """
        name, queue = sent.call.request.tool, sent.call.request.queue or self.queue
        hint = sent.start_hint(queue)
        options: Any = {
            "task_queue": f"{PREFIX}{queue}",
            "wait": self.settings.wait,
            "attempts": _ATTEMPTS if sent.may_run_again else 1,
            "summary": None if self._wire.codec else (sent.call.request.call_id or "")[:_MOST_SHOWN] or None,
            "id_reuse_policy": ActivityIDReusePolicy.REJECT_DUPLICATE,
            "id_conflict_policy": ActivityIDConflictPolicy.FAIL,
        }
        for activity_id in _ids_of(key):
            began = monotonic()
            try:
                async with started(client, self.settings, name, *args, id=activity_id, **options) as handle:
                    return await self._response(handle, key, name, hint)
            except ActivityAlreadyStartedError:
                run = _run_of(client, activity_id)
            except RPCError as error:
                return _not_started(name, error.status, monotonic() - began)
            is_over = await _is_over(run)
            try:
                return await self._response(run, key, name, hint)
            except _NotRunError:
                if not is_over:
                    raise
        return not_run_response(name, f"{_MOST_UNRUN} runs of it have found no worker")

    async def _response(self, run: _Run, key: str, name: str = "The tool", hint: str = "") -> ExecutionResponse | None:
        """What the worker has answered, or why there is no answer; `None` if the server doesn't know the run.

        `hint` says how to start a missing worker.

        Raises:
            _NotRunError: No worker has run the tool.
        """
        away = 0.0  # seconds without the server
        while True:
            began = monotonic()
            try:
                answer = await self._payloads.read(await result_of(run), key)
                return self._answered(answer)
            except ActivityFailureError as error:
                return await self._failure(run, name, error.cause, hint)
            except ValueError as error:
                return lost_response(name, f"its result can't be read: {error}")
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                if error.status in _REFUSALS:
                    return lost_response(name, f"Temporal refuses to give its result ({error.status.name})")
                lasted = monotonic() - began
                away = lasted if lasted > _REACHED_SECONDS else away + lasted + 1
                if away > self.settings.wait:
                    return lost_response(name, f"the Temporal server can't be reached for {away:.0f} s")
                await asyncio.sleep(1)

    def _answered(self, answer: bytes) -> ExecutionResponse:
        response = read_response(answer, self._wire)
        if response.not_executed and has_not_started(answer, self._wire):
            raise _NotRunError(response)
        return response

    async def _failure(self, run: _Run, name: str, cause: object, hint: str) -> ExecutionResponse:
        """Why there is no answer; raises `_NotRunError` if no worker has run the tool."""
        if isinstance(cause, CancelledFailure):
            return ExecutionResponse.failed("aborted", f"{name} was cancelled.")
        if not isinstance(cause, TimeoutFailure):
            return lost_response(name, f"its activity was ended ({type(cause).__name__})")
        if cause.type is not TimeoutType.SCHEDULE_TO_START:
            return lost_response(name, "its worker has died, or can't reach Temporal")
        with suppress(RPCError):
            if (await run.describe()).attempt == 1:  # the limit applies to each attempt
                why = f"no worker has taken it within {self.settings.wait:g} s"
                raise _NotRunError(not_run_response(name, why, hint))
        return lost_response(name, "its worker has died, and no other has taken it")


class _NotRunError(Exception):
    """No worker has run the tool: none came in time, or it refused the call before the tool started.

    Attributes:
        response: The response that says so.
    """

    def __init__(self, response: ExecutionResponse) -> None:
        super().__init__(response)
        self.response = response


def _cancel(messages: Sequence[Future[bytes | None]]) -> None:
    for each in messages:
        each.cancel()


def _ids_of(key: str) -> Iterator[str]:
    """The ids of the activities of a call; each is used once those before it have ended without running the tool."""
    return (f"{key}.{number}" if number else key for number in range(_MOST_UNRUN))


def _run_of(client: Client, activity_id: str) -> _Run:
    return client.get_activity_handle(activity_id, result_type=RawValue)


async def _is_over(run: _Run) -> bool:
    """Whether an activity had ended before now; one that the server doesn't tell of counts as running."""
    try:
        return (await run.describe()).status is not ActivityExecutionStatus.RUNNING
    except RPCError:
        return False


def _not_started(name: str, status: RPCStatusCode, seconds: float) -> ExecutionResponse:
    if status not in _REFUSALS or seconds > FIRST_TRY_SECONDS:  # of several tries, it is the last's; the first may run
        return lost_response(name, f"the Temporal server can't be reached ({status.name})")
    return not_run_response(name, refusal(status))
