"""Real HTTP servers on 127.0.0.1, which record requests and give prepared answers."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Request:
    """A request that was received; it also sends the answer, as its `BaseHTTPRequestHandler` does."""

    def __init__(self, handler):
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.body = handler.rfile.read(int(self.headers.get("content-length") or 0))
        self._handler = handler

    def __getattr__(self, name):
        return getattr(self._handler, name)

    def write(self, content):
        """Whether the client still reads."""
        try:
            self.wfile.write(content)
        except OSError:
            self._handler.close_connection = True
            return False
        return True


class Server:
    """A server with the `requests` that it got.

    `answers`: path -> `(status, headers, body)`, or a function of the request that gives this, or `None` if it has
    written the answer itself, or there is none. `missing` is the answer of other paths; `end` is set as the test ends.
    """

    def __init__(self, missing, kind):
        self.requests, self.answers, self.missing, self.kind = [], {}, missing, kind
        self.end = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return lambda: server.answer(self)
                raise AttributeError(name)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # of a client that has read enough
        self.port = self.http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def answer(self, handler):
        request = Request(handler)
        self.requests.append(request)
        answer = self.answers.get(request.path.partition("?")[0], self.missing)
        if callable(answer):
            answer = answer(request)
        if answer is None:
            handler.close_connection = True
            return
        status, headers, content = answer
        handler.send_response(status)
        for key, value in {"content-type": self.kind, **headers, "content-length": str(len(content))}.items():
            handler.send_header(key, value)
        handler.end_headers()
        if request.method != "HEAD":
            request.write(content)

    def page(self, path, content, kind="text/html", **headers):
        """Prepares a page, and gives its URL."""
        content = content.encode() if isinstance(content, str) else content
        self.answers[path] = 200, {"content-type": kind, **headers}, content
        return self.url + path

    def redirect(self, path, target, status=302):
        self.answers[path] = status, {"location": target}, b""
        return self.url + path

    @property
    def last(self):
        return self.requests[-1]

    @property
    def paths(self):
        return [request.path for request in self.requests]


@contextmanager
def running(missing, kind):
    """A server while the block runs."""
    server = Server(missing, kind)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join()
