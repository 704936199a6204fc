"""NATS servers and workers in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from pegboard_nats import JetStreamExecutor, NatsExecutor, NatsSettings

SERVER = shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
PATIENCE = 60.0
KINDS = {"nats": NatsExecutor, "jetstream": JetStreamExecutor}


class Server:
    """A NATS server on a free port, whose files are kept when it is killed."""

    def __init__(self, folder, *options):
        self.folder, self.options, self.process = folder, options, None
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
        command = [SERVER, "-a", "127.0.0.1", "-p", f"{self.port}", "-js", "-sd", f"{self.folder}", *self.options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as link:
                if link.recv(4) == b"INFO":
                    return
            time.sleep(0.01)
        raise AssertionError("the NATS server doesn't start")

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
