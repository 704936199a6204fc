"""A worker: the program of the processes that tests start and kill."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

from pegboard import Permissions
from pegboard.execution import LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS
from pegboard.worker import Worker
from pegboard_nats import JetStreamExecutor, NatsExecutor, NatsSettings


async def main(kind, settings, options):
    executor = {"nats": NatsExecutor, "jetstream": JetStreamExecutor}[kind](NatsSettings(**settings))
    worker = Worker(LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass")), **options)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
    serving = asyncio.create_task(executor.serve(worker))
    while worker.name not in {each.name for each in (await executor.status()).workers}:
        assert not serving.done(), serving
    print("ready", flush=True)  # noqa: T201  the test waits for it
    await serving
    await worker.executor.aclose()
    await executor.aclose()


asyncio.run(main(**json.loads(sys.argv[1])))
