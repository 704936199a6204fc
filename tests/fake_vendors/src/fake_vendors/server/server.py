"""The server: one script for every vendor; the path says which one speaks."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from fake_vendors.server.anthropic_messages import AnthropicMessages
from fake_vendors.server.bedrock import Bedrock
from fake_vendors.server.format import Format
from fake_vendors.server.gemini import Gemini
from fake_vendors.server.ollama import Ollama
from fake_vendors.server.openai_chat import OpenAIChat
from fake_vendors.server.openai_responses import OpenAIResponses
from fake_vendors.server.script import CutError, Error, Json, RefusedError, Reply, Request, Round

FORMATS = {kind.exporter: kind for kind in (OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini, Bedrock, Ollama)}
"""By the exporter that writes such requests."""
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
        """Gives one of the server's pages."""
        page = self.server.pages.get(self.path)
        self.whole(
            404 if page is None else 200, {}, json.dumps(page or {"message": f"there is no {self.path}"}).encode()
        )

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
        pages: What is to be had by GET.
    """

    daemon_threads = False
    request_queue_size = 128

    def __init__(
        self,
        answer: Callable[[Handler, bytes], None],
        failed: Callable[[BaseException], None],
        pages: Mapping[str, Json],
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.pages = pages
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


_POLL = 0.01
"""Seconds until the listener sees that it is to stop."""


_PATHS = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    # The SDK's default version has changed from one major version to the next.
    "gemini": "/v1(?:beta|alpha)?/models/.*:(?:g|streamG)enerateContent",
    "bedrock": "/model/.*/converse(?:-stream)?",
    "ollama": "/api/chat",
}


class ModelServer:
    """Answers on 127.0.0.1 as its script says, in the words of whichever provider is asked.

    A request that breaks the provider's rules is refused in the provider's shape and uses no round. Leaving its `with`
    closes the server and checks it.

    Args:
        rounds: The answers, in order.
        undeclared_calls: Whether the history may hold calls of tools that are no longer declared.
        pages: JSON that is to be had by GET, each by its path with its query.

    Attributes:
        requests: What was sent, in order, refused or not.
        refusals: Why requests were refused.
    """

    def __init__(
        self, rounds: Iterable[Round] = (), *, undeclared_calls: bool = False, pages: Mapping[str, Json] | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.refusals: list[str] = []
        self._rounds = list(rounds)
        self._used = 0
        self._wrong: list[str] = []
        self._lock = threading.Lock()
        self._formats = {name: kind(undeclared_calls=undeclared_calls) for name, kind in FORMATS.items()}
        self._listener = Listener(
            self._answer, lambda error: self._wrong.append(f"the server failed: {error!r}"), pages or {}
        )
        # A daemon, so that a program ends which fails before it has closed the server.
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(_POLL,), name="model server", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://127.0.0.1:{self._listener.server_port}"

    @property
    def unused(self) -> list[Round]:
        """The rounds that nobody has asked for."""
        return self._rounds[self._used :]

    def check(self) -> None:
        """Checks that everything went as the script says.

        Raises:
            AssertionError: A round wasn't asked for, a request had no round, or a round could not be played as written.
        """
        wrong = list(self._wrong)
        if self.unused:
            wrong.append(
                f"{len(self.unused)} of {len(self._rounds)} rounds were never asked for, first {self.unused[0]!r}"
            )
        if wrong:
            raise AssertionError("\n".join([*wrong, *(f"refused: {refusal}" for refusal in self.refusals)]))

    def close(self) -> None:
        """Ends every connection and waits for the server's threads."""
        self._listener.close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self.check()

    def _answer(self, handler: Handler, content: bytes) -> None:
        address = urlsplit(handler.path)
        form = self._form(unquote(address.path))
        if form is None:
            self._wrong.append(f"POST {address.path}: no provider has such a path")
            handler.whole(404, {}, json.dumps({"error": {"message": f"there is no path {address.path}"}}).encode())
            return
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = _parsed(content)
        request = Request(unquote(address.path), address.query, headers, body, form.streamed(address.path, body))
        with self._lock:
            reply = self._reply(form, request)
        self._write(handler, form, reply)

    def _form(self, path: str) -> Format | None:
        return next((self._formats[name] for name, paths in _PATHS.items() if re.fullmatch(paths, path)), None)

    def _reply(self, form: Format, request: Request) -> Reply:
        self.requests.append(request)
        try:
            form.check(request)
        except RefusedError as refused:
            self.refusals.append(refused.message)
            return Reply(Round(error=Error(refused.status, refused.message)), 0, request)
        if self._used == len(self._rounds):
            self._wrong.append(
                f"request {len(self.requests)}, to {request.path}, has no round: the script has {len(self._rounds)}"
            )
            return Reply(Round(error=Error(400, "The script has no round for this request")), 0, request)
        self._used += 1
        reply = Reply(self._rounds[self._used - 1], self._used, request)
        if reply.round.error is None:
            form.remember(reply)
        return reply

    def _write(self, handler: Handler, form: Format, reply: Reply) -> None:
        headers = form.headers(len(self.requests))
        error = reply.round.error
        if error is not None and (error.after is None or not reply.request.streamed):
            handler.whole(error.status, {**headers, **form.error_headers(error)}, _error_content(form, error))
        elif reply.request.streamed:
            handler.stream({**headers, "content-type": form.content_type}, self._frames(form, reply))
        else:
            cut = reply.round.break_after is not None or reply.round.never_ends is not None
            raw = form.body(reply) if reply.round.raw is None else reply.round.raw
            handler.whole(200, headers, raw if isinstance(raw, bytes) else json.dumps(raw).encode(), cut=cut)

    def _frames(self, form: Format, reply: Reply) -> Iterator[bytes]:
        spoilt = _spoilt(reply.round)
        count = 0
        for frame in _whole_stream(form, reply):
            if count == spoilt:
                break
            yield frame
            count += 1
        if spoilt is None:
            yield form.end
            return
        if count < spoilt:
            self._wrong.append(f"round {reply.number} is to be spoilt after {spoilt} events, and has {count}")
        if reply.round.break_after is not None:
            raise CutError
        if reply.round.error is not None:
            yield form.error_frame(reply.round.error)


def _parsed(content: bytes) -> Json:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _error_content(form: Format, error: Error) -> bytes:
    body = form.error_body(error) if error.body is None else error.body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _spoilt(played: Round) -> int | None:
    """After how many events a stream goes wrong."""
    if played.break_after is not None:
        return played.break_after
    return played.stop_after if played.error is None else played.error.after


def _whole_stream(form: Format, reply: Reply) -> Iterator[bytes]:
    raw = reply.round.raw
    if isinstance(raw, bytes):
        yield raw
        return
    events = form.events(reply) if raw is None else raw if isinstance(raw, list | tuple) else [raw]
    for event in events:
        yield event if isinstance(event, bytes) else form.frame(event)
