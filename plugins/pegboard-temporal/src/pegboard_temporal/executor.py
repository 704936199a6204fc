"""`TemporalExecutor`: calls as standalone activities, each with its `ExecutionRequest.key` as the id."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from secrets import token_hex
from time import monotonic
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen
from temporalio.client import ActivityFailureError, ActivityHandle, Client
from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, RawValue, RetryPolicy
from temporalio.exceptions import (
    ActivityAlreadyStartedError,
    CancelledError as CancelledFailure,
    TimeoutError as TimeoutFailure,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionResponse, ExecutorCall
from pegboard.json import strict_json
from pegboard.worker import (
    Codec,
    ExecutorStatus,
    SentCall,
    Wire,
    Worker,
    lost_response,
    not_run_response,
    read_response,
)
from pegboard_temporal.link import Link
from pegboard_temporal.payloads import Payloads
from pegboard_temporal.serving import PREFIX, beating, serve
from pegboard_temporal.settings import Settings
from pegboard_temporal.status import read_status

_LONGEST: Final = timedelta(days=30)
"""For an activity; Temporal's limits can't stop while the user is asked, so the worker keeps the tool's own."""
_ATTEMPTS: Final = 3  # of a tool that may run again, after its worker died
_MOST_UNRUN: Final = 100  # activities of one call that weren't run
_AWAY: Final = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)
_REACHED_SECONDS: Final = 30.0  # a request that took longer has reached the server: the SDK gives up after 10 s
_Outcome: TypeAlias = bytes | ExecutionResponse


@frozen
class _Sent:
    """A call that waits for its result: its key, and what handles the messages of its worker."""

    key: str
    handle: Callable[[bytes], Awaitable[bytes | None]]


