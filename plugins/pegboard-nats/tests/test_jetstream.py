"""What JetStream stores of calls: two callers of one call, refusals, and what was lost."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError
from nats.js import JetStreamContext
from nats_running import PATIENCE, Server

from pegboard import CallError, Permissions, Policy, ReadonlyContext, ToolRegistry, tool, tool_of
from pegboard.execution import LocalExecutor
from pegboard.worker import Worker
from pegboard_nats import JetStreamExecutor

ANN = ReadonlyContext(user="ann", session="s", message="m")


@tool
def count_words(text: str) -> int:
    """Counts words."""
    return len(text.split())


def worker(*tools, **options):
    """A worker in this process."""
    return Worker(LocalExecutor([*tools], permissions=Permissions(mode="bypass")), **options)


@asynccontextmanager
async def calling(executor, *tools):
    """A registry whose tools run in this executor."""
    async with ToolRegistry() as registry:
        registry.add("executors", "far", executor)
        registry.register(*(tool_of(each).evolve(policy=Policy(executor="far", timeout=PATIENCE)) for each in tools))
        yield registry


class Gate:
    """A tool that waits until the test opens the gate, and one that doesn't."""

    def __init__(self):
        self.open, self.closed = asyncio.Event(), asyncio.Event()

        @tool
        async def wait() -> str:
            """Waits."""
            self.closed.set()
            await self.open.wait()
            return "done"

        self.tools = wait, count_words


async def count_one(registry):
    """One and the same call, whichever program sends it."""
    return (await registry.call("count_words", {"text": "one call"}, ANN, call_id="toolu_1")).structured_content


async def test_a_caller_that_waits_less_does_not_withdraw_the_call_of_another_one(server, serving):
    gate, client = Gate(), await nats.connect(server.url)
    sent, signs = await client.subscribe("shorter.queue.>"), await client.subscribe("_INBOX.*.*.alive")
    await client.flush()
    long, short = (JetStreamExecutor(server.settings(prefix="shorter", wait=wait)) for wait in (PATIENCE, 0.1))
    async with (
        serving(JetStreamExecutor(long.settings), worker(*gate.tools, max_concurrency=1)),
        calling(long, *gate.tools) as registry,
        calling(short, *gate.tools) as other,
        asyncio.timeout(PATIENCE),
    ):
        busy = asyncio.create_task(registry.call("wait", {}))
        await gate.closed.wait()
        first = asyncio.create_task(count_one(registry))
        for _ in range(2):
            await sent.next_msg(PATIENCE)
        second = asyncio.create_task(count_one(other))
        await signs.next_msg(PATIENCE)  # the second one has waited for as long as it does
        gate.open.set()
        assert (await first, await second, (await busy).text) == ({"result": 2}, {"result": 2}, "done")
    await client.close()


async def test_a_caller_whose_call_another_one_has_withdrawn_sends_it_again(server, serving):
    gate, client = Gate(), await nats.connect(server.url)
    sent = await client.subscribe("withdrawn.queue.>")
    await client.flush()
    settings = server.settings(prefix="withdrawn", wait=PATIENCE)
    async with (
        serving(JetStreamExecutor(settings), worker(*gate.tools, max_concurrency=1)),
        calling(JetStreamExecutor(settings), *gate.tools) as registry,
        calling(JetStreamExecutor(settings), *gate.tools) as other,
        asyncio.timeout(PATIENCE),
    ):
        busy = asyncio.create_task(registry.call("wait", {}))
        await gate.closed.wait()
        first = asyncio.create_task(count_one(registry))
        for _ in range(2):
            await sent.next_msg(PATIENCE)
        second = asyncio.create_task(count_one(other))
        await sent.next_msg(PATIENCE)
        first.cancel()
        await asyncio.wait([first])
        await sent.next_msg(PATIENCE)
        gate.open.set()
        assert (await second, (await busy).text) == ({"result": 2}, "done")
    await client.close()


async def test_a_call_that_a_worker_refused_may_be_sent_again_but_not_one_whose_tool_ended_so(server, serving):
    runs = []

    @tool
    async def refuse() -> None:
        """Refuses."""
        runs.append(1)
        raise CallError("not_executed", "Not now.")

    settings = server.settings(prefix="refused")
    async with calling(JetStreamExecutor(settings), refuse, count_words) as registry, asyncio.timeout(PATIENCE):
        async with serving(JetStreamExecutor(settings), worker(refuse)):
            assert await count_one(registry) is None
            for _ in range(2):
                assert (await registry.call("refuse", {}, ANN, call_id="toolu_2")).kind == "not_executed"
        async with serving(JetStreamExecutor(settings), worker(count_words)):
            assert await count_one(registry) == {"result": 2}
    assert len(runs) == 1


