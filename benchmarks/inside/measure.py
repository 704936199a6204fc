"""Runs one group of measurements with one adapter, in this process, and prints one line of JSON.

    python measure.py ADAPTER.py GROUP SIZE

Prints null where the adapter has no such thing. Groups: define, traced, resident, half, call, refuse; laden, parts,
check, process (`round_one.py`); flood, dispatch, keyed, lasting (`many.py`); export, processed, searched
(`asked.py`). It runs in a peer's Python, and so takes the standard library only.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import pathlib
import statistics
import sys
import warnings

FOLDER = pathlib.Path(__file__).resolve().parent
# Behind site-packages: a file here must never hide a peer's module.
sys.path[:] = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != FOLDER] + [str(FOLDER)]

from asked import export, processed, searched  # noqa: E402
from clock import batch, duel, ratios  # noqa: E402
from many import dispatch, flood, keyed, lasting, resident_kib  # noqa: E402
from opened import FLOOR, bare_call, load, opened, verdict_of, workload_of  # noqa: E402
from round_one import check, laden, parts, process  # noqa: E402
from workload import ARGUMENTS_TEXT, MISTAKES, SUM_TEXT, is_even  # noqa: E402


async def define(adapter, size):
    """Defining `size` tools in 50 batches, each beside the floor's."""
    host, floor = adapter.Host(), FLOOR.Host()
    work, bare = workload_of(adapter), workload_of(FLOOR)
    step = max(1, size // 50)
    batches = [range(start, start + step) for start in range(0, size, step)]
    host.add(work.functions(range(size, size + 5)))
    prepared = [(work.functions(numbers), bare.functions(numbers)) for numbers in batches]
    gc.collect()
    cpus, floors = [], []

    async def add(target, functions):
        target.add(functions)

    floor.add(bare.functions(range(size, size + step)))
    first, _ = await batch(lambda: add(FLOOR.Host(), prepared[0][1]), 1)
    floors.append(first)
    for functions, plain in prepared:
        cpus.append((await batch(lambda functions=functions: add(host, functions), 1))[0])
        floors.append((await batch(lambda plain=plain: add(floor, plain), 1))[0])
    return {
        "cpu_us": sum(cpus) / size * 1e6,
        "floor_us": statistics.median(floors) / step * 1e6,
        "x_floor": sum(cpus) / (sum(floors[1:]) or 1),
    }


async def traced(adapter, size):
    """KiB that Python keeps for each tool; what compiled code allocates isn't seen."""
    import tracemalloc

    host, work = adapter.Host(), workload_of(adapter)
    host.add(work.functions(range(size, size + 20)))
    functions = work.functions(range(size))
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    host.add(functions)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return {"defined_kib": (after - before) / 1024 / size}


async def resident(adapter, size):
    """KiB by which the process grows for each tool that is defined, and for each first call."""
    host, work = adapter.Host(), workload_of(adapter)
    await _call_all(host, work.functions(range(size, size + 50)))
    functions = work.functions(range(size))
    gc.collect()
    start = resident_kib()
    host.add(functions)
    gc.collect()
    defined = resident_kib()
    await _call_all(host, functions, added=True)
    gc.collect()
    return {"defined_kib": (defined - start) / size, "called_kib": (resident_kib() - start) / size}


async def _call_all(host, functions, *, added=False):
    if not added:
        host.add(functions)
    for function in functions:
        call = await host.caller(function)
        await call(ARGUMENTS_TEXT)
        await host.close()


async def half(adapter, size):
    """Taking every second of `size` tools by a question, and writing them as JSON: the first time, and again."""
    host, work = adapter.Host(), workload_of(adapter)
    floor, bare = FLOOR.Host(), workload_of(FLOOR)
    for start in range(0, size, 500):
        numbers = range(start, min(size, start + 500))
        host.add(work.functions(numbers))
        floor.add(bare.functions(numbers))
    gc.collect()
    kept = {}

    async def subject():
        kept["text"] = await host.half(is_even)

    async def beside():
        await floor.half(is_even)

    await beside()
    floors, cpus = [(await batch(beside, 1))[0]], []
    for _ in range(6):
        cpus.append((await batch(subject, 1))[0])
        floors.append((await batch(beside, 1))[0])
    found = json.loads(kept["text"])
    found = found if isinstance(found, list) else next(each for each in found.values() if isinstance(each, list))
    assert len(found) == size // 2, len(found)
    first, *again = ratios(cpus, floors)
    return {
        "first_ms": cpus[0] * 1e3,
        "again_ms": statistics.median(cpus[1:]) * 1e3,
        "floor_ms": statistics.median(floors) * 1e3,
        "first_x_floor": first,
        "again_x_floor": statistics.median(again),
        "first_x_again": cpus[0] / statistics.median(cpus[1:]),
    }


async def call(adapter, size):
    """One call after the other, JSON text to JSON text: async; trivial; plain, off the loop; plain and declared quick.

    The floor of an async call is the bare call; that of plain ones is the bare call by `asyncio.to_thread`.
    """
    found = {}
    kinds = ["async", "trivial", "plain", *(["inline"] if hasattr(adapter.Host, "add_quick") else [])]
    for kind in kinds:
        host, one = await opened(adapter, kind)
        bare, text = bare_call(kind.replace("inline", "plain")), SUM_TEXT if kind == "trivial" else ARGUMENTS_TEXT
        found[kind] = await duel(lambda one=one, text=text: one(text), bare, size, warm=200)
        await host.close()
    return found


async def refuse(adapter, size):
    """What becomes of arguments that have to be refused, and what a refusal costs."""
    host, one = await opened(adapter, "async")
    found = {}
    for mistake, arguments in MISTAKES.items():
        text = json.dumps(arguments)
        verdict = await verdict_of(one, text)
        found[mistake] = {"verdict": verdict}
        if verdict == "refused":
            found[mistake] |= await duel(lambda text=text: verdict_of(one, text), bare_call(), size)
    await host.close()
    return found


GROUPS = {
    each.__name__: each
    for each in (
        *(define, traced, resident, half, call, flood, refuse, laden, parts, check, process, dispatch, keyed),
        lasting,
        *(export, processed, searched),
    )
}


def main(path, group, size):
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print(json.dumps(asyncio.run(GROUPS[group](load(path), int(size)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
