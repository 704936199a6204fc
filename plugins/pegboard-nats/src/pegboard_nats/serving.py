"""The worker's side of both executors: what it sends to callers, and what it tells of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import define, field, frozen
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from pegboard.errors import log_failure
from pegboard.execution import ExecutionResponse
from pegboard.tools import ErrorKind
from pegboard.worker import RemoteCaller, Wire, Worker
from pegboard_nats.connection import subscribe
from pegboard_nats.status import report_of

_INTRODUCE_SECONDS: Final = 0.05
_CHECK_SECONDS: Final = 5.0  # after which a worker that waits for an answer asks whether its caller is there


@frozen(eq=False)
class Link:
    """What a worker sends to the caller of one call: events, questions, and the answer.

    Attributes:
        client: The worker's client.
        inbox: The beginning of the caller's subjects.
    """

    client: Client
    inbox: str

    def caller(self, wire: Wire) -> RemoteCaller:
        """The caller, for the tool."""
        return RemoteCaller(wire, self._tell, self._ask)

    async def finish(self, answer: bytes) -> None:
        """Sends what ends the call."""
        await self.client.publish(f"{self.inbox}.answer", answer)

    async def _tell(self, events: Sequence[bytes]) -> None:
        for event in events:
            with suppress(Error):  # the connection was lost for long
                await self.client.publish(f"{self.inbox}.event", event)

    async def _ask(self, question: bytes) -> bytes:
        """The caller's reply.

        Raises:
            Error: The caller is gone.
        """
        subject = f"{self.inbox}.question"
        asked = asyncio.ensure_future(self.client.request(subject, question, timeout=None))  # pyright: ignore[reportArgumentType]
        try:
            while not (await asyncio.wait([asked], timeout=_CHECK_SECONDS))[0]:
                if self.client.is_connected:
                    await self.client.request(f"{self.inbox}.alive", timeout=_CHECK_SECONDS)
            return asked.result().data
        finally:
            asked.cancel()


@define(eq=False)
class Calls:
    """The calls that a worker has taken, by their callers' inboxes; answers who asks for them.

    Attributes:
        worker: The worker.
        client: Its client.
        prefix: The first part of all subjects.
        workers: The subject of all workers of its executor.
        subject: Its own subject.
    """

    worker: Worker
    client: Client
    prefix: str
    workers: str
    subject: str = field(init=False)
    _tasks: dict[str, asyncio.Task[None]] = field(factory=dict[str, asyncio.Task[None]], init=False)
    _cancelled: set[str] = field(factory=set[str], init=False)
    _sending: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]], init=False)

    def __attrs_post_init__(self) -> None:
        self.subject = self.client.new_inbox()

    def __contains__(self, inbox: str) -> bool:
        return inbox in self._tasks

    async def listen(self) -> None:
        """Answers questions about this worker, and ends calls that their callers have cancelled."""
        await subscribe(self.client, self.subject, self._report)
        await subscribe(self.client, self.workers, self._report)
        await subscribe(self.client, f"{self.prefix}.cancel.{self.worker.queue}", self._cancel)

    def start(self, inbox: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a call; if it takes a moment, its caller gets to know whom to ask."""
        task = self._tasks[inbox] = asyncio.create_task(work)
        later = asyncio.get_running_loop().call_later(_INTRODUCE_SECONDS, self._introduce, inbox)

        def end(task: asyncio.Task[None]) -> None:
            later.cancel()
            self._cancelled.discard(inbox)
            del self._tasks[inbox]
            if not task.cancelled() and (error := task.exception()) is not None:
                log_failure(f"worker {self.worker.name}", error)

        task.add_done_callback(end)
        return task

    def has_cancelled(self, inbox: str) -> bool:
        """Whether the caller has cancelled a call."""
        return inbox in self._cancelled

    async def end(self) -> None:
        """Waits for all calls, and sends what is left to be sent."""
        while self._tasks:
            await asyncio.wait([*self._tasks.values()])
        await self.client.flush()

    def _introduce(self, inbox: str) -> None:
        task = asyncio.create_task(self.client.publish(f"{inbox}.worker", self.subject.encode()))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _cancel(self, message: Msg) -> None:
        inbox = message.data.decode(errors="replace")
        if inbox in self._tasks:
            self._cancelled.add(inbox)
            self._tasks[inbox].cancel()

    async def _report(self, message: Msg) -> None:
        """Tells what this worker does; or only whether it has a call, if one is named."""
        with suppress(Error):
            if message.data:
                await message.respond(b"yes" if message.data.decode(errors="replace") in self else b"no")
                return
            await message.respond(report_of(self.worker, len(self._tasks)))


def answer_of(kind: ErrorKind, text: str, wire: Wire) -> bytes:
    """The answer for a call that failed, as `Worker.run` writes one."""
    return wire.write({"response": ExecutionResponse.failed(kind, text).to_json()})
