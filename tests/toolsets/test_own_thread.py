"""Toolsets whose plain functions run in one thread of their own (`own_thread`)."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sqlite3
import subprocess
import sys
import threading
from contextvars import ContextVar, copy_context
from functools import partial

import attrs
import pytest

from pegboard import CombinedToolset, ReadonlyContext, Tool, ToolRegistry, ToolsetBase, ToolsetFunction, tool, wrap
from pegboard.tools import Handler
from pegboard.tools.handler import LazyHandler
from toolsets.samples import as_keywords, echo, object_schema

SECONDS = 30.0


class Notes(ToolsetBase):
    """Notes in a database, which refuses every thread but the one that has opened it."""

    name = "notes"
    own_thread = True

    def __init__(self):
        self.db = None
        self.thread = None
        self.closed = threading.Event()

    def tools(self, context):
        if self.db is None:
            self.thread = threading.current_thread()
            self.db = sqlite3.connect(":memory:")
            self.db.execute("CREATE TABLE notes (text)")
            bare = Tool.from_schema("add", object_schema(text={"type": "string"}))
            handled = Tool.from_function(self.count, blocking=False)
            late = Tool(Tool.from_function(self.texts).spec, LazyHandler(lambda: Tool.from_function(self.texts)))
            self.offered = [bare, handled, late, Tool.from_function(self.each)]
        self.db.execute("SELECT 1")
        return self.offered

    def call(self, name, arguments, context):
        self.db.execute("INSERT INTO notes VALUES (?)", (arguments["text"],))
        return name

    def count(self) -> int:
        return self.db.execute("SELECT count(*) FROM notes").fetchone()[0]

    def texts(self) -> str:
        return ",".join(text for (text,) in self.db.execute("SELECT text FROM notes ORDER BY rowid"))

    def each(self):
        for (text,) in self.db.execute("SELECT text FROM notes"):
            yield text

    def close(self):
        if not self.closed.is_set():
            self.db.close()
        self.closed.set()


def ended(thread):
    thread.join(SECONDS)
    return not thread.is_alive()


WRAPPERS = {
    "bare": lambda notes: notes,
    "wrapped": wrap,
    "prefixed": lambda notes: notes.prefixed("my"),
    "several": lambda notes: notes.filtered("not tag:x").prefixed("my").cached(60).requiring_approval("tag:x"),
    "combined": lambda notes: CombinedToolset("all", [notes.prefixed("my"), notes]),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_everything_plain_runs_in_one_thread(wrapper, caplog):
    notes = Notes()
    async with ToolRegistry() as registry:
        registry.register(WRAPPERS[wrapper](notes))
        offered = await registry.resolve()
        assert not offered.problems
        for prefix in {name.rpartition("add")[0] for name in offered.names if name.endswith("add")}:
            call = partial(registry.call, resolved=offered)
            added = await asyncio.gather(*(call(f"{prefix}add", {"text": text}) for text in "abc"))
            counts = await asyncio.gather(*(call(f"{prefix}count", {}) for _ in range(2)))
            results = [*added, *counts, await call(f"{prefix}texts", {}), await call(f"{prefix}each", {})]
            assert [each for each in results if each.is_error] == []
        assert results[-2].text.endswith("a,b,c")
        await registry.resolve()
    assert notes.closed.is_set()
    assert ended(notes.thread)
    assert not caplog.records


async def test_a_functions_tools_run_in_its_thread():
    threads = set()

    @tool
    def used() -> str:
        threads.add(threading.current_thread())
        return "yes"

    def connect():
        threads.add(threading.current_thread())
        return [used]

    async with ToolRegistry() as registry:
        registry.register(ToolsetFunction("db", connect, blocking=False, own_thread=True))
        assert (await registry.call("used")).text == "yes"
    (thread,) = threads
    assert thread is not threading.current_thread()
    assert ended(thread)


async def test_async_functions_run_in_the_event_loop():
    threads = []

    class Async:
        name = "async"
        own_thread = True

        async def tools(self, context):
            threads.append(threading.current_thread())
            return [Tool.from_function(self.handler), Tool.from_schema("bare", object_schema())]

        async def handler(self):
            threads.append(threading.current_thread())

        async def call(self, name, arguments, context):
            threads.append(threading.current_thread())

        async def close(self):
            threads.append(threading.current_thread())

    async with ToolRegistry() as registry:
        registry.register(Async(), ToolsetFunction("function", Async().tools, own_thread=True))
        offered = await registry.resolve()
        for name in offered.names:
            await registry.call(name, resolved=offered)
    assert set(threads) == {threading.current_thread()}


async def test_a_tool_that_names_an_executor_runs_there():
    class Toolset(Notes):
        def tools(self, context):
            self.offered = [Tool.from_function(self.here, executor="loop")]
            return self.offered

        def here(self) -> bool:
            return threading.current_thread() is threading.main_thread()

        def close(self):
            pass

    async with ToolRegistry() as registry:
        registry.register(Toolset())
        assert (await registry.call("here")).structured_content == {"result": True}


class Steps(ToolsetBase):
    """A tool that hangs until it is released, and one that notes its calls."""

    name = "steps"
    own_thread = True

    def __init__(self):
        self.began, self.release, self.noted, self.thread = threading.Event(), threading.Event(), [], None
        hang = Tool.from_function(self.hang, read_only=True, timeout=0.05)
        self.offered = [hang, *(Tool.from_function(each, read_only=True) for each in (self.note, self.fail))]

    async def tools(self, context):
        return self.offered

    def hang(self) -> str:
        self.thread = threading.current_thread()
        self.began.set()
        self.release.wait(SECONDS)
        return "ended"

    def note(self, number: int) -> int:
        self.noted.append(number)
        return number

    def fail(self) -> None:
        raise StopIteration("no more")


@pytest.fixture
def steps():
    toolset = Steps()
    yield toolset
    toolset.release.set()


async def test_calls_run_in_the_order_in_which_they_were_made(steps):
    async with ToolRegistry() as registry:
        registry.register(steps)
        await asyncio.gather(*(registry.call("note", {"number": number}) for number in range(20)))
    assert steps.noted == list(range(20))


async def test_a_handler_that_hangs_delays_only_the_calls_of_its_toolset(steps):
    """Each is answered at its own time limit; one that hasn't begun by then is never run."""
    async with ToolRegistry() as registry:
        registry.register(steps, Tool.from_function(echo, name="other"))
        hung, waiting = await registry.call("hang"), await registry.call("hang")
        assert hung.kind == waiting.kind == "timeout"
        assert ("It may still be running." in hung.text, "It had not started." in waiting.text) == (True, True)
        assert not (await registry.call("other")).is_error
        steps.began.clear()
        late = asyncio.ensure_future(registry.call("note", {"number": 1}))
        steps.release.set()
        assert (await late).structured_content == {"result": 1}
        assert not steps.began.is_set()
    assert ended(steps.thread)


