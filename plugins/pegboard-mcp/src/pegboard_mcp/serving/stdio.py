"""MCP over standard input and output, with a limit on the length of lines, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from pegboard_mcp.serving.server import ToolServer

MOST_LINE: Final = 16_000_000
"""Bytes of one message; a longer one is skipped, and answered with an error."""

_MOST_READ: Final = 1 << 16

GRACE_SECONDS: Final = 10.0
"""How long running calls may take once the client has closed its end, or the process was asked to end."""

ABORTED_SECONDS: Final = 2.0
"""How long aborted calls may take to end."""


class StdioTransport:
    """Transport over two file descriptors, for one client.

    The SDK's own reads lines of any length, and cancels running calls when the client closes its end.

    Args:
        server: The tool server.
        incoming: The descriptor to read messages from.
        outgoing: The descriptor to write them to.
        grace: Seconds that running calls have to finish on shutdown.
    """

    def __init__(self, server: ToolServer, incoming: int, outgoing: int, grace: float = GRACE_SECONDS) -> None:
        self._server = server
        self._reading = incoming
        self._writing = outgoing
        self._grace = grace
        self._ended = asyncio.Event()
        self._in_flight: Counter[str] = Counter()  # by id; a client may use one twice
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def end(self) -> None:
        """Starts the shutdown: no new messages, running calls are answered. Called in the event loop."""
        self._ended.set()

    async def serve(self) -> None:
        """Serves until the client closes its end, or `end` is called."""
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._server.server
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, from_server)
            tasks.start_soon(self._end_in_order, to_server)
            async with anyio.create_task_group() as reading:
                reading.start_soon(self._read, to_server, outgoing)
                await server.run(incoming, outgoing, server.create_initialization_options())
                reading.cancel_scope.cancel()
            self.end()

    async def _end_in_order(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """On shutdown, waits for running calls, aborts those that take too long, and closes the server's stream."""
        await self._ended.wait()
        self._server.end()
        with anyio.move_on_after(self._grace):
            await self._all_answered.wait()
        if self._in_flight:
            self._server.interrupt()
            with anyio.move_on_after(ABORTED_SECONDS):
                await self._all_answered.wait()
        to_server.close()

    async def _read(
        self,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        outgoing: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Reads messages, each after the server has accepted the previous one."""
        async for line in _lines(self._reading):
            if line is None:
                fault = ErrorData(code=INVALID_REQUEST, message=f"Message longer than {MOST_LINE:,} bytes")
                await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=fault)))
            elif (message := _parse(line)) is None:
                fault = ErrorData(code=PARSE_ERROR, message="Not a JSON-RPC message")
                await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=fault)))
            else:
                await self._take(message, to_server)
        self.end()

    async def _take(
        self, message: JSONRPCMessage, to_server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        if self._ended.is_set():
            return
        if isinstance(message, JSONRPCRequest):
            self._in_flight[str(message.id)] += 1
            self._all_answered.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._finish((message.params or {}).get("requestId"))
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await to_server.send(SessionMessage(message))

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Writes messages; a client that doesn't read blocks nothing else."""
        async for item in from_server:
            message = item.message
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await _write_all(self._writing, line)
            except OSError as error:
                logging.getLogger("pegboard.mcp").info("the client has disconnected: %s", error)
                self._in_flight.clear()  # the answers can't be sent
                self._all_answered.set()
                self.end()
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._finish(message.id)

    def _finish(self, id_: object) -> None:
        key = str(id_)  # a cancellation may name any id
        self._in_flight[key] -= 1
        if self._in_flight[key] <= 0:
            del self._in_flight[key]
        if not self._in_flight:
            self._all_answered.set()


@contextmanager
def own_descriptors() -> Generator[tuple[int, int]]:
    """Private copies of standard input and output for the protocol; child processes of tools get an empty input.

    Standard output itself is redirected by the commands of `registry`.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield incoming, outgoing
    finally:
        os.dup2(incoming, 0)
        os.close(outgoing)  # `incoming` stays open: a thread may still read from it


def _parse(line: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


async def _lines(descriptor: int) -> AsyncGenerator[bytes | None]:
    """The lines of the input; `None` for one that is too long."""
    kept, is_skipping = bytearray(), False
    while part := await _read_some(descriptor):
        begun = len(kept)
        kept += part
        while (end := kept.find(b"\n", begun)) >= 0:
            yield None if is_skipping or end >= MOST_LINE else bytes(kept[:end])
            del kept[: end + 1]
            begun, is_skipping = 0, False
        if len(kept) >= MOST_LINE:
            is_skipping = True
        if is_skipping:
            kept.clear()
    if kept or is_skipping:
        yield None if is_skipping else bytes(kept)


async def _read_some(descriptor: int) -> bytes:
    """The available bytes; empty at the end. Without a thread, which would be slower and couldn't be ended."""
    if sys.platform == "win32":
        return await asyncio.to_thread(os.read, descriptor, _MOST_READ)
    try:
        with suppress(PermissionError):  # a file, which is always ready
            await anyio.wait_readable(descriptor)
        return os.read(descriptor, _MOST_READ)
    except OSError:
        return b""


async def _write_all(descriptor: int, data: bytes) -> None:
    """Writes all bytes without blocking the event loop."""
    if sys.platform == "win32":
        while data:
            data = data[await asyncio.to_thread(os.write, descriptor, data) :]
        return
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        if not ready.poll(0):
            await anyio.wait_writable(descriptor)
        rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
