"""Groups about a single call: with callbacks, rules and events; without its parts; validation; another process."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

import errand
from clock import duel
from opened import FOLDER, bare_call, opened, workload_of
from workload import ANSWER, ARGUMENTS, ARGUMENTS_TEXT, PATH_TEXT

LADEN = {
    "nothing": (),
    "rules": ("rules",),
    "declared": ("declared",),
    "path": ("path",),
    "callbacks": ("callbacks",),
    "events": ("events",),
    "everything": ("rules", "callbacks", "events"),
}
"""Additions to a call that is validated anyway."""

CHECKS = 10
"""So many in a row: one is hardly longer than what it takes to await it."""


async def laden(adapter, size):
    """Calls in sequence with additions; the tool yields to the loop once, so that observers run."""
    if not hasattr(adapter, "laden"):
        return None
    found = {}
    for name, parts in LADEN.items():
        text = PATH_TEXT if "path" in parts else ARGUMENTS_TEXT
        host, one = await opened(adapter, "yielding", adapter.laden(parts), text)
        found[name] = await duel(lambda one=one, text=text: one(text), bare_call("yielding"), size, warm=100)
        await host.close()
    return found


async def parts(adapter, size):
    """A call, a definition, a refusal and a first export with a part left out, and with all of these."""
    if not hasattr(adapter, "left_out"):
        return None
    work, bare = workload_of(adapter), bare_call()
    host, one = await opened(adapter, "async")
    stubs = await adapter.left_out(host, work.function(7).__name__)

    async def compared(action, stubs):
        return await _without(lambda: duel(action, bare, size, warm=100), stubs)

    found = {"one async call": await compared(lambda: one(ARGUMENTS_TEXT), stubs)}
    for name, (action, parts_of) in adapter.other_parts(work).items():
        found[name] = await compared(action, parts_of)
    await host.close()
    return found


async def _without(measured, stubs):
    found = {}
    for what, left_out in {"nothing": (), **{part: (part,) for part in stubs}, "all of these": stubs}.items():
        with ExitStack() as stack:
            for stub in map(stubs.get, left_out):
                stack.enter_context(replaced(*stub))
            found[what] = await measured()
    return found


@contextmanager
def replaced(thing, name, stub):
    """Replaces an attribute of a module or a class, or of a value that can't be changed."""
    change = setattr if isinstance(thing, (types.ModuleType, type)) else object.__setattr__
    before = getattr(thing, name)
    change(thing, name, stub)
    try:
        yield
    finally:
        change(thing, name, before)


async def check(adapter, size):
    """Arguments that were parsed -> arguments that are checked and typed; nothing is called. In bare calls."""
    if not hasattr(adapter.Host, "checker"):
        return None
    host, _ = await opened(adapter, "async")
    one = await host.checker(workload_of(adapter).function(7))

    async def checks():
        for _ in range(CHECKS):
            one(ARGUMENTS)

    found = await duel(checks, bare_call(), size)
    await host.close()
    return {key: value if key == "floor_us" else value / CHECKS for key, value in found.items()}


async def process(adapter, size):
    """One call after the other into a child process and back, by wall time, beside a bare `ProcessPoolExecutor`."""
    if not hasattr(adapter.Host, "far_caller"):
        return None
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # a child finds the tool's module as its parent does
    host = adapter.Host()
    one = await host.far_caller(errand.find_orders)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        loop = asyncio.get_running_loop()

        async def bare():
            return json.dumps(await loop.run_in_executor(pool, errand.run, json.loads(ARGUMENTS_TEXT)))

        for each in (lambda: one(ARGUMENTS_TEXT), bare):
            got = json.loads(await each())
            assert got == ANSWER, got
        found = await duel(lambda: one(ARGUMENTS_TEXT), bare, size, by="wall")
    await host.close()
    return found
