"""Whoever leaves closes the connection: nothing goes on at the provider that nobody reads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pegboard import ModelRequest, run_turn, stream_turn
from pegboard_google import GoogleModel


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_turn_that_is_cancelled_closes_the_connection(registry, streamed):
    assert asyncio.run(_cancelled(registry, streamed=streamed)) == b""


@pytest.mark.parametrize("left", ["break", "cancel"])
def test_a_stream_that_is_left_closes_the_connection(registry, left):
    assert asyncio.run(_left(registry, left)) == b""


class _Silent:
    """A server that begins an answer, two pieces at once, and says no more.

    Attributes:
        asked: Done once it has been asked.
        gone: What is read once the client has gone: nothing.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.asked, self.gone = loop.create_future(), loop.create_future()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        events = 2 * b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "Let me "}]}}]}\r\n\r\n'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n" % (len(events), events))
        await writer.drain()
        self.asked.set_result(None)
        self.gone.set_result(await reader.read())
        writer.close()


async def _with_silence(act):
    """Has something done with a model that never ends its answer; gives what the server reads then."""
    silent = _Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with aclosing(GoogleModel("gemini-3-pro", api_key="x", base_url=url)) as model, asyncio.timeout(60):
            await act(model, silent)
            return await silent.gone


async def _cancelled(registry, *, streamed):
    async def act(model, silent):
        async def turn():
            if not streamed:
                return await run_turn(model, "Go on.", registry)
            async with aclosing(stream_turn(model, "Go on.", registry)) as events:
                return [event async for event in events]

        task = asyncio.ensure_future(turn())
        await asyncio.wait([task, silent.asked], return_when="FIRST_COMPLETED")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    return await _with_silence(act)


async def _left(registry, left):
    async def act(model, silent):
        async with aclosing(model.stream(ModelRequest("Go on."))) as pieces:
            await anext(pieces)
            if left == "cancel":
                await anext(pieces)
                waiting = asyncio.ensure_future(anext(pieces))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting

    return await _with_silence(act)
