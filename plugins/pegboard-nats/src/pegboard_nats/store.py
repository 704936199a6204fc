"""What JetStream stores: the work queue, a record of each call by its id, and what is too long for a message."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, TypeVar

import attrs
from attrs import field, frozen
from nats.aio.client import Client
from nats.errors import Error, NoRespondersError, OutboundBufferLimitError
from nats.js.api import ConsumerConfig, DiscardPolicy, KeyValueConfig, ObjectStoreConfig, RetentionPolicy, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import (
    APIError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoStreamResponseError,
    NotFoundError,
    ServiceUnavailableError,
)
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from pegboard.json import is_array, strict_json
from pegboard_nats.connection import is_inbox
from pegboard_nats.settings import NatsSettings

T = TypeVar("T")
_RETRY_SECONDS: Final = 0.25
_LONGEST_SECONDS: Final = 600.0  # that a result waits for a server that is away
_BLOB_SECONDS: Final = 60.0
_AWAY: Final = (
    TimeoutError,
    NoRespondersError,
    OutboundBufferLimitError,
    NoStreamResponseError,
    ServiceUnavailableError,
)
_CHANGED: Final = "what is stored of it was changed"
_ALREADY_THERE: Final = 10077  # the server's code for what it can't store: here, a second one of this id


@frozen
class Record:
    """What is stored of a call: in the work queue with its request, and by its id with its answer.

    Attributes:
        inbox: The beginning of the subjects of the caller that has sent it.
        again: Whether it may run again if its worker dies.
        run: The id of the run that has claimed it; empty if none has, or its caller has withdrawn it.
        worker: The subject of the worker that runs it.
        runs: How many workers have claimed it to run it, with this one.
        blob: What `data` is stored as, where it is too long for a message.
        data: The request or the answer; `None` for none. An answer without a `run` is one that refused the call.
        revision: The number of what is stored by its id.
    """

    inbox: str
    again: bool = False
    run: str = ""
    worker: str = ""
    runs: int = 0
    blob: str = ""
    data: bytes | None = field(default=None, repr=False)
    revision: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the call has run, and has an answer."""
        return bool(self.run) and self._has_data

    def is_answer_for(self, inbox: str) -> bool:
        """Whether this is the answer for a caller: of the call's run, or a refusal of what this caller has sent."""
        return self._has_data and (bool(self.run) or self.inbox == inbox)

    @property
    def _has_data(self) -> bool:
        return self.data is not None or bool(self.blob)

    @classmethod
    def read(cls, data: bytes, revision: int = 0) -> Record:
        """A record from the bytes of `write`, which anybody may have sent.

        Raises:
            ValueError: They are none.
        """
        head, end, rest = data.partition(b"\n")
        members: Any = strict_json(head)
        if not is_array(members) or [*map(type, members)] != _MEMBERS:
            raise ValueError("it is not a record of a call")
        record = cls(*members, data=rest if end else None, revision=revision)
        if not is_inbox(record.inbox) or (record.worker and not is_inbox(record.worker)):
            raise ValueError("its subjects are no inboxes")
        return record

    def write(self) -> bytes:
        """The record as bytes."""
        head = json.dumps([getattr(self, name) for name in _NAMES], separators=(",", ":")).encode()
        return head if self.data is None else b"%b\n%b" % (head, self.data)


_NAMES: Final = ("inbox", "again", "run", "worker", "runs", "blob")
_MEMBERS: Final = [str, bool, str, str, int, str]


class DamagedError(Error):
    """What JetStream stores of a call isn't what a worker has stored."""


