"""Calls by Temporal: what goes wrong, and what a caller does."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from caller_program import CONTEXT, registry_for
from conftest import PATIENCE, Server, Workers
from temporalio.bridge.worker import Worker as BridgeWorker
from temporalio.client import ActivityHandle, Client
from temporalio.service import RPCError, RPCStatusCode, WorkflowService

from pegboard import CallError, Permissions, Policy, Rule, ToolContext, ToolRegistry, tool, tool_of
from pegboard.execution import LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS
from pegboard.worker import Worker
from pegboard_temporal import Settings, TemporalExecutor, link, serving

pytestmark = pytest.mark.slow
SHORT = Path(__file__).with_name("short_program.py")


def registry_of(server, **settings):
    registry = ToolRegistry()
    registry.register(*(tool_of(each).evolve(policy=Policy(executor="temporal")) for each in EXECUTOR_TOOLS))
    made = Settings(address=server.address, **{**PATIENCE, **settings})
    registry.add("executors", "temporal", TemporalExecutor(made))
    return registry


def calling(server, queue, *tools):
    """A registry whose tools run by workers of a queue."""
    registry = ToolRegistry()
    registry.register(*(tool_of(each).evolve(policy=Policy(executor="temporal", queue=queue)) for each in tools))
    registry.add("executors", "temporal", TemporalExecutor(Settings(address=server.address, **PATIENCE)))
    return registry


@asynccontextmanager
async def working(server, queue, *tools, **settings):
    """Context in which a worker of a queue has these tools, in this process."""
    worker = Worker(LocalExecutor(tools, permissions=Permissions(mode="bypass")), queue)
    made = Settings(address=server.address, **PATIENCE, **settings)
    serving = asyncio.ensure_future(TemporalExecutor(made).serve(worker))
    await worker.started.wait()
    try:
        yield worker
    finally:
        worker.stopping.set()
        await serving


@pytest.fixture
def files(tmp_path):
    return {"file": str(tmp_path / "effects"), "release": str(tmp_path / "release")}


def release(files):
    Path(files["release"]).touch()


async def test_a_server_without_standalone_activities_is_refused(tmp_path, files):
    older = Server(tmp_path, "--dynamic-config-value", "activity.enableStandalone=false")
    cause = "this Temporal server lacks standalone activities; they need server 1.31 or newer"
    try:
        async with registry_for(older.address, "default", wait=5.0) as registry:
            result = await registry.call("hold", files, CONTEXT, call_id="toolu_old")
            assert (result.kind, cause in result.text) == ("not_executed", True)
            executor = registry.contributions.executor("temporal")
            for asked in (executor.status(), executor.serve(Worker(LocalExecutor([])))):
                with pytest.raises(ConnectionError, match=cause):
                    await asked
    finally:
        older.kill()


async def test_an_unknown_namespace_is_refused_in_one_sentence_without_its_name(server, caplog):
    executor = TemporalExecutor(Settings(address=server.address, namespace="secret-space"))
    cause = r"^the Temporal server doesn't know the namespace$"
    for ask in (lambda: executor.serve(Worker(LocalExecutor([]))), executor.status, lambda: executor.attach("key")):
        with pytest.raises(ConnectionError, match=cause):
            await ask()
    assert "secret" not in caplog.text


async def test_a_call_that_no_worker_takes_isnt_run_and_may_be_sent_again(server, files):
    release(files)
    async with registry_for(server.address, "late", wait=1.0) as registry:
        result = await registry.call("hold", files, CONTEXT, call_id="toolu_late")
        assert (result.kind, "no worker has taken it within 1 s" in result.text) == ("not_executed", True)
        assert result.detail.startswith("Start one: registry worker --executor ")
        assert await registry.contributions.executor("temporal").attach("unknown") is None
    with Workers(server, "late").kept():
        async with registry_for(server.address, "late", **PATIENCE) as registry:
            result = await registry.call("hold", files, CONTEXT, call_id="toolu_late")
    assert (result.kind, result.text) == (None, "held")


async def test_a_tool_that_ran_isnt_run_again_whatever_its_error(server):
    runs = []

    @tool
    async def refuse() -> str:
        """Ends as a call that wasn't run."""
        runs.append(1)
        raise CallError("not_executed", "Its own call was not run.")

    async with working(server, "refusing", refuse), calling(server, "refusing", refuse) as registry:
        for _ in range(2):
            result = await registry.call("refuse", {}, CONTEXT, call_id="toolu_refuse")
            assert (result.kind, len(runs)) == ("not_executed", 1)


