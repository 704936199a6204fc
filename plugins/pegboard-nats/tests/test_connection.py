"""The connections of both executors over a real server: logins, ends, and the loops that they belong to."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import suppress

import nats
import pytest
from nats_running import KINDS, PATIENCE, Server, WorkerProcess, calling, worker

from pegboard import Policy, ToolRegistry, tool_of
from pegboard.testing import executors as suite
from pegboard_nats import NatsExecutor, NatsSettings

both = pytest.mark.parametrize("kind", KINDS)


async def test_another_login_is_refused_and_not_shown(tmp_path):
    made = Server(tmp_path, "--user", "ann", "--pass", "right-one")
    try:
        for password, kind in (("right-one", None), ("wrong-one", "not_executed")):
            executor = NatsExecutor(made.settings(user="ann", password=password, wait=2))
            serving = asyncio.create_task(
                NatsExecutor(made.settings(user="ann", password="right-one")).serve(one := worker())
            )
            async with calling(executor) as registry:
                result = await registry.call("check_add", {"a": 1, "b": 2})
            one.stopping.set()
            await serving
            assert result.kind == kind, result
            assert "wrong-one" not in f"{result.detail}{result.text}"
    finally:
        made.kill()


@both
async def test_a_status_needs_few_rights_and_what_a_login_may_not_do_is_logged(kind, tmp_path, serving, caplog):
    config, stream = tmp_path / "server.conf", "$JS.API.{}.pegboard-calls"
    rights = json.dumps(["pegboard.workers.>", stream.format("STREAM.INFO"), stream.format("CONSUMER.LIST")])
    config.write_text(f"""authorization {{ users = [
        {{user: all, password: p}}
        {{user: few, password: p, permissions: {{publish: {rights}, subscribe: ["_INBOX.>"]}}}}
        {{user: none, password: p, permissions: {{publish: ["none"], subscribe: ["_INBOX.>"]}}}}
    ]}}""")
    made = Server(tmp_path / "data", "-c", str(config))
    every, few, none = (KINDS[kind](made.settings(user=user, password="p")) for user in ("all", "few", "none"))
    try:
        async with serving(every, worker(name="w")):
            assert [each.name for each in (await few.status()).workers] == ["w"]
            assert "permissions violation" not in caplog.text
            with suppress(ConnectionError):
                assert (await none.status()).workers == ()
            assert "permissions violation for publish" in caplog.text
    finally:
        made.kill()
    for executor in (every, few, none):
        await executor.aclose()


def test_a_forgotten_executors_connection_is_closed_with_its_loop(server):
    """As warnings are errors, a connection that is left open would fail this."""

    async def main():
        await NatsExecutor(server.settings(prefix="forgotten")).status()
        gc.collect()

    asyncio.run(main())
    gc.collect()


async def test_a_connection_that_is_closed_at_once_is_refused_to_who_waits_for_it_and_then_made_anew(server):
    executor = NatsExecutor(server.settings(prefix="closed"))
    waiting = asyncio.create_task(executor.status())
    await asyncio.sleep(0)  # it has begun to connect
    async with asyncio.timeout(PATIENCE):
        await executor.aclose()
        with pytest.raises(ConnectionError):
            await waiting
        assert (await executor.status()).workers == ()
    await executor.aclose()


async def test_a_call_that_is_cancelled_while_it_connects_leaves_nothing_to_log(server, caplog):
    executor = NatsExecutor(server.settings(prefix="cancelled"))
    asked = asyncio.create_task(executor.status())
    await asyncio.sleep(0)  # it has begun to connect
    asked.cancel()
    await asyncio.wait([asked])
    await executor.aclose()
    gc.collect()
    assert "can't be reached" not in caplog.text


@both
async def test_a_connection_that_the_server_closes_for_good_ends_its_worker_and_is_made_anew_for_the_next_call(
    kind, tmp_path
):
    config = tmp_path / "server.conf"
    config.write_text("authorization { token: right }")
    made = Server(tmp_path / "data", "-c", str(config))
    try:
        executor, far = (KINDS[kind](made.settings(token="right")) for _ in range(2))
        serving = asyncio.create_task(far.serve(one := worker()))
        async with calling(executor) as registry, asyncio.timeout(PATIENCE):
            await one.started.wait()
            assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            made.configure(config, "authorization { token: other }")
            with pytest.raises(ConnectionError, match="Authorization"):
                await serving
            made.configure(config, "authorization { token: right }")
            await (await nats.connect(made.url, token="right", max_reconnect_attempts=-1)).close()
            serving = asyncio.create_task(far.serve(one := worker()))
            await one.started.wait()
            assert (await registry.call("check_add", {"a": 1, "b": 3})).structured_content == {"result": 4}
            one.stopping.set()
            await serving
        await far.aclose()
        await executor.aclose()
    finally:
        made.kill()


@both
def test_each_loop_has_a_connection_that_is_closed_with_it(kind, server):
    """As warnings are errors, a connection that is left open would fail this."""
    executor = KINDS[kind](server.settings(prefix=f"loops-{kind}"))
    process = WorkerProcess(kind, {"servers": server.url, "prefix": f"loops-{kind}", "synced": True}).wait()
    registry = ToolRegistry()
    registry.register(tool_of(suite.check_add).evolve(policy=Policy(executor="far")))
    registry.add("executors", "far", executor)
    for _ in range(3):
        assert registry.call_sync("check_add", {"a": 1, "b": 2}).structured_content == {"result": 3}
    assert process.kill(15) == 0


@pytest.mark.slow
async def test_a_server_that_is_silent_is_asked_for_a_sign_within_half_a_minute():
    asked = asyncio.Queue()

    async def serve(reader, writer):
        writer.write(b'INFO {"max_payload": 1048576}\r\n')
        async for line in reader:
            if line.startswith(b"PING"):
                asked.put_nowait(line)
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as silent:
        executor = NatsExecutor(NatsSettings(servers=f"nats://127.0.0.1:{silent.sockets[0].getsockname()[1]}"))
        await executor.status()
        async with asyncio.timeout(30):
            for _ in range(2):  # the first one when it connects
                await asked.get()
        await executor.aclose()
