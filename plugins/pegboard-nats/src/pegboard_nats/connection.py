"""The connection to NATS of an event loop, and the calls that wait there for a worker's answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, Final, TypeAlias, TypeVar

from attrs import define, field
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error, NoRespondersError

from pegboard.errors import cause_of, operator_log
from pegboard.worker import SentCall
from pegboard_nats.settings import NatsSettings

T = TypeVar("T")
_Receive: TypeAlias = Callable[[Msg], Awaitable[None]]
# in seconds; a server that is silent for three of its pings is given up
_OPTIONS: Final = dict[str, Any](name="pegboard", max_reconnect_attempts=-1, reconnect_time_wait=0.25, ping_interval=15)
_RECONNECT_SECONDS: Final = 0.05
_CHECK_SECONDS: Final = 1.0  # after which one side of a call asks whether the other is there
_MOST_MISSED: Final = 3  # a side is away for a moment when the server was restarted
_MOST_QUESTIONS: Final = 64  # of a call that are answered at once, and replies that are kept; others are asked again
_INBOX: Final = re.compile(r"_INBOX(\.\w+)+", re.ASCII)
_connecting: Final = set[asyncio.Task[Any]]()  # and closing: executors may be dropped before their connections


class LostError(Exception):
    """The other side of a call, or the server, is gone."""


class EncryptedClient(Client):
    """Client that sends nothing to a server without TLS: nats-py encrypts only where the server asks for it."""

    def _connect_command(self) -> bytes:  # what is sent first, the login
        if not dict[str, Any](self._server_info).get("tls_required"):
            raise Error("it offers no TLS, which the settings ask for")
        return super()._connect_command()


async def subscribe(client: Client, subject: str, receive: _Receive | None = None, queue: str = "") -> Subscription:
    """Subscribes to a subject; without `receive`, the subscription has the messages."""
    return await client.subscribe(subject, queue, receive)  # pyright: ignore[reportUnknownMemberType]


def is_inbox(subject: str) -> bool:
    """Whether a subject that another program names may be sent to: only inboxes may, as this login can do more."""
    return _INBOX.fullmatch(subject) is not None


async def respond(client: Client, message: Msg, data: bytes) -> None:
    """Replies to a message, if it asks for that."""
    if is_inbox(message.reply):
        with suppress(Error):  # the connection is closed, or was lost for long
            await client.publish(message.reply, data)


def start(tasks: set[asyncio.Task[Any]], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Starts a task, and keeps it until it ends: its loop doesn't."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _log_denial(error: Exception) -> None:
    """Logs what the login may not do, which nothing else tells; of other errors, the client has the last one."""
    if "permissions violation" in f"{error}".lower():
        operator_log().warning("NATS: %s", error)


async def sign_of(client: Client, subject: str, dead_after: float, about: bytes = b"") -> bytes:
    """What the other side of a call says when it is asked whether it still has the call.

    It is asked again while it is slow or away, as when the server was restarted.

    Args:
        client: The client.
        subject: The subject that answers there: `yes` if it has the call.
        dead_after: Seconds of silence after which it is gone.
        about: What is asked about.

    Returns:
        `yes`; what else it answers if it has no such call; or nothing if it is gone.
    """
    loop, missed = asyncio.get_running_loop(), 0
    until = loop.time() + dead_after
    while True:
        is_last = loop.time() >= until
        try:
            return (await client.request(subject, about, timeout=_CHECK_SECONDS)).data
        except TimeoutError:
            pass
        except Error as error:
            missed += isinstance(error, NoRespondersError)
            is_last = is_last or missed > _MOST_MISSED
            await asyncio.sleep(0 if is_last else _CHECK_SECONDS)
        if is_last:
            return b""


async def hear(awaited: asyncio.Future[T], sign: Callable[[], Coroutine[Any, Any, bytes]]) -> T:
    """What is awaited from the other side of a call, which is asked meanwhile whether it still has the call.

    Args:
        awaited: What comes from there; it is cancelled if it doesn't.
        sign: Asks there, as `sign_of` does.

    Raises:
        LostError: It is gone.
    """
    try:
        while not (await asyncio.wait([awaited], timeout=_CHECK_SECONDS))[0]:
            asking = asyncio.ensure_future(sign())
            try:
                await asyncio.wait([awaited, asking], return_when=asyncio.FIRST_COMPLETED)
            finally:
                asking.cancel()
            if awaited.done():
                break
            if not asking.result():
                raise LostError("its other side, or the connection to it, was lost")
            if asking.result() != b"yes":
                raise LostError("its other side has ended it, and the answer was lost")
        return awaited.result()
    finally:
        awaited.cancel()


@define(eq=False)
class OpenCall:
    """A call that waits for its worker's answer.

    Attributes:
        sent: The call.
        inbox: The beginning of the subjects of what its worker sends.
        answer: What ends it; `None` says that no worker listens.
        worker: The subject that its worker answers while it has the call, or `None`.
        questions: The replies to questions of its tool, by the subjects that they go to, until its worker has them.
    """

    sent: SentCall
    inbox: str
    answer: asyncio.Future[bytes | None]
    worker: str | None = None
    questions: dict[str, asyncio.Task[bytes]] = field(factory=dict[str, asyncio.Task[bytes]])


@define(eq=False)
class Connection:
    """Connection to NATS, of one event loop.

    Attributes:
        client: The client of nats-py.
        inbox: The beginning of the subjects of what workers send to its calls.
        closed: Set once it is closed for good: here, or by the server, as when the login has expired.
        store: What JetStream stores, for its executor, or `None`.
    """

    client: Client
    inbox: str
    closed: asyncio.Event
    store: Any = field(default=None, init=False)
    _calls: dict[str, OpenCall] = field(factory=dict[str, OpenCall], init=False)

    @contextmanager
    def opened(self, sent: SentCall) -> Generator[OpenCall]:
        """A call that waits for its answer, until the end of the block."""
        token, answer = token_hex(16), asyncio.get_running_loop().create_future()
        call = self._calls[token] = OpenCall(sent, f"{self.inbox}.{token}", answer)
        try:
            yield call
        finally:
            del self._calls[token]
            for task in call.questions.values():
                task.cancel()

    async def receive(self, message: Msg) -> None:
        """Handles what a worker has sent: an untrusted message."""
        _, token, kind = message.subject.rsplit(".", 2)
        call = self._calls.get(token)
        if call is None or call.answer.done():
            await respond(self.client, message, b"no")
        elif kind == "answer":  # an empty one with headers says that nobody listens, else that JetStream has it
            call.answer.set_result(message.data if message.data or not message.headers else None)
        elif kind == "event":
            await call.sent.handle(message.data)
        elif kind == "question":
            self._take_question(call, message)
        elif kind == "alive":
            await respond(self.client, message, await self._sign(call, message.data.decode(errors="replace")))
        elif kind == "heard" and (asked := call.questions.get(reply := message.data.decode(errors="replace"))):
            if not asked.cancelling():  # until it has ended, it counts
                asked.add_done_callback(lambda _: call.questions.pop(reply, None))
                asked.cancel()  # its tool may have stopped waiting for the reply
        elif kind == "worker" and is_inbox(subject := message.data.decode(errors="replace")):
            call.worker = subject

    def _take_question(self, call: OpenCall, message: Msg) -> None:
        answered = [reply for reply, task in call.questions.items() if task.done()]
        if message.reply not in call.questions and len(call.questions) - len(answered) < _MOST_QUESTIONS:
            if len(answered) >= _MOST_QUESTIONS:  # what says that their worker has the replies was lost
                del call.questions[answered[0]]
            call.questions[message.reply] = asyncio.create_task(self._answer(call.sent, message))

    async def _answer(self, sent: SentCall, message: Msg) -> bytes:
        reply = await sent.handle(message.data) or b""
        await respond(self.client, message, reply)
        return reply

    async def _sign(self, call: OpenCall, question: str) -> bytes:
        """Whether a question has come, for the worker that waits for the reply; sends a reply that was lost again."""
        if (asked := call.questions.get(question)) is None:
            return b"again"
        if asked.done() and not asked.cancelled() and is_inbox(question):
            await self.client.publish(question, asked.result())
        return b"yes"


class Connections:
    """The connections to one server or cluster: one for each event loop that needs it.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: NatsSettings) -> None:
        self._settings: Final = settings
        self._made: Final = dict[asyncio.AbstractEventLoop, tuple[asyncio.Task[None], asyncio.Future[Connection]]]()

    async def get(self) -> Connection:
        """The connection of this event loop, which is made if there is none.

        Raises:
            ConnectionError: The server can't be reached, or refuses the login.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.wait
        while not (connection := await asyncio.shield(self._connection_of(loop))).client.is_connected:
            if loop.time() > until:
                raise ConnectionError(f"the connection to NATS at {self._settings.where} was lost")
            await asyncio.sleep(_RECONNECT_SECONDS)
        return connection

    async def aclose(self) -> None:
        """Closes the connection of this event loop."""
        task, _ = self._made.get(asyncio.get_running_loop(), (None, None))
        if task is not None:
            await asyncio.sleep(0)  # until it has begun: if it is cancelled before, `_keep` never runs
            task.cancel()
            await asyncio.wait([task])

    def _connection_of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Connection]:
        if loop not in self._made:
            for other in [*self._made]:
                if other.is_closed() and (left := self._made.pop(other, None)):  # without its tasks being cancelled
                    _connecting.discard(left[0])
            made = loop.create_future()
            self._made[loop] = start(_connecting, self._keep(made)), made
        return self._made[loop][1]

    async def _keep(self, made: asyncio.Future[Connection]) -> None:
        """Connects; closes the connection when the server has, or the loop ends, which cancels its tasks."""
        settings, client = self._settings, EncryptedClient() if self._settings.is_encrypted else Client()
        connection = Connection(client, client.new_inbox(), asyncio.Event())

        async def end() -> None:
            connection.closed.set()

        try:
            async with asyncio.timeout(settings.wait):
                await client.connect(**settings.options(), **_OPTIONS, error_cb=_log_denial, closed_cb=end)
                await subscribe(client, f"{connection.inbox}.*.*", connection.receive)
            made.set_result(connection)
            await connection.closed.wait()
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001  also a login's file that can't be read
            if not made.done():
                reason = cause_of(client.last_error or error, settings.secrets)
                made.set_exception(ConnectionError(f"NATS at {settings.where} can't be reached: {reason}"))
                made.exception()  # who waited for it may be gone, which asyncio would log
        del self._made[asyncio.get_running_loop()]
        with suppress(Exception):
            await client.close()
