"""What a call by Temporal costs, beside a bare standalone activity in the same run, in turns.

python benchmarks/temporal_calls.py --calls 50 --rounds 4

Prints milliseconds of processor time a call: of the caller, the worker and the server. Rows between the bare activity
and ours have a part of ours: what a row costs more than the one above it is what its part costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue, RetryPolicy

from pegboard import Permissions, Policy, ToolRegistry, tool_of
from pegboard.execution import ExecutionRequest, ExecutorCall, LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS
from pegboard.worker import RemoteCaller, SentCall, Worker
from pegboard_temporal import Settings, TemporalExecutor
from pegboard_temporal.link import Link, connect, new_worker
from pegboard_temporal.serving import beating

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/pegboard-temporal/tests"))
HEARTBEAT = 60.0  # seconds; a busy server may lose a task on the way to its worker, which shows after this
TICKS = os.sysconf("SC_CLK_TCK")
ADD = next(tool for tool in map(tool_of, EXECUTOR_TOOLS) if tool is not None and tool.name == "check_add_async")


async def serve_bare(address: str, beats: bool) -> None:
    """A worker of bare activities, with heartbeats or without."""
    settings = Settings(address=address, heartbeat=HEARTBEAT)

    async def run(args: Sequence[RawValue]) -> RawValue:
        del args
        with beating(settings) if beats else nullcontext():
            return RawValue(activity.payload_converter().to_payload({"result": 3}))

    async with new_worker(await connect(settings), f"bare-{beats}", run):
        await asyncio.Event().wait()


async def bare(client: Client, queue: str, **options: Any) -> None:
    """One bare activity."""
    arguments = {"tool": "check_add_async", "arguments": {"a": 1, "b": 2}}
    handle = await client.start_activity(
        "add", arguments, id=uuid4().hex, task_queue=queue, start_to_close_timeout=timedelta(minutes=5), **options
    )
    assert await handle.result() == {"result": 3}


async def ours(registry: ToolRegistry) -> None:
    """One call by Temporal."""
    assert (await registry.call("check_add_async", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def kit(worker: Worker) -> None:
    """What the kit does on both sides, without a transport."""
    sent = SentCall(ExecutorCall(ADD, ExecutionRequest(tool=ADD.name, arguments={"a": 1, "b": 2}, timeout=60.0)))
    assert sent.response(await worker.run(sent.request, RemoteCaller())).structured_content == {"result": 3}


def used(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measure(kinds: dict[str, tuple[Callable[[], Awaitable[None]], int]], server: int, options: Any) -> None:
    """Calls each kind in turns, one at a time and many at once."""
    found = defaultdict[tuple[str, str], list[tuple[float, float, float, float]]](list)
    for number in range(options.rounds + 1):
        for name, (call, worker) in kinds.items():
            for how in ("one at a time", "all at once"):
                before = time.process_time(), used(worker), used(server), time.perf_counter()
                if how == "one at a time":
                    for _ in range(options.calls):
                        await call()
                else:
                    await asyncio.gather(*(call() for _ in range(options.calls)))
                after = time.process_time(), used(worker), used(server), time.perf_counter()
                if number:  # the first warms up
                    row = tuple(1000 * (b - a) / options.calls for a, b in zip(before, after, strict=True))
                    found[how, name].append(row)  # pyright: ignore[reportArgumentType]
    for (how, name), rows in sorted(found.items()):
        caller, worker, engine, wall = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{how:14}{name:34} caller {caller:6.2f}  worker {worker:6.2f}  server {engine:6.1f}  wall {wall:6.1f}")


async def main(options: Any) -> None:
    """Starts the server and the workers, and measures."""
    from conftest import Server, Workers

    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        settings = Settings(address=server.address, wait=300.0, heartbeat=HEARTBEAT)
        client, link = await connect(settings), Link(settings, lambda _: asyncio.sleep(0))  # pyright: ignore[reportArgumentType]
        commands = [[sys.executable, __file__, "--bare", server.address, *more] for more in ([], ["--beats"])]
        plain, beating_worker = await asyncio.to_thread(lambda: [subprocess.Popen(each) for each in commands])
        beats = {"heartbeat_timeout": timedelta(seconds=HEARTBEAT), "retry_policy": RetryPolicy(maximum_attempts=1)}
        with Workers(server, "default", HEARTBEAT).kept() as worker:
            async with ToolRegistry() as registry:
                registry.register(ADD.evolve(policy=Policy(executor="temporal")))
                registry.add("executors", "temporal", TemporalExecutor(settings))
                await ours(registry)  # the workers have started
                own = Worker(LocalExecutor([ADD], permissions=Permissions(mode="bypass")))
                here = ToolRegistry()
                here.register(ADD)
                kinds: dict[str, tuple[Callable[[], Awaitable[None]], int]] = {
                    "0 bare": (partial(bare, client, "bare-False"), plain.pid),
                    "1 bare, from a thread of its own": (
                        lambda: link.run(lambda other: bare(other, "bare-False")),
                        plain.pid,
                    ),
                    "2 and with heartbeats": (
                        lambda: link.run(lambda other: bare(other, "bare-True", **beats)),
                        beating_worker.pid,
                    ),
                    "3 ours": (partial(ours, registry), worker().pid),
                    "4 only the kit, both sides here": (partial(kit, own), plain.pid),
                    "5 only the registry, the tool here": (partial(ours, here), plain.pid),
                }
                await measure(kinds, server.process.pid, options)
        plain.kill()
        beating_worker.kill()
        link.close()
        server.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--bare", metavar="ADDRESS")
    parser.add_argument("--beats", action="store_true")
    chosen = parser.parse_args()
    asyncio.run(main(chosen) if chosen.bare is None else serve_bare(chosen.bare, chosen.beats))
