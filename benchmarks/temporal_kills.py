"""What `kill -9` of a worker, a caller or the server at a random moment leaves of calls by Temporal.

python benchmarks/temporal_kills.py --rounds 100

In each round a process sends four calls, two of them of an idempotent tool, and one process is killed: the worker, the
server, or the caller, whose calls another process then sends again. Prints what was found, with each fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/pegboard-temporal/tests"))
QUEUE, HEARTBEAT, WAIT, PATIENCE = "killed", 5.0, 90.0, 300.0  # seconds, but for the name
PROCESSES = multiprocessing.get_context("forkserver")


def send(address: str, calls: list[tuple[str, str, dict[str, Any]]], output: str) -> None:
    """Sends calls, and writes the key, kind and text of each."""
    from caller_program import CONTEXT, registry_for

    from pegboard import ToolCall
    from pegboard_temporal import TemporalExecutor

    keys = dict[str, str | None]()

    class Recording(TemporalExecutor):
        """Keeps the keys of its calls."""

        async def execute_tool(self, call: Any) -> Any:
            keys[call.request.call_id] = call.request.key
            return await super().execute_tool(call)

    async def main() -> list[list[str | None]]:
        async with registry_for(address, QUEUE, Recording, heartbeat=HEARTBEAT, wait=WAIT) as registry:
            made = [ToolCall(name, arguments, call_id) for name, call_id, arguments in calls]
            results = (await registry.dispatch(made, context=CONTEXT)).results
        return [[keys.get(call.id), result.kind, result.text] for call, result in zip(made, results, strict=True)]

    Path(output).write_text(json.dumps(asyncio.run(main())), encoding="utf-8")


def run_round(number: int, chance: random.Random, server: Any, worker: Any, folder: Path) -> list[tuple[Any, ...]]:
    """One round; returns of each call (victim, tool, kind, starts, ends, key), and raises if there is no outcome."""
    victim = chance.choice(("worker", "caller", "server"))
    calls = [
        (
            name,
            f"toolu_{number}_{index}",
            {"file": str(folder / f"{number}-{index}"), "seconds": chance.uniform(0.1, 2)},
        )
        for index, name in enumerate(("work", "work_again") * 2)
    ]
    output = folder / f"{number}.json"
    arguments = server.address, calls, str(output)
    caller = PROCESSES.Process(target=send, args=arguments)
    caller.start()
    time.sleep(chance.uniform(0.1, 4))
    if victim == "worker":
        worker().kill()
    elif victim == "server":
        server.kill()
        server.start()
    else:
        caller.kill()
        caller.join()
        if not output.exists():  # else it had ended
            caller = PROCESSES.Process(target=send, args=arguments)
            caller.start()
    caller.join(PATIENCE)
    if caller.is_alive():
        caller.kill()
        raise TimeoutError(f"round {number}, {victim} killed: no outcome within {PATIENCE:g} s")
    if not output.exists():
        raise RuntimeError(f"round {number}, {victim} killed: the caller ended with {caller.exitcode}")
    rows = list[tuple[Any, ...]]()
    for (name, _, given), (key, kind, text) in zip(calls, json.loads(output.read_text()), strict=True):
        lines = Path(given["file"]).read_text().splitlines() if Path(given["file"]).exists() else []
        if kind is None and text != "done":
            raise RuntimeError(f"round {number}: a wrong result, {text!r}")
        rows.append((victim, name, kind, lines.count("started"), lines.count("ended"), key))
    if caller.exitcode and victim != "caller":
        raise RuntimeError(f"round {number}: the caller ended with {caller.exitcode}")
    return rows


async def stored(address: str, keys: list[str | None]) -> list[str | None]:
    """The server's status of each activity."""
    from temporalio.service import RPCError

    from pegboard_temporal import Settings
    from pegboard_temporal.link import connect

    client, found = await connect(Settings(address=address)), list[str | None]()
    for key in keys:
        try:
            found.append(None if key is None else (await client.get_activity_handle(key).describe()).status.name)
        except RPCError:
            found.append(None)
    return found


def main() -> None:
    """Runs the rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    PROCESSES.set_forkserver_preload(["temporalio.worker", "temporalio.testing", "pegboard_temporal.executor"])
    from conftest import Server, Workers

    chance, outcomes, faults = random.Random(options.seed), Counter[tuple[Any, ...]](), list[str]()
    with tempfile.TemporaryDirectory() as made:
        server = Server(Path(made))
        with Workers(server, QUEUE, HEARTBEAT).kept() as worker:
            for number in range(options.rounds):
                try:
                    rows = run_round(number, chance, server, worker, Path(made))
                except (TimeoutError, RuntimeError) as error:
                    faults.append(f"{error}")
                    print(faults[-1], flush=True)
                    continue
                for row, status in zip(
                    rows, asyncio.run(stored(server.address, [row[-1] for row in rows])), strict=True
                ):
                    victim, name, kind, starts, ends, _ = row
                    outcomes[victim, name, kind] += 1
                    if name == "work" and starts > 1:
                        faults.append(f"round {number}, {victim} killed: ran {starts} times")
                    if (status == "COMPLETED" and kind is not None) or (kind is None and not ends):
                        faults.append(f"round {number}, {victim} killed: {name} is {status}, the caller has {kind}")
                    if kind == "not_executed" and starts:
                        faults.append(f"round {number}, {victim} killed: {name} ran, the caller has {kind}")
                print(number, [row[:5] for row in rows], flush=True)
        server.kill()
    for (victim, name, kind), count in sorted(outcomes.items(), key=str):
        print(f"{victim:8}{name:12}{kind or 'result':18}{count:5}")
    print(f"{options.rounds} rounds, {sum(outcomes.values())} calls, {len(faults)} faults", *faults, sep="\n")


if __name__ == "__main__":
    main()
