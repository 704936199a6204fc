"""MCP over standard input and output: long lines are refused, and what is in flight at the end is answered."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final

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
    RequestId,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from pegboard_mcp.server import ToolServer

MOST_LINE: Final = 16_000_000
"""Bytes of one message; a longer one is passed over, and answered with an error."""

GRACE_SECONDS: Final = 10.0
"""How long calls may take to end once the client has closed its end, or the process is asked to end."""

ABORTED_SECONDS: Final = 2.0
"""How long they may take once they are aborted."""


class StdioTransport:
    """Transport over two file descriptors, for one client.

    The SDK's own reads lines of any length, and cancels what is in flight when the client closes its end.

    Args:
        server: What answers.
        incoming: The descriptor that messages are read from.
        outgoing: The descriptor that they are written to.
        grace: Seconds that calls may take to end at the end.
    """

    def __init__(self, server: ToolServer, incoming: int, outgoing: int, grace: float = GRACE_SECONDS) -> None:
        self._server = server
        self._reading = incoming
        self._writing = outgoing
        self._grace = grace
        self._ended = asyncio.Event()
        self._in_flight: set[RequestId] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def end(self) -> None:
        """Takes no more messages; what is in flight is answered. Called in the event loop."""
        self._ended.set()

    async def serve(self) -> None:
        """Serves until the client closes its end, or `end` is called."""
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        loop = asyncio.get_running_loop()
        # A daemon: no way ends a read, and the process has to end all the same.
        threading.Thread(target=self._read, args=(loop, to_server, outgoing), name="mcp-stdin", daemon=True).start()
        server = self._server.server
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, from_server)
            tasks.start_soon(self._end_in_order, to_server)
            await server.run(incoming, outgoing, server.create_initialization_options())
            self.end()

    async def _end_in_order(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """At the end, waits for what is in flight, aborts what takes too long, and closes the server's stream."""
        await self._ended.wait()
        self._server.end()
        with anyio.move_on_after(self._grace):
            await self._all_answered.wait()
        if self._in_flight:
            self._server.interrupt()
            with anyio.move_on_after(ABORTED_SECONDS):
                await self._all_answered.wait()
        to_server.close()

    def _read(
        self,
        loop: asyncio.AbstractEventLoop,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        outgoing: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Reads messages in a thread, each once the server has taken the one before."""
        with suppress(OSError, RuntimeError), os.fdopen(self._reading, "rb", closefd=False) as lines:
            while line := lines.readline(MOST_LINE + 1):
                if len(line) > MOST_LINE:
                    _skip_line(lines)
                    fault = ErrorData(code=INVALID_REQUEST, message=f"Message longer than {MOST_LINE:,} bytes")
                    work = outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=fault)))
                elif (message := _parsed(line)) is None:
                    fault = ErrorData(code=PARSE_ERROR, message="Not a JSON-RPC message")
                    work = outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=fault)))
                else:
                    work = self._take(message, to_server)
                asyncio.run_coroutine_threadsafe(work, loop).result()
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(self.end)

    async def _take(
        self, message: JSONRPCMessage, to_server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        if self._ended.is_set():
            return
        if isinstance(message, JSONRPCRequest):
            self._in_flight.add(message.id)
            self._all_answered.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answered((message.params or {}).get("requestId"))
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await to_server.send(SessionMessage(message))

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Writes messages in a thread: a client that doesn't read holds up nothing else."""
        async for item in from_server:
            message = item.message
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await asyncio.to_thread(_write_all, self._writing, line)
            except OSError as error:
                logging.getLogger("pegboard.mcp").info("the client has gone: %s", error)
                self._in_flight.clear()  # no one reads the answers
                self._all_answered.set()
                self.end()
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._answered(message.id)

    def _answered(self, id_: object) -> None:
        self._in_flight.discard(id_)  # pyright: ignore[reportArgumentType]  whatever a client writes
        if not self._in_flight:
            self._all_answered.set()


@contextmanager
def own_descriptors() -> Generator[tuple[int, int]]:
    """Descriptors of standard input and output for the protocol alone: what tools start reads an empty input.

    Standard output itself is turned elsewhere by the commands of `registry`.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield incoming, outgoing
    finally:
        os.dup2(incoming, 0)
        os.close(outgoing)  # the other stays open: a thread may still read from it


def _parsed(line: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def _skip_line(lines: BinaryIO) -> None:
    while (part := lines.readline(MOST_LINE)) and not part.endswith(b"\n"):
        pass


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
