"""What clients of providers share: keys, secrets, errors, event loops, streams."""

from __future__ import annotations

import math
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
from contextlib import aclosing, contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from inspect import Parameter, signature
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen

from pegboard.errors import ModelError, hide
from pegboard.messages import CallDelta, CallPart, Delta, ModelResponse, Part, ReasoningPart
from pegboard.request.exporter import Exporter, ResponseReader
from pegboard.request.model_request import ModelRequest
from pegboard.typing import JsonObject
from pegboard_clients.json_end import JsonEnd

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def usable_key(key: str, named: str, provider: str) -> str:
    r"""A key without the space around it: files and shells leave a line's end behind it.

    Args:
        key: As it was given.
        named: Where it comes from, for the error, such as `"the environment variable OPENAI_API_KEY"`.
        provider: For the error.

    Returns:
        The key; `""` where nothing but space was given.

    Raises:
        ModelError: No header can hold it: what is left has control characters, or others than ASCII. The error doesn't
            show the key, and it doesn't pass.
    """
    stripped = key.strip()
    if stripped.isascii() and stripped.isprintable():
        return stripped
    raise ModelError(
        f"{named} holds characters that no key has: control characters, or others than ASCII",
        provider=provider,
        code="invalid_api_key",
    )


LONGEST_MESSAGE: Final = 2_000
"""Characters of a message that are kept: where a proxy answers, it may be a whole page."""

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
    """What a provider answered instead of what was asked.

    Args:
        message: The provider's text; cut where it is very long.
        provider: The provider's name.
        status: The HTTP status, or `None` where there was no answer: no connection, or none in time.
        headers: Those of the answer; names in any case.
        code: The provider's word for the error, passed over where it is no text.
        retryable: Whether the same request may succeed later, where the caller knows better than the status and the
            header `x-should-retry` do.
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
    """Seconds after which a request may be made again, never below 0; `None` where they are missing or unreadable.

    That is `retry-after-ms`, in milliseconds, as some providers send it; or `Retry-After`, a number of seconds or a
    date (RFC 9110, section 10.2.3; fractions are taken, too).

    Args:
        headers: Names in lower case.
        now: Seconds since 1970; by default those of the clock.
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
    """The text of an error, with its cause, which of a lost connection is more than an SDK's own error has."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return text if cause is None or str(cause) == text else f"{text} ({type(cause).__name__}: {cause})"


without_secrets: Final = partial(hide, mark="***")
"""A text, such as an SDK's error or a server's answer, without these secrets."""


def _may_succeed_later(status: int | None, advice: str | None) -> bool:
    """Whether a request is worth another attempt; the provider's advice counts more than its status."""
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
    """The secrets of a client, and what they are kept out of: whatever an SDK, its transport or a server echoes.

    Attributes:
        known: Gives them; it is asked anew each time, as keys may be renewed.
    """

    known: Callable[[], Iterable[str]]

    @contextmanager
    def kept(self) -> Generator[None]:
        """A `ModelError` that leaves the block shows none, neither itself nor in the errors it is chained to."""
        try:
            yield
        except ModelError as error:
            self._keep_from(error)
            raise

    def kept_from(self, piece: P) -> P:
        """A response, or a piece of one, whose error shows none."""
        if isinstance(piece, ModelResponse) and piece.error_message:
            return evolve(piece, error_message=without_secrets(piece.error_message, self.known()))
        return piece

    async def kept_from_all(self, pieces: AsyncGenerator[P]) -> AsyncGenerator[P]:
        """The pieces of a stream, with both; closing it closes the stream.

        Raises:
            ModelError: As the stream does.
        """
        with self.kept():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield self.kept_from(piece)

    def _keep_from(self, error: ModelError) -> None:
        """Redacts the error in place. What it is chained to can't be: where that shows a secret, it is let go."""
        known = list(self.known())
        error.args = tuple(without_secrets(str(each), known) for each in error.args)
        error.message = without_secrets(error.message, known)
        error.code = error.code and without_secrets(error.code, known)
        error.request_id = error.request_id and without_secrets(error.request_id, known)
        shown = "".join(format_exception(error, limit=0))
        if without_secrets(shown, known) != shown:
            error.__cause__ = error.__context__ = None


def secrets_in(headers: Mapping[str, Any]) -> list[str]:
    """What headers carry that are for credentials, with the scheme before it and without."""
    sent = [
        value for name, value in headers.items() if name.lower().endswith(_SECRET_HEADERS) and isinstance(value, str)
    ]
    return [part for value in sent for part in (value, value.partition(" ")[2])]