async def test_a_cancelled_call_that_waits_for_the_thread_never_runs(steps):
    async with ToolRegistry() as registry:
        registry.register(steps)
        await registry.call("hang")
        waiting = asyncio.ensure_future(registry.call("note", {"number": 1}))
        await asyncio.wait([waiting], timeout=0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        steps.release.set()
        await registry.call("note", {"number": 2})
    assert steps.noted == [2]


async def test_a_failure_costs_only_its_call(steps):
    async with ToolRegistry() as registry:
        registry.register(steps)
        assert "StopIteration" in (await registry.call("fail")).detail
        assert not (await registry.call("note", {"number": 1})).is_error


@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), SystemExit(3)])
async def test_a_query_or_close_that_raises_costs_only_its_toolset(error, caplog):
    class Bad(Notes):
        def tools(self, context):
            raise error

        close = partial(tools, None, None)

    async with ToolRegistry() as registry:
        registry.register(Bad())
        (problem,) = (await registry.resolve()).problems
        assert type(error).__name__ in problem.cause
    assert "closing a toolset" in caplog.text


async def test_closing_waits_a_limited_time_for_a_handler_that_hangs(steps, monkeypatch, caplog):
    monkeypatch.setattr("pegboard.toolsets.toolset.CLOSE_SECONDS", 0.05)
    steps.close = lambda: steps.noted.append("closed")
    async with ToolRegistry() as registry:
        registry.register(steps)
        await registry.call("hang")
    assert "'steps' was not closed within 0.05 s" in caplog.text
    steps.release.set()
    assert ended(steps.thread)
    assert steps.noted == []


