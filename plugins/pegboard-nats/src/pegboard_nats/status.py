"""What the workers of a server do, as they tell it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from nats.aio.client import Client

from pegboard.worker import ExecutorStatus, Worker, WorkerInfo
from pegboard_nats.connection import subscribe

_ANSWER_SECONDS: Final = 1.0
_MOST_WORKERS: Final = 10_000


def report_of(worker: Worker, taken: int) -> bytes:
    """What a worker tells of itself: it has taken so many calls, of which it runs some."""
    calls, running = worker.running.items(), dict[str, str]()
    for number, request in calls:
        name = request.call_id or request.key or f"{number}"
        running[f"{name} ({number})" if name in running else name] = request.tool  # ids of other sessions may be equal
    info = WorkerInfo(name=worker.name, queue=worker.queue, max_concurrency=worker.max_concurrency, running=running)
    return json.dumps({"worker": info.to_json(), "waiting": taken - len(calls)}).encode()


async def status_of(client: Client, workers_subject: str, lengths: Mapping[str, int] | None = None) -> ExecutorStatus:
    """What all workers tell within a second; an answer that is invalid is left out.

    Args:
        client: The client.
        workers_subject: Their subject.
        lengths: How many calls wait in each queue, where the server knows that.
    """
    inbox = client.new_inbox()
    found = await subscribe(client, inbox)
    await client.publish(workers_subject, reply=inbox)
    workers, waiting = list[WorkerInfo](), dict[str, int](lengths or {})
    with suppress(TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            async for message in found.messages:
                if len(workers) >= _MOST_WORKERS:
                    break
                with suppress(ValueError, LookupError, TypeError):
                    data: Any = json.loads(message.data)
                    worker, more = WorkerInfo.from_json(data["worker"]), data["waiting"]
                    workers.append(worker)
                    if lengths is None and isinstance(more, int):
                        waiting[worker.queue] = waiting.get(worker.queue, 0) + more
    await found.unsubscribe()
    return ExecutorStatus(workers=tuple(sorted(workers, key=lambda each: (each.queue, each.name))), queues=waiting)
