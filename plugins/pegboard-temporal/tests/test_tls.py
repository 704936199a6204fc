"""Connections by TLS, with certificates and API keys, through a proxy in front of the server."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from conftest import PATIENCE
from hpack import Decoder

from pegboard import Policy, ToolRegistry, tool_of
from pegboard.testing import EXECUTOR_TOOLS
from pegboard_temporal import Settings, TemporalExecutor

pytestmark = pytest.mark.slow
CLIENT_PREFACE = 24  # bytes
HEADERS, PADDED, PRIORITY = 1, 0x8, 0x20  # of HTTP/2's frames (RFC 9113)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def certificates(authority, tmp_path):
    """The settings of TLS, with files of their own."""
    own = authority.issue_cert("worker@example.com")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    return {**files, "server_name": "temporal.example.com"}


@asynccontextmanager
async def behind_tls(server, authority, headers):
    """The address of a proxy that requires a client's certificate; `headers` gets those of each request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("temporal.example.com").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])

    running = set()

    async def forward(reader, writer):
        running.add(asyncio.current_task())
        upstream, up = await asyncio.open_connection("127.0.0.1", server.port)

        async def copy(source, sink, look=lambda _: None):
            while data := await source.read(1 << 16):
                look(data)
                sink.write(data)
                await sink.drain()

        try:
            await asyncio.gather(copy(reader, up, Headers(headers).read), copy(upstream, writer))
        finally:
            for each in (up, writer):
                each.close()

    proxy = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    finally:
        proxy.close()
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Headers:
    """Reader of the headers that a client sends."""

    def __init__(self, found):
        self.found, self.rest, self.decoder = found, b"", Decoder()
        self.skipped = CLIENT_PREFACE

    def read(self, data):
        self.rest += data
        self.rest, self.skipped = self.rest[self.skipped :], max(0, self.skipped - len(self.rest))
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3]):
            length, kind, flags = int.from_bytes(self.rest[:3]), self.rest[3], self.rest[4]
            payload, self.rest = self.rest[9 : 9 + length], self.rest[9 + length :]
            if kind == HEADERS:
                assert not flags & PADDED
                self.found.append(dict(self.decoder.decode(payload[5:] if flags & PRIORITY else payload)))


async def test_a_call_by_tls_with_a_certificate_and_an_api_key(server, worker, authority, certificates):
    headers = []
    async with behind_tls(server, authority, headers) as address:
        settings = Settings(address=address, tls=certificates, api_key="key-of-ann", **PATIENCE)
        async with ToolRegistry() as registry:
            registry.register(*(tool_of(each).evolve(policy=Policy(executor="temporal")) for each in EXECUTOR_TOOLS))
            registry.add("executors", "temporal", TemporalExecutor(settings))
            result = await registry.call("check_add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
    assert {each.get("authorization") for each in headers} == {"Bearer key-of-ann"}


async def test_a_server_whose_certificate_another_authority_has_signed_is_not_used(server, certificates):
    headers = []
    async with behind_tls(server, trustme.CA(), headers) as address:
        executor = TemporalExecutor(Settings(address=address, tls=certificates, api_key="key-of-ann"))
        with pytest.raises(ConnectionError, match="the Temporal server can't be reached"):
            await executor.status()
        await executor.aclose()
    assert headers == []
