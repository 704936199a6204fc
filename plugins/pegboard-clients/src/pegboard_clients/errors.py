"""`ModelError`s of provider clients: of a status and headers, of lost connections, of keys; without secrets."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from traceback import format_exception
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from attrs import evolve, frozen

from pegboard.errors import ModelError, hide
from pegboard.messages import ModelResponse

P = TypeVar("P")


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


_SECRET_HEADERS: Final = ("api-key", "authorization")  # as they are, or behind a prefix such as "x-" or "proxy-"


@frozen
class Secrets:
    """Redaction of a client's secrets in errors and answers: an SDK, its transport or a server may echo them.

    Attributes:
        known: Returns the secrets; called each time, as keys may be renewed.
    """

    known: Callable[[], Iterable[str]]

    @contextmanager
    def redact_errors(self) -> Generator[None]:
        """Context manager that redacts a `ModelError` raised in the block, including the errors it is chained to."""
        try:
            yield
        except ModelError as error:
            self._redact_error(error)
            raise

    def redact(self, piece: P) -> P:
        """The response, or a piece of one, with its error redacted."""
        if isinstance(piece, ModelResponse) and piece.error_message:
            return evolve(piece, error_message=without_secrets(piece.error_message, self.known()))
        return piece

    async def redact_all(self, pieces: AsyncGenerator[P]) -> AsyncGenerator[P]:
        """The pieces of a stream, redacted by both; closing it closes the stream.

        Raises:
            ModelError: As the stream.
        """
        with self.redact_errors():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield self.redact(piece)

    def _redact_error(self, error: ModelError) -> None:
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
