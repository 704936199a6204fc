"""Shared code of provider clients: one client per event loop, models over an SDK, streams."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import aclosing
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from attrs import define, field

from pegboard import Exporter, ModelRequest
from pegboard.errors import ModelError
from pegboard.messages import CallDelta, CallPart, Delta, ModelResponse, Part, ReasoningPart
from pegboard.request import ResponseReader
from pegboard.typing import JsonObject
from pegboard_clients.errors import Secrets, unanswered
from pegboard_clients.json_end import JsonEnd
from pegboard_clients.wire import arguments_object

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


C = TypeVar("C")
P = TypeVar("P")
Given = TypeVar("Given")


@define(eq=False)
class Clients(Generic[C]):
    """One client per event loop: connections only work in the loop that opened them.

    Attributes:
        first: For the first loop, and for callers without one.
        again: Makes one for a further loop; `None`: `first` belongs to the caller, serves all loops, and isn't closed.
        close: Closes one.
    """

    first: C
    again: Callable[[], C] | None
    close: Callable[[C], Awaitable[None]]
    _of_loop: WeakKeyDictionary[AbstractEventLoop, C] = field(
        factory=WeakKeyDictionary["AbstractEventLoop", "C"], init=False
    )
    _is_taken: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @staticmethod
    def of(given: Given | None, make: Callable[[], Given], close: Callable[[Given], Awaitable[None]]) -> Clients[Given]:
        """The caller's client for all loops; or one made for each, the first one now.

        Args:
            given: The caller's client, or `None`.
            make: Makes one.
            close: Closes one that was made.
        """
        return Clients(make(), make, close) if given is None else Clients(given, None, close)

    def now(self) -> C:
        """The client of the running loop; thread-safe."""
        from asyncio import get_running_loop

        if self.again is None:
            return self.first
        loop = get_running_loop()
        with self._lock:
            found = self._of_loop.get(loop)
            if found is None:
                found = self.again() if self._is_taken else self.first
                self._of_loop[loop], self._is_taken = found, True
            return found

    async def aclose(self) -> None:
        """Closes the client of the running loop only, unless it is the caller's. A later `now` makes a new one."""
        from asyncio import get_running_loop

        if self.again is None:
            return
        with self._lock:
            client = self._of_loop.pop(get_running_loop(), None if self._is_taken else self.first)
            self._is_taken = True
        if client is not None:
            await self.close(client)


def check_alone(client: object, options: Mapping[str, Any]) -> None:
    """Checks that no options for making a client are given together with a client.

    Args:
        client: The client, or `None`.
        options: The options by name; `None` for those that aren't given.

    Raises:
        TypeError: There are options that the client would ignore.
    """
    given = [name for name, value in options.items() if value is not None]
    if client is not None and given:
        raise TypeError(f"client=... is used as it is; leave out {', '.join(given)}")


