"""The executor `nats`: calls by request and reply over core NATS, each at most once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar, Final

import attrs
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, NoRespondersError

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
from pegboard_nats.connection import Connection, Connections, OpenCall, subscribe
from pegboard_nats.serving import Calls, Link, answer_of
from pegboard_nats.settings import NatsSettings
from pegboard_nats.status import status_of

_CHECK_SECONDS: Final = 1.0  # after which a caller asks whether its worker is there
_RESEND_SECONDS: Final = 0.25
_MOST_MISSED: Final = 3  # a worker is away for a moment when the server was restarted


class LostError(Exception):
    """The worker of a call, or the server, is gone."""


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
        queue = check_queue(call.request.queue or DEFAULT_QUEUE)
        connection = self._connections.ready()
        if connection is None:
            try:
                connection = await self._connections.get()
            except ConnectionError as error:
                return not_run_response(call.tool.name, "the server of its workers can't be reached", f"{error}")
            await call.decide_again()
        sent = SentCall(call, self._wire(connection.client))
        with connection.opened(sent) as opened:
            try:
                return await self._run(connection, opened, queue)
            except TooLongError as error:
                return ExecutionResponse.failed("limit", f"{call.tool.name} was not run: {error}. Send less.")
            except LostError as error:
                return lost_response(call.tool.name, f"{error}")

    async def serve(self, worker: Worker) -> None:
        """Runs the calls of a queue until the worker is told to stop and its last call has ended.

        Raises:
            ConnectionError: The server can't be reached.
        """
        client, prefix = (await self._connections.get()).client, self.settings.prefix
        calls, free = Calls(worker, client, prefix, self._workers), asyncio.Semaphore(worker.max_concurrency)
        wire = self._wire(client)

        async def run(inbox: str, data: bytes) -> None:
            link = Link(client, inbox)
            try:
                async with asyncio.timeout(self.settings.wait if free.locked() else None):
                    await free.acquire()
            except TimeoutError:
                text = f"It was not run: its worker was busy for {self.settings.wait:g} s. Try again later."
                await link.finish(answer_of("not_executed", text, wire))
                return
            try:
                await link.finish(await worker.run(data, link.caller(wire)))
            finally:
                free.release()

        async def take(message: Msg) -> None:
            inbox, end, _ = message.reply.rpartition(".answer")
            if end and inbox not in calls:  # else nobody waits for it, or it is there already
                calls.start(inbox, run(inbox, message.data))

        await calls.listen()
        taking = await subscribe(client, f"{prefix}.call.{worker.queue}", take, queue="workers")
        worker.started.set()
        await worker.stopping.wait()
        await taking.drain()
        await calls.end()

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
        client, prefix, call = connection.client, self.settings.prefix, opened.sent.call
        request, loop = opened.sent.request, asyncio.get_running_loop()
        until = loop.time() + self.settings.wait
        try:
            while True:
                await client.publish(f"{prefix}.call.{queue}", request, reply=f"{opened.inbox}.answer")
                with suppress(NoRespondersError):
                    return opened.sent.response(await self._answer(client, opened))
                if loop.time() >= until:
                    return not_run_response(
                        call.tool.name, f"no worker listens to the queue {queue!r}", opened.sent.start_hint(queue)
                    )
                opened.answer = loop.create_future()
                await asyncio.sleep(_RESEND_SECONDS)
                await call.decide_again()
        except asyncio.CancelledError:
            with suppress(Error):
                await client.publish(f"{prefix}.cancel.{queue}", opened.inbox.encode())
            raise

    async def _answer(self, client: Client, opened: OpenCall) -> bytes:
        """What ends a call.

        Raises:
            NoRespondersError: No worker listens.
            LostError: There is no sign of its worker any more.
        """
        loop = asyncio.get_running_loop()
        heard, missed = loop.time(), 0
        while not (await asyncio.wait([opened.answer], timeout=_CHECK_SECONDS))[0]:
            try:
                if opened.worker is not None and client.is_connected:
                    report = await client.request(opened.worker, opened.inbox.encode(), timeout=_CHECK_SECONDS)
                    heard, missed = loop.time(), 0
                    if report.data != b"yes" and not opened.answer.done():
                        raise LostError("its worker has ended it, and the answer was lost")
            except NoRespondersError:
                missed += 1
            except Error:
                pass  # slow; or the connection is lost for now
            if missed > _MOST_MISSED or loop.time() - heard > self.settings.dead_after:
                raise LostError("its worker, or the connection to it, was lost")
        return opened.answer.result()
