"""A Temporal server for a session's tests, and workers of it in processes of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pegboard_temporal import Settings, TemporalExecutor

sys.path.insert(0, str(Path(__file__).parent))  # `lasting_tools`, `caller_program`
WORKER = Path(__file__).with_name("worker_program.py")
PATIENCE = {"heartbeat": 6.0, "wait": 120.0}  # seconds; a busy machine's server answers late


class Server:
    """A development server on a free port, with its data in a file, so that another one can go on."""

    def __init__(self, folder, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.data = str(folder / "temporal.sqlite")
        self.log = folder / "server.log"
        self.options = options
        self.start()

    def start(self):
        binary = Path(sys.executable).with_name("temporal")
        found = str(binary) if binary.exists() else shutil.which("temporal")
        place = ["--ip", "127.0.0.1", "--port", str(self.port), "--headless", "--db-filename", self.data]
        with self.log.open("ab") as log:
            command = [found, "server", "start-dev", *place, "--log-level", "error", *self.options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Workers:
    """Worker processes of one server; one that dies is replaced while they are kept."""

    def __init__(self, server, queue="default", heartbeat=6.0, *options):
        self.command = [sys.executable, str(WORKER), server.address, queue, f"{heartbeat}", *options]

    @contextlib.contextmanager
    def kept(self):
        """Context in which there is one; gives the function that returns its process."""
        running, over = [subprocess.Popen(self.command)], threading.Event()

        def keep():
            while not over.is_set():
                running[0].wait()
                if not over.is_set():
                    running[0] = subprocess.Popen(self.command)

        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield lambda: running[0]
        finally:
            over.set()
            running[0].terminate()
            keeper.join()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("temporal"))
    yield made
    made.kill()


@pytest.fixture(scope="session")
def worker(server):
    """The function that returns the process of the worker that there is."""
    with Workers(server).kept() as process:
        yield process


@pytest.fixture
def start(server):
    """Starts an executor, as `check_executor` needs it."""

    @contextlib.asynccontextmanager
    async def start(**settings):
        made = TemporalExecutor(Settings(address=server.address, **{**PATIENCE, **settings}))
        try:
            yield made
        finally:
            await made.aclose()

    return start
