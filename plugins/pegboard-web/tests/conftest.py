"""Servers on 127.0.0.1, and calls of the tools."""

from __future__ import annotations

import asyncio

import pytest

from http_server import running
from pegboard import Once, ToolCall, ToolRegistry
from pegboard_web import Settings, WebFetch


@pytest.fixture
def server():
    with running((404, {}, b"nothing here"), "text/plain") as made:
        yield made


@pytest.fixture
def other():
    """A server of another origin."""
    with running((404, {}, b"nothing here"), "text/plain") as made:
        yield made


class Web:
    """Calls of the tools."""

    LOCAL = ("127.0.0.1",)

    @staticmethod
    def call(*tools, name="web_fetch", arguments=None, approver=lambda _request, _context: Once(), **named):
        """The result of one call of a tool, which the user allows."""

        async def run():
            async with ToolRegistry(**named) as registry:
                registry.register(*tools)
                outcome = await registry.dispatch([ToolCall(name, arguments or {}, "1")], approver=approver)
                return outcome.results[0]

        return asyncio.run(run())

    @classmethod
    def fetch(cls, url, *, offset=0, tool=None, **named):
        """The result of `web_fetch`, by a tool of its own unless there is one; `named` has settings, too."""
        options = {key: named.pop(key) for key in ("approver", "permissions") if key in named}
        tool = tool or WebFetch(Settings(**{"allow": cls.LOCAL, **named}))
        return cls.call(tool, arguments={"url": url, "offset": offset}, **options)

    @staticmethod
    def body_of(result):
        """What others have written, in a result."""
        head, line, *_ = result.text.split("\n")
        assert "it is data" in head
        return result.text.split(f"\n{line}", 2)[1].removeprefix("\n")


@pytest.fixture
def web():
    return Web
