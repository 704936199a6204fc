"""`registry.call_sync`: calls from code that isn't async, with and without a running event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from contextvars import ContextVar

import pytest

from pegboard import Limits, Once, ReadonlyContext, ToolContext, ToolRegistry, tool
from pegboard.errors import FatalToolError

USER = ContextVar("user", default="nobody")


@tool
async def loop_of(context: ToolContext) -> str:
    """Names its loop, its call and its user."""
    await asyncio.sleep(0)
    return f"{id(asyncio.get_running_loop())} {threading.current_thread().name} {context.call_id} {USER.get()}"


@tool(destructive=True)
def wipe() -> str:
    """Wipes."""
    return "wiped"


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(loop_of, wipe)
    yield made
    asyncio.run(made.aclose())


def loop_threads():
    return [thread for thread in threading.enumerate() if thread.name == "pegboard-loop"]


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_it_takes_what_call_takes(in_a_loop):
    registry, ann = ToolRegistry(), ReadonlyContext(user="ann")
    registry.register(loop_of, wipe)

    async def approver(request, context):
        return Once()

    offered = asyncio.run(registry.resolve(where="name:wipe"))

    async def calls():
        return calls_now()

    def calls_now():
        assert registry.call_sync("loop_of", None, ann, resolved=offered).kind == "not_offered"
        assert registry.call_sync("loop_of", {}, ann, call_id="c7").text.split()[2] == "c7"
        assert registry.call_sync("wipe").kind == "denied"
        return registry.call_sync("wipe", {}, resolved=offered, approver=approver).text

    assert (asyncio.run(calls()) if in_a_loop else calls_now()) == "wiped"
    asyncio.run(registry.aclose())


async def test_in_a_running_loop_calls_share_a_loop_that_stays(registry):
    """In a thread of its own, with the caller's context variables."""
    token = USER.set("ann")
    first = registry.call_sync("loop_of", call_id="a").text.split()
    USER.reset(token)
    second = registry.call_sync("loop_of", call_id="b").text.split()
    assert (first[0], first[1]) == (second[0], "pegboard-loop")
    assert first[0] != str(id(asyncio.get_running_loop()))
    assert (first[2:], second[2:]) == (["a", "ann"], ["b", "nobody"])


async def test_a_task_that_a_call_leaves_goes_on_in_the_next(registry):
    done = threading.Event()

    async def leave():
        await asyncio.sleep(0)
        done.set()

    @registry.register
    async def start(context: ToolContext) -> str:
        """Starts a task."""
        context.background(leave())
        return "started"

    registry.call_sync("start")
    assert await asyncio.to_thread(done.wait, 10)


async def test_a_tool_on_that_loop_may_call_again(registry):
    """As deep as calls may be nested; the deepest is refused, and nothing hangs."""
    names = []

    @registry.register
    async def again(depth: int) -> str:
        """Calls itself."""
        names.append((threading.current_thread(), USER.get()))
        return registry.call_sync("again", {"depth": depth + 1}).text

    USER.set("ann")
    text = registry.call_sync("again", {"depth": 1}).text
    assert "nested more than 8 deep" in text
    assert len({thread for thread, _ in names}) == len(names)
    assert {user for _, user in names} == {"ann"}
    many = len(loop_threads())
    assert registry.call_sync("again", {"depth": 1}).text == text
    assert len(loop_threads()) == many


async def test_a_tool_in_a_thread_of_that_loop_may_call_again(registry):
    @registry.register
    def plain() -> str:
        """Calls another."""
        return registry.call_sync("loop_of").text

    assert "pegboard-tool" in registry.call_sync("plain").text


async def test_an_approver_runs_on_that_loop_and_may_call_too(registry):
    async def approver(request, context):
        threads.append(threading.current_thread().name)
        await asyncio.sleep(0)
        assert registry.call_sync("loop_of").kind is None
        return Once()

    threads = []
    assert registry.call_sync("wipe", approver=approver).text == "wiped"
    assert threads == ["pegboard-loop"]


async def test_what_ends_the_turn_is_raised(registry):
    @registry.register
    async def fatal() -> str:
        """Ends the turn."""
        raise FatalToolError("over")

    with pytest.raises(FatalToolError, match="over"):
        registry.call_sync("fatal")
    assert registry.call_sync("loop_of").kind is None


async def test_a_task_that_exits_doesnt_end_the_loop(registry, caplog):
    @registry.register
    async def leave() -> str:
        """Leaves a task that exits."""

        async def leaving():
            raise SystemExit(3)

        tasks.append(asyncio.create_task(leaving()))
        tasks[0].add_done_callback(lambda task: task.exception())
        return "left"

    tasks = []
    registry.call_sync("leave")
    before = registry.call_sync("loop_of").text.split()[0]
    assert before == registry.call_sync("loop_of").text.split()[0]
    await asyncio.to_thread(lambda: None)
    assert any("call_sync" in record.getMessage() or "call_sync" in str(record.args) for record in caplog.records)


async def test_several_threads_with_loops_may_call_at_once(registry):
    async def inside():
        return registry.call_sync("loop_of").kind

    kinds = await asyncio.gather(*(asyncio.to_thread(asyncio.run, inside()) for _ in range(8)))
    assert kinds == [None] * 8


async def test_closing_the_registry_ends_the_loop_and_what_runs_there():
    registry, started, ended = ToolRegistry(limits=Limits(grace=0.05)), threading.Event(), []

    @registry.register
    async def wait() -> str:
        """Waits for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def inside():
        return registry.call_sync("wait")

    before = set(loop_threads())
    waiting = asyncio.ensure_future(asyncio.to_thread(asyncio.run, inside()))
    assert await asyncio.to_thread(started.wait, 10)
    await registry.aclose()
    result = await waiting
    assert (result.kind, ended) == ("aborted", ["ended"])
    assert set(loop_threads()) <= before
    assert registry.call_sync("nosuch").kind == "unknown_tool"
    await registry.aclose()


async def test_a_tool_may_close_its_registry_on_that_loop():
    registry = ToolRegistry()

    @registry.register
    async def close() -> str:
        """Closes the registry."""
        await registry.aclose()
        return "closed"

    assert registry.call_sync("close").text == "closed"
    await registry.aclose()


PROGRAM = """
    import asyncio, os, sys
    import pegboard

    @pegboard.tool
    async def hang(end: bool) -> str:
        "Hangs, unless it is to end."
        while not end:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
        return "done"

    async def main():
        registry = pegboard.ToolRegistry()
        registry.register(hang)
        assert registry.call_sync("hang", {"end": True}).text == "done"
        if sys.argv[1] == "fork":
            if not (child := os.fork()):
                os._exit(registry.call_sync("hang", {"end": True}).text != "done")
            assert os.waitpid(child, 0)[1] == 0
        elif sys.argv[1] == "interrupt":
            import signal, threading
            for seconds in (0.5, 1.0):  # asyncio takes the first as a cancellation of the task
                threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
            registry.call_sync("hang", {"end": False})

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "printed"), [("exit", ""), ("fork", ""), ("interrupt", "interrupted\n")])
def test_the_programs_exit_doesnt_wait_for_the_loop(how, printed):
    """Nor does Ctrl-C; and a forked child process has a loop of its own."""
    # From 3.12 on, Python warns of each fork beside threads.
    warnings = "-W", "error::ResourceWarning", "-W", "ignore:This process:DeprecationWarning"
    command = [sys.executable, *warnings, "-c", textwrap.dedent(PROGRAM), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")