async def test_a_call_that_a_worker_refuses_may_be_sent_again(server):
    @tool
    async def other() -> str:
        """Exists."""
        return "ran"

    async with calling(server, "refused", other) as registry:
        for tools, expected in (([], "not_executed"), ([other], None)):
            async with working(server, "refused", *tools):
                assert (await registry.call("other", {}, CONTEXT, call_id="toolu_other")).kind == expected


async def test_a_result_doesnt_wait_until_more_events_could_be_sent(server, monkeypatch, caplog):
    @tool
    async def tell(context: ToolContext) -> str:
        """Emits an event."""
        context.emit("event")
        return "told"

    monkeypatch.setattr("pegboard_temporal.serving._PAUSE", 3_600.0)
    seen = []
    async with working(server, "telling", tell), calling(server, "telling", tell) as registry:
        result = await registry.call("tell", {}, ToolContext(CONTEXT, listener=seen.append), call_id="toolu_tell")
    assert (result.text, seen, "were left out" in caplog.text) == ("told", ["event"], False)


@pytest.mark.usefixtures("worker")
async def test_a_second_caller_that_is_cancelled_leaves_the_call_to_the_first(server, files, monkeypatch):
    sent, cancelled, start = threading.Semaphore(0), [], Client.start_activity

    async def start_activity(*args, **options):
        try:
            return await start(*args, **options)
        finally:
            sent.release()

    async def cancel(handle):
        cancelled.append(handle)

    async with registry_for(server.address, "default", **PATIENCE) as registry:
        first = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_shared"))
        while not Path(files["file"]).exists():  # noqa: ASYNC110, ASYNC240  the worker makes it
            await asyncio.sleep(0.02)
        monkeypatch.setattr(Client, "start_activity", start_activity)
        monkeypatch.setattr(ActivityHandle, "cancel", cancel)
        async with registry_for(server.address, "default", **PATIENCE) as other:
            second = asyncio.ensure_future(other.call("hold", files, CONTEXT, call_id="toolu_shared"))
            await asyncio.to_thread(sent.acquire)
            second.cancel()
            await asyncio.wait([second])
        release(files)
        assert ((await first).text, cancelled) == ("held", [])


async def test_a_call_that_is_forbidden_while_its_executor_connects_isnt_sent(server, files, monkeypatch):
    connecting, gate, connect = threading.Event(), threading.Event(), link.connect

    async def connect_later(settings):
        connecting.set()
        await asyncio.to_thread(gate.wait)
        return await connect(settings)

    monkeypatch.setattr(link, "connect", connect_later)
    async with registry_for(server.address, "forbidden", **PATIENCE) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_forbidden"))
        await asyncio.to_thread(connecting.wait)
        registry.permissions = Permissions([Rule("hold", "*", "deny")])
        gate.set()
        assert (await call).kind == "denied"


@pytest.mark.parametrize(("status", "seconds"), [(RPCStatusCode.UNKNOWN, 0), (RPCStatusCode.NOT_FOUND, 1)])
async def test_a_call_whose_sending_was_cut_off_may_have_run(server, files, monkeypatch, status, seconds):
    async def start_activity(*args, **options):
        await asyncio.sleep(seconds)  # the SDK, which has sent it again
        raise RPCError("h2 protocol error", status, b"")

    async with registry_for(server.address, "cut", **PATIENCE) as registry:
        monkeypatch.setattr(Client, "start_activity", start_activity)
        assert (await registry.call("hold", files, CONTEXT)).kind == "unknown_outcome"


