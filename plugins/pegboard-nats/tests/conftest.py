"""A NATS server that the tests of a file share, and workers of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nats_running import PATIENCE, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server, for the tests of a file."""
    made = Server(tmp_path_factory.mktemp("nats"))
    yield made
    made.kill()


@pytest.fixture
def serving(server):
    """Serves a worker in this process."""

    @asynccontextmanager
    async def serving(executor, worker):
        task = asyncio.create_task(executor.serve(worker))
        async with asyncio.timeout(PATIENCE):
            while worker.name not in {each.name for each in (await executor.status()).workers}:
                assert not task.done(), task
        try:
            yield worker
        finally:
            worker.stopping.set()
            await task

    return serving
