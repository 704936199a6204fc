"""MCP over streamable HTTP: the SDK's app behind limits, with a graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from weakref import WeakValueDictionary

import anyio
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pegboard.errors import ConfigError
from pegboard.files import os_error_text
from pegboard_mcp.serving.access import HttpSettings, is_loopback
from pegboard_mcp.serving.events import EVENTS, Events, ReservedId, SessionEvents, TakenIdError

if TYPE_CHECKING:
    from pegboard_mcp.serving.server import ToolServer

PATH: Final = "/mcp"
HEALTH: Final = "/health"
ABORTED_SECONDS: Final = 2.0
"""How long aborted calls may take to end."""

RETRY_MILLISECONDS: Final = 1_000
"""How long a client is asked to wait before it resumes a stream that broke off."""

_AUTHORITY: Final = re.compile(r"(?:[\w.+-]+://)?(?:[^:/\[\]]*|\[[\da-fA-F:.]*\])(?::\d{1,5})?")
_SINGLE: Final = (
    "origin",
    "authorization",
    "content-type",
    "last-event-id",
    MCP_SESSION_ID_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
)
_LEAST_ERROR: Final = 400
_MOST_LOGGED: Final = 100
_MOST_RATED: Final = 10_000
_BACKLOG: Final = 1_024


class HttpTransport:
    """HTTP transport, for many clients.

    Attributes:
        url: The URL for clients.

    Args:
        server: The tool server.
        address: `HOST:PORT`; port 0 is any free one.
        settings: Tokens, names and limits.

    Raises:
        ConfigError: The address is invalid, can't be bound, or is reachable from other machines without a token.
    """

    def __init__(self, server: ToolServer, address: str, settings: HttpSettings) -> None:
        given, self._listener = _bind(address, settings)
        host, port = self._listener.getsockname()[:2]
        self.url: Final = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        self._server = server
        self._settings = settings
        self._rate = _Rate(settings.rate)
        self._events: WeakValueDictionary[str, Events] = WeakValueDictionary()
        self._opening: set[Events] = set()  # sessions whose first request isn't answered yet
        self._ended = asyncio.Event()
        self._requests = 0
        self._requests_of: Counter[str | None] = Counter()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._streams: set[anyio.CancelScope] = set()
        security = settings.security(host, given)
        self._names = TransportSecurityMiddleware(security)
        self._app = server.server.streamable_http_app(
            streamable_http_path=PATH,
            event_store=SessionEvents(),
            retry_interval=RETRY_MILLISECONDS,
            max_request_body_size=settings.body,
            session_idle_timeout=settings.idle_seconds,
            max_sessions=settings.sessions,
            transport_security=security,
            auth=settings.auth(),
            token_verifier=settings.verifier(),
            custom_starlette_routes=[Route(HEALTH, _health)],
        )
        self._app.user_middleware.append(Middleware(self._gate))  # innermost: after the authentication

    def end(self) -> None:
        """Starts the shutdown: no new calls, running ones are answered. Called in the event loop."""
        self._ended.set()

    async def serve(self) -> None:
        """Serves until `end` is called."""
        protocol = partial(_Protocol, self._settings.body_seconds, self._settings.places // 2, Counter[str]())
        config = uvicorn.Config(
            self._app,
            http=cast("type[asyncio.Protocol]", protocol),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=self._settings.places,
            timeout_graceful_shutdown=ceil(ABORTED_SECONDS),
        )
        server = _Uvicorn(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_order, server)
            await server.serve([self._listener])
            self.end()

    async def _end_in_order(self, server: uvicorn.Server) -> None:
        """On shutdown, waits for running requests, aborts those that take too long, and closes the streams."""
        await self._ended.wait()
        self._server.takes_calls = False
        self._server.end()
        with anyio.move_on_after(self._settings.grace):
            await self._all_answered.wait()
        if self._requests:
            self._server.interrupt()
            with anyio.move_on_after(ABORTED_SECONDS):
                await self._all_answered.wait()
        for stream in list(self._streams):
            stream.cancel()
        server.should_exit = True

    def _gate(self, app: ASGIApp) -> ASGIApp:
        """Middleware in front of the SDK's app: refuses, counts and logs requests."""

        async def gate(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            request, sent = Request(scope), _Sent(send)
            asked = _Asked.of(request)
            refused = await self._check(asked)
            if refused is not None:
                await refused(scope, receive, sent.send)
            else:
                events, client = self._events_of(asked, sent), asked.client
                self._requests_of[client] += 1
                try:
                    await self._serve(app, asked, receive, sent, events)
                finally:
                    self._opening.discard(events)
                    self._requests_of[client] -= 1
                    if not self._requests_of[client]:
                        del self._requests_of[client]
            if sent.status >= _LEAST_ERROR:
                address = request.client.host if request.client else "?"
                log = logging.getLogger("pegboard.mcp")
                path = request.url.path[:_MOST_LOGGED]
                log.warning(
                    "%s %r from %s was answered with %d%s", request.method, path, address, sent.status, sent.reason()
                )

        return gate

    async def _serve(self, app: ASGIApp, asked: _Asked, receive: Receive, sent: _Sent, events: Events) -> None:
        """Serves one request; a stream (GET) ends at shutdown."""
        request = asked.request
        if request.method == "GET":
            with anyio.CancelScope() as stream:
                self._streams.add(stream)
                try:
                    await app(request.scope, receive, sent.send)
                finally:
                    self._streams.discard(stream)
            if stream.cancelled_caught:
                await sent.end()
            return
        id_ = ReservedId(events)
        self._requests += 1
        self._all_answered.clear()
        try:
            on_body = id_.take if asked.has_sessions and asked.session is not None else None
            await app(request.scope, _in_time(receive, self._settings.body_seconds, on_body), sent.send)
        except TakenIdError as error:
            await _refusal(400, str(error), INVALID_REQUEST, error.id)(request.scope, receive, sent.send)
        finally:
            id_.end(is_refused=sent.status >= _LEAST_ERROR)
            self._requests -= 1
            if not self._requests:
                self._all_answered.set()

    def _events_of(self, asked: _Asked, sent: _Sent) -> Events:
        """The stored events of a request's session, also set in the context."""
        known = None if asked.session is None else self._events.get(asked.session)
        events = known or Events(asked.client if asked.session is None else None)
        EVENTS.set(events)
        if asked.opens_session:
            self._opening.add(events)

        def on_session(opened: str) -> None:
            self._events[opened] = events
            self._opening.discard(events)

        if asked.session is None:
            sent.on_session = on_session
        return events

    def _sessions_of(self, client: str) -> int:
        """The number of a client's sessions; the SDK only counts those of all clients."""
        alive = self._server.server.session_manager._server_instances  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        opened = [events for id_, events in self._events.items() if id_ in alive]
        return sum(events.client == client for events in (*opened, *self._opening))

    async def _check(self, asked: _Asked) -> Response | None:
        """The error response to a refused request; `None` for an accepted one."""
        request, client = asked.request, asked.client
        names = request.headers.keys()
        for header in _SINGLE:
            if names.count(header) > 1:  # a proxy may have read another one
                return _refusal(400, f"More than one {header.title()} header", INVALID_REQUEST)
        for header, status in (("host", 421), ("origin", 403)):
            if not _AUTHORITY.fullmatch(request.headers.get(header, "")):  # the SDK accepts any text as the port
                return Response(f"Invalid {header.title()} header", status)
        refused = await self._names.validate_request(request)
        if refused is not None:
            return refused
        if self._ended.is_set() and asked.opens_session:
            return _refusal(503, "The server is shutting down", INTERNAL_ERROR)
        if not self._rate.take(client or ""):
            return _refusal(429, "Too many requests: wait a second", INVALID_REQUEST)
        return None if client is None else self._limit_refusal(client, opens_session=asked.opens_session)

    def _limit_refusal(self, client: str, *, opens_session: bool) -> Response | None:
        """The error response to a client that has reached its limits; `None` for an accepted request."""
        settings = self._settings
        if opens_session and self._sessions_of(client) >= settings.user_sessions:
            text = f"Too many open sessions of one client: {settings.user_sessions} (user_sessions)"
            return _refusal(429, text, INVALID_REQUEST)
        if self._requests_of[client] >= settings.user_places:
            text = f"Too many requests of one client at once: {settings.user_places} (user_sessions)"
            return _refusal(429, text, INVALID_REQUEST)
        return None


class _Sent:
    """Wrapper around `send` that tracks a response.

    Attributes:
        status: The status of the response; 0 before it has begun.
        on_session: Called with the id of a session that the response opens.

    Args:
        send: The wrapped function.
    """

    def __init__(self, send: Send) -> None:
        self.status = 0
        self.on_session: Callable[[str], None] | None = None
        self._send = send
        self._is_whole = False
        self._refusal = b""

    async def send(self, message: Message) -> None:
        """Sends a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.on_session is not None:
                session = dict(message.get("headers", ())).get(MCP_SESSION_ID_HEADER.encode())
                if session is not None:
                    self.on_session(session.decode())
        else:
            self._is_whole = not message.get("more_body", False)
            if self.status >= _LEAST_ERROR:
                self._refusal = message.get("body", b"")
        await self._send(message)

    def reason(self) -> str:
        """Why a request was refused, for the log; empty if that could quote the arguments of a call."""
        try:
            error = from_json(self._refusal)["error"]
            return f": {error['message']}" if error["code"] == INVALID_REQUEST else ""
        except (ValueError, LookupError, TypeError):
            return ""

    async def end(self) -> None:
        """Completes a response that has begun."""
        if self.status and not self._is_whole:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


class _Asked(NamedTuple):
    """What a request's headers and its token say.

    Attributes:
        request: The request.
        client: The client that its limits count for: its token's user, or, without a token, its address; `None` for
            programs on this machine, which may be a proxy for many clients.
        session: The id of its session, or `None`.
        has_sessions: Whether its protocol revision has sessions.
    """

    request: Request
    client: str | None
    session: str | None
    has_sessions: bool

    @classmethod
    def of(cls, request: Request) -> _Asked:
        """What a request says."""
        user, address = request.scope.get("user"), request.client.host if request.client else ""
        client = None if is_loopback(address) else address
        if isinstance(user, AuthenticatedUser) and user.access_token.subject is not None:
            client = f"user {user.access_token.subject}"
        headers = request.headers
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        return cls(request, client, headers.get(MCP_SESSION_ID_HEADER), version in HANDSHAKE_PROTOCOL_VERSIONS)

    @property
    def opens_session(self) -> bool:
        """Whether it would open a session, or asks whether it may."""
        return self.has_sessions and self.session is None


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _bind(address: str, settings: HttpSettings) -> tuple[str, socket.socket]:
    """The host as given, and a listening socket.

    Raises:
        ConfigError: The address is invalid, can't be bound, or `check_bind` refuses it.
    """
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ConfigError(f"{address!r} isn't HOST:PORT, such as 127.0.0.1:8000", file="--http")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        settings.check_bind(str(where[0]))
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise ConfigError(f"can't serve at {address}: {os_error_text(error)}", file="--http") from None
    return host, listener


def _refusal(status: int, message: str, code: int, id_: RequestId | None = None) -> Response:
    error = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
    return JSONResponse(error, status, {"Retry-After": "1"})


def _in_time(receive: Receive, seconds: float, on_body: Callable[[bytes], Awaitable[None]] | None) -> Receive:
    """Wrapper around `receive` with a time limit for the whole body, which is passed to `on_body` once complete."""
    until = asyncio.get_running_loop().time() + seconds
    body, whole = bytearray(), False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            text = f"The body took longer than {seconds:g} seconds"
            raise HTTPException(408, text, {"Connection": "close"}) from None
        whole = not message.get("more_body", False)
        if on_body is not None:
            body.extend(message.get("body", b""))
            if whole:
                await on_body(bytes(body))
        return message

    return receive_in_time


class _Rate:
    """Token buckets by client.

    Args:
        rate: Requests a second; bursts may be twice as large.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Takes a token; gives whether there was one."""
        now = time.monotonic()
        most = max(1.0, 2 * self._rate)
        left, at = self._buckets.pop(key, (most, now))
        left = min(most, left + (now - at) * self._rate)
        may = left >= 1
        self._buckets[key] = (left - may, now)
        if len(self._buckets) > _MOST_RATED:
            self._buckets.popitem(last=False)
        return may


class _Uvicorn(uvicorn.Server):
    """Uvicorn's server, which leaves signals to the command."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Captures none."""
        yield


class _Protocol(H11Protocol):
    """Uvicorn's protocol with a time limit for a request's headers, and a limit of connections.

    Args:
        seconds: How long the headers may take.
        most: Connections of one address of another machine, which may be a proxy; more are closed at once.
        connections: The number of connections of each address.
        options: As uvicorn calls it.
    """

    def __init__(self, seconds: float, most: int, connections: Counter[str], **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        self._most = most
        self._connections = connections
        self._is_ended = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._host = self.client[0] if self.client else ""
        self._connections[self._host] += 1
        if self._connections[self._host] > self._most and not is_loopback(self._host):
            logging.getLogger("pegboard.mcp").warning("%s has more than %d connections", self._host, self._most)
            transport.close()
        self._idle = self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.cancel()  # it references the connection
        self._connections[self._host] -= 1
        if not self._connections[self._host]:
            del self._connections[self._host]

    def data_received(self, data: bytes) -> None:
        if not self._is_ended:
            super().data_received(data)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            # Refused before the end of its body, whose rest is discarded: if the connection was closed at once, the
            # client could lose the answer.
            self._is_ended = True
            self.transport.write_eof()
        self._idle.cancel()
        self._idle = self._wait_for_request()

    def _wait_for_request(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._seconds, self._close_if_idle, self.cycle)

    def _close_if_idle(self, answered: object) -> None:
        if self.cycle is answered and not self.transport.is_closing():
            self.transport.close()
