"""Turns of the real SDK against a server that refuses what Converse refuses."""

from __future__ import annotations

import asyncio
import struct
import zlib
from contextlib import aclosing

import pytest
from attrs import frozen

from fake_vendors import ModelServer
from fake_vendors.server.talk import bedrock as client_of
from pegboard import ModelError, ToolError, ToolRegistry, run_turn, stream_turn, tool
from pegboard.tools.content import ImageContent
from pegboard_bedrock import BedrockModel


def _png() -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(b"\0\0")) + part(b"IEND", b"")


PICTURE = _png()


@tool
def weather(city: str, unit: str | None = None) -> str:
    """Tells the weather."""
    return f"rain in {city}" if unit is None else f"rain in {city}, 5 {unit}"


@tool
def clock() -> str:
    """Tells the time."""
    raise ToolError("the clock is slow.")


@tool
def photo() -> list[str | ImageContent]:
    """Takes a picture."""
    return ["Look:", ImageContent(PICTURE)]


@frozen
class Played:
    """What came of a turn.

    Attributes:
        outcome: As far as it came, an error's too.
        requests: The bodies that were sent.
        events: Of a streamed turn.
        error: What was raised, or `None`.
    """

    outcome: object
    requests: list
    events: list
    error: ModelError | None

    @property
    def results(self):
        """Every result in the history, in order."""
        return [part.result for message in self.outcome.messages for part in message.results]

    def check(self):
        """Every call has one result, in the message behind it."""
        messages = self.outcome.messages
        for said, given in zip(messages, [*messages[1:], None], strict=True):
            calls = [call.id for call in said.calls]
            assert len(set(calls)) == len(calls)
            if calls:
                assert [part.call_id for part in given.results] == calls


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(weather, clock, photo)
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Nobody waits before another attempt, unless the provider asks for it."""
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request):
    return request.param


@pytest.fixture
def play(registry, streamed):
    """Plays a turn to its end; the server checks that each of its rounds was asked for, and that it refused nothing."""

    def played(rounds, request="Go on.", **options):
        with ModelServer(rounds) as server, client_of(server.url) as client:
            outcome, events, error = asyncio.run(_turn(client, request, registry, streamed, options))
            assert server.refusals == []
            return Played(outcome, [sent.body for sent in server.requests], events, error)

    return played


async def _turn(client, request, registry, streamed, options):
    async with aclosing(BedrockModel("m", client=client)) as model:
        try:
            if not streamed:
                return await run_turn(model, request, registry, **options), [], None
            async with aclosing(stream_turn(model, request, registry, **options)) as turn:
                events = [event async for event in turn]
            return events[-1].outcome, events, None
        except ModelError as error:
            return error.outcome, [], error
