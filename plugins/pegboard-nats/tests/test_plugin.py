"""The plugin's hook, its settings, and what they show of a login."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, suppress

import pytest

from pegboard import ToolRegistry, register_plugin, tool
from pegboard.testing import check_plugin
from pegboard_nats import NatsExecutor, NatsSettings, plugin


@tool(executor="nats")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_the_plugin_fulfils_the_contract():
    check_plugin("nats")


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"server": "x"}, "plugins.nats.server: unknown key. Did you mean 'servers'"),
        ({"wait": 0}, "wait must be a number above 0, got 0"),
        ({"prefix": "a.b"}, "prefix must be 1 to 32 letters, digits, '-' and '_', got 'a.b'"),
        ({"servers": [1]}, "servers"),
        ({"servers": "here::://secret"}, "servers must be addresses such as nats://HOST:4222"),
        ({"password": 12345}, "password must be text, got int"),
    ],
)
def test_wrong_settings_are_named(settings, cause):
    problem = str(register_plugin(ToolRegistry(), plugin, "nats", settings=settings))
    assert cause in problem
    assert not {"secret", "12345"} & set(problem.replace("/", " ").split())


def test_a_login_is_neither_in_a_repr_nor_in_an_address():
    settings = NatsSettings(servers=["nats://ann:secret1@a:1", "tls://b:2"], password="secret2", token="secret3")
    assert "secret" not in f"{settings!r}{settings.where}"
    assert settings.where == "nats://a:1, tls://b:2"


def test_settings_of_tls_become_a_context(tmp_path):
    for given in ({"tls": True}, {"servers": "tls://a:1"}, {"tls_hostname": "a"}, {"tls_key": f"{tmp_path}/key.pem"}):
        assert isinstance(NatsSettings(**given).options()["tls"], ssl.SSLContext)
    assert "tls" not in NatsSettings().options()
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(OSError, match=r"."):
        NatsSettings(tls_ca=f"{tmp_path}/ca.pem").options()


def test_a_server_that_is_not_there_is_named_without_the_login_and_nothing_runs():
    async def main():
        async with ToolRegistry() as registry:
            registry.register(add)
            settings = NatsSettings(servers="nats://ann:secret1@127.0.0.1:1", wait=0.2)
            registry.add("executors", "nats", NatsExecutor(settings))
            return await registry.call("add", {"a": 1, "b": 2})

    result = asyncio.run(main())
    assert (result.kind, result.text) == (
        "not_executed",
        "add was not run: the server of its workers can't be reached. Continue without it.",
    )
    assert "NATS at nats://127.0.0.1:1 can't be reached: ConnectionRefusedError" in result.detail
    assert "secret1" not in result.detail


async def call_at(settings):
    async with ToolRegistry() as registry:
        registry.register(add)
        registry.add("executors", "nats", NatsExecutor(settings))
        return await registry.call("add", {"a": 1, "b": 2})


@asynccontextmanager
async def greeting(**info):
    """A server that greets as NATS does; gives its address and what it is sent, and ends when its clients have."""
    sent, serving = bytearray(), set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        known = {"server_id": "x", "version": "2.12.0", "max_payload": 1 << 20, **info}
        writer.write(f"INFO {json.dumps(known)}\r\n".encode())
        sent.extend(await reader.read())
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", sent
        await asyncio.gather(*serving)


@pytest.mark.parametrize("facts", [{"tls": True}, {"servers": "tls://ann:secret1@ADDRESS"}])
async def test_nothing_is_sent_to_a_server_without_tls_where_the_settings_ask_for_it(facts):
    async with greeting() as (address, sent):
        facts = {"servers": "nats://ann:secret1@ADDRESS", **facts}
        facts["servers"] = facts["servers"].replace("ADDRESS", address)
        result = await call_at(NatsSettings(wait=1, **facts))
    assert result.kind == "not_executed"
    assert "it offers no TLS, which the settings ask for" in result.detail
    assert bytes(sent) == b""


@pytest.mark.parametrize("name", ["credentials", "nkey"])
async def test_a_login_that_cannot_be_read_is_named_and_nothing_runs(name, tmp_path):
    async with greeting(nonce="n") as (address, _):
        result = await call_at(NatsSettings(servers=f"nats://{address}", wait=1, **{name: f"{tmp_path}/none"}))
    assert result.kind == "not_executed"
    assert f"NATS at nats://{address} can't be reached" in result.detail
    assert "CancelledError" not in result.detail
