"""Parameters of a vendor for the contract tests, and turns of its models with a script."""

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
"""Deeply nested answers."""

NOWHERE = "http://127.0.0.1:9"
"""A closed port ("discard")."""


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
        tool: The registered tool.
        entry: Its entry in the list of tools.
        ran: Its items in the answer.
        roles: The roles of its parts.
        back: Its items in the next request.
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
        ran: The items of the search in the answer.
        entries: Its entries in the list of tools.
        without: Options of models that don't search.
    """

    entries: Sequence[Mapping[str, Any]]
    ran: Sequence[Mapping[str, Any]] = ()
    without: Sequence[Mapping[str, Any]] = ({"loads_deferred": False},)


@frozen(kw_only=True)
class Vendor:
    """The differences between the vendors' models.

    An expected JSON object "in a body" means that some object of the body has its members.

    Attributes:
        name: The name of the case.
        kind: The class of the model.
        package: Its package.
        path: Its name for a registry.
        provider: Its name in errors.
        plugin: Its name in manifests.
        sdk: Prefixes of the SDK's modules, which are imported once a model is made.
        wires: The package's own modules for which that is so, too.
        variables: Prefixes of the environment variables that the SDK reads.
        model: The model's name.
        base: The path after the server's address.
        made: Options for making a model.
        opened: Context manager that makes a model, if options don't suffice.
        client: Context manager that makes a client of the SDK, from address and key.
        is_closed: Whether such a client is closed.
        asked: The model that a request names.

        many_loops: Whether a model serves one event loop after the other.
        keys: Options for a key, each with its environment variable, by priority.
        needs_key: Whether one is required.
        sent: Whether a request was sent with a key.
        secret: The option whose value errors don't show.
        unsendable: Characters that no header can have, and that the SDK doesn't strip.
        odd_options: Options that the SDK refuses.

        results: In the second body, the results of `weather`, `clock` and `photo`.
        usage: The token counts of an answer.
        thoughts: Reasoning, and its form in the second body.
        choice: In a body, the choice of `weather`.
        strict: In a body, `book` as a strict tool.
        nulls: A model's values for omitted arguments.
        form: In a body, the response format for a `Trip`.
        forming: A model with response formats; `None`: its own.
        hosted: A tool that the provider runs.
        cites: Whether answers have citations.
        deferring: How it searches deferred tools.
        configured: A configuration and its form in a body.
        option: An option of the provider, and its form in a body.
        refused: The finish reason of a refusal; empty if there is none.

        text_after: The number of events of a stream after which it has some text, but not all.
        calls_after: The number of events of a stream of two calls after which the second has begun.
        in_pieces: Whether arguments are streamed in pieces.
        as_text: Whether arguments may be other values than objects.
        permanent: Statuses of permanent errors, with their codes.
        temporary: Statuses of temporary errors, with their codes.
        ids: Whether errors have the request's id.
        permanent_in_streams: Whether an error in a stream may be permanent.
        nonsense: Invalid answers.
        frames: Invalid streams.
        begun: The start of a stream with the text "Half".
        stream_type: Its content type.
        hangs_up: Whether a request can be cancelled before the answer starts.
        listing: The pages that list the provider's models `one` and `two`.
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

    results: Sequence[Mapping[str, Any]]
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

    text_after: int
    calls_after: int
    in_pieces: bool = True
    as_text: bool = True
    permanent: Mapping[int, str | None]
    temporary: Mapping[int, str | None]
    ids: bool = True
    permanent_in_streams: bool = True
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
        """A model of a server."""
        if self.opened is not None and not options:
            async with self.opened(url, name or self.model) as model:
                yield model
            return
        facts = options if "client" in options else {"base_url": url + self.base, **self.made, **options}
        async with aclosing(self.kind(name or self.model, **facts)) as model:
            yield model


def needs(feature: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test for vendors with a feature: a truthy attribute of `Vendor`."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.needs = feature  # type: ignore[attr-defined]
        return test

    return mark


def holds(body: Any, facts: Mapping[str, Any]) -> bool:
    """Whether some object in a body has these members."""
    if isinstance(body, dict):
        if all(key in body and body[key] == fact for key, fact in facts.items()):
            return True
        body = list(body.values())
    return isinstance(body, list) and any(holds(each, facts) for each in body)


@define
class Played:
    """Result of a turn.

    Attributes:
        outcome: Its outcome, also that of an error.
        error: The raised exception.
        events: All events.
        server: The server.
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
        """The calls that the turn had to run."""
        return [call for message in self.messages for call in message.calls if not call.provider_executed]

    @property
    def results(self) -> list[str]:
        """Kind or text of every result in the history."""
        return [part.result.kind or part.result.text for message in self.messages for part in message.results]

    @property
    def is_complete(self) -> bool:
        """Whether every call has a unique id, and exactly one result in the message after it, in order."""
        behind = [*self.messages[1:], None]
        for answer, given in zip(self.messages, behind, strict=True):
            calls = [call.id for call in answer.calls if not call.provider_executed]
            results = [part.call_id for part in given.results] if calls and given else []
            if calls != results or len(set(calls)) != len(calls):
                return False
        return True

    def of(self, kind: str) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if type(event).__name__ == kind]

    @property
    def why(self) -> str:
        """The text of the error."""
        return str(self.error or self.outcome.response.error_message)

    def holds(self, number: int, *facts: Mapping[str, Any]) -> bool:
        """Whether a body has all of these objects."""
        return all(holds(self.bodies[number], each) for each in facts)


@frozen
class Way:
    """A vendor's model, and whether its answers are streamed."""

    vendor: Vendor
    streamed: bool

    async def turn(self, model: Any, request: Any, registry: ToolRegistry, **options: Any) -> Played:
        """Runs a turn to its end, or to an error."""
        played, events = Played(), []
        try:
            if self.streamed:
                async with aclosing(stream_turn(model, request, registry, **options)) as turn:
                    async for event in turn:
                        events.append(event)  # noqa: PERF401  events before an error count, too
                played.outcome = events[-1].outcome
            else:
                played.outcome = await run_turn(model, request, registry, listener=events.append, **options)
        except Exception as error:  # noqa: BLE001  tests check it
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
        """Runs a turn with a script, which must be used up; no request is refused, and every call has its result."""

        async def main() -> Played:
            async with self.vendor.at(listening.url, **(facts or {})) as model:
                return await self.turn(model, request, registry or ToolRegistry(), **options)

        with ModelServer(rounds, **(server or {})) as listening:
            played = asyncio.run(main())
        played.server = listening
        assert listening.refusals == []
        assert played.outcome is None or played.is_complete
        return played
