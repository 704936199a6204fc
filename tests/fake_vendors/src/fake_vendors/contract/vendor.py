"""A vendor as the contract tests it, and turns of its models on a script."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from types import ModuleType
from typing import Any

from attrs import define, field, frozen

from fake_vendors.server.script import Reasoning, Request, Round, Search
from fake_vendors.server.server import ModelServer
from pegboard import ImageContent, ModelConfig, Tool, ToolError, ToolRegistry, ToolResult, run_turn, stream_turn, tool

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel, in base64."""

DEEP = (b'{"a":' * 90_000, b"[" * 90_000 + b"]" * 90_000)
"""Answers that are nested without end."""

NOWHERE = "http://127.0.0.1:9"
"""The port of "discard", which is never open."""


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
    return ToolResult(["Look:", ImageContent(base64.b64decode(PNG))])


@tool(strict=True)
def book(city: str, nights: int = 1) -> str:
    """Books a room."""
    return f"{nights} in {city}"


@tool(deferred=True)
def rarely() -> str:
    """Does what is rarely wanted."""
    return "done"


@frozen
class Trip:
    """Where to."""

    city: str
    nights: int = 1


@frozen
class Hosted:
    """A tool that the provider runs itself.

    Attributes:
        tool: As the registry has it.
        entry: Stands in the list of tools.
        ran: What the answer holds of it.
        roles: Of the parts that are made of it.
        back: Stand in the next request.
    """

    tool: Tool
    entry: Mapping[str, Any]
    ran: Sequence[Search | Mapping[str, Any]]
    roles: Sequence[str]
    back: Sequence[Mapping[str, Any]]


@frozen
class Deferring:
    """How a provider searches deferred tools itself.

    Attributes:
        ran: What the answer holds of the search.
        entries: Stand in the list of tools.
        without: Options of models that don't search.
    """

    entries: Sequence[Mapping[str, Any]]
    ran: Sequence[Mapping[str, Any]] = ()
    without: Sequence[Mapping[str, Any]] = ({"loads_deferred": False},)


@frozen(kw_only=True)
class Vendor:
    """What differs from one vendor's model to the other's.

    What is expected "in a body" is a JSON object whose facts some object of the body has.

    Attributes:
        name: Names the case.
        kind: The class of the model.
        package: Where it stands.
        path: As a registry finds it.
        provider: As errors name it.
        plugin: As manifests name it.
        sdk: Beginnings of the names of the SDK's modules, which aren't imported before a model is asked for.
        wires: The package's own modules that aren't, either.
        variables: Beginnings of the environment variables that the SDK reads.
        model: The model's name.
        base: What stands behind the server's address.
        made: Options with which a model is made.
        opened: Makes a model, and closes it, where that takes more.
        client: Makes a client of the SDK's, and closes it; gets address and key.
        is_closed: Whether such a client is.
        asked: The model that a request asks for.

        many_loops: Whether a model serves one event loop after the other.
        keys: Options that hold a key, each with the environment variable that does; the earlier goes before the later.
        needs_key: Whether there has to be one.
        sent: Whether a request was sent with a key.
        secret: The option whose value errors don't show.
        unsendable: What no header can hold, and the SDK doesn't take off.
        odd_options: What the SDK refuses.

        told: In the second body, of the results of `weather`, `clock` and `photo`.
        usage: Which counts an answer has.
        thoughts: Reasoning, and what it is in the second body.
        choice: In a body, where `weather` must be called.
        strict: In a body, where `book` is held to its schema.
        nulls: What a model says for what it leaves out.
        form: In a body, where the answer has to be a `Trip`.
        forming: A model that has such formats; `None`: its own.
        hosted: A tool that the provider runs.
        cites: Whether answers cite.
        deferring: How it searches deferred tools.
        configured: A configuration and what it is in a body.
        option: An option of the provider's, and what it is in a body.
        refused: The finish reason of a refusal; empty where there is none.

        said_after: After how many events of a stream some words were said, and not all.
        called_after: After how many events of a stream of two calls the second has begun.
        in_pieces: Whether arguments come in pieces.
        as_text: Whether arguments may be no object.
        stays: Statuses with their codes, for errors that stay.
        passes: The same for those that pass.
        ids: Whether errors have the request's id.
        stays_within: Whether an error within a stream may stay; the others' pass.
        nonsense: Answers that are none, and whether an event of a stream is none, too.
        frames: Streams that are none.
        begun: How a stream begins that says "Half".
        stream_type: Its content type.
        hangs_up: Whether an answer that hasn't begun can be left.
        listing: Where the provider lists its models `one` and `two`, and what it says there.
    """

    name: str
    kind: type[Any]
    package: ModuleType
    path: str
    provider: str
    plugin: str
    sdk: tuple[str, ...]
    wires: tuple[str, ...]
    variables: tuple[str, ...]
    model: str
    base: str = ""
    made: Mapping[str, Any] = field(factory=lambda: {"api_key": "x"})
    opened: Callable[..., AbstractAsyncContextManager[Any]] | None = None
    client: Callable[[str, str], AbstractAsyncContextManager[Any]]
    is_closed: Callable[[Any], bool]
    asked: Callable[[Request], str] = lambda request: request.body["model"]

    many_loops: bool = True
    keys: Sequence[tuple[str, str]] = ()
    needs_key: bool = True
    sent: Callable[[Request, str], bool] = lambda request, key: request.headers["authorization"] == f"Bearer {key}"
    secret: str = "api_key"
    unsendable: str = "\n\0"
    odd_options: Sequence[Mapping[str, Any]] = ({"no_such_option": 1},)

    told: Sequence[Mapping[str, Any]]
    usage: tuple[str, ...] = ("input_tokens", "output_tokens", "cached_tokens")
    thoughts: Sequence[tuple[Reasoning, Mapping[str, Any]]]
    choice: Mapping[str, Any] | None
    strict: Mapping[str, Any] | None
    nulls: Mapping[str, Any] = field(factory=dict)
    form: Mapping[str, Any]
    forming: str | None = None
    hosted: Hosted | None = None
    cites: bool = True
    deferring: Deferring | None = None
    configured: tuple[ModelConfig, Sequence[Mapping[str, Any]]]
    option: tuple[Mapping[str, Any], Mapping[str, Any]]
    refused: str = ""

    said_after: int
    called_after: int
    in_pieces: bool = True
    as_text: bool = True
    stays: Mapping[int, str | None]
    passes: Mapping[int, str | None]
    ids: bool = True
    stays_within: bool = True
    nonsense: Sequence[bytes]
    frames: Sequence[Any]
    begun: bytes
    stream_type: str = "text/event-stream"
    hangs_up: bool = True
    listing: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name

    @asynccontextmanager
    async def at(self, url: str, name: str = "", **options: Any) -> AsyncIterator[Any]:
        """A model that asks a server."""
        if self.opened is not None and not options:
            async with self.opened(url, name or self.model) as model:
                yield model
            return
        facts = options if "client" in options else {"base_url": url + self.base, **self.made, **options}
        async with aclosing(self.kind(name or self.model, **facts)) as model:
            yield model


