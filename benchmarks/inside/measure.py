"""Runs one group of measurements with one adapter, in this process, and prints one line of JSON.

    python measure.py ADAPTER.py GROUP SIZE

Groups: define, traced, resident, half, call, flood, refuse. Standard library only: it runs in a peer's Python.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import pathlib
import statistics
import sys
import types
import warnings

FOLDER = pathlib.Path(__file__).resolve().parent
# Behind site-packages: a file here must never hide a peer's module.
sys.path[:] = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != FOLDER] + [str(FOLDER)]

from clock import batch, duel, ratios  # noqa: E402
from workload import ANSWER, ARGUMENTS_TEXT, MISTAKES, Workload, is_even  # noqa: E402

OTHERS = range(100, 199)
"""The numbers of the tools that hang beside the one that is called."""


def load(path):
    """An adapter, run from its file: it may be called as the package that it drives."""
    module = types.ModuleType("adapter")
    exec(compile(pathlib.Path(path).read_text(), path, "exec", dont_inherit=True), module.__dict__)
    return module


FLOOR = load(str(FOLDER / "adapters" / "floor.py"))


def workload_of(adapter):
    return Workload(
        adapter.FLAVOUR,
        bounded=getattr(adapter, "BOUNDED", True),
        typed_answer=getattr(adapter, "TYPED_ANSWER", True),
    )


async def define(adapter, size):
    """Defining `size` tools in 50 batches, each beside the floor's."""
    board, floor = adapter.Board(), FLOOR.Board()
    work, bare = workload_of(adapter), workload_of(FLOOR)
    step = max(1, size // 50)
    batches = [range(start, start + step) for start in range(0, size, step)]
    board.add(work.functions(range(size, size + 5)))
    prepared = [(work.functions(numbers), bare.functions(numbers)) for numbers in batches]
    gc.collect()
    cpus, floors = [], []

    async def add(target, functions):
        target.add(functions)

    floor.add(bare.functions(range(size, size + step)))
    first, _ = await batch(lambda: add(FLOOR.Board(), prepared[0][1]), 1)
    floors.append(first)
    for functions, plain in prepared:
        cpus.append((await batch(lambda functions=functions: add(board, functions), 1))[0])
        floors.append((await batch(lambda plain=plain: add(floor, plain), 1))[0])
    return {
        "cpu_us": sum(cpus) / size * 1e6,
        "floor_us": statistics.median(floors) / step * 1e6,
        "x_floor": sum(cpus) / (sum(floors[1:]) or 1),
    }


async def traced(adapter, size):
    """KiB that Python keeps for each tool; what compiled code allocates isn't seen."""
    import tracemalloc

    board, work = adapter.Board(), workload_of(adapter)
    board.add(work.functions(range(size, size + 20)))
    functions = work.functions(range(size))
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    board.add(functions)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return {"defined_kib": (after - before) / 1024 / size}


async def resident(adapter, size):
    """KiB by which the process grows for each tool that is defined, and for each first call."""
    board, work = adapter.Board(), workload_of(adapter)
    await _call_all(board, work.functions(range(size, size + 50)))
    functions = work.functions(range(size))
    gc.collect()
    start = _resident_kib()
    board.add(functions)
    gc.collect()
    defined = _resident_kib()
    await _call_all(board, functions, added=True)
    gc.collect()
    return {"defined_kib": (defined - start) / size, "called_kib": (_resident_kib() - start) / size}


async def _call_all(board, functions, *, added=False):
    if not added:
        board.add(functions)
    for function in functions:
        call = await board.caller(function)
        await call(ARGUMENTS_TEXT)
        await board.close()


def _resident_kib():
    text = pathlib.Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


async def half(adapter, size):
    """Taking every second of `size` tools by a question, and writing them as JSON: the first time, and again."""
    board, work = adapter.Board(), workload_of(adapter)
    floor, bare = FLOOR.Board(), workload_of(FLOOR)
    for start in range(0, size, 500):
        numbers = range(start, min(size, start + 500))
        board.add(work.functions(numbers))
        floor.add(bare.functions(numbers))
    gc.collect()
    kept = {}

    async def subject():
        kept["text"] = await board.half(is_even)

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


async def _opened(adapter, kind):
    """A board with 100 tools, and the way to call one of them."""
    board, work = adapter.Board(), workload_of(adapter)
    of_kind = "plain" if kind == "inline" else kind
    function = work.function(7, of_kind)
    functions = [function, *work.functions(OTHERS, of_kind)]
    if kind == "inline":
        board.add_quick(functions)
    else:
        board.add(functions)
    call = await board.caller(function)
    got = json.loads(await call(ARGUMENTS_TEXT))
    assert got == ANSWER, got
    return board, call


def _bare_call(kind="async"):
    function = workload_of(FLOOR).function(7, kind)

    async def call(text=ARGUMENTS_TEXT):
        return json.dumps(await function(**json.loads(text)))

    async def call_off_the_loop(text=ARGUMENTS_TEXT):
        arguments = json.loads(text)
        return json.dumps(await asyncio.to_thread(function, **arguments))

    return call_off_the_loop if kind == "plain" else call


async def call(adapter, size):
    """One call after the other, JSON text to JSON text: async; plain, off the loop; plain and declared quick.

    The floor of an async call is the bare call; that of both others is the bare call by `asyncio.to_thread`.
    """
    found = {}
    kinds = ["async", "plain", *(["inline"] if hasattr(adapter.Board, "add_quick") else [])]
    for kind in kinds:
        board, one = await _opened(adapter, kind)
        bare = _bare_call("async" if kind == "async" else "plain")
        found[kind] = await duel(lambda one=one: one(ARGUMENTS_TEXT), bare, size, warm=200)
        await board.close()
    return found


async def flood(adapter, size):
    """`size` async calls at once; each tool gives way to the loop once. Microseconds of one call among them."""
    board, one = await _opened(adapter, "yielding")
    bare = _bare_call("yielding")

    async def together(single):
        await asyncio.gather(*[single(ARGUMENTS_TEXT) for _ in range(size)])

    async def timed(single):
        gc.collect()  # or one pays for the other's garbage
        return (await batch(lambda: together(single), 1))[0]

    await together(one)
    await together(bare)
    cpus, floors = [], [await timed(bare)]
    for _ in range(15):
        cpus.append(await timed(one))
        floors.append(await timed(bare))
    await board.close()
    return {
        "cpu_us": statistics.median(cpus) / size * 1e6,
        "floor_us": statistics.median(floors) / size * 1e6,
        "x_floor": statistics.median(ratios(cpus, floors)),
    }


async def refuse(adapter, size):
    """What becomes of arguments that have to be refused, and what a refusal costs."""
    board, one = await _opened(adapter, "async")
    found = {}
    for mistake, arguments in MISTAKES.items():
        text = json.dumps(arguments)
        verdict = await _verdict(one, text)
        found[mistake] = {"verdict": verdict}
        if verdict == "refused":
            found[mistake] |= await duel(lambda text=text: _verdict(one, text), _bare_call(), size)
    await board.close()
    return found


async def _verdict(one, text):
    try:
        answer = json.loads(await one(text))
    except (AttributeError, KeyError, TypeError):
        return "crashed in the tool"
    except Exception:  # noqa: BLE001  each peer has its own
        return "refused"
    return "taken" if isinstance(answer, dict) and "count" in answer else "refused"


GROUPS = {each.__name__: each for each in (define, traced, resident, half, call, flood, refuse)}


def main(path, group, size):
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print(json.dumps(asyncio.run(GROUPS[group](load(path), int(size)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
