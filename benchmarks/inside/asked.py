"""Groups about requests to a model: exported tools, processed requests, tool search."""

from __future__ import annotations

import gc
import sqlite3
import statistics
import tracemalloc

from clock import batch, duel
from opened import FLOOR, workload_of

AGAIN = 7
WORDS = ("orders column", "find", "conditions match", "nothing of the kind")
HISTORY = 10


async def export(adapter, size):
    """`size` tools, and a tenth of them, as the entries of a provider's list: the first time, and again.

    In every format that the adapter has; the floor makes the entries of one by hand, of schemas that it has ready.
    """
    formats = getattr(adapter, "FORMATS", None)
    if formats is None:
        return None
    work = workload_of(adapter)
    found = {}
    few = max(1, size // 10)
    for place, name in enumerate(formats):
        found[name] = {"kept_kib": await _kept_kib(adapter, _of(work, (place * 3 + 2) * size, few), name)}
        for part, amount, number in ((0, "few", few), (1, "many", size)):
            # Separate tools, so that caches of one measurement don't help the next.
            found[name][amount] = await _exported(adapter, _of(work, (place * 3 + part) * size, number), name)
    return found


async def _kept_kib(adapter, functions, name):
    """KiB that an export keeps for each tool, besides the tool itself."""
    host = adapter.Host()
    host.add(functions)
    await _warmed(adapter, functions, name)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    assert await host.exported(name)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 1024 / len(functions)


async def _warmed(adapter, functions, name):
    """Warms up, so that imports aren't counted."""
    host = adapter.Host()
    host.add(functions[:1])
    await host.exported(name)


def _of(work, start, number):
    end = start + number
    return [each for first in range(start, end, 500) for each in work.functions(_numbers(first, end))]


def _numbers(start, size):
    return range(start, min(size, start + 500))


async def _exported(adapter, functions, name):
    host, floor = adapter.Host(), FLOOR.Host()
    host.add(functions)
    floor.add(_of(workload_of(FLOOR), 0, len(functions)))
    await _warmed(adapter, functions, name)

    async def subject():
        assert await host.exported(name)

    async def beside():
        await floor.exported("openai")

    await beside()
    gc.collect()
    first = (await batch(subject, 1))[0]
    floors, again = [(await batch(beside, 1))[0]], []
    for _ in range(AGAIN):
        again.append((await batch(subject, 1))[0])
        floors.append((await batch(beside, 1))[0])
    bare = statistics.median(floors)
    return {
        "first_us": first / len(functions) * 1e6,
        "again_us": statistics.median(again) / len(functions) * 1e6,
        "floor_us": bare / len(functions) * 1e6,
        "first_x_floor": first / bare,
        "again_x_floor": statistics.median(again) / bare,
    }


async def processed(adapter, size):
    """A request with 100 tools and a history of 10 calls with their results, made ready for a model.

    The floor looks at each tool's name and at each message once.
    """
    if not hasattr(adapter.Host, "request_of"):
        return None
    host = adapter.Host()
    host.add(workload_of(adapter).functions(range(100)))
    process, messages, tools = await host.request_of(HISTORY)

    async def bare():
        by_name = {tool.name: tool for tool in tools}
        kept = [message for message in messages if message.parts]
        assert by_name
        assert kept

    found = await duel(process, bare, size)
    await host.close()
    return found


async def searched(adapter, size):
    """Searching `size` tools by words: making the index, and asking it.

    The floor is SQLite's FTS5, fed with plain texts.
    """
    if not hasattr(adapter.Host, "index_of"):
        return None
    host = adapter.Host()
    for start in range(0, size, 500):
        host.add(workload_of(adapter).functions(_numbers(start, size)))
    texts = [(tool.name.replace("_", " "), tool.spec.description) for tool in host.registry.tools()]
    made, bare = {}, {}

    async def index():
        made["index"] = host.index_of()

    async def bare_index():
        bare["index"] = _bare_index(texts)

    indexed = await duel(index, bare_index, 3, warm=1)

    async def query():
        for words in WORDS:
            made["index"].search(words, limit=5)

    async def bare_query():
        for words in WORDS:
            asked = " OR ".join(words.split())
            bare["index"].execute("SELECT name FROM t WHERE t MATCH ? ORDER BY rank LIMIT 5", (asked,)).fetchall()

    asked = await duel(query, bare_query, 15, warm=2)
    await host.close()
    return {"index": indexed, "query": {key: _of_one(key, value) for key, value in asked.items()}}


def _of_one(key, value):
    return value if key.startswith("x_") else value / len(WORDS)


def _bare_index(texts):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(name, description)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", texts)
    connection.commit()
    return connection
