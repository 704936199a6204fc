"""Worker of the tests: `worker_program.py ADDRESS FOLDER`; SIGTERM ends it."""

from __future__ import annotations

import asyncio
import signal
import sys

from pegboard import Permissions
from pegboard.execution import LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS
from pegboard.worker import Worker
from pegboard_temporal import Settings, TemporalExecutor


async def main(address: str, folder: str | None = None) -> None:
    worker = Worker(LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass")))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
    await TemporalExecutor(Settings(address=address, folder=folder, heartbeat=6.0)).serve(worker)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
