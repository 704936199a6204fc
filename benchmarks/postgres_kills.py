"""Kills processes that share pegboard-postgres, at random moments, and counts what became of their calls.

    python benchmarks/postgres_kills.py --rounds 1000

In each round, two processes run ten approved calls of a tool that isn't idempotent, each with one of three keys. After
up to nine of these have begun, one process is killed, and another takes its place; in every 25th round, the server is
killed, too. They go on until no call waits. Then each call has to have an outcome, no call may have run twice, and no
two calls of one key at once. The processes note on the machine's clock when the tool begins and ends; what a killed one
began ends with the signal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import psycopg  # noqa: F401  imported once, before the processes are forked

from pegboard import Concurrency, Once, ReadonlyContext, ToolCall, ToolContext, ToolRegistry, tool
from pegboard.approval import PendingCalls, ask_later
from pegboard.backends import LockBackend
from pegboard_postgres import Database, PostgresGrants, PostgresLocks, PostgresPendingCalls
from postgres_server import PostgresServer

CALLS, KEYS, MOST_DELAY, SERVER_ROUNDS = 10, 3, 0.02, 25
MOST_SECONDS = 60.0


class Notes:
    """What the processes of one round note: a line each, written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, **facts) -> None:
        line = json.dumps({"at": time.monotonic_ns(), "pid": os.getpid(), **facts})
        os.write(self.file, f"{line}\n".encode())

    def read(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def host(url: str, notes: Notes, session: str, *, seeds: bool) -> None:
    """One process: runs the calls that wait until there are none."""
    database = Database(url, seconds=10.0)

    @tool(requires_confirmation=True, concurrency=Concurrency("key", ("key",)), idempotent=False)
    async def work(context: ToolContext, number: int, key: str) -> str:
        """Work."""
        notes.add(event="begin", call=number, key=key, token=context.fencing_token)
        try:
            await asyncio.sleep(random.uniform(0, 0.01))
        finally:
            notes.add(event="end", call=number, key=key)
        return f"{number}"

    async def main() -> None:
        inbox, context = PostgresPendingCalls(database), ReadonlyContext(user="u", session=session)
        registry = ToolRegistry(grants=PostgresGrants(database), approver=ask_later)
        registry.register(work)
        registry.provide(LockBackend, PostgresLocks(database))
        if seeds:
            calls = [
                ToolCall("work", {"number": number, "key": f"k{number % KEYS}"}, f"c{number}")
                for number in range(CALLS)
            ]
            outcome = await registry.dispatch(calls, context=context)
            await inbox.save(outcome.pending)
            notes.add(event="seeded")

        async def serve() -> None:
            while True:
                try:
                    waiting = await inbox.waiting(user="u", session=session)
                    if not waiting.calls:
                        return
                    call = random.choice(waiting.calls)
                    outcome = await registry.resume(PendingCalls((call,)), {call.id: Once()}, context=context)
                    (result,) = outcome.results
                    number = call.arguments["number"]
                    notes.add(event="outcome", call=number, kind=result.kind if result.is_error else "result")
                    if not outcome.pending:
                        await inbox.remove([call.id])
                except Exception as error:  # noqa: BLE001  the server was killed: the call waits on
                    notes.add(event="failure", error=f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(serve() for _ in range(3)))

    asyncio.run(main())
    database.close()


def start(*arguments, **options) -> int:
    """Forks a process."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(int(MOST_SECONDS))
            random.seed()
            host(*arguments, **options)
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def run_round(number: int, server: PostgresServer, folder: Path, chance: random.Random) -> Counter:
    """One round; returns counts."""
    notes = Notes(folder / f"{number}")
    session = f"round {number}"
    first = start(server.url, notes, session, seeds=True)
    wait_for(notes, "seeded", 1, first)
    pids = [first, start(server.url, notes, session, seeds=False)]
    wait_for(notes, "begin", chance.randrange(CALLS), first)
    time.sleep(chance.uniform(0, MOST_DELAY))
    if number % SERVER_ROUNDS == SERVER_ROUNDS - 1:
        server.kill()
        server.start()
    victim = chance.choice(pids)
    killed = time.monotonic_ns()
    os.kill(victim, signal.SIGKILL)
    pids.append(start(server.url, notes, session, seeds=False))
    codes = {pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}
    os.close(notes.file)
    counts = judge(notes.read(), victim, killed)
    counts["processes that failed or hung"] = sum(code != 0 for pid, code in codes.items() if pid != victim)
    counts["killed before their work was done"] = int(codes[victim] == -signal.SIGKILL)
    return counts


def wait_for(notes: Notes, event: str, count: int, process: int) -> None:
    """Waits until something was noted so many times, or the process has ended."""
    while sum(each["event"] == event for each in notes.read()) < count:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            if event == "seeded":
                raise RuntimeError("the first process has failed")
            return
        time.sleep(0.002)


def judge(lines: list[dict], victim: int, killed: int) -> Counter:
    """Counts outcomes and violations of one round."""
    counts: Counter = Counter()
    begun, kinds = defaultdict(list), defaultdict(set)
    for line in lines:
        if line["event"] == "begin":
            begun[line["call"]].append(line)
        elif line["event"] == "outcome":
            kinds[line["call"]].add(line["kind"])
            counts[f"answers: {line['kind']}"] += 1
        elif line["event"] == "failure":
            counts["attempts that failed"] += 1
    ends = {(line["pid"], line["call"]): line["at"] for line in lines if line["event"] == "end"}
    runs = defaultdict(list)
    for call in range(CALLS):
        counts["calls"] += 1
        counts["calls that ran twice"] += len(begun[call]) > 1
        counts["calls without an outcome"] += not kinds[call]
        counts["calls with their result"] += "result" in kinds[call]
        for line in begun[call]:
            end = ends.get((line["pid"], call), killed if line["pid"] == victim else time.monotonic_ns())
            runs[line["key"]].append((line["at"], end, line["token"]))
    for each in runs.values():
        each.sort()
        for before, after in pairwise(each):
            counts["calls of one key at once"] += after[0] < before[1]
            counts["tokens that don't grow"] += after[2] <= before[2]
    counts["runs that a kill interrupted"] = sum(
        (line["pid"], call) not in ends for call, lines_ in begun.items() for line in lines_
    )
    return counts


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ends earlier")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, total, began = random.Random(options.seed), Counter(), time.monotonic()
    server = PostgresServer(safe=True)
    try:
        database = Database(server.url)
        database.migrate()
        database.close()
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.rounds):
                if time.monotonic() - began > options.seconds:
                    break
                total += run_round(number, server, Path(folder), chance)
                total["rounds"] += 1
                if (number + 1) % 25 == 0:
                    print(f"{number + 1} rounds, {time.monotonic() - began:.0f} s: {dict(total)}", flush=True)
    finally:
        server.stop()
    wrong = ("calls that ran twice", "calls without an outcome", "calls of one key at once", "tokens that don't grow")
    for name in (*wrong, "processes that failed or hung"):
        total.setdefault(name, 0)
    print(json.dumps(dict(sorted(total.items())), indent=2))
    return int(any(total[name] for name in (*wrong, "processes that failed or hung")))


if __name__ == "__main__":
    sys.exit(main())
