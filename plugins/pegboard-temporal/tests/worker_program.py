"""Worker of the tests: `worker_program.py ADDRESS QUEUE HEARTBEAT [FOLDER]`; SIGTERM ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lasting_tools import TOOLS

from pegboard import Permissions
from pegboard.execution import LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS
from pegboard.worker import Worker
from pegboard_temporal import Settings, TemporalExecutor


async def main(address: str, queue: str, heartbeat: str, folder: str | None = None) -> None:
    worker = Worker(LocalExecutor([*EXECUTOR_TOOLS, *TOOLS], permissions=Permissions(mode="bypass")), queue)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
    await TemporalExecutor(Settings(address=address, folder=folder, heartbeat=float(heartbeat))).serve(worker)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
