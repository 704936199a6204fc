"""A board with a few tools, both models against the scripted server, and turns on them."""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing

import pytest
from attrs import define

from fake_vendors import ModelServer
from pegboard import ImageContent, Tool, ToolError, ToolRegistry, ToolResult, run_turn, stream_turn, tool
from pegboard_openai import OpenAIChatModel, OpenAIModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


def _run(text):
    return f"ran {text}"


@pytest.fixture
def board():
    made = ToolRegistry()
    made.register(weather, clock, photo, book, Tool.freeform("run", _run, description="Runs."))
    return made


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
    """One of the two models, and whether its answers are streamed."""

    kind: type
    streamed: bool

    @property
    def is_chat(self):
        return self.kind is OpenAIChatModel

    def model(self, server, name="gpt-5.4", **options):
        if self.is_chat:  # as for OpenAI's own API, wherever the server is
            from pegboard_openai.openai_chat import OpenAIChat

            options = {"exporter": OpenAIChat(reasoning="reasoning_content"), **options}
        return self.kind(name, api_key="x", base_url=f"{server.url}/v1", **options)

    async def turn(self, model, request, board, **options):
        played = Played()
        events = []
        try:
            if self.streamed:
                async for event in stream_turn(model, request, board, **options):
                    events.append(event)  # noqa: PERF401  what came before an error counts too
                played.outcome = events[-1].outcome
            else:
                played.outcome = await run_turn(model, request, board, **options)
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


BOTH = {"responses": OpenAIModel, "chat": OpenAIChatModel}
WAYS = [
    pytest.param(Wire(kind, streamed), id=f"{name}-{'streamed' if streamed else 'whole'}")
    for name, kind in BOTH.items()
    for streamed in (False, True)
]


@pytest.fixture(params=WAYS)
def wire(request):
    """Both models, whole and streamed."""
    return request.param


@pytest.fixture(params=[way for way in WAYS if way.values[0].streamed])
def streaming(request):
    """Both models, streamed."""
    return request.param


@pytest.fixture(params=[way for way in WAYS if not way.values[0].is_chat])
def responses(request):
    """The responses API, whole and streamed."""
    return request.param


@pytest.fixture(params=[way for way in WAYS if way.values[0].is_chat])
def chat(request):
    """Chat completions, whole and streamed."""
    return request.param


@pytest.fixture(params=BOTH.values(), ids=BOTH.keys())
def kind(request):
    """Both classes."""
    return request.param


@pytest.fixture
def asked(kind):
    """Both models, whole."""
    return Wire(kind, streamed=False)


@pytest.fixture
def no_pauses(monkeypatch):
    """Turns try again at once, but for as long as the provider asks to wait."""
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