async def test_a_call_after_the_close_starts_another_thread(steps):
    registry = ToolRegistry()
    registry.register(steps)
    for number in range(2):
        assert not (await registry.call("note", {"number": number})).is_error
        await registry.aclose()


async def test_a_toolset_that_is_dropped_unclosed_leaves_no_thread():
    class Bare(ToolsetBase):
        name = "bare"
        own_thread = True

        def tools(self, context):
            threads.append(threading.current_thread())
            return []

    threads = []
    toolset = wrap(Bare())
    await toolset.tools(ReadonlyContext())
    (thread,) = threads
    del toolset
    gc.collect()
    assert ended(thread)


async def test_a_call_that_would_wait_for_its_own_caller_is_refused():
    """One that a handler has started, and that runs after it, isn't."""
    loop, made, ended_once = asyncio.get_running_loop(), [], asyncio.Event()

    async def after():
        await ended_once.wait()
        return await registry.call("inner", resolved=offered)

    class Nested(Notes):
        def tools(self, context):
            later = Tool.from_function(self.later, read_only=True)
            self.offered = [Tool.from_function(self.outer, read_only=True), Tool.from_function(self.inner), later]
            return self.offered

        def later(self) -> None:
            context = copy_context()
            loop.call_soon_threadsafe(lambda: made.append(loop.create_task(after(), context=context)))

        def outer(self) -> str:
            return registry.call_sync("inner", resolved=offered).text

        def inner(self) -> str:
            return "inner"

        def close(self):
            pass

    async with ToolRegistry() as registry:
        registry.register(Nested())
        offered = await registry.resolve()
        assert "it would wait for its caller" in (await registry.call("outer", resolved=offered)).text
        assert (await registry.call("inner", resolved=offered)).text.endswith("inner")
        await registry.call("later", resolved=offered)
        ended_once.set()
        assert (await made[0]).text.endswith("inner")


async def test_each_call_has_the_context_variables_of_its_caller():
    users = []

    user = ContextVar("user")

    @tool(read_only=True)
    def who() -> None:
        users.append(user.get())

    toolset = ToolsetFunction("who", lambda: [who], own_thread=True)
    async with ToolRegistry() as registry:
        registry.register(toolset)
        for name in ("ann", "bob"):
            user.set(name)
            await registry.call("who")
    assert users == ["ann", "bob"]


async def test_a_handler_has_no_thread_in_another_process():
    toolset = ToolsetFunction("one", lambda: [Tool.from_function(echo)], own_thread=True)
    (offered,) = await wrap(toolset).tools(ReadonlyContext())
    assert offered.handler.thread is not None
    sent = attrs.evolve(offered.handler, make_binder=as_keywords)
    received = pickle.loads(pickle.dumps(sent))
    assert isinstance(received, Handler)
    assert (received.function, received.thread) == (echo, None)


SCRIPT = """
import asyncio, os, sys, threading
from pegboard import Tool, ToolRegistry, ToolsetFunction

def hang() -> None:
    threading.Event().wait()

def pid() -> int:
    return os.getpid()

async def main():
    offered = await registry.resolve()
    assert (await registry.call("pid", resolved=offered)).structured_content == {"result": os.getpid()}
    if len(sys.argv) > 1:
        print((await registry.call("hang", resolved=offered)).kind)

tools = [Tool.from_function(pid), Tool.from_function(hang, timeout=0.05)]
registry = ToolRegistry()
registry.register(ToolsetFunction("one", lambda: tools, own_thread=True))
"""


@pytest.mark.slow
def test_a_handler_that_hangs_doesnt_delay_exit():
    script = f"{SCRIPT}\nasyncio.run(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, "hang"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("started", [True, False])
def test_after_a_fork_the_child_has_a_thread_of_its_own(started):
    forks = "asyncio.run(main())\n" * started + "child = os.fork()\nasyncio.run(main())\nif child == 0: os._exit(0)\n"
    script = f"{SCRIPT}\n{forks}assert os.waitstatus_to_exitcode(os.wait()[1]) == 0"
    run = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
