"""`Handler`: HTTP for one connection, and `Listener`, the socket that takes connections."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from model_server.reply import CutError

MOST_BYTES = 64 * 1024 * 1024
"""Of one request."""


class Handler(BaseHTTPRequestHandler):
    """Reads requests off one connection and writes what the server answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_POST(self) -> None:
        """Reads one request and has it answered."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self.whole(411, {}, b"a content-length is required, of at most 64 MiB")
            return
        content = self.rfile.read(int(length))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a client that doesn't read on
            self.server.answer(self, content)

    def do_GET(self) -> None:
        """Nothing is to be had so."""
        self.whole(404, {}, b"there is nothing to get")

    def whole(self, status: int, headers: Mapping[str, str], content: bytes, *, cut: bool = False) -> None:
        """Writes an answer in one piece; `cut`: only half of it."""
        self._head(status, {"content-type": "application/json", **headers, "content-length": str(len(content))})
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._cut()

    def stream(self, headers: Mapping[str, str], frames: Iterator[bytes]) -> None:
        """Writes an answer in chunks; a `CutError` among them leaves it without its end."""
        self._head(200, {**headers, "transfer-encoding": "chunked"})
        try:
            for frame in frames:
                if frame:
                    self._chunk(frame)
            self._chunk(b"")
        except CutError:
            self._cut()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Says nothing: tests read `requests`."""

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)


class Listener(ThreadingHTTPServer):
    """Takes connections on 127.0.0.1, a thread each, and ends them all when it is closed.

    Args:
        answer: Answers one request; gets its handler and the body.
        failed: Told of what went wrong in a handler.
    """

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, answer: Callable[[Handler, bytes], None], failed: Callable[[BaseException], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self._failed = failed
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, and notes it."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Notes what a handler raised."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self._failed(error)

    def close(self) -> None:
        """Stops listening and ends every connection; waits for their threads."""
        self.shutdown()
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