@pytest.mark.usefixtures("worker")
async def test_a_result_is_asked_for_again_when_its_connection_was_cut(server, monkeypatch):
    cuts = [RPCStatusCode.INTERNAL, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.CANCELLED]
    poll = WorkflowService.poll_activity_execution

    async def cut(*args, **options):
        if cuts:
            raise RPCError("h2 protocol error", cuts.pop(), b"")
        return await poll(*args, **options)

    monkeypatch.setattr(WorkflowService, "poll_activity_execution", cut)
    async with registry_of(server) as registry:
        assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_a_tool_goes_on_when_the_request_for_a_reply_was_cancelled_on_its_way(server, monkeypatch):
    cuts, poll = [RPCStatusCode.CANCELLED], WorkflowService.poll_activity_execution

    async def approve(*args, **options):
        await asyncio.Event().wait()

    async def cut(*args, **options):
        if cuts and threading.current_thread() is threading.main_thread():  # the worker's
            raise RPCError("h2 protocol error", cuts.pop(), b"")
        return await poll(*args, **options)

    @tool
    async def ask(context: ToolContext) -> str:
        """Asks."""
        try:
            return f"{await context.request_confirmation('Really?')}"
        except CallError as error:
            return error.kind

    monkeypatch.setattr(WorkflowService, "poll_activity_execution", cut)
    async with working(server, "cancelled", ask), calling(server, "cancelled", ask) as registry:
        registry.approver = approve
        assert (await registry.call("ask", {}, CONTEXT)).text == "aborted"


async def test_a_call_whose_arguments_cant_be_written_isnt_run(server, tmp_path, caplog):
    (tmp_path / "file").touch()
    async with registry_of(server, folder=str(tmp_path / "file")) as registry:
        result = await registry.call("check_add", {"a": 1, "b": 2, "file": "x" * 300_000}, CONTEXT)
    assert (result.kind, result.detail, caplog.text) == ("not_executed", "Not a directory", "")


async def test_a_tool_whose_result_cant_be_written_runs_once(server, tmp_path, caplog):
    runs = []

    @tool(idempotent=True)
    async def large() -> str:
        """Returns a large result."""
        runs.append(1)
        return "x" * 300_000

    (tmp_path / "file").touch()
    folder = str(tmp_path / "file")
    async with working(server, "unwritable", large, folder=folder), calling(server, "unwritable", large) as registry:
        assert (await registry.call("large", {}, CONTEXT)).kind == "unknown_outcome"
    assert (runs, [each.name for each in caplog.records]) == ([1], ["pegboard"])


async def test_a_worker_that_is_told_to_stop_lets_its_calls_end(server, files):
    worker = await asyncio.to_thread(subprocess.Popen, Workers(server, "stopped").command)
    async with registry_for(server.address, "stopped", **PATIENCE) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_stopped"))
        while not Path(files["file"]).exists():  # noqa: ASYNC110, ASYNC240  the worker makes it
            await asyncio.sleep(0.02)
        worker.send_signal(signal.SIGTERM)
        later = await registry.contributions.executor("temporal").attach("unknown")  # goes on meanwhile
        release(files)
        assert ((await call).text, later) == ("held", None)
    assert await asyncio.to_thread(worker.wait) == 0


async def test_long_results_are_in_files(server, tmp_path):
    with Workers(server, "files", 6.0, str(tmp_path)).kept():
        async with registry_of(server, queue="files", folder=str(tmp_path)) as registry:
            result = await registry.call("check_large", {"length": 3 << 20}, CONTEXT, call_id="toolu_large")
    assert (result.kind, "kept" in result.metadata) == (None, True)
    (file,) = tmp_path.glob("*/*")
    assert file.stat().st_size > 3 << 20


@pytest.mark.usefixtures("worker")
async def test_what_is_too_long_is_refused(server):
    async with registry_of(server) as registry:
        sent = await registry.call("check_add", {"a": 1, "b": 2, "file": "x" * 2_000_000}, CONTEXT)
        result = await registry.call("check_large", {"length": 3 << 20}, CONTEXT)
    assert (sent.kind, "was not run: the call can't be sent" in sent.text) == ("limit", True)
    assert (result.kind, "its result can't be sent" in result.text) == ("limit", True)


@pytest.mark.usefixtures("worker")
async def test_the_outcome_of_a_call_whose_executor_is_closed_is_unknown(server, files, caplog):
    async with registry_for(server.address, "default", **PATIENCE) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_closed"))
        while not Path(files["file"]).exists():  # noqa: ASYNC110, ASYNC240  the worker makes it
            await asyncio.sleep(0.02)
        executor = registry.contributions.executor("temporal")
        await executor.aclose()
        result = await call
        release(files)
    assert (result.kind, "its executor was closed meanwhile" in result.text) == ("unknown_outcome", True)
    assert not caplog.text


