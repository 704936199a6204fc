"""Groups about many calls: all at once, as one batch, as one batch whose calls wait for each other, and for long."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pathlib
import statistics
import tracemalloc

from clock import batch, ratios
from opened import FLOOR, bare_call, opened, verdict_of, workload_of
from workload import ANSWER, ARGUMENTS, ARGUMENTS_TEXT, MISTAKES

KEYS = 64
ROUNDS = 15


async def flood(adapter, size, rounds=ROUNDS):
    """`size` async calls at once; each tool gives way to the loop once. Microseconds of one call among them."""
    host, one = await opened(adapter, "yielding")

    async def together():
        await asyncio.gather(*[one(ARGUMENTS_TEXT) for _ in range(size)])

    found = await _beside(together, _bare_flood(size), size, rounds)
    await host.close()
    return found


async def dispatch(adapter, size, rounds=ROUNDS):
    """The same as one batch, as the calls of one answer are run, beside the same floor."""
    if not hasattr(adapter.Host, "batcher"):
        return None
    host, _ = await opened(adapter, "yielding")
    many = await host.batcher(workload_of(adapter).function(7, "yielding"))
    texts = [ARGUMENTS_TEXT] * size
    _check(await many(texts), texts)
    found = await _beside(lambda: many(texts), _bare_flood(size), size, rounds)
    await host.close()
    return found


async def keyed(adapter, size):
    """`size` calls as one batch with 64 keys: those of one key wait for each other. And a tenth as many.

    The floor has a lock for each key, and checks nothing.
    """
    if not hasattr(adapter.Host, "keyed_batcher"):
        return None
    host, function = adapter.Host(), workload_of(adapter).function(7, "yielding")
    many = await host.keyed_batcher(function, "text")
    floor = await FLOOR.Host().keyed_batcher(workload_of(FLOOR).function(7, "yielding"), "text")
    found = {}
    for name, number in (("few", max(1, size // 10)), ("many", size)):
        texts = [json.dumps({**ARGUMENTS, "text": f"key {index % KEYS}"}) for index in range(number)]
        _check(await many(texts), texts)
        found[name] = await _beside(lambda texts=texts: many(texts), lambda texts=texts: floor(texts), number, 3)
    await host.close()
    return {**found["many"], "few_cpu_us": found["few"]["cpu_us"], "few_x_floor": found["few"]["x_floor"]}


async def lasting(adapter, size):
    """How the process grows over `size` calls, from a tenth on: KiB, and bytes that Python keeps for each.

    One in fifty has everything round it, one in a hundred is refused, one in a thousand is a batch of ten.
    """
    host, one = await opened(adapter, "async")
    laden = adapter.laden(("rules", "callbacks", "events")) if hasattr(adapter, "laden") else adapter.Host()
    laden, full = await opened(adapter, "yielding", laden)
    many = await host.batcher(workload_of(adapter).function(7)) if hasattr(host, "batcher") else None
    mistakes = [json.dumps(each) for each in MISTAKES.values()]

    async def calls(numbers):
        for number in numbers:
            if number % 1000 == 0 and many is not None:
                await many([ARGUMENTS_TEXT] * 10)
            elif number % 100 == 25:
                await verdict_of(one, mistakes[number // 100 % len(mistakes)])
            else:
                await (full if number % 50 == 0 else one)(ARGUMENTS_TEXT)

    grown = []
    for tenth in range(10):
        await calls(range(tenth * size // 10, (tenth + 1) * size // 10))
        gc.collect()
        grown.append(resident_kib())
    kept = await _traced(calls, size // 10)
    for each in (host, laden):
        await each.close()
    return {"grown_kib": grown[-1] - grown[0], "peak_kib": max(grown) - grown[0], "kept_bytes": kept}


async def _traced(calls, size):
    """Bytes that Python keeps for each of `size` more calls; as many before let caches fill."""
    tracemalloc.start()
    await calls(range(size))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    await calls(range(size))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / size


def resident_kib():
    """KiB of this process."""
    text = pathlib.Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def _bare_flood(size):
    bare = bare_call("yielding")

    async def together():
        await asyncio.gather(*[bare(ARGUMENTS_TEXT) for _ in range(size)])

    return together


def _check(answers, texts):
    """Each call has its own answer, in call order."""
    wanted = [{**ANSWER, "text": json.loads(text)["text"]} for text in texts]
    assert [json.loads(answer) for answer in answers] == wanted, answers[:3]


async def _beside(together, floor, size, rounds):
    """Microseconds of one of `size` calls that run together, beside bare ones."""

    async def timed(action):
        gc.collect()  # or one pays for the other's garbage
        return (await batch(action, 1))[0]

    await together()
    await floor()
    cpus, floors = [], [await timed(floor)]
    for _ in range(rounds):
        cpus.append(await timed(together))
        floors.append(await timed(floor))
    return {
        "cpu_us": statistics.median(cpus) / size * 1e6,
        "floor_us": statistics.median(floors) / size * 1e6,
        "x_floor": statistics.median(ratios(cpus, floors)),
    }
