"""A turn that is cancelled, or left, closes the connection, and leaves a complete history."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from pegboard import ToolRegistry, stream_turn, turn_of
from pegboard.messages.response import TextDelta
from pegboard.turn.events import AnswerDelta
from pegboard_anthropic import AnthropicModel

SECONDS = 30
"""After which a test has failed; nothing waits for as long."""

BEGUN = b"".join(
    b"event: %b\ndata: %b\n\n" % (name, data)
    for name, data in [
        (b"message_start", b'{"type": "message_start", "message": {"id": "m", "content": []}}'),
        (
            b"content_block_start",
            b'{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}',
        ),
        (
            b"content_block_delta",
            b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}}',
        ),
    ]
)


class Silent:
    """A server that begins an answer, or doesn't, and then waits until its client has gone."""

    def __init__(self):
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")
        )
        body = await reader.readexactly(length)
        if b'"stream":true' in body.replace(b" ", b""):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n" % (len(BEGUN), BEGUN))
            await writer.drain()
        self.asked.set()
        await reader.read()  # ends when the connection does
        self.left.set()
        writer.close()


@asynccontextmanager
async def silent_model():
    silent = Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, aclosing(AnthropicModel("m", api_key="x", base_url=f"http://127.0.0.1:{port}")) as model:
        yield model, silent


def test_a_whole_answer_that_is_cancelled_closes_the_connection():
    async def main():
        async with asyncio.timeout(SECONDS), silent_model() as (model, silent):
            turn = turn_of(model, "Go on.", ToolRegistry())
            running = asyncio.ensure_future(turn.run())
            await silent.asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await silent.left.wait()
            return turn.outcome

    outcome = asyncio.run(main())
    assert (outcome.ended, len(outcome.messages)) == ("cancelled", 1)


def test_a_stream_that_is_left_closes_the_connection():
    async def main():
        async with asyncio.timeout(SECONDS), silent_model() as (model, silent):
            async with aclosing(stream_turn(model, "Go on.", ToolRegistry())) as events:
                async for event in events:
                    if isinstance(event, AnswerDelta):
                        break
            await silent.left.wait()
            return event.delta

    assert asyncio.run(main()) == TextDelta("Half")


def test_a_turn_that_is_interrupted_keeps_what_was_said():
    async def main():
        async with asyncio.timeout(SECONDS), silent_model() as (model, silent):
            turn = turn_of(model, "Go on.", ToolRegistry())
            async for event in turn.events():
                if isinstance(event, AnswerDelta):
                    turn.interrupt("enough")
            await silent.left.wait()
            return turn.outcome

    outcome = asyncio.run(main())
    assert (outcome.ended, outcome.detail, outcome.messages[-1].text) == ("interrupted", "enough", "Half")