async def test_callers_and_workers_go_on_when_the_server_has_lost_what_it_stored(tmp_path):
    made = Server(tmp_path / "data")
    settings = made.settings(wait=PATIENCE)
    serving = asyncio.create_task(JetStreamExecutor(settings).serve(one := worker(count_words)))
    try:
        async with calling(JetStreamExecutor(settings), count_words) as registry, asyncio.timeout(PATIENCE):
            await one.started.wait()
            assert (await registry.call("count_words", {"text": "one"})).structured_content == {"result": 1}
            made.kill()
            shutil.rmtree(tmp_path / "data")
            made.start()
            assert (await registry.call("count_words", {"text": "one more"})).structured_content == {"result": 2}
        one.stopping.set()
        await serving
    finally:
        made.kill()


async def test_the_outcome_of_a_call_whose_stored_result_is_gone_is_unknown(server, serving):
    @tool
    def repeat(text: str, times: int) -> str:
        """Repeats a text."""
        return text * times

    settings, client = server.settings(prefix="gone"), await nats.connect(server.url)
    call = {"text": "x", "times": 2 << 20}
    async with (
        serving(JetStreamExecutor(settings), worker(repeat)),
        calling(JetStreamExecutor(settings), repeat) as registry,
        asyncio.timeout(PATIENCE),
    ):
        assert not (await registry.call("repeat", call, ANN, call_id="toolu_1")).is_error
        blobs = await client.jetstream().object_store("gone-blobs")
        for each in await blobs.list():
            await blobs.delete(each.name)
        assert (await registry.call("repeat", call, ANN, call_id="toolu_1")).kind == "unknown_outcome"
    await client.close()


async def expect_refusals(executor, reason):
    """Expects that whatever asks the server is refused for this reason; closes the executor."""
    for asked in (executor.serve(worker()), executor.status(), executor.attach("key")):
        with pytest.raises(ConnectionError, match=reason):
            await asked
    await executor.aclose()


async def test_a_server_without_jetstream_is_named_with_what_to_do(tmp_path):
    made = Server(tmp_path, jetstream=False)
    executor = JetStreamExecutor(made.settings(wait=0.1))
    try:
        async with calling(executor, count_words) as registry:
            result = await registry.call("count_words", {"text": "one"})
        assert (result.kind, result.detail) == (
            "not_executed",
            f"NATS at {made.url} has no JetStream: start it with -js",
        )
        executor = JetStreamExecutor(made.settings(wait=0.1))
        await expect_refusals(executor, "start it with -js")
    finally:
        made.kill()


async def test_an_account_without_jetstream_is_named_by_the_server(tmp_path):
    (tmp_path / "server.conf").write_text("accounts { A { users: [{user: ann, password: p}] } }")
    made = Server(tmp_path / "data", "-c", str(tmp_path / "server.conf"))
    executor = JetStreamExecutor(made.settings(wait=0.1, user="ann", password="p"))
    try:
        await expect_refusals(executor, "JetStream not enabled for account")
    finally:
        made.kill()


async def test_status_stores_nothing(server):
    client = await nats.connect(server.url)
    status = await JetStreamExecutor(server.settings(prefix="unused")).status()
    assert (status.workers, status.queues) == ((), {})
    assert not [info for info in await client.jetstream().streams_info() if "unused" in info.config.name]
    await client.close()


async def test_a_worker_whose_connection_is_lost_while_it_refuses_a_message_works_on(server, serving, monkeypatch):
    settings, client, tried = server.settings(prefix="refusing"), await nats.connect(server.url), asyncio.Event()

    async def fail(message):
        tried.set()
        raise ConnectionClosedError

    monkeypatch.setattr(Msg, "term", fail)
    async with (
        serving(JetStreamExecutor(settings), worker(count_words, max_concurrency=1)),
        calling(JetStreamExecutor(settings), count_words) as registry,
        asyncio.timeout(PATIENCE),
    ):
        await client.jetstream().publish("refusing.queue.default.id", b"nonsense")
        await tried.wait()
        assert await count_one(registry) == {"result": 2}
    await client.close()


def run_and_leave(asked):
    """Runs in a loop that is closed with all tasks that it has."""
    loop = asyncio.new_event_loop()
    result = loop.run_until_complete(asked)
    loop.close()
    return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [asyncio.run, run_and_leave])
def test_nothing_is_kept_of_loops_that_have_ended(run, server, monkeypatch):
    def clients():
        gc.collect()
        return sum(type(each) is Client for each in gc.get_objects())  # a proxy's class may raise

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # pytest's keeps the tasks that can't end
    executor, before = JetStreamExecutor(server.settings(prefix="loops")), clients()
    for _ in range(3):
        assert run(executor.attach("key")) is None
    asyncio.run(executor.attach("key"))
    assert clients() <= before


async def test_a_worker_ends_whose_cancellation_comes_just_as_its_fetch_ends(server, monkeypatch):
    """Up to Python 3.11, `asyncio.wait_for` may then lose the cancellation."""
    fetching = asyncio.Event()

    async def fetch(*_):
        fetching.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TimeoutError from None

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", fetch)
    executor = JetStreamExecutor(server.settings(prefix="fetching"))
    serving = asyncio.create_task(executor.serve(worker(count_words)))
    await fetching.wait()
    serving.cancel()
    assert await asyncio.wait([serving], timeout=PATIENCE) == ({serving}, set())
    await executor.aclose()
