"""`model_error`: what Anthropic's SDK raises, as the error that hosts know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pegboard import ModelError
from pegboard.request.client import http_error, told
from pegboard.typing import JsonObject
from pegboard.wire import as_object, object_in, text_in
from pegboard_anthropic.anthropic import error_of

if TYPE_CHECKING:
    from anthropic import APIStatusError

_NEVER: Final = frozenset({"contract_spend_limit_reached", "enforced_spend_limit_reached"})
"""What comes as a 429 and doesn't pass: the month's money is spent (types of the SDK)."""


def model_error(error: Exception, provider: str) -> ModelError:
    """The error with what the SDK knows of it: status, the provider's word, request id, and whether to try again.

    Args:
        error: Whatever the SDK, or the transport below it, has raised.
        provider: Whose error it is.
    """
    from anthropic import APIConnectionError, APIStatusError
    from httpx2 import TransportError

    if isinstance(error, ModelError):
        return error
    if isinstance(error, APIStatusError):
        return _answered(error, provider)
    return http_error(
        told(error),
        provider=provider,
        code=type(error).__name__,
        retryable=isinstance(error, APIConnectionError | TransportError | OSError),
    )


def error_event(body: JsonObject) -> JsonObject:
    """The provider's body of an error, as the event by which its streams say it."""
    return {**body, "type": "error"}


def _answered(error: APIStatusError, provider: str) -> ModelError:
    """The provider's own error; of one that came within a stream, whose status is 200, its word tells the rest."""
    body = as_object(error.body)
    said = error_of(body)
    within = error.status_code < 400
    passes = False if error.error_code in _NEVER else None
    return http_error(
        text_in(object_in(body, "error"), "message") or error.message,
        provider=provider,
        status=said.status if within else error.status_code,
        headers=error.response.headers,
        code=said.code,
        retryable=said.retryable if within else passes,
        request_id=error.request_id or said.request_id,
    )


__all__ = ["error_event", "model_error"]
