"""A soak test: what `kill -9` loses of the files that pegboard writes, and random batches of calls with faults.

python benchmarks/soak.py [--rounds 1000] [--seconds 3600] [--seed 1]

In each round a child process writes to a journal, a file of grants, a cache of manifests and a conversation, and
reports each write that has come back; it is killed at a random moment. A *loss* is a reported write that isn't there
afterwards, a *damage* a file that can't be read, or that the next process can't write. Then batches of calls run for
some seconds: tools that answer, raise, hang, exit, give too much, crash their process, call others or ask; batches that
are interrupted or cancelled. A *breach* is a call without exactly one typed result, or a wrong answer.

Prints the counts as JSON; the exit code is 1 where there are losses, damages or breaches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from pegboard import Limits, Message, Once, Reject, ToolCall, ToolContext, ToolError, ToolRegistry, ToolResult, tool
from pegboard.errors import FatalToolError
from pegboard.plugins.cache import CachedManifests
from pegboard.plugins.manifest import PluginManifest
from pegboard.testing import discover
from pegboard.tools import ErrorKind
from pegboard_chat.conversation import read_conversation, write_conversation
from pegboard_guard import FileApprovals, verify
from pegboard_guard.journal_file import JournalFile, decode_or_none
from pegboard_processes import ChildProcesses

ROUNDS_A_FOLDER = 20
"""Files are begun anew now and then, as they grow by each write."""

# Files ----------------------------------------------------------------------------------------------------------------


class JournalWrites:
    """Records in an audit journal, each on the disk before it is reported."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.jsonl"

    def write(self, name: str) -> None:
        JournalFile(self.path).append([{"kind": "call", "name": name}])

    def missing(self, names: list[str]) -> set[str]:
        JournalFile(self.path).append([{"kind": "call", "name": "the next process"}])  # mends what was torn
        report = verify(self.path)
        if report.broken is not None:
            raise ValueError(str(report))
        with self.path.open("rb") as lines:
            return {*names} - {record.facts.get("name") for line in lines if (record := decode_or_none(line))}


class GrantWrites:
    """Answers to approvals that were used: each may be used once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "approvals.json"

    def write(self, name: str) -> None:
        FileApprovals(self.path).consume(name)

    def missing(self, names: list[str]) -> set[str]:
        store = FileApprovals(self.path)
        return {name for name in names if store.consume(name)}


class CacheWrites:
    """Manifests of plugins; only the latest few are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cache"
        self.found = next(
            found for found in discover().entries if found.record() is not None or found.sources() is not None
        )

    def write(self, name: str) -> None:
        failed = PluginManifest(self.found.name, failure=f"cause {name}")
        if not CachedManifests(self.folder).put(self.found, {"name": name}, failed):
            raise OSError("the cache isn't written")

    def missing(self, names: list[str]) -> set[str]:
        cache = CachedManifests(self.folder)
        known = {name: cache.get(self.found, {"name": name}) for name in names[-5:]}
        return {name for name, failed in known.items() if failed is None or failed.failure != f"cause {name}"}


