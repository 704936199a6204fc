"""A server over HTTP and clients of it, for the tests that need real sockets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pegboard_mcp import ToolServer
from pegboard_mcp.serving.access import HttpSettings
from pegboard_mcp.serving.http import HttpTransport


@pytest.fixture
def serving():
    """A transport that serves a registry over HTTP, and ends in order."""

    @asynccontextmanager
    async def serving(registry, settings=None, address="127.0.0.1:0", **server):
        async with registry:
            transport = HttpTransport(ToolServer(registry, **server), address, settings or HttpSettings())
            task = asyncio.create_task(transport.serve())
            try:
                yield transport
            finally:
                transport.end()
                await asyncio.wait_for(task, 120)

    return serving


@pytest.fixture
def connected():
    """A client of the SDK that shows a token."""

    @asynccontextmanager
    async def connected(transport, token=None, mode="auto", **options):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120) as http,
            Client(streamable_http_client(transport.url, http_client=http), mode=mode, **options) as client,
        ):
            yield client

    return connected
