"""The worker's side of both executors: the calls that it has taken, and what it sends to their callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any, Final

from attrs import Factory, define, field
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from pegboard.errors import cause_of, log_failure
from pegboard.execution import ExecutionResponse
from pegboard.tools import ErrorKind
from pegboard.worker import RemoteCaller, Wire, Worker
from pegboard_nats.connection import Connection, hear, respond, sign_of, start, subscribe
from pegboard_nats.settings import NatsSettings
from pegboard_nats.status import report_of

_INTRODUCE_SECONDS: Final = 0.05


@define(eq=False)
class Calls:
    """The calls that a worker has taken; answers who asks for them.

    Attributes:
        worker: The worker.
        connection: Its connection.
        settings: The settings.
        workers: The subject of all workers of its executor.
        tasks: The calls, by their callers' inboxes.
        cancelled: The inboxes of those that their callers have cancelled.
        helpers: What else runs until it ends.
        subscriptions: What it has subscribed to.
    """

    worker: Worker
    connection: Connection
    settings: NatsSettings
    workers: str
    tasks: dict[str, asyncio.Task[None]] = field(factory=dict[str, asyncio.Task[None]], init=False)
    cancelled: set[str] = field(factory=set[str], init=False)
    helpers: set[asyncio.Task[Any]] = field(factory=set[asyncio.Task[Any]], init=False)
    subscriptions: list[Subscription] = field(factory=list[Subscription], init=False)
    _asked: dict[str, asyncio.Future[bytes]] = field(factory=dict[str, "asyncio.Future[bytes]"], init=False)
    _subject: str = field(default=Factory(lambda calls: calls.client.new_inbox(), takes_self=True), init=False)

    @property
    def client(self) -> Client:
        """The client of its connection."""
        return self.connection.client

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Answers questions about this worker, and ends calls that their callers have cancelled.

        When the block ends, nothing of this is left: calls that still run are cancelled.
        """
        cancels = f"{self.settings.prefix}.cancel.{self.worker.queue}"
        heard = {self.subject_of(">"): self._report, self.workers: self._report, cancels: self._cancel}
        try:
            for subject, receive in heard.items():
                self.subscriptions.append(await subscribe(self.client, subject, receive))
            yield
        finally:
            for each in self.subscriptions:
                with suppress(Error):  # it has ended, or the connection is closed
                    await each.unsubscribe()
            if running := {*self.tasks.values(), *self.helpers}:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)
            with suppress(Error):
                await self.client.flush()

    async def until_stopped(self) -> None:
        """Waits until the worker is told to stop.

        Raises:
            ConnectionError: Its connection was closed, and calls can't come any more.
        """
        waits = [start(self.helpers, event.wait()) for event in (self.worker.stopping, self.connection.closed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self.connection.closed.is_set():
            reason = cause_of(self.client.last_error or Error("unknown"), self.settings.secrets)
            raise ConnectionError(f"NATS at {self.settings.where} has closed the connection: {reason}")

    def subject_of(self, inbox: str) -> str:
        """The subject that answers whether this worker has a call."""
        return f"{self._subject}.{inbox}"

    def start(self, inbox: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a call; if it takes a moment, its caller gets to know whom to ask."""
        task = self.tasks[inbox] = asyncio.create_task(work)
        later = asyncio.get_running_loop().call_later(_INTRODUCE_SECONDS, self._introduce, inbox)

        def end(task: asyncio.Task[None]) -> None:
            later.cancel()
            self.cancelled.discard(inbox)
            del self.tasks[inbox]
            if not task.cancelled() and (error := task.exception()) is not None:
                log_failure(f"worker {self.worker.name}", error)

        task.add_done_callback(end)
        return task

    def caller(self, inbox: str, wire: Wire) -> RemoteCaller:
        """The caller of a call, for its tool."""

        async def tell(events: Sequence[bytes]) -> None:
            for event in events:
                await self.client.publish(f"{inbox}.event", event)

        async def ask(question: bytes) -> bytes:
            reply = self.subject_of(f"reply.{token_hex(16)}")
            asked = self._asked[reply] = asyncio.get_running_loop().create_future()

            async def sign() -> bytes:
                said = await sign_of(self.client, f"{inbox}.alive", self.settings.dead_after, reply.encode())
                if said != b"again":
                    return said
                await self.client.publish(f"{inbox}.question", question, reply=reply)  # it was lost on its way
                return b"yes"

            try:
                await self.client.publish(f"{inbox}.question", question, reply=reply)
                return await hear(asked, sign)
            finally:
                del self._asked[reply]
                with suppress(Error):
                    await self.client.publish(f"{inbox}.heard", reply.encode())

        return RemoteCaller(wire, tell, ask)

    def _introduce(self, inbox: str) -> None:
        start(self.helpers, self.client.publish(f"{inbox}.worker", self.subject_of(inbox).encode()))

    async def _cancel(self, message: Msg) -> None:
        inbox = message.data.decode(errors="replace")
        if inbox in self.tasks:
            self.cancelled.add(inbox)
            self.tasks[inbox].cancel()

    async def _report(self, message: Msg) -> None:
        """Tells what this worker does, or whether it has a call; or passes on the reply to a question."""
        if (asked := self._asked.get(message.subject)) is not None:
            if not asked.done() and not message.headers:  # which NATS sends if the caller is away
                asked.set_result(message.data)
            return
        if message.subject == self.workers:
            report = report_of(self.worker, len(self.tasks))
        else:
            report = b"yes" if message.subject.removeprefix(self.subject_of("")) in self.tasks else b"no"
        await respond(self.client, message, report)


def answer_of(kind: ErrorKind, text: str, wire: Wire) -> bytes:
    """The answer for a call that failed, as `Worker.run` writes one."""
    return wire.write({"response": ExecutionResponse.failed(kind, text).to_json()})
