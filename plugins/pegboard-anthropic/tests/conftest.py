"""A board with a few tools, the model against the scripted server, and turns on it."""

from __future__ import annotations

import asyncio
import base64
import os
from contextlib import aclosing

import pytest
from attrs import define

from fake_vendors import ModelServer
from pegboard import ImageContent, ToolError, ToolRegistry, ToolResult, run_turn, stream_turn, tool
from pegboard_anthropic import AnthropicModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NAME = "claude-sonnet-5"


@tool
def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"It rains in {city}."


@tool
def clock() -> str:
    """Tells the time."""
    raise ToolError("The clock has stopped.")


@tool
def photo() -> ToolResult:
    """Takes a photo."""
    return ToolResult([ImageContent(PIXEL)])


@tool(strict=True)
def book(city: str, nights: int = 1) -> str:
    """Books a room."""
    return f"{nights} in {city}"


@pytest.fixture
def board():
    made = ToolRegistry()
    made.register(weather, clock, photo, book)
    return made


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch, tmp_path):
    """No key, no profile and no address but those that a test sets."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@define
class Played:
    """What came of a turn."""

    outcome: object = None
    error: Exception | None = None
    events: tuple = ()
    server: ModelServer | None = None

    @property
    def bodies(self):
        return [request.body for request in self.server.requests]

    @property
    def messages(self):
        return (self.outcome if self.error is None else self.error.outcome).messages

    @property
    def results(self):
        """`(call id, kind or text)` of every result in the history."""
        return [
            (part.call_id, part.result.kind or part.result.text)
            for message in self.messages
            for part in message.results
        ]

    @property
    def is_complete(self):
        """Whether every call in the history has its one result, in order."""
        calls = [call.id for message in self.messages for call in message.calls if not call.provider_executed]
        return calls == [id_ for id_, _ in self.results]


@define
class Wire:
    """The model, and whether its answers are streamed."""

    streamed: bool

    def model(self, server, name=NAME, **options):
        return AnthropicModel(name, api_key="x", base_url=server.url, **options)

    async def turn(self, model, request, board, **options):
        played = Played()
        events = []
        try:
            if self.streamed:
                events.extend([event async for event in stream_turn(model, request, board, **options)])
                played.outcome = events[-1].outcome
            else:
                played.outcome = await run_turn(model, request, board, listener=events.append, **options)
        except Exception as error:  # noqa: BLE001  the tests look at it
            played.error = error
        played.events = tuple(events)
        return played

    def play(self, rounds, request="Go on.", board=None, *, facts=None, server=None, **options):
        """Runs a turn on a script, which has to be used up."""

        async def main(server):
            async with aclosing(self.model(server, **(facts or {}))) as model:
                return await self.turn(model, request, board or ToolRegistry(), **options)

        with ModelServer(rounds, **(server or {})) as listening:
            played = asyncio.run(main(listening))
        played.server = listening
        return played


WAYS = [pytest.param(Wire(streamed), id="streamed" if streamed else "whole") for streamed in (False, True)]


@pytest.fixture(params=WAYS)
def wire(request):
    """The model, whole and streamed."""
    return request.param


@pytest.fixture
def whole():
    """The model, whole."""
    return Wire(streamed=False)


@pytest.fixture
def streaming():
    """The model, streamed."""
    return Wire(streamed=True)


@pytest.fixture
def no_pauses(monkeypatch):
    """Turns try again at once, but for as long as the provider asks to wait."""
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
