"""Calls over NATS beside bare requests and replies: processor time a call of client, worker and server, in one run.

python benchmarks/remote_calls.py [CALLS]
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nats

from pegboard import Permissions, Policy, ToolRegistry, tool, tool_of
from pegboard.execution import ExecutionRequest, ExecutionResponse, LocalExecutor
from pegboard.worker import RemoteCaller, SentCall, Worker
from pegboard_nats import JetStreamExecutor, NatsExecutor, NatsSettings

KINDS = {"nats": NatsExecutor, "jetstream": JetStreamExecutor}
WIDTHS = (1, 50)


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def settings(url, kind):
    return NatsSettings(servers=url, prefix=kind, synced=True, wait=60, dead_after=60)


async def work(url):
    """The worker's process: bare replies, and workers of both executors."""
    client = await nats.connect(url)

    async def reply(message):
        await message.respond(message.data)

    await client.subscribe("bare", cb=reply)
    local = LocalExecutor([add], permissions=Permissions(mode="bypass"))
    serving = [
        asyncio.create_task(kind(settings(url, name)).serve(Worker(local, max_concurrency=50)))
        for name, kind in KINDS.items()
    ]
    print("ready", flush=True)
    await asyncio.gather(*serving)


class InProcess:
    """Both sides in one process: what a call costs without a transport."""

    def __init__(self):
        self.worker = Worker(LocalExecutor([add], permissions=Permissions(mode="bypass")))

    async def execute_tool(self, call):
        sent = SentCall(call)
        return sent.response(await self.worker.run(sent.request, RemoteCaller(ask=sent.handle)))


class Nowhere:
    """No far side: what a call costs its caller's registry."""

    async def execute_tool(self, call):
        ExecutionRequest.to_json(call.request)
        return ExecutionResponse(output='{"result": 3}', structured_content={"result": 3})


def seconds_of(process):
    """The processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(call, number, width, processes):
    """Milliseconds of each process for one call, and calls a second."""
    await call()
    before, began = [seconds_of(each) for each in processes], time.perf_counter()
    left = iter(range(number))

    async def repeat():
        for _ in left:
            await call()

    await asyncio.gather(*(repeat() for _ in range(width)))
    took = time.perf_counter() - began
    spent = [(seconds_of(each) - earlier) / number * 1e3 for each, earlier in zip(processes, before, strict=True)]
    return spent, number / took


async def ignore(_error):
    """The server takes a moment to start."""


async def main(number):
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        url = f"nats://127.0.0.1:{port}"
        binary = Path(sys.executable).with_name("nats-server")
        command = [binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: ASYNC220  at the start
        worker = None
        try:
            client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=ignore)
            worker = subprocess.Popen([sys.executable, __file__, "--worker", url], stdout=subprocess.PIPE)  # noqa: ASYNC220
            worker.stdout.readline()
            await compare(client, url, number, [os.getpid(), worker.pid, server.pid])
        finally:
            for process in filter(None, (worker, server)):
                process.kill()
                process.wait()


async def compare(client, url, number, processes):
    made = {name: kind(settings(url, name)) for name, kind in KINDS.items()}
    calls = {"bare request and reply": lambda: client.request("bare", b'{"a":1,"b":2}', timeout=60)}
    for name, executor in {**made, "both sides in one process": InProcess(), "caller only": Nowhere()}.items():
        registry = ToolRegistry()
        registry.register(tool_of(add).evolve(policy=Policy(executor="far")))
        registry.add("executors", "far", executor)

        async def call(registry=registry):
            result = await registry.call("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}, result

        calls[name] = call
    print("| what | in flight | client | worker | server | in all | calls/s |\n|---|---|---|---|---|---|---|")
    for _ in range(2):
        for name, call in calls.items():
            for width in WIDTHS:
                spent, rate = await measure(call, number if width > 1 else number // 2, width, processes)
                cells = " | ".join(f"{each:.2f}" for each in (*spent, sum(spent)))
                print(f"| {name} | {width} | {cells} | {rate:,.0f} |", flush=True)
    for executor in made.values():
        await executor.aclose()
    await client.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        asyncio.run(work(sys.argv[2]))
    else:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
