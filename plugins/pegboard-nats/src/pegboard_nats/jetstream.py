"""The executor `jetstream`: calls in a work queue that JetStream stores, and their results by key."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import ClassVar, Final
from uuid import uuid4

import attrs
from attrs import frozen
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

from pegboard.errors import cause_of, operator_log
from pegboard.execution import ExecutionResponse
from pegboard.worker import (
    PLAIN,
    ExecutorStatus,
    Wire,
    Worker,
    has_not_started,
    lost_response,
    not_run_response,
    read_response,
)
from pegboard_nats.connection import Connection, LostError, OpenCall, sign_of, start
from pegboard_nats.executor import NatsExecutor
from pegboard_nats.serving import Calls, answer_of
from pegboard_nats.settings import NatsSettings
from pegboard_nats.status import status_of
from pegboard_nats.store import DamagedError, Record, Store, id_of, lasting

_FIRST_POLL, _LAST_POLL = 0.05, 1.0  # seconds
_FETCH_SECONDS: Final = 2.0
_CANCEL_SECONDS: Final = 5.0
_MOST_RUNS: Final = 3  # of a call that may run again: it may be what its workers die of
_CANCELLED: Final = "The call was cancelled."
_UNSYNCED: Final = (
    "JetStream acknowledges before it syncs unless its server has `sync_interval: always`: a power cut may lose calls "
    "and results of the last minutes. Set it there, then synced = true in [plugins.nats]."
)


class JetStreamExecutor(NatsExecutor):
    """Executor whose calls and results are stored, so that they survive their caller, their worker and the server.

    A worker claims a call before it runs it. If that worker dies, an idempotent tool of a trusted origin runs again, up
    to three times in all; the outcome of any other call is unknown.
    """

    name: ClassVar[str] = "jetstream"

    def __init__(self, settings: NatsSettings = NatsSettings(), wire: Wire = PLAIN) -> None:  # noqa: B008  frozen
        super().__init__(settings, wire)
        self._has_warned = False

    async def attach(self, key: str) -> ExecutionResponse | None:
        """The response of the run with this key, once it has ended; `None` if there is none.

        Raises:
            ConnectionError: The server can't be reached, or has no JetStream.
            FatalToolError: The tool has ended the turn.
            ValueError: The stored answer is invalid.
        """
        store, wait = await self._store(await self._connections.get()), _FIRST_POLL
        try:
            while (found := await lasting(store.find, id_of(key))) is not None and found.run:
                if found.is_over:
                    return read_response(await store.load(found), self.wire)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LAST_POLL)
        except DamagedError as error:
            return lost_response("The call", f"{error}")
        return None

    async def serve(self, worker: Worker) -> None:
        """Runs the calls of a queue until the worker is told to stop and its last call has ended.

        Raises:
            ConnectionError: The server can't be reached, has no JetStream, or has closed the connection.
        """
        connection = await self._connections.get()
        store = await self._store(connection)
        await store.consumer(worker.queue)
        calls = Calls(worker, connection, self.settings, self._workers)
        async with calls.listening():
            slots = [_Slot(store, calls, self._wire(connection.client)) for _ in range(worker.max_concurrency)]
            serving = [start(calls.helpers, slot.serve()) for slot in slots]
            worker.started.set()
            await calls.until_stopped()
            await asyncio.wait(serving)

    async def status(self) -> ExecutorStatus:
        """The workers that there are, what they run, and how many calls wait.

        Raises:
            ConnectionError: The server can't be reached, or has no JetStream.
        """
        client = (await self._connections.get()).client
        with self._errors_named():
            lengths = await Store(client, self.settings).lengths()
        return await status_of(client, self._workers, lengths)

    def _wire(self, client: Client) -> Wire:
        return attrs.evolve(self.wire, most_between=client.max_payload)  # longer requests and answers are stored apart

    async def _store(self, connection: Connection) -> Store:
        """What is stored, by this connection.

        Raises:
            ConnectionError: The server has no JetStream, or not for this login.
        """
        if connection.store is None:
            store = Store(connection.client, self.settings)
            with self._errors_named():
                await lasting(store.open, seconds=self.settings.wait)
            connection.store = store
            if not self.settings.synced and not self._has_warned:
                self._has_warned = True
                operator_log().warning(_UNSYNCED)
        return connection.store

    @contextmanager
    def _errors_named(self) -> Generator[None]:
        try:
            yield
        except Error as error:
            is_off = isinstance(error, ServiceUnavailableError) and error.code is None  # nothing answers for it
            why = "has no JetStream: start it with -js" if is_off else f"can't use JetStream: {cause_of(error)}"
            raise ConnectionError(f"NATS at {self.settings.where} {why}") from None

    async def _run(self, connection: Connection, opened: OpenCall, queue: str) -> ExecutionResponse:
        """Puts a call into its queue, and waits for its answer.

        Raises:
            TooLongError: It is too long.
            LostError: JetStream can't be reached any more, or has lost the call.
        """
        record = Record(inbox=opened.inbox, again=opened.sent.may_run_again, data=opened.sent.request)
        call = opened.sent.call
        id_ = id_of(call.request.key or uuid4().hex)
        try:
            store = await self._store(connection)
        except ConnectionError as error:
            return not_run_response(call.tool.name, "JetStream can't be reached", f"{error}")
        await call.decide_again()
        try:
            return await self._outcome(store, opened, queue, id_, record)
        except DamagedError as error:
            raise LostError(f"{error}") from None
        except Error as error:
            raise LostError(f"JetStream can't be reached ({cause_of(error)})") from None
        except asyncio.CancelledError:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await connection.client.publish(f"{self.settings.prefix}.cancel.{queue}", opened.inbox.encode())
                    queued = await store.queued(queue, id_)
                    is_mine = queued is None or queued.inbox == opened.inbox
                    if is_mine and not await store.withdraw(queue, id_, record):  # its worker may be dead
                        await store.give_up(id_, record, answer_of("aborted", _CANCELLED, self.wire))
            raise

    async def _outcome(self, store: Store, opened: OpenCall, queue: str, id_: str, record: Record) -> ExecutionResponse:
        """Puts a call into its queue, where another caller may have put it, and waits for its answer."""
        loop, name, seconds = asyncio.get_running_loop(), opened.sent.call.tool.name, self.settings.wait
        try:
            is_mine = await lasting(store.send, queue, id_, record, seconds=seconds)
        except (NoStreamResponseError, ServiceUnavailableError) as error:
            return not_run_response(name, "JetStream can't be reached", cause_of(error))
        until, poll = loop.time() + seconds, _LAST_POLL if is_mine else _FIRST_POLL
        while not (await asyncio.wait([opened.answer], timeout=poll))[0]:
            poll, is_late = min(2 * poll, _LAST_POLL), loop.time() >= until
            queued = record if is_mine and not is_late else await lasting(store.queued, queue, id_)
            found = await lasting(store.find, id_)  # after `queued`: what has left the queue has a record
            if found is not None and found.is_answer_for(opened.inbox):
                return opened.sent.response(await store.load(found))
            if found is not None and found.run:
                continue
            if queued is None:
                if found is None:
                    raise LostError("JetStream has lost it")
                is_mine = await lasting(store.send, queue, id_, record)  # the other caller has withdrawn it
                until = loop.time() + seconds
            elif is_late and await self._withdraw(store, queue, id_, queued, opened.inbox):
                why = f"no worker took it from the queue {queue!r} in {seconds:g} s"
                return not_run_response(name, why, opened.sent.start_hint(queue))
        answer = opened.answer.result()
        if not answer:  # it was too long to be sent
            answer = await store.load(await lasting(store.find, id_) or Record(inbox=opened.inbox))
        return opened.sent.response(answer)

    async def _withdraw(self, store: Store, queue: str, id_: str, queued: Record, own: str) -> bool:
        """Takes a call back that is this caller's, by its inbox, or whose caller is gone; gives whether that was so."""
        sign, dead_after = f"{queued.inbox}.alive", self.settings.dead_after
        is_left = queued.inbox == own or await sign_of(store.client, sign, dead_after) in (b"", b"no")
        return is_left and await store.withdraw(queue, id_, queued)


