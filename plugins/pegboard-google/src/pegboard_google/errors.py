"""`model_error`: what Google's SDK raises, as the error that hosts know."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from json import JSONDecodeError
from typing import Any, Final, cast

from pegboard import ModelError
from pegboard.request.client import http_error
from pegboard_google._gemini import error_of

_TRANSPORTS: Final = {
    "httpx2": ("TransportError",),
    "httpx": ("TransportError",),
    "aiohttp": ("ClientConnectionError", "ClientPayloadError"),
}
"""What the SDK may talk through, and what that raises where the connection is lost or takes too long."""


def model_error(error: Exception, provider: str) -> ModelError:
    """The error with what the SDK knows of it: status, the provider's word, and whether and when to try again.

    Args:
        error: Whatever the SDK, or the transport below it, has raised.
        provider: Whose error it is.
    """
    if isinstance(error, ModelError):
        return error
    facts: Any = error
    status, code, message = (getattr(facts, name, None) for name in ("code", "status", "message"))
    known = type(status) is int
    made = http_error(
        message if isinstance(message, str) and message else str(error) or type(error).__name__,
        provider=provider,
        status=status if known else None,
        headers=_headers(error),
        code=code if isinstance(code, str) and code else type(error).__name__,
        retryable=None if known else _passes(error),
    )
    if made.retry_after is None:  # Gemini says it in the body
        made.retry_after = error_of(body_of(error)).retry_after
    return made


def body_of(error: Exception) -> Mapping[str, Any]:
    """The provider's body of an error, `{"error": {...}}`; empty where there was none."""
    details: Any = getattr(error, "details", None)
    return cast("Mapping[str, Any]", details) if isinstance(details, Mapping) else {}


def _passes(error: Exception) -> bool:
    """Whether an error without status may be gone with the next attempt; credentials' errors say it themselves."""
    return isinstance(error, tuple(_passing())) or getattr(error, "retryable", False) is True


def _passing() -> Iterator[type[Exception]]:
    """Lost connections, and answers that are no JSON: a page that somebody on the way sent in their stead."""
    from google.genai.errors import UnknownApiResponseError

    yield from (OSError, UnknownApiResponseError, JSONDecodeError)
    for name, lost in _TRANSPORTS.items():
        if name in sys.modules:
            yield from (getattr(sys.modules[name], each) for each in lost)


def _headers(error: Exception) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return cast("Mapping[str, str]", headers) if isinstance(headers, Mapping) else {}


__all__ = ["body_of", "model_error"]
