"""The executor `nats`: calls by request and reply over core NATS, each at most once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar, Final

import attrs
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from pegboard.execution import ExecutionResponse, ExecutorCall
from pegboard.worker import (
    DEFAULT_QUEUE,
    PLAIN,
    ExecutorStatus,
    SentCall,
    TooLongError,
    Wire,
    Worker,
    check_queue,
    lost_response,
    not_run_response,
)
from pegboard_nats.connection import Connection, Connections, LostError, OpenCall, hear, is_inbox, sign_of, subscribe
from pegboard_nats.serving import Calls, answer_of
from pegboard_nats.settings import NatsSettings
from pegboard_nats.status import status_of

_RESEND_SECONDS: Final = 0.25
_MOST_WAITING: Final = 64 << 20  # bytes of calls that wait for a worker
_CALL_BYTES: Final = 10_000  # of one of them, besides its request
_NOBODY: Final = {"Status": "503"}  # as NATS answers where nobody listens: the caller sends its call again


class NatsExecutor:
    """Executor that sends calls to workers over core NATS.

    A call is sent once. If its worker or the server dies, its outcome is unknown.

    Args:
        settings: The server, and how to log in.
        wire: How messages are written; workers have the same.

    Attributes:
        name: What it is registered as by default.
        settings: As given.
        wire: As given.
        start_seconds: How long a call may wait for a worker before its time limit counts.
    """

    name: ClassVar[str] = "nats"

    def __init__(self, settings: NatsSettings = NatsSettings(), wire: Wire = PLAIN) -> None:  # noqa: B008  frozen
        self.settings: Final = settings
        self.wire: Final = wire
        self.start_seconds: Final = 3 * settings.wait + settings.dead_after
        self._connections: Final = Connections(settings)
        self._workers: Final = f"{settings.prefix}.workers.{self.name}"

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs a call on a worker of its queue.

        Raises:
            FatalToolError: The tool ends the turn.
            ValueError: The worker's answer is invalid.
        """
        queue, name = check_queue(call.request.queue or DEFAULT_QUEUE), call.tool.name
        try:
            connection = await self._connections.get()
        except ConnectionError as error:
            return not_run_response(name, "the server of its workers can't be reached", f"{error}")
        with connection.opened(SentCall(call, self._wire(connection.client))) as opened:
            try:
                return await self._run(connection, opened, queue)
            except TooLongError as error:
                return ExecutionResponse.failed("limit", f"{name} was not run: {error}. Send less.")
            except LostError as error:
                return lost_response(name, f"{error}")

    async def serve(self, worker: Worker) -> None:
        """Runs the calls of a queue until the worker is told to stop and its last call has ended.

        Raises:
            ConnectionError: The server can't be reached, or has closed the connection.
        """
        connection, free = await self._connections.get(), asyncio.Semaphore(worker.max_concurrency)
        client, wire = connection.client, self._wire(connection.client)
        calls = Calls(worker, connection, self.settings, self._workers)

        waiting = 0  # bytes

        async def refusal(size: int) -> str | None:
            """Waits until the worker is free; gives why not, if a call isn't run."""
            nonlocal waiting
            if free.locked() and waiting + size > _MOST_WAITING:
                return "too many calls wait for its worker"
            waiting += size
            try:
                async with asyncio.timeout(self.settings.wait if free.locked() else None):
                    await free.acquire()
            except TimeoutError:
                return f"its worker was busy for {self.settings.wait:g} s"
            finally:
                waiting -= size
            return None

        async def run(inbox: str, data: bytes) -> None:
            if (why := await refusal(len(data) + _CALL_BYTES)) is not None:
                answer = answer_of("not_executed", f"It was not run: {why}. Try again later.", wire)
            else:
                try:
                    answer = await worker.run(data, calls.caller(inbox, wire))
                finally:
                    free.release()
            await client.publish(f"{inbox}.answer", answer)

        async def take(message: Msg) -> None:
            inbox, _, kind = message.reply.rpartition(".")
            if kind != "answer" or not is_inbox(inbox) or inbox in calls.tasks:
                return
            if worker.stopping.is_set():  # and it may not have got rid of its subscription
                await client.publish(message.reply, headers=_NOBODY)
            else:
                calls.start(inbox, run(inbox, message.data))

        async with calls.listening():
            taking = await subscribe(client, f"{self.settings.prefix}.call.{worker.queue}", take, queue="workers")
            calls.subscriptions.append(taking)
            worker.started.set()
            await calls.until_stopped()
            with suppress(Error):  # the server is away
                await taking.drain()
            while calls.tasks:
                await asyncio.wait([*calls.tasks.values()])

    async def status(self) -> ExecutorStatus:
        """The workers that there are, and what they run.

        Raises:
            ConnectionError: The server can't be reached.
        """
        return await status_of((await self._connections.get()).client, self._workers)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._connections.aclose()

    def _wire(self, client: Client) -> Wire:
        return attrs.evolve(self.wire, most_bytes=min(self.wire.most_bytes, client.max_payload))

    async def _run(self, connection: Connection, opened: OpenCall, queue: str) -> ExecutionResponse:
        """Sends a call as soon as a worker listens, and waits for its answer.

        Raises:
            TooLongError: It is too long for the server.
            LostError: Its worker, or the server, is gone.
        """
        call, request, loop = opened.sent.call, opened.sent.request, asyncio.get_running_loop()
        client = connection.client
        settings, until = self.settings, loop.time() + self.settings.wait

        async def sign() -> bytes:
            if opened.worker is not None:
                return await sign_of(client, opened.worker, settings.dead_after)
            return b"yes" if loop.time() < silent_until else b""

        try:
            while True:
                await call.decide_again()
                await client.publish(f"{settings.prefix}.call.{queue}", request, reply=f"{opened.inbox}.answer")
                silent_until = loop.time() + settings.dead_after
                answer = await hear(opened.answer, sign)
                if answer is not None:
                    return opened.sent.response(answer)
                if loop.time() >= until:
                    why = f"no worker listens to the queue {queue!r}"
                    return not_run_response(call.tool.name, why, opened.sent.start_hint(queue))
                opened.answer = loop.create_future()
                await asyncio.sleep(_RESEND_SECONDS)
        except asyncio.CancelledError:
            with suppress(Error):
                await client.publish(f"{settings.prefix}.cancel.{queue}", opened.inbox.encode())
            raise