class Store:
    """What JetStream stores for one prefix.

    Args:
        client: The client.
        settings: The settings.

    Attributes:
        client: As given.
    """

    def __init__(self, client: Client, settings: NatsSettings) -> None:
        self.client: Final = client
        self._js: Final[Any] = client.jetstream()  # pyright: ignore[reportUnknownMemberType]
        self._most: Final = client.max_payload - 1_024  # the rest is for the head, and what a client adds
        self._settings: Final = settings
        self._stream: Final = f"{settings.prefix}-calls"
        self._records: KeyValue
        self._blobs: ObjectStore

    async def open(self) -> None:
        """Creates what isn't there yet.

        Raises:
            Error: There is no JetStream, or it has something else of this name.
        """
        prefix, keep = self._settings.prefix, self._settings.keep
        queue = StreamConfig(
            name=self._stream,
            subjects=[f"{prefix}.queue.*.*"],
            retention=RetentionPolicy.WORK_QUEUE,
            max_age=keep,
            max_msgs_per_subject=1,  # a call is there once
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
        )
        await self._js.add_stream(queue)
        self._records = await self._js.create_key_value(KeyValueConfig(bucket=f"{prefix}-results", ttl=keep))
        self._blobs = await self._js.create_object_store(f"{prefix}-blobs", ObjectStoreConfig(ttl=keep))

    async def consumer(self, queue: str) -> None:
        """Creates what hands out the calls of a queue."""
        config = ConsumerConfig(
            durable_name=queue,
            filter_subject=f"{self._settings.prefix}.queue.{queue}.*",
            ack_wait=self._settings.dead_after,
            max_ack_pending=-1,
        )
        await self._js.add_consumer(self._stream, config)

    async def taking(self, queue: str) -> JetStreamContext.PullSubscription:
        """What takes calls from a queue."""
        return await self._js.pull_subscribe_bind(queue, self._stream)

    async def lengths(self) -> dict[str, int]:
        """How many calls wait in each queue; none if nothing was stored yet."""
        try:
            subjects = (await self._js.stream_info(self._stream, subjects_filter=">")).state.subjects or ()
            served = await self._js.consumers_info(self._stream)
        except NotFoundError:
            return {}
        stored = Counter(subject.split(".")[2] for subject in subjects)
        return {**stored, **{info.name: info.num_pending or 0 for info in served}}  # the latter without what runs

    async def send(self, queue: str, id_: str, record: Record) -> bool:
        """Puts a call into a queue; gives whether it wasn't there."""
        try:
            async with self._reopen_if_lost():
                await self._js.publish(self._subject(queue, id_), (await self._fit(record)).write())
        except APIError as error:
            if error.err_code == _ALREADY_THERE:
                return False
            raise
        return True

    async def queued(self, queue: str, id_: str) -> Record | None:
        """The call with this id in a queue, which is there until a worker has run it, or its caller has withdrawn it.

        Raises:
            DamagedError: It can't be read.
        """
        try:
            return Record.read((await self._js.get_last_msg(self._stream, self._subject(queue, id_))).data or b"")
        except NotFoundError:
            return None
        except ValueError:
            raise DamagedError(_CHANGED) from None

    async def withdraw(self, queue: str, id_: str, record: Record) -> bool:
        """Takes a call back, as it is in the queue, that no worker has claimed; gives whether that was so."""
        found = await self.claim(id_, attrs.evolve(record, blob="", data=None))
        if found is not None:
            return False
        await self._js.purge_stream(self._stream, subject=self._subject(queue, id_))
        return True

    async def give_up(self, id_: str, record: Record, answer: bytes) -> None:
        """Stores an answer by the id of a call of this caller that has none; a worker that still runs it replaces that.

        Raises:
            DamagedError: What is stored can't be read.
        """
        found = await self.find(id_)
        if found is not None and found.inbox == record.inbox and not found.is_over:
            await self.claim(id_, attrs.evolve(found, data=answer), found)

    async def find(self, id_: str) -> Record | None:
        """What is stored of a call by its id, or `None`.

        Raises:
            DamagedError: It can't be read.
        """
        try:
            entry = await self._records.get(id_)
            return Record.read(entry.value or b"", entry.revision or 0)
        except KeyNotFoundError:
            return None
        except ValueError:
            raise DamagedError(_CHANGED) from None

    async def claim(self, id_: str, record: Record, over: Record | None = None) -> Record | None:
        """Stores by its id that a call is run, or withdrawn.

        A try whose acknowledgement is lost is repeated, and then finds what it has stored: by its run, which no other
        claim has, or, for a withdrawal, which has none, by its caller's inbox.

        Args:
            id_: The call's id.
            record: What is stored.
            over: What may be there; a withdrawal or refusal of what another caller has sent always may.

        Returns:
            `None`, or what is there instead.

        Raises:
            DamagedError: What is there can't be read.
        """
        while True:
            try:
                async with self._reopen_if_lost():
                    if over is None:
                        await self._records.create(id_, record.write())
                    else:
                        await self._records.update(id_, record.write(), over.revision)
            except KeyWrongLastSequenceError:
                over = await self.find(id_)
            else:
                return None
            if over is not None and (over.run, over.inbox) == (record.run, record.inbox):
                return None  # it is this one
            if over is not None and (over.run or over.inbox == record.inbox):
                return over

    async def finish(self, id_: str, record: Record) -> None:
        """Stores the answer of a call by its id."""
        async with self._reopen_if_lost():
            await self._records.put(id_, (await self._fit(record)).write())

    async def load(self, record: Record) -> bytes:
        """The data of a record.

        Raises:
            DamagedError: It is missing, or was changed.
        """
        if not record.blob:
            return record.data or b""
        try:
            async with asyncio.timeout(_BLOB_SECONDS):
                found = (await self._blobs.get(record.blob)).data or b""
        except (Error, TimeoutError) as error:
            raise DamagedError(f"what was stored for it can't be read ({type(error).__name__})") from None
        if sha256(found).hexdigest() != record.blob.partition("-")[0]:
            raise DamagedError("what was stored for it was changed")
        return found

    @asynccontextmanager
    async def _reopen_if_lost(self) -> AsyncGenerator[None]:
        """Makes anew what the server has lost, for the next try of what failed in this block."""
        try:
            yield
        except NoStreamResponseError:
            await self.open()
            raise

    async def _fit(self, record: Record) -> Record:
        """The record, with its data stored apart if it is too long for a message."""
        if record.data is None or len(record.data) <= self._most:
            return record
        name = f"{sha256(record.data).hexdigest()}-{token_hex(16)}"
        await self._blobs.put(name, record.data)
        return attrs.evolve(record, blob=name, data=None)

    def _subject(self, queue: str, id_: str) -> str:
        return f"{self._settings.prefix}.queue.{queue}.{id_}"


async def lasting(operation: Callable[..., Awaitable[T]], *given: Any, seconds: float = _LONGEST_SECONDS) -> T:
    """Tries an operation again while the server is away.

    Raises:
        Error: It still is; a `TimeoutError` if any try may have succeeded, its acknowledgement being lost.
    """
    loop, doubt = asyncio.get_running_loop(), None
    until = loop.time() + seconds
    while True:
        try:
            return await operation(*given)
        except _AWAY as error:
            doubt = error if isinstance(error, TimeoutError) else doubt
            if loop.time() >= until:
                raise doubt or error from None
        await asyncio.sleep(_RETRY_SECONDS)


def id_of(key: str) -> str:
    """The id of a call with this key, of the characters that subjects may have."""
    return sha256(key.encode()).hexdigest()
