"""Servers on 127.0.0.1; documents, and calls of their tools."""

from __future__ import annotations

import asyncio

import pytest

from http_server import running
from pegboard import Once, ToolCall, ToolRegistry
from pegboard_openapi import OpenAPIToolset


@pytest.fixture
def server():
    with running((200, {}, b'{"ok":true}'), "application/json") as made:
        yield made


@pytest.fixture
def other():
    """A server of another origin."""
    with running((200, {}, b'{"ok":true}'), "application/json") as made:
        yield made


class Api:
    """Documents and their parts, and what their tools do."""

    @staticmethod
    def document(paths, version="3.1.0", server=None, **parts):
        made = {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": paths, **parts}
        return made if server is None else {**made, "servers": [{"url": server.url}]}

    @staticmethod
    def operation(method="get", path="/x", operation_id="x", **facts):
        return {path: {method: {"operationId": operation_id, "responses": {}, **facts}}}

    @staticmethod
    def parameter(name, place="query", schema=None, **facts):
        return {"name": name, "in": place, "schema": schema or {"type": "string"}, **facts}

    @staticmethod
    def body(schema, media="application/json", **facts):
        return {"requestBody": {"content": {media: {"schema": schema, **facts}}, "required": True}}

    @staticmethod
    def offer(*toolsets):
        """What these toolsets offer: the resolved tools."""

        async def resolve():
            async with ToolRegistry() as registry:
                registry.register(*toolsets)
                return await registry.resolve()

        return asyncio.run(resolve())

    @staticmethod
    def tools_of(content, **options):
        """The tools of a document by name, and what was reported, as texts."""
        resolved = Api.offer(OpenAPIToolset(content, name="api", **options))
        return {tool.name: tool for tool in resolved}, [str(problem) for problem in resolved.problems]

    @staticmethod
    def call(content, name, arguments=None, registry=None, **options):
        """The result of one call of a document's tool, which the user allows."""

        async def run():
            async with registry or ToolRegistry() as used:
                used.register(OpenAPIToolset(content, name="api", **options))
                outcome = await used.dispatch(
                    [ToolCall(name, arguments or {}, "1")], approver=lambda _request, _context: Once()
                )
                ((_, result),) = outcome
                return result

        return asyncio.run(run())


@pytest.fixture
def api():
    return Api
