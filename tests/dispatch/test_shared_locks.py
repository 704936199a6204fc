from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pegboard import Concurrency, ToolContext, ToolRegistry, hookimpl, register_plugin, tool
from pegboard.backends import LockBackend
from pegboard.errors import ToolError
from sqlite_backends import SqliteLocks

PATIENCE = 60  # seconds; only a broken test waits so long


@pytest.fixture
def backend(tmp_path):
    return SqliteLocks(tmp_path / "locks.db")


@pytest.fixture
def registries(backend):
    """Two registries with one backend and the same tools."""

    def registries(*tools):
        made = ToolRegistry(), ToolRegistry()
        for registry in made:
            registry.register(*tools)
            registry.provide(LockBackend, backend)
        return made

    return registries


class Room:
    """Counts who is in it at once."""

    def __init__(self):
        self.inside, self.most, self.count = 0, 0, 0

    async def visit(self, steps=3):
        self.inside += 1
        self.count += 1
        self.most = max(self.most, self.inside)
        for _ in range(steps):
            await asyncio.sleep(0)
        self.inside -= 1


def keyed(room, **options):
    @tool(concurrency=Concurrency("key", ("name",)), **options)
    async def write(name: str) -> str:
        await room.visit()
        return name

    return write


async def both(registries, name, arguments, times=10):
    """Calls a tool many times in each registry, all at once; returns the results' texts."""
    calls = [registry.call(name, arguments) for registry in registries for _ in range(times)]
    results = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
    return {(each.kind, each.text) for each in results}


async def test_two_registries_never_run_two_calls_of_one_key_at_once(registries):
    room = Room()
    assert await both(registries(keyed(room)), "write", {"name": "a"}) == {(None, "a")}
    assert (room.most, room.count) == (1, 20)


async def test_without_a_backend_each_registry_has_locks_of_its_own():
    met = asyncio.Barrier(2)

    @tool(concurrency="exclusive")
    async def meet() -> None:
        await asyncio.wait_for(met.wait(), PATIENCE)

    one, other = ToolRegistry(), ToolRegistry()
    one.register(meet)
    other.register(meet)
    assert [kind for kind, _ in await both((one, other), "meet", {}, times=1)] == [None]


async def test_calls_of_other_keys_and_readers_run_together(registries):
    met = asyncio.Barrier(2)

    @tool(concurrency=Concurrency("key", ("name",)))
    async def write(name: str) -> None:
        await asyncio.wait_for(met.wait(), PATIENCE)

    @tool(concurrency=Concurrency("key", ("name",), access="read"))
    async def read(name: str) -> None:
        await asyncio.wait_for(met.wait(), PATIENCE)

    one, other = registries(write, read)
    results = await asyncio.gather(one.call("write", {"name": "a"}), other.call("write", {"name": "b"}))
    results += await asyncio.gather(one.call("read", {"name": "a"}), other.call("read", {"name": "a"}))
    assert not any(each.is_error for each in results)


async def test_an_exclusive_call_excludes_all_calls_of_the_other_registry(registries):
    room, around = Room(), asyncio.Event()

    @tool(concurrency="exclusive")
    async def alone() -> None:
        around.set()
        assert room.inside == 0
        await asyncio.sleep(0.02)
        assert room.inside == 0

    @tool
    async def visit() -> None:
        await around.wait()
        await room.visit()

    one, other = registries(alone, visit)
    results = await asyncio.wait_for(
        asyncio.gather(one.call("alone", {}), *(other.call("visit", {}) for _ in range(5))), PATIENCE
    )
    assert [each.kind for each in results] == [None] * 6
    assert room.count == 5


async def test_a_tools_limit_of_concurrent_calls_is_for_all_processes(registries):
    room = Room()

    @tool(max_concurrency=3)
    async def visit() -> None:
        await room.visit(50)

    await both(registries(visit), "visit", {})
    assert (room.most, room.count) == (3, 20)