@define(eq=False)
class SDKMethod(Generic[C]):
    """Adapter for a method of a generated SDK, such as `client.messages.create`.

    The method takes the members of a body by name, further ones as `extra_body`, and `stream=True`; it returns data, or
    objects with `to_dict`.

    Attributes:
        clients: The clients, of which the running loop's is used.
        method: The method of a client.
        error: Converts an exception of the SDK or its transport to a `ModelError`.
        event: Converts the body of an error to an event of the provider's streams.
    """

    clients: Clients[C]
    method: Callable[[C], Callable[..., Awaitable[Any]]]
    error: Callable[[Exception], ModelError]
    event: Callable[[JsonObject], JsonObject]

    async def answer(self, body: JsonObject) -> Any:
        """The answer in one piece, as JSON data.

        Raises:
            ModelError: The request failed, or the provider answered with an error.
        """
        try:
            return as_data(await self._send({name: value for name, value in body.items() if name != "stream"}))
        except Exception as error:  # the SDK, its transport and its JSON parser raise all kinds
            raise self.error(error) from error

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The events of a stream, as JSON data; closing it early closes the connection.

        Raises:
            ModelError: The request failed, the provider answered with an error, or the stream broke off. An error in
                the stream, which the SDK raises, comes as an event before.
        """
        try:
            stream: Any = await self._send({**body, "stream": True})
        except Exception as error:
            raise self.error(error) from error
        try:
            async for event in stream:
                yield as_data(event)
        except Exception as error:
            within = getattr(error, "body", None)
            if isinstance(within, Mapping):
                yield self.event(dict(cast("Mapping[str, Any]", within)))
            raise self.error(error) from error
        finally:
            await stream.close()

    def _send(self, body: JsonObject) -> Awaitable[Any]:
        """Calls the method with the body; members without a parameter in this version of the SDK go in `extra_body`."""
        method = self.method(self.clients.now())
        parameters = signature(method).parameters
        if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
            return method(**body)
        known = {name: value for name, value in body.items() if name in parameters}
        if len(known) < len(body):
            others = {name: value for name, value in body.items() if name not in parameters}
            known["extra_body"] = {**others, **(known.get("extra_body") or {})}
        return method(**known)


def as_data(answer: Any) -> Any:
    """The original JSON data of an SDK's object, without defaults, with unknown members.

    Raises:
        ValueError: It is nested deeper than its models allow.
    """
    to_dict: Any = getattr(answer, "to_dict", None)
    return answer if to_dict is None else to_dict(mode="json", warnings=False)


@define(eq=False)
class _WholeCalls:
    """Detector of complete calls in an answer that is still streaming.

    Attributes:
        shown: The number of calls in earlier partial responses.
    """

    reader: ResponseReader
    shown: int = 0
    _ends: dict[int, JsonEnd] = field(factory=dict[int, JsonEnd], init=False)
    _looks: int = field(default=0, init=False)

    def feed(self, delta: Delta) -> None:
        """Adds a piece of the answer."""
        if isinstance(delta, CallDelta) and self._ends.setdefault(delta.index, JsonEnd()).reached(delta.arguments):
            self._looks = _LOOKS

    def partial(self) -> ModelResponse | None:
        """The answer up to the last call with only complete calls before it; `None` if there is no new one."""
        if not self._looks:
            return None
        self._looks -= 1
        response, parts, calls = self.reader.response(), list[Part](), 0
        for part in response.parts:
            if isinstance(part, CallPart) and not part.call.provider_executed:
                if part.call.invalid or calls not in self._ends or not self._ends[calls].reached(""):
                    break
                if not arguments_object(part.call):  # the arguments may follow a `{}`
                    break
                calls += 1
            parts.append(part)
        if calls <= self.shown or calls > _MOST_EARLY:
            return None
        self.shown, self._looks = calls, 0
        message = response.message.evolve(parts=parts)
        return ModelResponse(message, "tool_calls", model=response.model, id=response.id, partial=True, complete=False)


_LOOKS: Final = 3  # a provider's end of a call may come some chunks after its last piece
_MOST_EARLY: Final = 100  # calls of an answer: for each, all before it are read again


async def streamed(
    chunks: AsyncIterable[Mapping[str, Any]],
    reader: ResponseReader,
    *broken_by: type[Exception],
    provider: str = "",
    start_early: bool = False,
) -> AsyncGenerator[Delta | ModelResponse]:
    """Yields deltas as they arrive, and last the response, which a broken stream has, too.

    If a stream breaks off before the first text or call (reasoning doesn't count), nothing is lost by a retry: then the
    error is raised. A `ModelError` may follow the event of the same error, with more details than the event.

    Args:
        chunks: The provider's events, as JSON data.
        reader: The exporter's reader.
        broken_by: Further exceptions that the client raises if a stream breaks off, besides `ModelError`.
        provider: The provider's name, for the error of a stream without content.
        start_early: Whether to yield partial responses, too, each with one more complete call.

    Raises:
        ModelError: The provider answered with an error, or the stream ended, before the first text or call.
    """
    broken, whole = None, _WholeCalls(reader) if start_early else None
    try:
        async for chunk in chunks:
            for delta in reader.feed(chunk):
                yield delta
                if whole is not None:
                    whole.feed(delta)
            if whole is not None and (partial_response := whole.partial()) is not None:
                yield partial_response
    except (ModelError, *broken_by) as error:
        broken = error
    finally:  # the caller may close it early
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    response = reader.response(broken=None if broken is None else f"{type(broken).__name__}: {broken}")
    if all(isinstance(part, ReasoningPart) for part in response.parts):
        if broken is not None:
            raise broken
        if response.interrupted and response.finish_reason != "error":
            message = response.error_message or "the stream ended without an answer"
            raise ModelError(message, provider=provider, retryable=True)
    yield response


class ProviderModel(ABC):
    """Base class of models behind a provider's API: its exporter converts, a subclass does the transport.

    A subclass sends a body with `_answer`, for an answer in one piece, and `_events`, for a stream; `_error` converts
    what `_answer` raises, and `_known_secrets` returns what errors must not show.

    Attributes:
        name: The model's name.
        exporter: Writes its requests and reads its answers.
        provider: The name of its exporter.
        loads_deferred: Whether it searches and loads deferred tools itself.
    """

    def __init__(self, model: str, exporter: Exporter) -> None:
        self.name, self.exporter, self.provider = model, exporter, exporter.name
        self.loads_deferred = False
        self._secrets = Secrets(self._known_secrets)

    def formats(self, request: ModelRequest) -> bool:
        """Whether the answer will be in the provider's response format for the request's `output`."""
        write = getattr(self.exporter, "response_format", None)
        return write is not None and write(request.evolve(model=request.model or self.name)) is not None

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; cancelling it closes the connection.

        Raises:
            ModelError: The request failed, or the provider answered with an error.
            ExportError: The request can't be written for it.
        """
        return await self._whole(self._body(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Yields deltas as they arrive, and last the whole `ModelResponse`; closing it early closes the connection.

        A stream that breaks off after its first text ends with an interrupted response.

        Raises:
            ModelError: The request failed, or the provider answered with an error before the first text.
            ExportError: The request can't be written for it.
        """
        async with aclosing(self._pieces(self._body(request), request)) as pieces:
            async for piece in pieces:
                yield piece

    async def models(self) -> list[str]:
        """The names of the provider's models.

        Raises:
            ModelError: The request failed, or the provider answered with an error.
        """
        return await self._convert_errors(self._models())

    @abstractmethod
    async def aclose(self) -> None:
        """Closes the client, unless it was given."""

    async def _models(self) -> list[str]:
        """Requests the names of the provider's models; by default, there are none."""
        return []

    def _error(self, error: Exception) -> ModelError:
        """Converts an exception of the SDK or its transport; by default, a lost connection is retryable."""
        return unanswered(error, self.provider)

    @abstractmethod
    async def _answer(self, body: JsonObject) -> Any:
        """Requests an answer in one piece.

        Args:
            body: The exporter's body, with the model's name.

        Returns:
            The answer as JSON data.

        Raises:
            Exception: The request failed, or the provider answered with an error; `_error` converts it.
        """

    @abstractmethod
    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """Requests a stream.

        Args:
            body: The exporter's body, with the model's name.

        Returns:
            The events as JSON data; `aclose` closes the connection.

        Raises:
            ModelError: The request failed, the provider answered with an error, or the stream broke off. An error in
                the stream comes as an event before.
        """

    def _known_secrets(self) -> Iterable[str]:
        """Keys and other secrets, which are redacted in errors."""
        return ()

    def _body(self, request: ModelRequest) -> JsonObject:
        return {"model": self.name, **self.exporter.request(request)}

    async def _whole(self, body: JsonObject, request: ModelRequest) -> ModelResponse:
        with self._secrets.redact_errors():
            answer = await self._convert_errors(self._answer(body))
            return self._secrets.redact(self.exporter.response(answer, request))

    async def _convert_errors(self, answer: Awaitable[P]) -> P:
        """The answer; what it raises is converted by `_error`."""
        try:
            return await answer
        except ModelError:
            raise
        except Exception as error:  # the SDK and its transport raise all kinds
            raise self._error(error) from error

    def _pieces(self, body: JsonObject, request: ModelRequest) -> AsyncGenerator[Delta | ModelResponse]:
        events, reader = self._events(body), self.exporter.reader(request)
        read = streamed(events, reader, provider=self.provider, start_early=request.start_early)
        return self._secrets.redact_all(read)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, provider={self.provider!r})"


class SDKModel(ProviderModel, Generic[C]):
    """Base class of models over a generated SDK, such as OpenAI's or Anthropic's.

    Args:
        model: Its name.
        exporter: Writes its requests and reads its answers.
        method: The method of the SDK that answers.
        secrets: Returns the keys and other secrets that a client sends.
    """

    def __init__(
        self, model: str, exporter: Exporter, method: SDKMethod[C], secrets: Callable[[C], Iterable[str]]
    ) -> None:
        super().__init__(model, exporter)
        self._method, self._secrets_of = method, secrets

    async def aclose(self) -> None:
        """Closes the client of the running event loop, unless it was given."""
        await self._method.clients.aclose()

    async def _models(self) -> list[str]:
        client: Any = self._method.clients.now()
        return [model.id async for model in client.models.list()]

    async def _answer(self, body: JsonObject) -> Any:
        return await self._method.answer(body)

    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        return self._method.events(body)

    def _error(self, error: Exception) -> ModelError:
        return self._method.error(error)

    def _known_secrets(self) -> Iterable[str]:
        return self._secrets_of(self._method.clients.now())
