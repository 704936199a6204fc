"""Shared code of provider clients: keys, secrets, errors, one client per event loop, streams."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from inspect import Parameter, signature
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen

from pegboard import Exporter, ModelRequest
from pegboard.errors import ModelError, hide
from pegboard.messages import CallDelta, CallPart, Delta, ModelResponse, Part, ReasoningPart
from pegboard.request import ResponseReader
from pegboard.typing import JsonObject
from pegboard_clients.json_end import JsonEnd
from pegboard_clients.wire import arguments_object

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def usable_key(key: str, named: str, provider: str) -> str:
    r"""Strips whitespace from a key: files and shells often append a newline.

    Args:
        key: The key.
        named: Its source, for the error, such as `"the environment variable OPENAI_API_KEY"`.
        provider: For the error.

    Returns:
        The key; `""` if it is blank.

    Raises:
        ModelError: No header can hold it: it has control characters, or characters that aren't ASCII. The error doesn't
            show the key, and isn't retryable.
    """
    stripped = key.strip()
    if stripped.isascii() and stripped.isprintable():
        return stripped
    raise ModelError(
        f"{named} is not a valid key: it has control characters, or characters that aren't ASCII",
        provider=provider,
        code="invalid_api_key",
    )


def environment_key(variable: str, provider: str) -> str:
    """The key that an environment variable holds, or `""`.

    Raises:
        ModelError: No header can hold it, see `usable_key`.
    """
    return usable_key(os.environ.get(variable, ""), f"the environment variable {variable}", provider)


def no_key(variables: str, provider: str, why: str = "there is no API key") -> ModelError:
    """The error of a client without a key; it names the environment variables, and the option `api_key`."""
    text = f"{why}: set the environment variable {variables}, or pass api_key=..."
    return ModelError(text, provider=provider, code="missing_api_key")


LONGEST_MESSAGE: Final = 2_000
"""Characters of a message; further ones are cut, as a proxy may answer with a whole page."""

_LATER: Final = frozenset({408, 409, 425, 429})
_NEVER: Final = frozenset({501, 505})
_NOTHING: Final[Mapping[str, str]] = {}


def http_error(  # noqa: PLR0913  facts, all by name
    message: str,
    *,
    provider: str,
    status: int | None = None,
    headers: Mapping[str, str] = _NOTHING,
    code: Any = None,
    retryable: bool | None = None,
    request_id: str | None = None,
) -> ModelError:
    """The `ModelError` for a failed request.

    Args:
        message: The provider's text; cut if it is very long.
        provider: The provider's name.
        status: The HTTP status, or `None` if there was no answer: no connection, or a timeout.
        headers: The headers of the answer, in any case.
        code: The provider's error code; ignored if it isn't a text.
        retryable: Whether the same request may succeed later; by default, depends on the header `x-should-retry` and
            the status.
        request_id: The provider's id of the request.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    return ModelError(
        message[:LONGEST_MESSAGE],
        provider=provider,
        status=status,
        code=code if isinstance(code, str) and code else None,
        retryable=_may_succeed_later(status, sent.get("x-should-retry")) if retryable is None else retryable,
        retry_after=retry_after(sent),
        request_id=request_id,
    )


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait before a retry, from 0; `None` if the headers are missing or invalid.

    From `retry-after-ms`, in milliseconds, which some providers send; or `Retry-After`, a number of seconds, also a
    fraction, or a date (RFC 9110, section 10.2.3).

    Args:
        headers: Names in lower case.
        now: Seconds since 1970; by default, the current time.
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return max(exact / 1000, 0.0)
    sent = headers.get("retry-after")
    seconds = _number(sent)
    if seconds is None and sent is not None:
        date = _date(sent)
        seconds = None if date is None else date - (time.time() if now is None else now)
    return None if seconds is None else max(seconds, 0.0)