def needs(feature: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test that only vendors with a feature have: a fact of `Vendor` that is true."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.needs = feature  # type: ignore[attr-defined]
        return test

    return mark


def holds(body: Any, facts: Mapping[str, Any]) -> bool:
    """Whether some object in a body has these facts."""
    if isinstance(body, dict):
        if all(key in body and body[key] == fact for key, fact in facts.items()):
            return True
        body = list(body.values())
    return isinstance(body, list) and any(holds(each, facts) for each in body)


@define
class Played:
    """What came of a turn.

    Attributes:
        outcome: As far as it came, an error's, too.
        error: What was raised.
        events: All of them.
        server: What was asked.
    """

    outcome: Any = None
    error: Any = None
    events: tuple[Any, ...] = ()
    server: Any = None

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.server.requests]

    @property
    def messages(self) -> Any:
        return self.outcome.messages

    @property
    def calls(self) -> list[Any]:
        """Those that the turn had to run."""
        return [call for message in self.messages for call in message.calls if not call.provider_executed]

    @property
    def results(self) -> list[str]:
        """Kind or text of every result in the history."""
        return [part.result.kind or part.result.text for message in self.messages for part in message.results]

    @property
    def is_complete(self) -> bool:
        """Whether every call has an id of its own, and its one result in the message behind it, in order."""
        behind = [*self.messages[1:], None]
        for said, given in zip(self.messages, behind, strict=True):
            calls = [call.id for call in said.calls if not call.provider_executed]
            results = [part.call_id for part in given.results] if calls and given else []
            if calls != results or len(set(calls)) != len(calls):
                return False
        return True

    def of(self, kind: str) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if type(event).__name__ == kind]

    @property
    def why(self) -> str:
        """What went wrong, in words."""
        return str(self.error or self.outcome.response.error_message)

    def holds(self, number: int, *facts: Mapping[str, Any]) -> bool:
        """Whether a body has all of these facts."""
        return all(holds(self.bodies[number], each) for each in facts)


@frozen
class Way:
    """A vendor's model, and whether its answers are streamed."""

    vendor: Vendor
    streamed: bool

    async def turn(self, model: Any, request: Any, registry: ToolRegistry, **options: Any) -> Played:
        """Runs a turn to its end, whatever that is."""
        played, events = Played(), []
        try:
            if self.streamed:
                async with aclosing(stream_turn(model, request, registry, **options)) as turn:
                    async for event in turn:
                        events.append(event)  # noqa: PERF401  what came before an error counts, too
                played.outcome = events[-1].outcome
            else:
                played.outcome = await run_turn(model, request, registry, listener=events.append, **options)
        except Exception as error:  # noqa: BLE001  the tests look at it
            played.error = error
            played.outcome = getattr(error, "outcome", None)
        played.events = tuple(events)
        return played

    def play(
        self,
        rounds: Sequence[Round],
        request: Any = "Go on.",
        registry: ToolRegistry | None = None,
        *,
        facts: Mapping[str, Any] | None = None,
        server: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Played:
        """Runs a turn on a script, which has to be used up; nothing is refused, and every call has its result."""

        async def main() -> Played:
            async with self.vendor.at(listening.url, **(facts or {})) as model:
                return await self.turn(model, request, registry or ToolRegistry(), **options)

        with ModelServer(rounds, **(server or {})) as listening:
            played = asyncio.run(main())
        played.server = listening
        assert listening.refusals == []
        assert played.outcome is None or played.is_complete
        return played
