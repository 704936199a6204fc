"""The plugin's hook and its settings."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest
from hpack import Encoder

from pegboard import Policy, ToolRegistry, register_plugin, tool_of
from pegboard.dispatch.executors import executor as calls_elsewhere
from pegboard.testing import EXECUTOR_TOOLS, check_plugin
from pegboard_temporal import Settings, TemporalExecutor, link, plugin

ADD = next(each for each in map(tool_of, EXECUTOR_TOOLS) if each.name == "check_add")


@pytest.mark.slow
def test_the_plugin_fulfils_the_contract():
    check_plugin("temporal")


def test_loading_and_listing_import_no_client():
    code = """if True:
        import sys, pegboard, pegboard_temporal.plugin
        registry = pegboard.ToolRegistry()
        pegboard.register_plugin(registry, pegboard_temporal.plugin, "temporal")
        assert "temporal" in registry.contributions.catalogue.extras["executors"]
        assert "temporalio" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"adress": "a:1"}, "plugins.temporal.adress: unknown key. Did you mean 'address'?"),
        ({"wait": 0}, "wait must be a number from 0.1 to 31622400, got 0"),
        ({"wait": float("inf")}, "wait must be a number from 0.1 to 31622400, got inf"),
        ({"heartbeat": float("nan")}, "heartbeat must be a number from 1 to 31622400, got nan"),
        ({"queue": ".."}, "queue must be 1 to 64 of A-Z, a-z, 0-9, '_' and '-', got '..'"),
        ({"tls": {"cret": "a.pem"}}, "tls.cret: unknown key. Did you mean 'cert'?"),
        ({"tls": "yes"}, "tls must be true, or a table of texts"),
        ({"api_key": ["secret-key"]}, "api_key must be text"),
    ],
)
def test_wrong_settings_are_named_without_secrets(settings, cause):
    problem = str(register_plugin(ToolRegistry(), plugin, "temporal", settings=settings))
    assert cause in problem
    assert "secret-key" not in problem


def test_the_address_and_keys_are_not_shown():
    settings = Settings(address="secret.host:7233", namespace="secret-space", api_key="secret-key")
    assert "secret" not in f"{settings!r} {TemporalExecutor(settings)!r}"


async def test_a_server_that_cant_be_reached_is_reported_without_its_address(caplog, monkeypatch):
    monkeypatch.setattr("pegboard_temporal.link._PATIENCE", {})
    executor = TemporalExecutor(Settings(address="127.0.0.1:1", api_key="secret-key"))
    async with ToolRegistry() as registry:
        registry.register(ADD.evolve(policy=Policy(executor="away")))
        registry.add("executors", "away", executor)
        result = await registry.call("check_add", {"a": 1, "b": 2})
    assert result.kind == "not_executed"
    assert "can't be reached" in result.text
    assert not {"127.0.0.1", "secret"} & {*f"{result!r} {caplog.text}".split()}
    assert "127.0.0.1:1" not in f"{result!r} {caplog.text}"


@pytest.mark.parametrize("status", [7, 16])  # of gRPC: permission denied, unauthenticated
async def test_a_server_that_refuses_is_asked_once(status):
    async def refuse(reader, writer):
        """Answers the first request with the status, by frames of HTTP/2 (RFC 9113)."""
        writer.write(bytes.fromhex("000000040000000000"))  # settings, none
        await reader.readuntil(bytes.fromhex("010400000001"))  # the headers of the first request
        asked.append(status)
        headers = {":status": "200", "content-type": "application/grpc", "grpc-status": f"{status}"}
        block = Encoder().encode({**headers, "grpc-message": "secret"})
        writer.write(len(block).to_bytes(3, "big") + bytes.fromhex("010500000001") + block)  # headers, the end
        await reader.read()
        writer.close()

    asked = []
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    executor = TemporalExecutor(Settings(address=f"127.0.0.1:{port}"))
    with pytest.raises(ConnectionError, match="the Temporal server refuses the API key or the certificate"):
        await executor.attach("key")
    assert asked == [status]
    server.close()


async def test_a_missing_file_of_tls_is_reported_without_its_path(caplog):
    executor = TemporalExecutor(Settings(tls={"ca": "/secret/ca.pem"}))
    async with ToolRegistry() as registry:
        registry.register(ADD.evolve(policy=Policy(executor="away")))
        registry.add("executors", "away", executor)
        result = await registry.call("check_add", {"a": 1, "b": 2})
    assert (result.kind, result.detail) == ("not_executed", "the settings for Temporal are invalid: FileNotFoundError")
    assert "secret" not in f"{result!r} {caplog.text}"


async def test_nothing_is_left_of_a_connection_that_failed(monkeypatch):
    async def connect(settings):
        raise ConnectionError("the Temporal server can't be reached")

    def links():
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is link.Link]  # a proxy's class may raise

    monkeypatch.setattr(link, "connect", connect)
    before = len(links())
    async with ToolRegistry() as registry:
        registry.register(ADD.evolve(policy=Policy(executor="away")))
        registry.add("executors", "away", TemporalExecutor(Settings()))
        for _ in range(2):
            assert (await registry.call("check_add", {"a": 1, "b": 2})).kind == "not_executed"
            for thread in threading.enumerate():
                if thread.name == "pegboard-temporal":
                    await asyncio.to_thread(thread.join)
    del registry
    assert len(links()) == before


async def test_a_call_has_the_time_for_three_runs_as_workers_may_die(monkeypatch):
    seconds, make = [], calls_elsewhere.new_deadline

    def new_deadline(state, name, longest, grace):
        seconds.append(longest)
        return make(state, name, longest, grace)

    async def connect(settings):
        raise ConnectionError("the Temporal server can't be reached")

    monkeypatch.setattr(calls_elsewhere, "new_deadline", new_deadline)
    monkeypatch.setattr(link, "connect", connect)
    async with ToolRegistry() as registry:
        registry.register(ADD.evolve(policy=Policy(executor="away", timeout=600.0)))
        registry.add("executors", "away", TemporalExecutor(Settings(wait=60.0, heartbeat=15.0)))
        await registry.call("check_add", {"a": 1, "b": 2})
    assert seconds == [3 * (600.0 + 60.0 + 15.0)]


async def test_a_call_that_is_cancelled_while_the_executor_connects_cancels_no_other(monkeypatch):
    connecting, gate = threading.Event(), threading.Event()

    async def connect(settings):
        connecting.set()
        await asyncio.to_thread(gate.wait)
        raise ConnectionError("the Temporal server can't be reached")

    monkeypatch.setattr("pegboard_temporal.link.connect", connect)
    async with ToolRegistry() as registry:
        registry.register(ADD.evolve(policy=Policy(executor="away")))
        registry.add("executors", "away", TemporalExecutor(Settings()))
        first, second = (asyncio.ensure_future(registry.call("check_add", {"a": 1, "b": 2})) for _ in range(2))
        await asyncio.to_thread(connecting.wait)
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        assert (await second).kind == "not_executed"