@pytest.mark.usefixtures("worker")
async def test_a_call_that_was_cancelled_before_its_executor_closes_ends_on_the_server(server, files, monkeypatch):
    begun, ended, cancel = threading.Event(), [], ActivityHandle.cancel

    async def cancel_slowly(handle):
        begun.set()
        await asyncio.sleep(1)
        ended.append(await cancel(handle))

    async with registry_for(server.address, "default", **PATIENCE) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_left"))
        while not Path(files["file"]).exists():  # noqa: ASYNC110, ASYNC240  the worker makes it
            await asyncio.sleep(0.02)
        monkeypatch.setattr(ActivityHandle, "cancel", cancel_slowly)
        call.cancel()
        await asyncio.to_thread(begun.wait)
    assert ended == [None]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_call_that_begins_while_its_executor_closes_ends_on_the_server(
    server, files, monkeypatch, is_cancelled
):
    begun, ended, start, cancel = threading.Event(), [], Client.start_activity, ActivityHandle.cancel

    async def start_slowly(*args, **options):
        handle = await start(*args, **options)
        begun.set()
        await asyncio.sleep(1)
        return handle

    async def cancel_noted(handle):
        ended.append(await cancel(handle))

    monkeypatch.setattr(Client, "start_activity", start_slowly)
    monkeypatch.setattr(ActivityHandle, "cancel", cancel_noted)
    async with registry_for(server.address, "default", **PATIENCE) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id=f"toolu_begins_{is_cancelled}"))
        await asyncio.to_thread(begun.wait)
        if is_cancelled:
            call.cancel()
            await asyncio.wait([call])
    await asyncio.wait([call])
    assert ended == [None]


@pytest.fixture
def clients(monkeypatch):
    """Weak references to the clients that are made."""
    made, connect = [], link.connect

    async def connect_noted(*args):
        client = await connect(*args)
        made.append(weakref.ref(client))
        return client

    monkeypatch.setattr(link, "connect", connect_noted)
    monkeypatch.setattr(serving, "connect", connect_noted)
    return made


async def test_a_client_doesnt_outlive_its_executor(server, clients):
    executor = TemporalExecutor(Settings(address=server.address))
    assert await executor.attach("unknown") is None
    await executor.aclose()
    assert [client() for client in clients] == [None]


async def test_a_client_doesnt_outlive_a_worker_that_is_refused(server, clients, monkeypatch):
    async def start_activity(*args, **options):
        raise RPCError("not here", RPCStatusCode.UNIMPLEMENTED, b"")

    monkeypatch.setattr(Client, "start_activity", start_activity)
    with pytest.raises(ConnectionError, match="lacks standalone activities"):
        await TemporalExecutor(Settings(address=server.address)).serve(Worker(LocalExecutor([])))
    assert [client() for client in clients] == [None]


async def test_a_connection_ends_that_comes_after_its_executor_was_closed(server, monkeypatch):
    connecting, gate, connect = threading.Event(), threading.Event(), link.connect

    async def connect_later(settings):
        connecting.set()
        await asyncio.to_thread(gate.wait)
        return await connect(settings)

    monkeypatch.setattr(link, "connect", connect_later)
    monkeypatch.setattr(link, "_CLOSE_SECONDS", 0.0)
    executor = TemporalExecutor(Settings(address=server.address))
    asked = asyncio.ensure_future(executor.attach("unknown"))
    await asyncio.to_thread(connecting.wait)
    (thread,) = (each for each in threading.enumerate() if each.name == "pegboard-temporal")
    await executor.aclose()
    gate.set()
    with pytest.raises(ConnectionError, match="the connection was closed"):
        await asked
    await asyncio.to_thread(thread.join, 60.0)
    assert not thread.is_alive()


