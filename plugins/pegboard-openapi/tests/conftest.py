"""Real HTTP servers, which record requests and give prepared answers; documents, and calls of their tools."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pegboard import Once, ToolCall, ToolRegistry
from pegboard_openapi import OpenAPIToolset


class Server:
    """A server with the `requests` that it got; `answers`: path -> `(status, headers, body)`, or a function."""

    def __init__(self):
        self.requests, self.answers = [], {}
        self.hang = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                server.requests.append(Request(self.command, self.path, self.headers, body))
                answer = server.answers.get(self.path.partition("?")[0], (200, {}, b'{"ok":true}'))
                if callable(answer):
                    answer = answer(server.requests[-1])
                if answer is None:  # no answer at all
                    self.close_connection = True
                    return
                status, headers, content = answer
                self.send_response(status)
                for key, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(key, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    try:
                        self.wfile.write(content)
                    except OSError:  # the client has read enough
                        self.close_connection = True

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    @property
    def last(self):
        return self.requests[-1]


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body


@contextmanager
def running():
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.hang.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join()


@pytest.fixture
def server():
    with running() as made:
        yield made


@pytest.fixture
def other():
    """A server of another origin."""
    with running() as made:
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