@frozen(eq=False)
class _Slot:
    """Takes one call after the other from a queue."""

    store: Store
    calls: Calls
    wire: Wire

    async def serve(self) -> None:
        """Runs calls until the worker is told to stop."""
        queue, stopping, task = self.calls.worker.queue, self.calls.worker.stopping, asyncio.current_task()
        taking = await self.store.taking(queue)
        try:
            while not (stopping.is_set() or (task and task.cancelling())):  # a fetch may lose its cancellation
                try:
                    (message,) = await taking.fetch(1, _FETCH_SECONDS)
                    await self._take(message)
                except ServiceUnavailableError:  # the server has lost what it stored, or is away
                    with suppress(Error):
                        await self.store.open()
                        await self.store.consumer(queue)
                    await asyncio.sleep(_FIRST_POLL)
                except (Error, TimeoutError):  # there is none
                    await asyncio.sleep(_FIRST_POLL)
        finally:
            with suppress(Error):  # the connection is closed
                await taking.unsubscribe()

    async def _take(self, message: Msg) -> None:
        """Runs the call of a message to its end."""
        try:
            sent = Record.read(message.data)
        except ValueError:
            await message.term()
            return
        if sent.inbox in self.calls.tasks:
            return  # a worker that is slow to say that it lives gets its own call again
        running = self.calls.start(sent.inbox, self._run(message, sent))
        while not (await asyncio.wait([running], timeout=self.calls.settings.dead_after / 3))[0]:
            with suppress(Error):
                await message.in_progress()

    async def _run(self, message: Msg, sent: Record) -> None:
        """Runs a call, if no other worker has; stores its answer, and sends it."""
        id_, worker = message.subject.rpartition(".")[2], self.calls.subject_of(sent.inbox)
        mine = attrs.evolve(sent, run=uuid4().hex, worker=worker, runs=1, blob="", data=None)
        there = await self._claim(id_, mine)
        if there is not None and there.run and not there.is_over:  # another worker has claimed it
            if await sign_of(self.calls.client, there.worker, self.calls.settings.dead_after) == b"yes":
                return  # if that worker dies after all, this comes again
            may_run = sent.again and there.runs < _MOST_RUNS
            mine = attrs.evolve(mine, runs=there.runs + 1) if may_run else self._lost(mine, "its worker was lost")
            there = await self._claim(id_, mine, there)
        if there is None and not mine.is_over:
            answer = await self._answer(id_, mine, sent)
        else:
            there = there or mine
            if there.run and not there.is_over:
                return  # another worker was faster
            answer = there.data or b"" if there.is_answer_for(sent.inbox) else None
        with suppress(Error):  # what is lost comes again, and finds what is stored
            if answer is not None:
                await self.calls.client.publish(f"{sent.inbox}.answer", answer)
            await message.ack()

    async def _claim(self, id_: str, mine: Record, over: Record | None = None) -> Record | None:
        """Claims a call; gives `None`, or what is there instead."""
        try:
            return await lasting(self.store.claim, id_, mine, over)
        except DamagedError as error:
            return self._lost(mine, f"{error}")

    def _lost(self, mine: Record, why: str) -> Record:
        text = f"The call may have run or not: {why}. Check its effects before you repeat it."
        return attrs.evolve(mine, data=answer_of("unknown_outcome", text, self.wire))

    async def _answer(self, id_: str, mine: Record, sent: Record) -> bytes:
        """Runs a call, and stores its answer; gives it, or nothing if it is too long to be sent."""
        has_run = True
        try:
            request = await self.store.load(sent)
            answer = await self.calls.worker.run(request, self.calls.caller(sent.inbox, self.wire))
            with suppress(ValueError):  # it is invalid, which its caller will find
                has_run = not has_not_started(answer, self.wire)
        except DamagedError as error:
            answer, has_run = answer_of("not_executed", f"It was not run: {error}.", self.wire), False
        except asyncio.CancelledError:
            if sent.inbox not in self.calls.cancelled:
                raise  # the worker itself ends
            answer = answer_of("aborted", _CANCELLED, self.wire)
        run = mine.run if has_run else ""  # what was refused may be sent again
        await lasting(self.store.finish, id_, attrs.evolve(mine, run=run, data=answer))
        return answer if len(answer) <= self.calls.client.max_payload else b""