@pytest.mark.parametrize(
    ("options", "claims"),
    [
        ({}, [[("calls", None)]]),
        ({"concurrency": "exclusive"}, [[("calls", 1)]]),
        ({"concurrency": Concurrency("key")}, [[("calls", None), ("key probe", 1)]]),
        ({"concurrency": Concurrency("key", access="read")}, [[("calls", None), ("key probe", None)]]),
        ({"max_concurrency": 2}, [[("calls", None)], [("tool probe", 2)]]),
        (
            {"concurrency": Concurrency("key"), "max_concurrency": 2},
            [[("calls", None), ("key probe", 1), ("tool probe", 2)]],
        ),
    ],
)
async def test_a_call_claims_what_its_tool_declares(registries, backend, options, claims):
    @tool(**options)
    async def probe() -> None: ...

    await registries(probe)[0].call("probe", {})
    assert [asked for asked, _ in backend.asked] == claims


# Nested calls ---------------------------------------------------------------------------------------------------------


async def test_a_nested_call_claims_only_what_its_callers_do_not_hold(registries, backend):
    @tool(concurrency=Concurrency("key", ("name",), access="read"), max_concurrency=2)
    async def outer(name: str, context: ToolContext) -> str:
        inner = await context.call("inner", {"name": name})
        return f"{context.fencing_token} {inner.text}"

    @tool(concurrency=Concurrency("key", ("name",)))
    async def inner(name: str, context: ToolContext) -> str:
        same = await context.call("same", {"name": name})
        return f"{context.fencing_token} {same.text}"

    @tool(concurrency=Concurrency("key", ("name",), access="read"))
    async def same(name: str, context: ToolContext) -> str:
        return f"{context.fencing_token}"

    result = await registries(outer, inner, same)[0].call("outer", {"name": "a"})
    assert result.text == "1 2 2"  # the innermost has its caller's
    key = 'key {"name":"a"}'
    assert backend.asked == [([("calls", None), (key, None), ("tool outer", 2)], []), ([(key, 1)], [1])]


async def test_shared_callers_of_exclusive_tools_do_not_wait_for_each_other(registries):
    """Each has the lock of all calls as a reader, until its nested call wants to write it."""
    met, room = asyncio.Barrier(2), Room()

    @tool(max_concurrency=2)
    async def outer(context: ToolContext) -> str:
        await met.wait()
        return (await context.call("alone", {})).text

    @tool(concurrency="exclusive")
    async def alone() -> str:
        await room.visit()
        return "done"

    assert await both(registries(outer, alone), "outer", {}, times=1) == {(None, "done")}
    assert (room.most, room.count) == (1, 2)


# Waiting --------------------------------------------------------------------------------------------------------------


async def test_a_wait_for_another_process_ends_with_the_time_limit_and_holds_nothing(registries, backend):
    @tool(concurrency="exclusive", timeout=0.2)
    async def alone() -> None:
        raise AssertionError("it isn't run")

    @tool
    async def wait() -> str:
        return (await other.call("alone", {})).text

    one, other = registries(alone, wait)
    text = (await one.call("wait", {})).text
    assert text == "alone was not run: it waited 0.2 s for conflicting calls to end. Try again later."
    assert len(backend.held) == 1


async def test_a_cancelled_wait_leaves_the_locks_of_its_own_process(registries, backend):
    waits = asyncio.Event()
    backend.tried = waits.set

    @tool(concurrency=Concurrency("key"))
    async def write(again: bool) -> None:
        if again:
            task = asyncio.create_task(other.call("write", {"again": False}))
            await waits.wait()
            task.cancel()
            await asyncio.wait([task])

    one, other = registries(write)
    assert (await one.call("write", {"again": True})).kind is None
    assert (await other.call("write", {"again": False})).kind is None


async def test_a_backend_that_fails_runs_no_call_and_the_next_one_may_work(registries, backend, monkeypatch):
    room = Room()
    one, _ = registries(keyed(room))

    async def fail(*_, **__):
        raise ConnectionError("no server at 10.0.0.7")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "acquire", fail)
        result = await one.call("write", {"name": "a"})
    assert (result.kind, room.count) == ("not_executed", 0)
    assert "10.0.0.7" not in result.text
    assert "no server at 10.0.0.7" in result.detail
    assert (await one.call("write", {"name": "a"})).text == "a"


