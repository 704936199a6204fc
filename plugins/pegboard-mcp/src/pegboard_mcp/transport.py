"""Transports to one server: a child process, or HTTP, with limits on the size of messages."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pegboard.errors import cause_of, operator_log
from pegboard.programs import ProcessTree
from pegboard_mcp.inbox import BrokenServerError, Inbox, parse_message, readable
from pegboard_mcp.settings import ServerSettings

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import ReadStream, TransportStreams

MOST_GARBAGE: Final = 1_000
"""Consecutive lines that aren't messages; then the connection ends."""

EXIT_SECONDS: Final = 1.0
"""How long a process may take to end once its input is closed."""

TERMINATE_SECONDS: Final = 0.5
"""How long it may take to end after SIGTERM; then its process group is killed."""

MOST_SSE: Final = 1024 * 1024
"""Bytes of one message by SSE, the transport before streamable HTTP: the SDK's own limit."""

_HTTP_SECONDS: Final = 30.0
_HTTP_READ_SECONDS: Final = 3_600.0  # calls have limits of their own, and a stream may be silent for long


class _InboxStream:
    """A read stream whose items pass an inbox."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], inbox: Inbox) -> None:
        self._inner = inner
        self._inbox = inbox
        self._failure: str | None = None  # set if the last item was an error

    async def receive(self) -> SessionMessage | Exception:
        inbox = self._inbox
        try:
            item = await self._inner.receive()
            self._failure = cause_of(item) if isinstance(item, Exception) else None
            return inbox.take(item)
        except BrokenServerError as error:
            inbox.broken = str(error)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            inbox.broken = inbox.broken or self._failure
        inbox.ended.set()
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def transport_to(
    name: str, settings: ServerSettings, inbox: Inbox, auth: httpx2.Auth | None, *, sse: bool
) -> AsyncGenerator[TransportStreams]:
    """The streams of a connection, which ends with the context.

    Args:
        name: The server's name.
        settings: Its settings.
        inbox: Filters its messages.
        auth: The OAuth provider, or `None`.
        sse: Whether to use SSE for a server with a URL.
    """
    async with AsyncExitStack() as stack:
        if settings.command is not None:
            streams = await stack.enter_async_context(child_process(name, settings, inbox))
        elif sse:
            assert settings.url is not None

            def client(*_: Any, **_options: Any) -> httpx2.AsyncClient:
                return _http_client(min(settings.most_bytes, MOST_SSE), settings, inbox, auth)

            streams = await stack.enter_async_context(sse_client(settings.url, httpx_client_factory=client))
        else:
            assert settings.url is not None
            http = await stack.enter_async_context(_http_client(settings.most_bytes, settings, None, auth))
            connect = streamable_http_client(settings.url, http_client=http, max_sse_event_size=settings.most_bytes)
            streams = await stack.enter_async_context(connect)
        yield _InboxStream(streams[0], inbox), streams[1]


# Child processes --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def child_process(name: str, settings: ServerSettings, inbox: Inbox) -> AsyncGenerator[TransportStreams]:
    """A server in a child process; the SDK's transport reads lines of any length, and leaves grandchildren running.

    Raises:
        OSError: It can't be started.
    """
    inherited = {key: value for key in settings.inherit if (value := os.environ.get(key)) is not None}
    tree = ProcessTree(finds_daemons=False)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            settings.command or "",
            *settings.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=None if settings.cwd is None else expand(settings.cwd),
            limit=settings.most_bytes,
            **tree.options({**get_default_environment(), **inherited, **settings.env}),
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):  # asyncio would only end the process, not its children
            await asyncio.wait([starting])
            if starting.exception() is None:
                tree.add(starting.result().pid)
                await _end(starting.result(), tree, 0.0)
        raise
    tree.add(process.pid)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    speaking = [
        asyncio.create_task(_read(name, process, incoming, inbox)),
        asyncio.create_task(_write(process, outgoing, incoming, inbox)),
    ]
    listening = asyncio.create_task(_listen(name, process, inbox))
    try:
        yield read_stream, write_stream
    finally:
        write_stream.close()
        read_stream.close()
        with anyio.CancelScope(shield=True):
            await _cancel(*speaking)
            draining = asyncio.create_task(_drain(process))
            await _end(process, tree, EXIT_SECONDS if inbox.is_ready and inbox.broken is None else 0.0)
            await _cancel(listening, draining)
        for stream in (incoming, outgoing):
            stream.close()


def expand(folder: str) -> str:
    """The folder as an absolute path, `~` expanded."""
    return os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111  a text is wanted


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Discards output: a process blocked on a full pipe can't end."""
    assert process.stdout is not None
    with suppress(ConnectionError):
        while await process.stdout.read(1 << 16):
            pass