Given = TypeVar("Given")


@define(eq=False)
class Clients(Generic[C]):
    """One client of a provider's for each event loop: open connections belong to theirs, and fail in any other.

    Attributes:
        first: For the first loop, and for callers without one.
        again: Makes one for a further loop; `None`: the first was given, serves all, and is its owner's to close.
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
        """The client that was given, for all loops; or those that are made, the first one now.

        Args:
            given: A client, or `None`.
            make: Makes one.
            close: Closes one that was made.
        """
        return Clients(make(), make, close) if given is None else Clients(given, None, close)

    def now(self) -> C:
        """The client of the running loop. Loops may run in several threads."""
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
        """Closes the client of the running loop, unless it was given; those of other loops are theirs to close.

        A later `now` makes another one.
        """
        from asyncio import get_running_loop

        if self.again is None:
            return
        with self._lock:
            client = self._of_loop.pop(get_running_loop(), None if self._is_taken else self.first)
            self._is_taken = True
        if client is not None:
            await self.close(client)


def check_alone(client: object, beside: Mapping[str, Any]) -> None:
    """Checks that nothing is given beside a client, which has all that it needs.

    Args:
        client: The client, or `None`.
        beside: What makes one, by name; `None` where it isn't given.

    Raises:
        TypeError: Something is given that the client would not use.
    """
    given = [name for name, value in beside.items() if value is not None]
    if client is not None and given:
        raise TypeError(f"client=... is used as it is; leave out {', '.join(given)}")


@define(eq=False)
class SDKMethod(Generic[C]):
    """A method such as `client.messages.create`, as SDKs that are generated from a provider's description have it.

    It takes the members of a body by name, further ones as `extra_body`, and `stream=True`; it gives data, or objects
    with `to_dict`.

    Attributes:
        clients: Of whose the running loop's is asked.
        method: The method of a client.
        error: Whatever the SDK, or its transport, has raised, as the error that hosts know.
        event: Makes of the provider's body of an error the event of its streams.
    """

    clients: Clients[C]
    method: Callable[[C], Callable[..., Awaitable[Any]]]
    error: Callable[[Exception], ModelError]
    event: Callable[[JsonObject], JsonObject]

    async def answer(self, body: JsonObject) -> Any:
        """The answer in one piece, as JSON data.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
        """
        try:
            return as_data(await self._sent({name: value for name, value in body.items() if name != "stream"}))
        except Exception as error:  # the SDK, its transport and its reading of JSON raise all kinds
            raise self.error(error) from error

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The events of a stream, as JSON data; leaving early closes the connection.

        Raises:
            ModelError: The provider can't be asked or answered with an error, or the stream broke off. An error within
                the stream, which the SDK raises, comes as an event before.
        """
        try:
            stream: Any = await self._sent({**body, "stream": True})
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

    def _sent(self, body: JsonObject) -> Awaitable[Any]:
        """Asks with the body; members that this version of the SDK has no parameter for stand beside it."""
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
    """What an SDK gives, as the JSON data that came: without what its models add, with what they don't know.

    Raises:
        ValueError: It is nested deeper than its models can be.
    """
    to_dict: Any = getattr(answer, "to_dict", None)
    return answer if to_dict is None else to_dict(mode="json", warnings=False)


@define(eq=False)
class _WholeCalls:
    """The calls of a streamed answer that have come whole, though more of it is to come.

    Attributes:
        reader: Reads the answer.
        shown: How many calls have been given.
    """

    reader: ResponseReader
    shown: int = 0
    _ends: dict[int, JsonEnd] = field(factory=dict[int, JsonEnd], init=False)
    _looks: int = field(default=0, init=False)

    def feed(self, delta: Delta) -> None:
        """Takes in a piece of the answer."""
        if isinstance(delta, CallDelta) and self._ends.setdefault(delta.index, JsonEnd()).reached(delta.arguments):
            self._looks = _LOOKS

    def partial(self) -> ModelResponse | None:
        """The answer up to the last call that is whole, as are those before it; `None` where that is nothing new."""
        if not self._looks:
            return None
        self._looks -= 1
        response, parts, calls = self.reader.response(), list[Part](), 0
        for part in response.parts:
            if isinstance(part, CallPart) and not part.call.provider_executed:
                if part.call.invalid or calls not in self._ends or not self._ends[calls].reached(""):
                    break
                calls += 1
            parts.append(part)
        if calls <= self.shown or calls > _MOST_EARLY:
            return None
        self.shown, self._looks = calls, 0
        message = response.message.evolve(parts=parts)
        return ModelResponse(message, "tool_calls", model=response.model, id=response.id, partial=True, complete=False)