def test_first_calls_from_several_threads_share_a_connection(monkeypatch):
    links, begin, over = [], threading.Barrier(8), threading.Event()

    async def connect(settings):
        await asyncio.to_thread(over.wait)
        raise ConnectionError("the Temporal server can't be reached")

    async def run(used, make):
        links.append(used)

    def call():
        begin.wait()
        asyncio.run(executor.attach("key"))

    monkeypatch.setattr(link, "connect", connect)
    monkeypatch.setattr(link.Link, "run", run)
    executor = TemporalExecutor(Settings())
    threads = [threading.Thread(target=call) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    over.set()
    assert [each is links[0] for each in links] == [True] * 8
    asyncio.run(executor.aclose())


async def test_a_connection_that_is_asked_for_while_its_executor_closes_is_there(monkeypatch):
    class Closed:
        """A connection whose executor closes right after it has said that it is open."""

        def __init__(self, *args):
            pass

        @property
        def is_open(self):
            closing = threading.Thread(target=lambda: asyncio.run(executor.aclose()))
            closing.start()
            closing.join(0.2)
            return True

        def close(self):
            pass

        async def run(self, make):
            return None

    monkeypatch.setattr("pegboard_temporal.executor.Link", Closed)
    executor = TemporalExecutor(Settings())
    assert [await executor.attach("key") for _ in range(2)] == [None, None]


async def test_a_call_without_a_loop_for_its_connection_isnt_run(monkeypatch):
    @tool
    async def other() -> str:
        """Exists."""
        return "ran"

    def new_event_loop():
        raise OSError(24, "Too many open files")

    registry = ToolRegistry()
    registry.register(tool_of(other).evolve(policy=Policy(executor="temporal")))
    registry.add("executors", "temporal", TemporalExecutor(Settings()))
    async with registry, asyncio.timeout(10):
        monkeypatch.setattr(asyncio.events, "new_event_loop", new_event_loop)
        result = await registry.call("other", {}, CONTEXT)
    assert (result.kind, "Too many open files" in f"{result!r}") == ("not_executed", True)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_worker_that_failed_ends_with_a_clear_error(server, monkeypatch, caplog, is_stopped):
    numbers, ending, gate = itertools.count(), asyncio.Event(), asyncio.Event()
    poll, shut = BridgeWorker.poll_activity_task, BridgeWorker.initiate_shutdown

    async def fail(worker):
        if threading.current_thread() is threading.main_thread() and next(numbers) == 2:  # after the call
            raise RuntimeError("nothing is known of secret-space")
        return await poll(worker)

    def end(worker):
        ending.set()
        return shut(worker)

    @tool
    async def wait() -> str:
        """Waits."""
        await gate.wait()
        return "waited"

    async def serve():
        with pytest.raises(ConnectionError, match="takes no worker any more"):
            await TemporalExecutor(Settings(address=server.address)).serve(worker)
        return asyncio.current_task().cancelling()

    monkeypatch.setattr(BridgeWorker, "poll_activity_task", fail)
    worker = Worker(LocalExecutor([wait], permissions=Permissions(mode="bypass")), "failing")
    serving = asyncio.ensure_future(serve())
    await worker.started.wait()
    async with calling(server, "failing", wait) as registry:
        monkeypatch.setattr(BridgeWorker, "initiate_shutdown", end)
        call = asyncio.ensure_future(registry.call("wait", {}, CONTEXT))
        await ending.wait()
        if is_stopped:
            worker.stopping.set()
        gate.set()
        assert ((await call).text, await serving) == ("waited", 0)
    assert "secret" not in caplog.text


async def test_a_question_ends_with_its_call(server, monkeypatch, caplog):
    asked, ended, over, poll = (
        threading.Event(),
        asyncio.Event(),
        asyncio.Event(),
        WorkflowService.poll_activity_execution,
    )

    async def approve(*args, **options):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def refuse(*args, **options):
        if threading.current_thread() is threading.main_thread():  # the worker's
            return await poll(*args, **options)
        await asyncio.to_thread(asked.wait)
        raise RPCError("refused", RPCStatusCode.PERMISSION_DENIED, b"")

    @tool
    async def ask(context: ToolContext) -> str:
        """Asks."""
        try:
            return f"{await context.request_confirmation('Really?')}"
        finally:
            over.set()

    monkeypatch.setattr(WorkflowService, "poll_activity_execution", refuse)
    async with working(server, "asking", ask), calling(server, "asking", ask) as registry:
        registry.approver = approve
        assert (await registry.call("ask", {}, CONTEXT)).kind == "unknown_outcome"
        async with asyncio.timeout(10):
            await ended.wait()
            await over.wait()
    assert not caplog.text


@pytest.mark.usefixtures("worker")
def test_a_short_program_ends_well_though_it_closes_nothing(server):
    ended = subprocess.run([sys.executable, SHORT, server.address], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
