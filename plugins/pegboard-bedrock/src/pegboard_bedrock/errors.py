"""`model_error`: what Amazon's SDK raises, as the error that hosts know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard import ModelError
from pegboard.request.client import http_error
from pegboard.typing import JsonMapping
from pegboard.wire import object_in, text_in
from pegboard_bedrock.bedrock import error_of

KEYS: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK"
"""The environment variables that credentials are taken from, or found by."""


def model_error(error: Exception, provider: str) -> ModelError:
    """The error with what the SDK knows of it: status, the provider's word, request id, and whether to try again.

    Args:
        error: Whatever the SDK, or the transport below it, has raised.
        provider: Whose error it is.
    """
    from botocore import exceptions as sdk  # pyright: ignore[reportMissingTypeStubs]  the SDK has none
    from urllib3.exceptions import HTTPError

    if isinstance(error, ModelError):
        return error
    body = body_of(error)
    if body:
        return _answered(body, provider)
    text = str(error) or type(error).__name__
    if isinstance(error, sdk.NoCredentialsError):
        text = f"there are no credentials: set the environment variables {KEYS}, or sign in as the SDK's pages tell"
    passes = isinstance(error, sdk.ConnectionError | sdk.HTTPClientError | HTTPError | OSError)
    return http_error(text, provider=provider, code=type(error).__name__, retryable=passes)


def nothing_read(raw: JsonMapping, provider: str) -> ModelError:
    """The error for an answer of which the SDK has read nothing: it doesn't tell where one was cut off.

    Args:
        raw: What the SDK gave.
        provider: Whose error it is.
    """
    return http_error(
        "what came is no answer, or was cut off",
        provider=provider,
        retryable=True,
        request_id=text_in(object_in(raw, "ResponseMetadata"), "RequestId") or None,
    )


def body_of(error: Exception) -> JsonMapping:
    """What the provider said, as the SDK has read it; empty where it said nothing."""
    response: Any = getattr(error, "response", None)
    return cast("JsonMapping", response) if isinstance(response, Mapping) else {}


def _answered(body: JsonMapping, provider: str) -> ModelError:
    said = error_of(body)
    return http_error(
        str(said).removeprefix(f"{said.provider}: "),
        provider=provider,
        status=said.status,
        headers=object_in(object_in(body, "ResponseMetadata"), "HTTPHeaders"),
        code=said.code,
        retryable=said.retryable or (None if said.status else False),
        request_id=said.request_id,
    )


__all__ = ["KEYS", "body_of", "model_error", "nothing_read"]
