"""Kills a worker, a caller or the server of JetStream at a random moment of each call, and counts what became of it.

python kill_rounds.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import attrs
from nats_running import Engine, Server

from pegboard import ReadonlyContext, ToolRegistry
from pegboard.testing import EXECUTOR_TOOLS
from pegboard_nats import JetStreamExecutor

WAVE = 10  # calls that share one server, its worker and one killing
LONGEST = 90.0  # seconds for a call


async def call(registry, file, number):
    context = ReadonlyContext(user="ann", session="kill", message="m")
    return await registry.call("check_slow", {"file": str(file)}, context, call_id=f"toolu_{number}")


def registry_of(executor):
    """A registry with a tool that isn't idempotent, and notes when it begins."""
    registry = ToolRegistry()
    (slow,) = (each for each in EXECUTOR_TOOLS if each.name == "check_slow")
    registry.register(slow.evolve(policy=attrs.evolve(slow.policy, executor="far", timeout=LONGEST)))
    registry.add("executors", "far", executor)
    return registry


async def caller(settings, files, first):
    """The program of a caller that may be killed: makes its calls side by side, and prints their kinds."""
    registry = registry_of(JetStreamExecutor(settings))
    results = await asyncio.gather(*(call(registry, file, first + at) for at, file in enumerate(files)))
    print(json.dumps([result.kind for result in results]), flush=True)  # noqa: T201  for the rounds
    await registry.aclose()


class Rounds:
    """Waves of calls; in each one, one process is killed."""

    def __init__(self, server, prefix, folder):
        self.server, self.settings, self.folder = server, server.settings(prefix=prefix, wait=30, dead_after=3), folder
        facts = {"servers": server.url, "prefix": prefix, "synced": True, "wait": 30, "dead_after": 3}
        self.facts, self.engine = facts, Engine("jetstream", server, facts, max_concurrency=WAVE)
        self.counts, self.faults, self.number = Counter(), list[str](), 0

    async def wave(self):
        victim = random.choice(("worker", "caller", "server"))
        files = [self.folder / f"{self.number + at}" for at in range(WAVE)]
        given = json.dumps([self.facts, [str(file) for file in files], self.number])
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--caller", given, stdout=asyncio.subprocess.PIPE
        )
        while not any(file.exists() for file in files) and process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await asyncio.sleep(random.uniform(0, 0.3))
        if victim == "worker":
            await self.engine.kill_worker()
            await self.engine.start_worker()
        elif victim == "server":
            await self.engine.kill_server()
            await self.engine.start_server()
        elif process.returncode is None:
            process.kill()
        printed = (await process.communicate())[0]
        kinds = json.loads(printed) if printed else await self.again(files)
        for file, kind in zip(files, kinds, strict=True):
            runs = file.read_text().splitlines().count("began") if file.exists() else 0
            self.counts[victim, f"{kind or 'result'}, {runs} runs"] += 1
            is_right = runs <= 1 and (kind == "unknown_outcome" or (kind is None) == (runs == 1))
            if not is_right:
                self.faults.append(f"{victim}: {kind}, {runs} runs")
        self.number += WAVE

    async def again(self, files):
        """The outcomes of calls whose caller was killed: the same calls, sent again by another process."""
        self.counts["caller", "sent again"] += len(files)
        registry = registry_of(JetStreamExecutor(self.settings))
        calls = [call(registry, file, self.number + at) for at, file in enumerate(files)]
        async with asyncio.timeout(LONGEST):
            results = await asyncio.gather(*calls)
        await registry.aclose()
        return [result.kind for result in results]


async def main(rounds):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder, "jetstream"))
        made = Rounds(server, "kill", Path(folder))
        try:
            while made.number < rounds:
                await made.wave()
                print(made.number, round(time.monotonic() - began), dict(made.counts), made.faults, flush=True)  # noqa: T201
        finally:
            made.engine.stop()
            server.kill()
    print(f"{made.number} calls, {len(made.faults)} faults, {time.monotonic() - began:.0f} s")  # noqa: T201
    return bool(made.faults)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--caller"]:
        from pegboard_nats import NatsSettings

        facts, files, first = json.loads(sys.argv[2])
        asyncio.run(caller(NatsSettings(**facts), files, first))
    else:
        sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)))