async def test_a_backend_that_fails_with_a_tool_error_says_what_to_do(registries, backend, monkeypatch):
    one, _ = registries(keyed(Room()))

    async def fail(*_, **__):
        raise ToolError("Its tables are old.", hint="Run: migrate")

    monkeypatch.setattr(backend, "acquire", fail)
    result = await one.call("write", {"name": "a"})
    assert (result.kind, result.text.endswith("can't be acquired. Its tables are old. Run: migrate")) == (
        "not_executed",
        True,
    )


def test_calls_in_several_event_loops_share_one_backend(registries):
    busy, met = threading.Lock(), []

    @tool(concurrency=Concurrency("key"))
    def write() -> None:
        met.append(busy.acquire(blocking=False))
        busy.release()

    made = registries(write)
    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(lambda number: made[number % 2].call_sync("write", {}), range(12)))
    assert not any(each.is_error for each in results)
    assert met == [True] * 12


# A lock that is lost --------------------------------------------------------------------------------------------------


def lose(backend):
    backend.held[-1].lost("the connection was closed")


async def test_a_call_that_loses_its_locks_is_ended_and_its_outcome_unknown(registries, backend):
    ended = []

    @tool(concurrency=Concurrency("key"), idempotent=True, retries=3)
    async def write() -> None:
        lose(backend)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    one, _ = registries(write)
    result = await asyncio.wait_for(one.call("write", {}), PATIENCE)
    assert (result.kind, result.detail) == ("unknown_outcome", "the connection was closed")
    assert result.text.startswith("write was ended: it has lost its locks while it ran")
    assert ended == [True]  # and not tried again
    assert asyncio.current_task().cancelling() == 0


async def test_it_may_be_waiting_for_a_nested_call_or_a_thread(registries, backend):
    stopped = threading.Event()

    @tool(concurrency=Concurrency("key"))
    async def outer(context: ToolContext) -> None:
        await context.call("inner", {})

    @tool
    async def inner() -> None:
        lose(backend)
        await asyncio.Event().wait()

    @tool(concurrency=Concurrency("key"))
    def plain(context: ToolContext) -> None:
        lose(backend)
        while not context.cancelled:
            stopped.wait(0.005)
        stopped.set()

    one, _ = registries(outer, inner, plain)
    results = [await asyncio.wait_for(one.call(name, {}), PATIENCE) for name in ("outer", "plain")]
    assert [each.kind for each in results] == ["unknown_outcome"] * 2
    assert await asyncio.to_thread(stopped.wait, PATIENCE)


async def test_it_may_run_in_an_executor_which_is_told(registries, backend):
    told = asyncio.Event()

    class Elsewhere:
        async def execute(self, request):
            lose(backend)
            try:
                await asyncio.Event().wait()
            finally:
                told.set()

    @tool(concurrency=Concurrency("key"), executor="elsewhere")
    async def write() -> None: ...

    one, _ = registries(write)
    one.add("executors", "elsewhere", Elsewhere())
    assert (await asyncio.wait_for(one.call("write", {}), PATIENCE)).kind == "unknown_outcome"
    assert told.is_set()


async def test_one_that_returns_in_spite_of_it_has_no_result(registries, backend):
    @tool(concurrency=Concurrency("key"))
    async def write() -> str:
        lose(backend)
        return "written"

    assert (await registries(write)[0].call("write", {})).kind == "unknown_outcome"


async def test_a_call_that_loses_its_locks_before_it_starts_is_not_run(registries, backend):
    room = Room()
    one, _ = registries(keyed(room))

    async def wrap(call_next):
        lose(backend)
        return await call_next()

    one.add_callback("wrap_tool", wrap)
    result = await one.call("write", {"name": "a"})
    assert (result.kind, room.count) == ("not_executed", 0)


async def test_one_that_loses_its_locks_after_its_end_keeps_its_result(registries, backend):
    one, _ = registries(keyed(Room()))
    result = await one.call("write", {"name": "a"})
    lose(backend)
    await asyncio.sleep(0)
    assert result.text == "a"
    assert (await one.call("write", {"name": "b"})).text == "b"