async def _end(process: asyncio.subprocess.Process, tree: ProcessTree, seconds: float) -> None:
    """Closes a process's input, waits the given seconds, then ends its process group by SIGTERM and SIGKILL."""
    assert process.stdin is not None
    process.stdin.close()
    for wait, number in ((seconds, signal.SIGTERM), (TERMINATE_SECONDS, signal.SIGKILL)):
        # also waits until its pipes are closed, which its children may hold open
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), wait)
            break
        tree.signal(number)
    tree.kill()  # children that hold no pipe
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), TERMINATE_SECONDS)


async def _read(
    name: str,
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    inbox: Inbox,
) -> None:
    """Forwards the messages that a process writes, one a line; other lines are logged and skipped."""
    log, garbage = operator_log().getChild(f"mcp.{name}"), 0
    assert process.stdout is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError), incoming:
        while line := await _line(process.stdout, inbox):
            message = parse_message(line)
            if message is None:
                if line.isspace():
                    continue
                garbage += 1
                log.log(logging.WARNING if garbage == 1 else logging.DEBUG, "not a message: %.200r", line)
                if garbage > MOST_GARBAGE:
                    inbox.broken = f"it wrote {MOST_GARBAGE:,} lines to standard output that aren't messages"
                    return
                continue
            garbage = 0
            await incoming.send(SessionMessage(message))


async def _line(stdout: asyncio.StreamReader, inbox: Inbox) -> bytes:
    """The next line; empty at the end, and if it is too long."""
    try:
        return await stdout.readuntil()
    except asyncio.IncompleteReadError:
        return b""
    except asyncio.LimitOverrunError as error:
        inbox.broken = f"it wrote a line of more than {error.consumed:,} bytes"
        return b""


async def _write(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    inbox: Inbox,
) -> None:
    assert process.stdin is not None
    try:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            inbox.written += not process.stdin.is_closing()  # closed: nobody reads the pipe any more
            await process.stdin.drain()
    except OSError:
        incoming.close()  # it doesn't read any more: no answers will come


async def _listen(name: str, process: asyncio.subprocess.Process, inbox: Inbox) -> None:
    """Records the last lines that a process writes to standard error."""
    log = operator_log().getChild(f"mcp.{name}")

    def note(text: bytes) -> None:
        for line in text.decode(errors="replace").splitlines():
            if line.strip():
                inbox.last_words.append(line[:500])
                log.debug("%s", line)

    rest = b""  # an incomplete line: a secret that is cut in two wouldn't be recognised
    assert process.stderr is not None
    try:
        while part := await process.stderr.read(4_096):
            lines, _, rest = (rest + part).rpartition(b"\n")
            rest = rest[:4_096]
            note(lines)
    finally:
        note(rest)


# HTTP -------------------------------------------------------------------------------------------------------------


def _http_client(
    most: int, settings: ServerSettings, inbox: Inbox | None, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    # A compressed answer could exceed any limit once it is decompressed.
    headers = {"accept-encoding": "identity", **settings.headers}
    timeout = httpx2.Timeout(_HTTP_SECONDS, read=_HTTP_READ_SECONDS)

    async def limit_size(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError(
                "the answer is compressed, although the request ruled that out", request=response.request
            )
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = (_Events if is_stream else _Body)(response.stream, most, inbox)

    return httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout, event_hooks={"response": [limit_size]})


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, of bounded size."""

    def __init__(self, inner: Any, most: int, inbox: Inbox | None) -> None:
        self._inner = inner
        self._most = most
        self._inbox = inbox

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        left = self._most
        async for part in self._inner:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {self._most:,} bytes")
            parts.append(part)
        yield readable(b"".join(parts))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Events(_Body):
    """A stream of events with lines of bounded size; a longer one is an error, also reported to the inbox."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun: list[bytes] = []  # parts of an incomplete line
        size = 0
        async for part in self._inner:
            for line in part.splitlines(keepends=True):
                begun.append(line)
                size += len(line)
                if size > self._most:
                    cause = f"it sent a message of more than {self._most:,} bytes"
                    if self._inbox is not None:
                        self._inbox.broken = cause
                    raise httpx2.SSEError(cause)
                if line.endswith((b"\n", b"\r")):
                    yield _data(b"".join(begun))
                    begun, size = [], 0
        yield b"".join(begun)


def _data(line: bytes) -> bytes:
    """A line of an event, with its message made readable for the SDK, which drops others where it uses SSE alone."""
    if not line.startswith(b"data:") or not line.rstrip().endswith(b"}"):
        return line
    try:
        jsonrpc_message_adapter.validate_json(line[5:], by_name=False)
    except ValueError:
        message = parse_message(line[5:])
        if message is not None:
            return b"data:" + message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    return line
