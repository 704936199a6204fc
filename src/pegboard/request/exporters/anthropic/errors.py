"""The provider's errors, as an answer's body or as an event of a stream."""

from __future__ import annotations

from typing import Final

from pegboard.errors import ModelError
from pegboard.request.exporters.anthropic.limits import FAMILY
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.typing import JsonMapping

_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What goes with a type (the provider's page of errors); a body alone has no status."""

_LATER: Final = frozenset({"rate_limit_error", "api_error", "timeout_error", "overloaded_error"})


def error_of(body: JsonMapping) -> ModelError:
    """What a body says that is no answer."""
    error = object_in(body, "error")
    code = text_in(error, "type")
    message = text_in(error, "message") or (f"{code}" if code else "what came is no answer")
    return ModelError(
        message[:2_000],
        provider=FAMILY,
        status=_STATUS.get(code),
        code=code or None,
        retryable=code in _LATER,
        request_id=text_in(body, "request_id") or None,
    )


__all__ = ["error_of"]