async def test_the_token_increases_and_is_missing_without_a_backend(registries, backend):
    @tool(concurrency=Concurrency("key"))
    async def write(context: ToolContext) -> str:
        return f"{context.fencing_token}"

    one, other = registries(write)
    tokens = [int((await each.call("write", {})).text) for each in (one, other, one)]
    assert tokens == sorted(set(tokens))
    alone = ToolRegistry()
    alone.register(write)
    assert (await alone.call("write", {})).text == "None"
    assert ToolContext().fencing_token is None


# Providing it ---------------------------------------------------------------------------------------------------------


async def test_a_backend_counts_from_when_it_is_provided_until_it_is_withdrawn(backend):
    registry = ToolRegistry()
    registry.register(keyed(Room()))
    await registry.call("write", {"name": "a"})
    handle = registry.provide(LockBackend, backend)
    await registry.call("write", {"name": "a"})
    assert len(backend.asked) == 1
    handle.dispose()
    await registry.call("write", {"name": "a"})
    assert len(backend.asked) == 1


async def test_a_plugin_may_bring_it_and_a_factory_make_it(backend):
    class Plugin:
        @hookimpl
        def pegboard_register_services(self, register):
            register(LockBackend, lambda: backend, scope="registry")

    registry = ToolRegistry()
    registry.register(keyed(Room()))
    register_plugin(registry, Plugin(), "locks")
    await registry.call("write", {"name": "a"})
    assert len(backend.asked) == 1


async def test_a_call_without_a_backend_takes_the_same_way_as_ever():
    """It enters without a handle, calls no function of shared locks, and awaits nothing more."""
    registry, seen = ToolRegistry(), list[str]()

    @tool
    async def shared() -> None: ...

    registry.register(shared, keyed(Room()))
    await registry.call("shared", {})
    await registry.call("write", {"name": "a"})

    def note(frame, event, _):
        if event == "call":
            seen.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        await registry.call("shared", {})
        entered, seen = seen, []
        await registry.call("write", {"name": "a"})
    finally:
        sys.setprofile(None)
    assert "locks.enter" in entered
    assert not {"locks.acquire", "running.acquire"} & {*entered}
    assert seen.count("locks.acquire") == seen.count("running.acquire") == 1
    assert not any(each.startswith("shared_locks") for each in (*entered, *seen))


# Processes ------------------------------------------------------------------------------------------------------------

WORKER = """
    import asyncio, os, sys
    from pegboard import Concurrency, ToolRegistry, tool
    from pegboard.backends import LockBackend
    from sqlite_backends import SqliteLocks

    path, log, times = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT), int(sys.argv[3])

    @tool(concurrency=Concurrency("key"))
    async def write(forever: bool = False) -> None:
        os.write(log, b"in %d\\n" % os.getpid())
        print("in", flush=True)
        await asyncio.sleep(3600 if forever else 0.001)
        os.write(log, b"out %d\\n" % os.getpid())

    async def main():
        registry = ToolRegistry()
        registry.register(write)
        registry.provide(LockBackend, SqliteLocks(path))
        for _ in range(times):
            result = await registry.call("write", {})
            assert not result.is_error, result
        if not times:
            await registry.call("write", {"forever": True})

    asyncio.run(main())
"""


def start(tmp_path, times):
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(script), str(tmp_path / "locks.db"), str(tmp_path / "log"), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.slow
def test_two_processes_never_run_two_calls_of_one_key_at_once(tmp_path):
    processes = [start(tmp_path, 50) for _ in range(2)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [(process.returncode, output.count("in")) for process, output in zip(processes, outputs, strict=True)] == [
        (0, 50)
    ] * 2
    events = (tmp_path / "log").read_text().splitlines()
    assert len(events) == 200
    pairs = zip(events[::2], events[1::2], strict=True)
    assert all(
        entered.split() == ["in", pid] and left == f"out {pid}" for entered, left in pairs for pid in [left.split()[1]]
    )


@pytest.mark.slow
def test_a_process_that_is_killed_loses_its_locks(tmp_path):
    with start(tmp_path, 0) as first:
        assert first.stdout.readline() == "in\n"
        second = start(tmp_path, 1)
        first.kill()
        first.wait()
        assert second.communicate(timeout=PATIENCE)[0] == "in\n"
        assert second.returncode == 0