@define(eq=False)
class TemporalExecutor:
    """Executor that sends calls to workers on other machines by a Temporal server, and gets their results by key.

    Attributes:
        settings: Where the server is, and so on.
        codec: Encrypts what travels; the workers have the same.
    """

    settings: Settings = field(factory=Settings)
    codec: Codec | None = field(default=None, repr=False)
    _calls: dict[str, _Sent] = field(factory=dict[str, _Sent], init=False, repr=False)
    _link: Link | None = field(default=None, init=False, repr=False)

    @property
    def queue(self) -> str:
        """The queue of calls that name none."""
        return self.settings.queue

    @property
    def start_seconds(self) -> float:
        """How long a call may take besides its time limit: until a worker takes it, and the death of one shows."""
        return _ATTEMPTS * (self.settings.wait + self.settings.heartbeat)

    @property
    def payloads(self) -> Payloads:
        """Writes and reads payloads."""
        return Payloads(self.settings.folder)

    @property
    def wire(self) -> Wire:
        """Writes and reads messages."""
        return Wire(codec=self.codec, most_bytes=self.payloads.most_bytes)

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs one call of a tool by a worker.

        Raises:
            FatalToolError: The tool ends the turn.
            ValueError: The worker's answer is invalid.
        """
        name, sent, token = call.request.tool, SentCall(call, self.wire), token_hex(16)
        key, loop, context = call.request.key or token_hex(16), asyncio.get_running_loop(), contextvars.copy_context()

        def handle(data: bytes) -> Awaitable[bytes | None]:
            """Handles a message in the caller's loop, from the link's."""
            handling = sent.handle(data)
            try:
                return asyncio.wrap_future(context.run(asyncio.run_coroutine_threadsafe, handling, loop))
            except RuntimeError:  # the caller's loop is closed
                handling.close()
                raise

        try:
            request = sent.request
        except ValueError as error:
            return ExecutionResponse.failed("limit", f"{name} was not run: the call can't be sent: {error}. Send less.")
        self._calls[token], link = _Sent(key, handle), self._open()
        header = {"token": token, "queue": link.queue, "watched": call.is_watched}
        try:
            outcome = await link.run(partial(self._send, sent, [header, request], key))
        except ConnectionError as error:
            return not_run_response(name, "its workers can't be reached", f"{error}")
        finally:
            del self._calls[token]
        return outcome if isinstance(outcome, ExecutionResponse) else sent.response(outcome)

    async def attach(self, key: str) -> ExecutionResponse | None:
        """The response of the run with this key, once it has ended; `None` if there is none.

        Raises:
            ConnectionError: The server can't be reached.
            FatalToolError: The tool has ended the turn.
            ValueError: The answer is invalid.
        """

        async def find(client: Client) -> ExecutionResponse | None:
            for number in range(_MOST_UNRUN):
                handle = client.get_activity_handle(_id_of(key, number), result_type=RawValue)
                try:
                    outcome = await self._outcome(handle, key, "The tool")
                except RPCError as error:
                    if error.status is RPCStatusCode.NOT_FOUND:
                        return None
                    raise ConnectionError(f"the Temporal server refuses: {error.status.name}") from None
                response = outcome if isinstance(outcome, ExecutionResponse) else read_response(outcome, self.wire)
                if not response.not_executed:
                    return response
            return None

        return await self._open().run(find)

    async def serve(self, worker: Worker) -> None:
        """Takes the calls of the worker's queue until it stops, and those that run have ended.

        Raises:
            ConnectionError: The server can't be reached, or refuses.
        """
        await serve(self.settings, self.wire, self.payloads, worker)

    async def status(self) -> ExecutorStatus:
        """The workers, the queues and the running calls.

        Raises:
            ConnectionError: The server can't be reached, or refuses.
        """
        return await self._open().run(partial(read_status, self.queue))

    async def aclose(self) -> None:
        """Cancels the calls that run, and ends the connection."""
        link, self._link = self._link, None
        if link is not None:
            await asyncio.get_running_loop().run_in_executor(None, link.close)

    def _open(self) -> Link:
        if self._link is None or not self._link.is_open:
            self._link = Link(self.settings, self._answer)
        return self._link

    async def _answer(self, args: Sequence[RawValue]) -> RawValue:
        """Activity by which a worker sends messages: events, or one question, whose reply it returns."""
        token, *messages = args
        sent = self._calls.get(f"{strict_json(token.payload.data)}")
        if sent is None:
            raise LookupError("the call is over")
        reply = None
        with beating(self.settings):
            for message in messages:
                reply = await sent.handle(await self.payloads.read(message, sent.key))
            return await self.payloads.write(reply or b"", sent.key)

    # In the link's loop -----------------------------------------------------------------------------------------------

    async def _send(self, sent: SentCall, args: list[Any], key: str, client: Client) -> _Outcome:
        """The outcome of the call's activity: a new one, one that runs, or the one that has run."""
        request = sent.call.request
        name, queue, attempts = request.tool, request.queue or self.queue, _ATTEMPTS if sent.may_run_again else 1
        options: Any = {
            "args": [args[0], await self.payloads.write(args[1], key)],
            "task_queue": f"{PREFIX}{queue}",
            "result_type": RawValue,
            "schedule_to_start_timeout": timedelta(seconds=self.settings.wait),
            "start_to_close_timeout": _LONGEST,
            "heartbeat_timeout": timedelta(seconds=self.settings.heartbeat),
            "retry_policy": RetryPolicy(maximum_attempts=attempts, backoff_coefficient=1.0),
            "id_reuse_policy": ActivityIDReusePolicy.REJECT_DUPLICATE,
            "id_conflict_policy": ActivityIDConflictPolicy.USE_EXISTING,
        }
        for number in range(_MOST_UNRUN):  # one that no worker has run is kept; the next has another id
            activity_id, is_old = _id_of(key, number), False
            try:
                handle = await _start(client, name, activity_id, options)
            except ActivityAlreadyStartedError:
                handle, is_old = client.get_activity_handle(activity_id, result_type=RawValue), True
            except RPCError as error:
                return _not_started(name, error)
            try:
                outcome = await self._outcome(handle, key, name, sent.start_hint(queue))
            except asyncio.CancelledError:
                await _cancel(handle)
                raise
            except RPCError as error:
                return lost_response(name, f"Temporal refuses to give its result ({error.status.name})")
            if not (is_old and self._is_unrun(outcome)):
                return outcome
        return not_run_response(name, f"{_MOST_UNRUN} runs of it have found no worker")

    async def _outcome(
        self, handle: ActivityHandle[RawValue], key: str, name: str, start: str | None = None
    ) -> _Outcome:
        """What the worker has answered, or the response that says why there is no answer.

        `start` says how to start a missing worker.

        Raises:
            RPCError: The server refuses, or doesn't know the activity.
        """
        away = 0.0  # seconds without the server
        while True:
            began = monotonic()
            try:
                return await self.payloads.read(await handle.result(), key)
            except RPCError as error:
                if error.status not in _AWAY:
                    raise
                lasted = monotonic() - began
                away = lasted if lasted > _REACHED_SECONDS else away + lasted + 1
                if away > self.settings.wait:
                    return lost_response(name, f"the Temporal server can't be reached for {away:.0f} s")
                await asyncio.sleep(1)
            except ActivityFailureError as error:
                return await self._failure(handle, name, error.cause, start)
            except ValueError as error:
                return lost_response(name, f"its result can't be read: {error}")

    async def _failure(
        self, handle: ActivityHandle[RawValue], name: str, cause: object, start: str | None
    ) -> ExecutionResponse:
        if isinstance(cause, CancelledFailure):
            return ExecutionResponse.failed("aborted", f"{name} was cancelled.")
        if not isinstance(cause, TimeoutFailure):
            return lost_response(name, f"its activity was ended ({type(cause).__name__})")
        if cause.type is not TimeoutType.SCHEDULE_TO_START:
            return lost_response(name, "its worker has died, or can't reach Temporal")
        if (await handle.describe()).attempt > 1:  # the limit applies to each attempt
            return lost_response(name, "its worker has died, and no other has taken it")
        return not_run_response(name, f"no worker has taken it within {self.settings.wait:g} s", start)

    def _is_unrun(self, outcome: _Outcome) -> bool:
        """Whether the tool hasn't run, so that it may run for a call that is sent again."""
        if isinstance(outcome, ExecutionResponse):
            return outcome.not_executed
        try:
            return read_response(outcome, self.wire).not_executed
        except (ValueError, FatalToolError):
            return False


async def _start(client: Client, name: str, activity_id: str, options: Any) -> ActivityHandle[RawValue]:
    """Starts an activity; if this is cancelled, one that the server has got meanwhile is cancelled, too."""
    starting = asyncio.ensure_future(client.start_activity(name, id=activity_id, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _cancel(await starting)
        raise


async def _cancel(handle: ActivityHandle[RawValue]) -> None:
    with suppress(RPCError, TimeoutError):  # it has ended, or the server is away
        await asyncio.wait_for(handle.cancel(), 5)


def _id_of(key: str, number: int) -> str:
    return f"{key}.{number}" if number else key


def _not_started(name: str, error: RPCError) -> ExecutionResponse:
    if error.status is RPCStatusCode.UNIMPLEMENTED:
        return not_run_response(
            name, "this Temporal server lacks standalone activities; they need server 1.31 or newer"
        )
    if error.status in _AWAY:  # it may have got the request
        return lost_response(name, "the Temporal server can't be reached")
    return not_run_response(name, f"the Temporal server refuses it ({error.status.name})")