_LOOKS: Final = 3  # a provider's end of a call may come some chunks behind its last piece
_MOST_EARLY: Final = 100  # calls of an answer: each has all before it read once more


async def streamed(
    chunks: AsyncIterable[Mapping[str, Any]],
    reader: ResponseReader,
    *broken_by: type[Exception],
    provider: str = "",
    start_early: bool = False,
) -> AsyncGenerator[Delta | ModelResponse]:
    """Pieces as they come, and last the response; what a broken stream has brought is not lost.

    Where a stream breaks off before the first words or calls (thoughts don't count), there is nothing to lose, and
    another attempt may do better: then the error is raised. A `ModelError` may come behind the event of the same error;
    it knows more than the event does.

    Args:
        chunks: The provider's events, as JSON data.
        reader: The exporter's.
        broken_by: What else than `ModelError` the provider's client raises where a stream breaks off.
        provider: The provider's name, for an error of a stream that ends without one.
        start_early: Whether partial responses come, too, each with one more call that is whole.

    Raises:
        ModelError: The provider answered with an error instead of words, or the stream ended without any.
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
    finally:  # the reader may leave in the middle
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
    """A model behind a provider's client: an exporter writes and reads, and a subclass carries.

    A subclass sends one body: `_answer` for an answer in one piece, `_events` for a stream; and gives by
    `_known_secrets` what its errors must not show.

    Attributes:
        name: The model's name.
        exporter: What writes its requests and reads its answers.
        provider: The name of the exporter that writes for it.
        loads_deferred: Whether it searches and loads deferred tools itself.
    """

    def __init__(self, model: str, exporter: Exporter) -> None:
        self.name, self.exporter, self.provider = model, exporter, exporter.name
        self.loads_deferred = False
        self._secrets = Secrets(self._known_secrets)

    def formats(self, request: ModelRequest) -> bool:
        """Whether the answer will be in the format of the request's `output`, by the provider's own response format."""
        write = getattr(self.exporter, "response_format", None)
        return write is not None and write(request.evolve(model=request.model or self.name)) is not None

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; one that is cancelled closes the connection.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
            ExportError: The request can't be written for it.
        """
        return await self._whole(self._body(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`; leaving early closes the connection.

        A stream that breaks off behind its first words ends with a response that is marked so.

        Raises:
            ModelError: The provider can't be asked, or answered with an error before the first words.
            ExportError: The request can't be written for it.
        """
        async with aclosing(self._pieces(self._body(request), request)) as pieces:
            async for piece in pieces:
                yield piece

    @abstractmethod
    async def aclose(self) -> None:
        """Closes the client, unless it was given."""

    @abstractmethod
    async def _answer(self, body: JsonObject) -> Any:
        """Asks for an answer in one piece.

        Args:
            body: What the exporter has written, and the model's name.

        Returns:
            The answer as JSON data.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
        """

    @abstractmethod
    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """Asks for a stream.

        Args:
            body: What the exporter has written, and the model's name.

        Returns:
            The events as JSON data; `aclose` closes the connection.

        Raises:
            ModelError: The provider can't be asked or answered with an error, or the stream broke off. An error within
                the stream comes as an event before.
        """

    def _known_secrets(self) -> Iterable[str]:
        """Keys and the like, which neither errors nor the error of an answer show, whatever echoes them."""
        return ()

    def _body(self, request: ModelRequest) -> JsonObject:
        return {"model": self.name, **self.exporter.request(request)}

    async def _whole(self, body: JsonObject, request: ModelRequest) -> ModelResponse:
        with self._secrets.kept():
            return self._secrets.kept_from(self.exporter.response(await self._answer(body), request))

    def _pieces(self, body: JsonObject, request: ModelRequest) -> AsyncGenerator[Delta | ModelResponse]:
        events, reader = self._events(body), self.exporter.reader(request)
        read = streamed(events, reader, provider=self.provider, start_early=request.start_early)
        return self._secrets.kept_from_all(read)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, provider={self.provider!r})"
