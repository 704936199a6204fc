"""`serve`: takes the calls of a queue, as activities, and runs them by a `pegboard.worker.Worker`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import accumulate
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from attrs import define, field
from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.service import RPCError

from pegboard.errors import log_failure
from pegboard.json import strict_json
from pegboard.worker import RemoteCaller, Wire, Worker
from pegboard_temporal.link import LONGEST, connect, new_worker, refusal, result_of, started
from pegboard_temporal.payloads import MOST_INLINE, Payloads
from pegboard_temporal.settings import Settings

_ANSWER_SECONDS: Final = 20.0  # in which a caller has to take a message
_MOST_AT_ONCE: Final = 256  # events in one message
_PAUSE: Final = 0.2  # seconds between messages with events: each is an activity
PREFIX: Final = "pegboard-"
"""Of Temporal's names of queues."""
_ANNOUNCEMENT: Final = "pegboard-worker"


async def serve(settings: Settings, wire: Wire, payloads: Payloads, worker: Worker) -> None:
    """Takes the calls of the worker's queue until it stops, and those that run have ended.

    Raises:
        ConnectionError: The server can't be reached, or refuses.
    """
    client = await connect(settings, f"{worker.name}/{worker.max_concurrency}")

    async def run(args: Sequence[RawValue]) -> RawValue:
        if activity.info().activity_type == _ANNOUNCEMENT:
            return await payloads.write(b"{}", "")
        key, (header, request) = activity.info().activity_id.partition(".")[0], args
        token, queue, is_watched = strict_json(header.payload.data)
        line = _Line(client, settings, payloads, key, token, queue)
        with beating(settings):
            caller = RemoteCaller(wire, line.tell if is_watched else None, line.ask)
            answer = await worker.run(await _read_request(payloads, request, key), caller)
            return await payloads.write(answer, key)

    has_failed = asyncio.Event()

    async def note(_: BaseException) -> None:
        has_failed.set()

    serving = new_worker(
        client,
        f"{PREFIX}{worker.queue}",
        run,
        max_concurrent_activities=worker.max_concurrency,
        graceful_shutdown_timeout=LONGEST,
        on_fatal_error=note,
        max_heartbeat_throttle_interval=timedelta(seconds=settings.heartbeat / 4),
    )
    try:
        async with serving:
            await _announce(client, worker.queue)
            worker.started.set()
            await worker.stopping.wait()
    except (asyncio.CancelledError, RPCError, RuntimeError) as error:  # the SDK's texts have names and addresses
        # A worker of the SDK that failed cancels this task at its end; it raises why only where the block still runs.
        task = asyncio.current_task()
        is_over = serving.is_shutdown and (has_failed.is_set() or isinstance(error, RuntimeError))
        others = task.uncancel() if task is not None and is_over else 0
        if isinstance(error, asyncio.CancelledError) and (others or not is_over):
            raise
        why = refusal(error.status) if isinstance(error, RPCError) else "the Temporal server takes no worker any more"
        raise ConnectionError(why) from None


async def _announce(client: Client, queue: str) -> None:
    """Sends an activity to the worker's queue: a server lists queues only by what was sent to them."""
    place, limit = f"{PREFIX}{queue}", timedelta(minutes=1)
    await client.start_activity(_ANNOUNCEMENT, id=uuid4().hex, task_queue=place, schedule_to_close_timeout=limit)


@contextmanager
def beating(settings: Settings) -> Generator[None]:
    """Context in which an activity sends heartbeats, from a third of their limit on.

    By them the server hears that the process lives, and the process whether the activity is cancelled.
    """

    async def beat() -> None:
        while True:
            await asyncio.sleep(settings.heartbeat / 3)
            activity.heartbeat()

    beats = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        beats.cancel()


async def _read_request(payloads: Payloads, request: RawValue, key: str) -> bytes:
    try:
        return await payloads.read(request, key)
    except ValueError as error:
        log_failure("reading a request", error)
        return b""  # the worker answers that it can't be read


@define(eq=False)
class _Line:
    """The way from one call to its caller: activities in the caller's queue, as the caller has no other address.

    Attributes:
        token: What the caller knows the call by; secret.
        queue: Temporal's name of the caller's queue.
    """

    client: Client
    settings: Settings
    payloads: Payloads
    key: str
    token: str
    queue: str
    _next_at: float = field(default=0.0, init=False)  # when events may be sent again

    async def tell(self, events: Sequence[bytes]) -> None:
        """Sends events."""
        while events:
            await asyncio.sleep(self._next_at - monotonic())
            sizes = accumulate(len(event) for event in events[:_MOST_AT_ONCE])
            number = max(sum(size < MOST_INLINE for size in sizes), 1)
            await self._send(events[:number])
            events, self._next_at = events[number:], monotonic() + _PAUSE

    async def ask(self, question: bytes) -> bytes:
        """The reply to a question."""
        return await self.payloads.read(await self._send([question]), self.key)

    async def _send(self, messages: Sequence[bytes]) -> RawValue:
        payloads = [await self.payloads.write(message, self.key) for message in messages]
        place: Any = {"id": uuid4().hex, "task_queue": self.queue, "wait": _ANSWER_SECONDS}
        async with started(self.client, self.settings, "pegboard-message", self.token, *payloads, **place) as handle:
            return await result_of(handle)
