"""Setup of every group: an adapter, a host with tools, and a function that calls one of them."""

from __future__ import annotations

import asyncio
import json
import pathlib
import types

from workload import ANSWER, ARGUMENTS_TEXT, SUM_TEXT, Workload

FOLDER = pathlib.Path(__file__).resolve().parent
OTHERS = range(100, 199)
"""The numbers of the other tools of the host."""


def load(path):
    """An adapter, run from its file: it may be called as the package that it drives."""
    module = types.ModuleType("adapter")
    exec(compile(pathlib.Path(path).read_text(), path, "exec", dont_inherit=True), module.__dict__)
    return module


FLOOR = load(str(FOLDER / "adapters" / "floor.py"))


def workload_of(adapter):
    """The tools, with the types that an adapter's package supports."""
    return Workload(
        adapter.FLAVOUR,
        bounded=getattr(adapter, "BOUNDED", True),
        typed_answer=getattr(adapter, "TYPED_ANSWER", True),
    )


async def opened(adapter, kind, host=None, text=ARGUMENTS_TEXT):
    """A host with 100 tools, and a function that calls one of them, here with the arguments of a text."""
    host, work = host or adapter.Host(), workload_of(adapter)
    if kind == "trivial":
        host.add([work.trivial(), *work.functions(OTHERS)])
        call = await host.caller(work.trivial())
        assert "5" in await call(SUM_TEXT)
        return host, call
    of_kind = "plain" if kind == "inline" else kind
    function = work.function(7, of_kind)
    functions = [function, *work.functions(OTHERS, of_kind)]
    if kind == "inline":
        host.add_quick(functions)
    else:
        host.add(functions)
    call = await host.caller(function)
    got = json.loads(await call(text))
    assert got == {**ANSWER, "text": json.loads(text)["text"]}, got
    return host, call


def bare_call(kind="async"):
    """A call without any checks; a plain function runs by `asyncio.to_thread`."""
    work = workload_of(FLOOR)
    function = work.trivial() if kind == "trivial" else work.function(7, kind)

    async def call(text=SUM_TEXT if kind == "trivial" else ARGUMENTS_TEXT):
        return json.dumps(await function(**json.loads(text)))

    async def call_off_the_loop(text=ARGUMENTS_TEXT):
        arguments = json.loads(text)
        return json.dumps(await asyncio.to_thread(function, **arguments))

    return call_off_the_loop if kind == "plain" else call


async def verdict_of(one, text):
    """The outcome of a call: `"taken"`, `"refused"` or `"crashed in the tool"`."""
    try:
        answer = json.loads(await one(text))
    except (AttributeError, KeyError, TypeError):
        return "crashed in the tool"
    except Exception:  # noqa: BLE001  each peer has its own
        return "refused"
    return "taken" if isinstance(answer, dict) and "count" in answer else "refused"
