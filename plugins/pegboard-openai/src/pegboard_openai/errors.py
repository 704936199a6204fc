"""`model_error`: what OpenAI's SDK raises, as the error that hosts know."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pegboard import ModelError
from pegboard.request.client import http_error, told
from pegboard.wire import as_object, text_in
from pegboard_openai._openai import NEVER, failure

if TYPE_CHECKING:
    from openai import APIError, APIStatusError


def model_error(error: Exception, provider: str) -> ModelError:
    """The error with what the SDK knows of it: status, the provider's word, request id, and whether to try again.

    Args:
        error: Whatever the SDK, or the transport below it, has raised.
        provider: Whose error it is.
    """
    from openai import APIError, APIStatusError

    if isinstance(error, ModelError):
        return error
    if isinstance(error, APIStatusError):
        return _answered(error, provider)
    if isinstance(error, APIError) and error.body is not None:
        return _streamed(error, provider)
    return http_error(
        told(error),
        provider=provider,
        code=type(error).__name__,
        retryable=isinstance(error, tuple(_lost_connections())),
    )


def _answered(error: APIStatusError, provider: str) -> ModelError:
    """The provider's own error. What never passes, such as credit that is used up, may come as 429 all the same."""
    said = failure(error.body, provider)
    return http_error(
        text_in(as_object(error.body), "message") or error.message,
        provider=provider,
        status=error.status_code,
        headers=error.response.headers,
        code=said.code or type(error).__name__,
        retryable=False if said.code in NEVER else None,
        request_id=error.request_id,
    )


def _streamed(error: APIError, provider: str) -> ModelError:
    """One that came within a stream, and so without a status: its word tells whether it passes."""
    said = failure(error.body, provider)
    said.code = said.code or type(error).__name__
    return said


def _lost_connections() -> Iterator[type[Exception]]:
    """What the SDK, and the transports of its versions, raise where the connection is lost or takes too long."""
    from openai import APIConnectionError

    yield from (APIConnectionError, OSError)
    for name in ("httpx2", "httpx"):
        if (transport := sys.modules.get(name)) is not None:
            yield transport.TransportError