def with_cause(error: BaseException) -> str:
    """The text of an error, its cause and the server's address: of lost connections the SDKs' texts say too little."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    text = text if cause is None or str(cause) == text else f"{text} ({type(cause).__name__}: {cause})"
    for each in (error, cause):
        with suppress(AttributeError, RuntimeError):  # httpx raises the second where there was no request
            request: Any = cast("Any", each).request
            url = urlsplit(str(request.url))
            return f"request to {url.scheme}://{url.netloc.rpartition('@')[2]}: {text}"
    return text


_TRANSPORTS: Final = {
    "httpx2": ("TransportError",),
    "httpx": ("TransportError",),
    "aiohttp": ("ClientConnectionError", "ClientPayloadError"),
    "urllib3.exceptions": ("HTTPError",),
}
"""The transports of the SDKs, and their exceptions for lost connections and timeouts."""


def is_lost(error: Exception) -> bool:
    """Whether an error is a lost connection or a timeout, by the transports that are loaded."""
    loaded = ((sys.modules[name], kinds) for name, kinds in _TRANSPORTS.items() if name in sys.modules)
    return isinstance(error, (OSError, *(getattr(module, kind) for module, kinds in loaded for kind in kinds)))


def unanswered(error: Exception, provider: str, *retryable: type[Exception]) -> ModelError:
    """The error of a request without an answer; retryable if the transport was at fault.

    Args:
        error: Any exception of an SDK or its transport.
        provider: The provider's name.
        retryable: The SDK's own exceptions for lost connections.
    """
    if isinstance(error, ModelError):
        return error
    passes = isinstance(error, retryable) or is_lost(error)
    return http_error(with_cause(error), provider=provider, code=type(error).__name__, retryable=passes)


without_secrets: Final = partial(hide, mark="***")
"""Redacts secrets in a text, such as an SDK's error or a server's answer."""


def _may_succeed_later(status: int | None, advice: str | None) -> bool:
    """Whether a request may be retried; the provider's advice overrides the status."""
    if advice in ("true", "false"):
        return advice == "true"
    return status is None or status in _LATER or (status >= 500 and status not in _NEVER)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


C = TypeVar("C")
P = TypeVar("P")
_SECRET_HEADERS: Final = ("api-key", "authorization")  # as they are, or behind a prefix such as "x-" or "proxy-"


@frozen
class Secrets:
    """Redaction of a client's secrets in errors and answers: an SDK, its transport or a server may echo them.

    Attributes:
        known: Returns the secrets; called each time, as keys may be renewed.
    """

    known: Callable[[], Iterable[str]]

    @contextmanager
    def kept(self) -> Generator[None]:
        """Context manager that redacts a `ModelError` raised in the block, including the errors it is chained to."""
        try:
            yield
        except ModelError as error:
            self._keep_from(error)
            raise

    def kept_from(self, piece: P) -> P:
        """The response, or a piece of one, with its error redacted."""
        if isinstance(piece, ModelResponse) and piece.error_message:
            return evolve(piece, error_message=without_secrets(piece.error_message, self.known()))
        return piece

    async def kept_from_all(self, pieces: AsyncGenerator[P]) -> AsyncGenerator[P]:
        """The pieces of a stream, redacted by both; closing it closes the stream.

        Raises:
            ModelError: As the stream.
        """
        with self.kept():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield self.kept_from(piece)

    def _keep_from(self, error: ModelError) -> None:
        """Redacts the error in place; drops the errors it is chained to if they show a secret."""
        known = list(self.known())
        error.args = tuple(without_secrets(str(each), known) for each in error.args)
        error.message = without_secrets(error.message, known)
        error.code = error.code and without_secrets(error.code, known)
        error.request_id = error.request_id and without_secrets(error.request_id, known)
        shown = "".join(format_exception(error, limit=0))
        if without_secrets(shown, known) != shown:
            error.__cause__ = error.__context__ = None


def secrets_in(headers: Mapping[str, Any]) -> list[str]:
    """The values of credential headers, with and without the scheme."""
    sent = [
        value for name, value in headers.items() if name.lower().endswith(_SECRET_HEADERS) and isinstance(value, str)
    ]
    return [part for value in sent for part in (value, value.partition(" ")[2])]


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
        with self._secrets.kept():
            answer = await self._convert_errors(self._answer(body))
            return self._secrets.kept_from(self.exporter.response(answer, request))

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
        return self._secrets.kept_from_all(read)

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
