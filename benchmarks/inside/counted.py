"""Calls with one part left out after the other, for `instructions.py`, which counts the instructions of each process.

    python counted.py ADAPTER.py [WORDS]

Makes ready what has WORDS in its name, and then forks a process for each part and number of calls, so that importing
and defining are done once. Prints a line of JSON: by the process, what it did, what was left out, and the calls.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pathlib
import sys
from contextlib import ExitStack

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != FOLDER] + [str(FOLDER)]

from opened import bare_call, load, opened, workload_of  # noqa: E402
from round_one import replaced  # noqa: E402
from workload import ARGUMENTS_TEXT, PATH_TEXT  # noqa: E402

AT_ONCE = 100
ROUNDS = (1, 4)
"""In hundreds of calls; what is counted is the difference."""


async def _laden(adapter, part, text=ARGUMENTS_TEXT):
    _, call = await opened(adapter, "yielding", adapter.laden((part,) if part else ()), text)

    async def one_after_the_other():
        for _ in range(AT_ONCE):
            await call(text)

    return one_after_the_other


async def _bare(_):
    return _together(bare_call("yielding"))


async def _many(adapter):
    _, call = await opened(adapter, "yielding")
    return _together(call)


def _together(call):
    async def together():
        await asyncio.gather(*[call(ARGUMENTS_TEXT) for _ in range(AT_ONCE)])

    return together


async def _batch(adapter):
    host, _ = await opened(adapter, "yielding")
    many = await host.batcher(workload_of(adapter).function(7, "yielding"))
    return lambda: many([ARGUMENTS_TEXT] * AT_ONCE)


async def _parts_of_many(adapter):
    host, _ = await opened(adapter, "yielding")
    parts = await adapter.left_out(host, workload_of(adapter).function(7).__name__)
    return {**parts, **adapter.left_out_of_many()}


async def _parts_of_path(adapter):
    return adapter.left_out_of_path()


async def _no_parts(_):
    return {}


DONE = {
    "one of 100 bare calls at once": (_bare, _no_parts),
    "one of 100 at once": (_many, _parts_of_many),
    "one of 100 as one batch": (_batch, _parts_of_many),
    "one without rules": (lambda adapter: _laden(adapter, ""), _no_parts),
    "one ruled by a text that its tool declares": (lambda adapter: _laden(adapter, "declared"), _no_parts),
    "one ruled by a path": (lambda adapter: _laden(adapter, "path", PATH_TEXT), _parts_of_path),
}
"""What is done -> what makes a function that does it for a hundred calls, and its parts as an adapter's `left_out`."""


def forked(loop, do, stubs, rounds):
    """The id of a process that has done it so often; what was there before costs its garbage collector nothing."""
    gc.collect()
    gc.freeze()
    process = os.fork()
    if process:
        if os.waitpid(process, 0)[1]:
            sys.exit("a part can't be left out: see above")
        return process
    with ExitStack() as stack:
        for stub in stubs:
            stack.enter_context(replaced(*stub))
        for _ in range(rounds):
            loop.run_until_complete(do())
    os._exit(0)


def main(path, words=""):
    adapter, done, loop = load(path), {}, asyncio.new_event_loop()
    for what, (make, parts_of) in DONE.items():
        if words not in what:
            continue
        do, parts = loop.run_until_complete(make(adapter)), loop.run_until_complete(parts_of(adapter))
        loop.run_until_complete(do())
        left_out = {"nothing": (), **{part: (stub,) for part, stub in parts.items()}}
        for part, stubs in {**left_out, **({"all of these": parts.values()} if parts else {})}.items():
            for rounds in ROUNDS:
                done[forked(loop, do, stubs, rounds)] = [what, part, rounds * AT_ONCE]
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