class ConversationWrites:
    """The conversation of a chat, written whole after each turn."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "chat.json")

    def write(self, name: str) -> None:
        write_conversation(self.path, [*read_conversation(self.path).messages, Message.user(name)])

    def missing(self, names: list[str]) -> set[str]:
        return {*names} - {message.text for message in read_conversation(self.path).messages}


KINDS = {"journal": JournalWrites, "grants": GrantWrites, "cache": CacheWrites, "conversation": ConversationWrites}


def write_until_killed(writers: dict[str, Any], round_: int, reports: int) -> None:
    """In the child: writes to each file in turn, and reports what has come back."""
    for number in range(1_000_000):
        for kind, writer in writers.items():
            name = f"{round_}.{number}"
            writer.write(name)
            os.write(reports, f"{kind} {name}\n".encode())


def killed_writes(folder: Path, rounds: int, chance: random.Random) -> dict[str, Counter[str]]:
    """Kills so many writers; counts what they wrote, and what is missing or damaged."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for made in KINDS.values():  # what writing imports is there before a child is forked
        made(folder).write("first")
    for round_ in range(rounds):
        place = folder / f"{round_ // ROUNDS_A_FOLDER}"
        place.mkdir(exist_ok=True)
        writers: dict[str, Any] = {kind: made(place) for kind, made in KINDS.items()}
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                write_until_killed(writers, round_, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as reports:
            firsts = [reports.readline() for _ in KINDS]  # each has written, however slow the machine is
            time.sleep(chance.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
            lines = [*firsts, *reports]
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit("a writer ended by itself")
        for kind, writer in writers.items():
            names = [line.split()[1] for line in lines if line.startswith(kind)]
            counts[kind]["reported"] += len(names)
            try:
                counts[kind]["lost"] += len(writer.missing(names))
            except Exception as error:  # noqa: BLE001  counted
                counts[kind]["damaged"] += 1
                print(f"{kind}: {type(error).__name__}: {error}", file=sys.stderr)
    return counts


# Batches --------------------------------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    await asyncio.sleep(0)
    return a + b


@tool
def raises(how: int) -> str:
    """Raises."""
    raise (ValueError("secret"), ToolError("no"), SystemExit(1), KeyboardInterrupt(), RecursionError())[how % 5]


@tool
async def hangs() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


@tool
async def cancels_itself() -> str:
    """Cancels itself."""
    raise asyncio.CancelledError


@tool
def gives_much(what: int) -> Any:
    """Gives too much, or what isn't JSON."""
    return ("line\n" * 50_000, [0] * 20_000, {"a": float("nan")}, object(), ToolResult("x" * 100_000))[what % 5]


@tool
def streams():
    """Gives items without end."""
    while True:
        yield "x" * 100_000


@tool(destructive=True)
async def asks(number: int) -> int:
    """Has to be approved."""
    return number


@tool
async def calls_others(context: ToolContext, depth: int) -> str:
    """Calls itself."""
    result = await context.call("calls_others", {"depth": depth + 1})
    return result.text


@tool(concurrency="exclusive")
async def alone() -> str:
    """Runs alone."""
    await asyncio.sleep(0.001)
    return "alone"


@tool
async def is_fatal() -> str:
    """Ends the turn."""
    raise FatalToolError("over")


@tool(executor="process", timeout=2)
def crashes() -> str:
    """Ends its process."""
    os._exit(3)


MAKERS = {
    "add": lambda chance: {"a": chance.randrange(100), "b": 1},
    "raises": lambda chance: {"how": chance.randrange(5)},
    "hangs": lambda _: {},
    "cancels_itself": lambda _: {},
    "gives_much": lambda chance: {"what": chance.randrange(5)},
    "streams": lambda _: {},
    "asks": lambda chance: {"number": chance.randrange(100)},
    "calls_others": lambda _: {"depth": 0},
    "alone": lambda _: {},
    "is_fatal": lambda _: {},
    "crashes": lambda _: {},
    "missing": lambda _: {},
    "Add": lambda chance: chance.choice(['{"a": 1', {"a": 1, "b": 1}, {"a": "1"}, {}]),
}
WEIGHTS = [30, 5, 2, 3, 2, 0.2, 5, 1, 5, 0.5, 0.5, 3, 5]


async def one_batch(registry: ToolRegistry, chance: random.Random, counts: Counter[str]) -> None:
    """Runs one batch, perhaps interrupted or cancelled, and looks at what came of it."""
    names = chance.choices([*MAKERS], WEIGHTS, k=chance.randint(1, 30))
    calls = [ToolCall(name, MAKERS[name](chance), f"{place}") for place, name in enumerate(names)]
    batch = await registry.batch(
        calls,
        sequential=chance.random() < 0.1,
        max_concurrency=chance.choice([None, 1, 4]),
        timeout=chance.choice([0.2, 0.2, 2]),
    )
    task = asyncio.ensure_future(batch.run())
    fate = chance.random()
    if fate < 0.2:
        await asyncio.sleep(chance.uniform(0, 0.1))
        if fate < 0.1:
            batch.interrupt("interrupted", "abort")
        else:
            task.cancel()
            counts["batches cancelled"] += 1
    try:
        outcome = await task
    except asyncio.CancelledError:
        outcome = batch.outcome
    counts["batches"] += 1
    counts["calls"] += len(calls)
    kinds = {None, *get_args(ErrorKind)}
    if outcome is None or len(outcome.results) != len(calls) or {each.kind for each in outcome.results} - kinds:
        counts["breaches"] += 1
        return
    json.dumps([result.to_data() for result in outcome.results])
    for call, result in outcome:
        counts[f"kind {result.kind}"] += 1
        if (
            call.name == "add"
            and result.kind is None
            and result.structured_content != {"result": call.arguments["a"] + 1}
        ):
            counts["breaches"] += 1


async def batches(seconds: float, chance: random.Random) -> Counter[str]:
    """Runs batches for so long."""

    async def approver(_request: Any, _context: ToolContext) -> Any:
        answer = chance.choice([Once(), Reject("no"), None, ValueError("the approver failed")])
        if isinstance(answer, ValueError):
            raise answer
        return answer

    counts: Counter[str] = Counter()
    started = time.monotonic()
    async with ToolRegistry(approver=approver, limits=Limits(grace=0.05, depth=5)) as registry:
        registry.register(
            add, raises, hangs, cancels_itself, gives_much, streams, asks, calls_others, alone, is_fatal, crashes
        )
        registry.add("executors", "process", ChildProcesses(most=2))
        while time.monotonic() - started < seconds:
            await asyncio.gather(*(one_batch(registry, chance, counts) for _ in range(chance.randint(1, 3))))
            if not counts["peak KiB after the first batches"] and counts["batches"] >= 50:
                counts["peak KiB after the first batches"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts["peak KiB at the end"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts["threads at the end"] = threading.active_count()
    counts["seconds"] = round(time.monotonic() - started)
    return counts


def main() -> int:
    """Runs both parts, and prints what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="how many writers are killed (default: 1000)")
    parser.add_argument("--seconds", type=float, default=3600, help="how long batches run (default: 3600)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        files = killed_writes(Path(folder), options.rounds, chance)
    found = {"rounds": options.rounds, "files": files, "batches": asyncio.run(batches(options.seconds, chance))}
    print(json.dumps(found, indent=1))
    bad = sum(counts["lost"] + counts["damaged"] for counts in files.values()) + found["batches"]["breaches"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
