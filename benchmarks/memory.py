"""Memory search over many entries: pegboard-memory beside bare SQLite FTS5.

python benchmarks/memory.py             100,000 entries; prints a row for RESULTS.md
python benchmarks/memory.py 1000        to see that it works, not for figures
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pegboard_memory import Database, SqliteMemory

USERS = 10
WORDS = 20_000
ASKED = 200
WORDS_EACH = 20
WORDS_ASKED = 4


def text_of(chance: random.Random, length: int) -> str:
    """Words, the common ones as much more often as in a language (Zipf's law)."""
    return " ".join(f"w{int(WORDS ** chance.random())}" for _ in range(length))


def milliseconds(act: Callable[[], object]) -> float:
    """How long it takes, by the clock."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1_000


def main(entries: int) -> None:
    """Fills a memory, asks it and SQLite alone the same, in turns, and prints medians and 95th percentiles."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder, "memory.db"))
        memory = SqliteMemory(database)
        asyncio.run(memory.add("the first"))
        rows = [(f"user{number % USERS}", 0.0, text_of(chance, WORDS_EACH), "{}") for number in range(entries)]
        with database.work(write=True) as connection:
            insert = "INSERT INTO entries (user, time, text, metadata) VALUES (?, ?, ?, ?)"
            filled = milliseconds(lambda: connection.executemany(insert, rows))
        bare = sqlite3.connect(database.path)
        query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10"
        ours, floor, adds = [], [], []
        for number in range(ASKED):
            words = text_of(chance, WORDS_ASKED)
            match = " OR ".join(words.split())
            floor.append(milliseconds(lambda: bare.execute(query, (match,)).fetchall()))  # noqa: B023  called at once
            ours.append(milliseconds(lambda: asyncio.run(memory.search(words, user="user1"))))  # noqa: B023
            adds.append(milliseconds(lambda: asyncio.run(memory.add(words, user=f"user{number % USERS}"))))  # noqa: B023
        bare.close()
    for name, times in (("search, bare FTS5", floor), ("search", ours), ("add", adds)):
        print(f"{name}: {statistics.median(times):.2f} ms, 95 %: {statistics.quantiles(times, n=20)[-1]:.2f} ms")
    print(f"filled with {entries:,} entries of {USERS} users in {filled / 1_000:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
