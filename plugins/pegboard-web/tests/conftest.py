"""Real servers on 127.0.0.1, which record requests and give prepared answers; and calls of the tools."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pegboard import Once, ToolCall, ToolRegistry
from pegboard_web import Settings, WebFetch


class Server:
    """A server with the `requests` that it got; `answers`: path -> `(status, headers, body)`, or a function."""

    def __init__(self):
        self.requests, self.answers = [], {}
        self.end = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.requests.append(Request(self.command, self.path, self.headers, body))
                answer = server.answers.get(self.path.partition("?")[0], (404, {}, b"nothing here"))
                if callable(answer):
                    answer = answer(self)
                if answer is None:  # it was written, or there is none
                    self.close_connection = True
                    return
                status, headers, content = answer
                self.send_response(status)
                for key, value in {"content-type": "text/plain", **headers}.items():
                    self.send_header(key, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.write(content)

            do_POST = do_GET  # noqa: N815  as the class has it

            def write(self, content):
                """Whether the client still reads."""
                try:
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True
                    return False
                return True

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a client that has read enough
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.port = self.http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def last(self):
        return self.requests[-1]

    @property
    def paths(self):
        return [request.path for request in self.requests]

    def page(self, path, content, kind="text/html", **headers):
        """Prepares a page, and gives its URL."""
        content = content.encode() if isinstance(content, str) else content
        self.answers[path] = 200, {"content-type": kind, **headers}, content
        return self.url + path

    def redirect(self, path, target, status=302):
        self.answers[path] = status, {"location": target}, b""
        return self.url + path


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
        server.end.set()
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
