"""Whoever leaves closes the connection, as far as the SDK lets him, and never waits for the provider."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from fake_vendors.server.script import aws_message
from fake_vendors.server.talk import bedrock as client_of
from pegboard import ModelRequest, run_turn, stream_turn
from pegboard_bedrock import BedrockModel


@pytest.mark.parametrize("left", ["break", "cancel"])
def test_a_stream_that_is_left_closes_the_connection(left):
    async def act(model, silent):
        silent.begin.set()
        async with aclosing(model.stream(ModelRequest("Go on."))) as pieces:
            await anext(pieces)
            if left == "cancel":
                await anext(pieces)
                await _cancelled(anext(pieces))

    assert asyncio.run(_with_silence(act)) == b""


def test_a_turn_that_is_cancelled_closes_the_connection(registry):
    async def act(model, silent):
        async def turn():
            async with aclosing(stream_turn(model, "Go on.", registry)) as events:
                async for event in events:
                    if event.type == "delta":
                        heard.set()

        heard = asyncio.Event()
        silent.begin.set()
        await _cancelled(turn(), after=heard.wait())

    assert asyncio.run(_with_silence(act)) == b""


def test_a_stream_that_is_cancelled_before_it_begins_is_closed_once_it_does():
    async def act(model, silent):
        await _cancelled(anext(model.stream(ModelRequest("Go on."))), after=silent.asked.wait())
        silent.begin.set()

    assert asyncio.run(_with_silence(act)) == b""


def test_nobody_waits_for_an_answer_that_is_cancelled(registry):
    async def act(model, silent):
        await _cancelled(run_turn(model, "Go on.", registry), after=silent.asked.wait())
        assert not silent.gone.done()
        silent.begin.set()
        silent.hang_up.set()

    asyncio.run(_with_silence(act))


class _Silent:
    """A server that begins an answer, two pieces at once, and says no more.

    Attributes:
        asked: Set once it has been asked.
        begin: Has it begin.
        hang_up: Has it end the connection.
        gone: What is read once the client has gone: nothing.
    """

    def __init__(self) -> None:
        self.asked, self.begin, self.hang_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.gone = asyncio.get_running_loop().create_future()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        self.asked.set()
        await self.begin.wait()
        headers = {":event-type": "contentBlockDelta", ":content-type": "application/json", ":message-type": "event"}
        said = {"contentBlockIndex": 0, "delta": {"text": "Let me "}}
        events = 2 * aws_message(headers, json.dumps(said).encode())
        kind = b"application/vnd.amazon.eventstream"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
        writer.write(b"%x\r\n%b\r\n" % (len(events), events))
        await writer.drain()
        read = asyncio.ensure_future(reader.read())
        await asyncio.wait([read, asyncio.ensure_future(self.hang_up.wait())], return_when="FIRST_COMPLETED")
        writer.close()
        self.gone.set_result(await read)


async def _with_silence(act):
    """Has something done with a model that never ends its answer; gives what the server reads then."""
    silent = _Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        with client_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
            async with aclosing(BedrockModel("m", client=client)) as model:
                await act(model, silent)
                return await silent.gone


async def _cancelled(coroutine, *, after=None):
    task = asyncio.ensure_future(_awaited(coroutine))
    await (after or asyncio.sleep(0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _awaited(awaitable):
    return await awaitable
