"""The connection to NATS of an event loop, and the calls that wait there for a worker's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from attrs import define, field
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error, NoRespondersError

from pegboard.errors import cause_of
from pegboard.worker import SentCall
from pegboard_nats.settings import NatsSettings

_RECONNECT_SECONDS: Final = 0.25
# The tasks that close the connections. Loops don't keep tasks alive, and executors may be dropped before them.
_KEEPING: Final = set[asyncio.Task[None]]()


class EncryptedClient(Client):
    """Client that sends nothing to a server without TLS: nats-py encrypts only where the server asks for it."""

    def _connect_command(self) -> bytes:  # what is sent first, the login
        server: dict[str, Any] = self._server_info
        if not server.get("tls_required"):
            raise Error("it offers no TLS, which the settings ask for")
        return super()._connect_command()


async def subscribe(
    client: Client, subject: str, receive: Callable[[Msg], Awaitable[None]] | None = None, *, queue: str = ""
) -> Subscription:
    """Subscribes to a subject; without `receive`, the subscription has the messages."""
    return await client.subscribe(subject, queue, receive)  # pyright: ignore[reportUnknownMemberType]


@define(eq=False)
class OpenCall:
    """A call that waits for its worker's answer.

    Attributes:
        sent: The call.
        inbox: The beginning of the subjects of what its worker sends.
        answer: What ends it.
        worker: The subject of the worker that has taken it, or `None`.
    """

    sent: SentCall
    inbox: str
    answer: asyncio.Future[bytes]
    worker: str | None = None
    _questions: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]], init=False)

    async def receive(self, kind: str, message: Msg) -> None:
        """Handles what a worker has sent: an untrusted message."""
        if kind == "answer" and not message.reply:
            if message.data or not message.headers:
                self.answer.set_result(message.data)
            else:
                self.answer.set_exception(NoRespondersError())  # says the server
        elif kind == "worker":
            self.worker = message.data.decode(errors="replace")
        elif kind == "event":
            await self.sent.handle(message.data)
        elif kind == "question" and message.reply:
            task = asyncio.create_task(self._answer(message))
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

    def end(self) -> None:
        """Stops answering questions."""
        self.answer.cancel()
        for task in self._questions:
            task.cancel()

    async def _answer(self, message: Msg) -> None:
        reply = await self.sent.handle(message.data) or b""
        with suppress(Error):  # the connection is closed, or was lost for long
            await message.respond(reply)


@define(eq=False)
class Connection:
    """Connection to NATS, of one event loop.

    Attributes:
        client: The client of nats-py.
    """

    client: Client
    _inbox: str = field(init=False, default="")
    _calls: dict[str, OpenCall] = field(factory=dict[str, OpenCall], init=False)

    async def listen(self) -> None:
        """Subscribes to what workers send to the calls of this connection."""
        self._inbox = self.client.new_inbox()
        await subscribe(self.client, f"{self._inbox}.*.*", self._receive)

    @contextmanager
    def opened(self, sent: SentCall) -> Generator[OpenCall]:
        """A call that waits for its answer, until the end of the block."""
        token = self.client.new_inbox().rpartition(".")[2]
        call = OpenCall(sent, f"{self._inbox}.{token}", asyncio.get_running_loop().create_future())
        self._calls[token] = call
        try:
            yield call
        finally:
            del self._calls[token]
            call.end()

    async def _receive(self, message: Msg) -> None:
        _, token, kind = message.subject.rsplit(".", 2)
        call = self._calls.get(token)
        if call is not None and not call.answer.done():
            await call.receive(kind, message)
        elif message.reply:
            await message.respond(b"")


class Connections:
    """The connections to one server or cluster: one for each event loop that needs it.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: NatsSettings) -> None:
        self._settings: Final = settings
        self._made: Final = dict[asyncio.AbstractEventLoop, tuple[asyncio.Task[None], asyncio.Future[Connection]]]()

    def ready(self) -> Connection | None:
        """The connection of this event loop, if it is there."""
        _, made = self._made.get(asyncio.get_running_loop(), (None, None))
        connection = made.result() if made is not None and made.done() and made.exception() is None else None
        return connection if connection is not None and connection.client.is_connected else None

    async def get(self) -> Connection:
        """The connection of this event loop, which is made if there is none.

        Raises:
            ConnectionError: The server can't be reached, or refuses the login.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            made = loop.create_future()
            task = loop.create_task(self._keep(made))
            self._made[loop] = task, made
            _KEEPING.add(task)
            task.add_done_callback(_KEEPING.discard)
        connection = await asyncio.shield(self._made[loop][1])
        if not connection.client.is_connected:
            await self._reconnect(connection.client)
        return connection

    async def aclose(self) -> None:
        """Closes the connection of this event loop."""
        task, _ = self._made.get(asyncio.get_running_loop(), (None, None))
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _keep(self, made: asyncio.Future[Connection]) -> None:
        """Connects, and closes the connection when the loop ends, which cancels its tasks."""
        client = EncryptedClient() if self._settings.is_encrypted else Client()
        problems, loop = list[BaseException](), asyncio.get_running_loop()

        async def note(error: Exception) -> None:
            problems[:] = [error]

        try:
            async with asyncio.timeout(self._settings.wait):
                await client.connect(
                    **self._settings.options(),
                    name="pegboard",
                    error_cb=note,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_RECONNECT_SECONDS,  # pyright: ignore[reportArgumentType]
                )
                connection = Connection(client)
                await connection.listen()
            made.set_result(connection)
            await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001  also a file of a login that can't be read, or a missing package
            made.set_exception(self._unreachable(problems[0] if problems else error))
        except GeneratorExit:  # the loop was closed with its tasks: nothing can be awaited
            loop = None
            raise
        finally:
            made.cancel()
            if loop is not None:
                del self._made[loop]
                with suppress(Exception):
                    await client.close()

    async def _reconnect(self, client: Client) -> None:
        try:
            async with asyncio.timeout(self._settings.wait):
                while not client.is_connected:  # noqa: ASYNC110  the client has no event for it
                    await asyncio.sleep(_RECONNECT_SECONDS / 5)
        except TimeoutError:
            raise self._unreachable(TimeoutError("the connection was lost")) from None

    def _unreachable(self, error: BaseException) -> ConnectionError:
        reason = cause_of(error, self._settings.secrets)
        return ConnectionError(f"NATS at {self._settings.where} can't be reached: {reason}")
