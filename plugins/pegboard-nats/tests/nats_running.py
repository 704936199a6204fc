"""NATS servers and workers in processes of their own; workers and callers in this one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pegboard import Permissions, Policy, ToolRegistry, tool_of
from pegboard.execution import LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS, executors as suite
from pegboard.worker import Worker
from pegboard_nats import JetStreamExecutor, NatsExecutor, NatsSettings

SERVER = shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
PATIENCE = 60.0
KINDS = {"nats": NatsExecutor, "jetstream": JetStreamExecutor}


class Server:
    """A NATS server on a free port, whose files are kept when it is killed."""

    def __init__(self, folder, *options, jetstream=True):
        self.folder, self.process = folder, None
        self.options = ["-js", "-sd", f"{folder}", *options] if jetstream else options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def settings(self, **changes):
        return NatsSettings(**{"servers": self.url, "synced": True, "wait": 5, "dead_after": 3, **changes})

    def start(self):
        command = [SERVER, "-a", "127.0.0.1", "-p", f"{self.port}", *self.options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as link:
                if link.recv(4) == b"INFO":
                    return
            time.sleep(0.01)
        raise AssertionError("the NATS server doesn't start")

    def configure(self, file, text):
        """Makes it read its file of settings again."""
        file.write_text(text)
        self.process.send_signal(signal.SIGHUP)

    def kill(self):
        self.process.kill()
        self.process.wait()


class WorkerProcess:
    """A worker in a process of its own, with the tools of `check_executor`."""

    def __init__(self, kind, settings, **options):
        facts = {"kind": kind, "settings": settings, "options": options}
        command = [sys.executable, str(Path(__file__).with_name("worker_program.py")), json.dumps(facts)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def wait(self):
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.stdout.close()
        return self.process.wait()


class Engine:
    """What the checks of executors may do to a server and its worker, which is started again when it dies."""

    def __init__(self, kind, server, settings, **options):
        self.server, self.made = server, lambda: WorkerProcess(kind, settings, **options)
        self.caller = {"executor": kind, "settings": {"nats": settings}}
        self.worker, self.over = self.made().wait(), threading.Event()
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()

    def keep(self):
        while not self.over.is_set():
            worker = self.worker
            worker.process.wait()
            worker.process.stdout.close()
            if worker is self.worker and not self.over.is_set():
                self.worker = self.made().wait()

    async def kill_worker(self):
        killed = self.worker
        killed.process.kill()
        await asyncio.to_thread(killed.process.wait)

    async def start_worker(self):
        await asyncio.to_thread(self.wait_for_worker)

    def wait_for_worker(self):
        until = time.monotonic() + PATIENCE
        while self.worker.process.poll() is not None:
            assert time.monotonic() < until
            time.sleep(0.01)  # until the keeper has started another one

    async def kill_server(self):
        await asyncio.to_thread(self.server.kill)

    async def start_server(self):
        await asyncio.to_thread(self.server.start)

    def stop(self):
        """Stops the worker; gives its exit code."""
        self.over.set()
        code = self.worker.kill(signal.SIGTERM)
        self.keeper.join()
        return code


def worker(**options):
    """A worker in this process."""
    return Worker(LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass")), **options)


@asynccontextmanager
async def calling(executor, **policy):
    """A registry whose tools run in this executor."""
    async with ToolRegistry() as registry:
        for each in EXECUTOR_TOOLS:
            changed = {"executor": "far", "timeout": PATIENCE, **policy}
            registry.register(tool_of(each).evolve(policy=Policy(**changed)))
        registry.add("executors", "far", executor)
        yield registry


async def until_there(file, times=1):
    """Waits until tools have written to a file."""
    async with asyncio.timeout(PATIENCE):
        while len(suite.effects_in(str(file))) < times:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.01)
