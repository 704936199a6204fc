"""The provider's errors, as `ClientError.response` or as an event of a stream."""

from __future__ import annotations

from typing import Final

from pegboard.errors import ModelError
from pegboard.request.exporters.bedrock.limits import FAMILY
from pegboard.request.exporters.untrusted import count_in, object_in, text_in
from pegboard.typing import JsonMapping

_STATUS: Final = {
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "modelErrorException": 424,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "modelNotReadyException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""What goes with an exception (botocore's model of the service)."""

_LATER: Final = frozenset({408, 424, 429, 500, 503})


def exception_in(event: JsonMapping) -> str | None:
    """The name of the exception that an event of a stream is, or `None`."""
    return next((name for name in event if name in _STATUS), None)


def error_of(body: JsonMapping) -> ModelError:
    """What a body says that is no answer; or an event that is an exception."""
    name = exception_in(body)
    error = object_in(body, "Error") if name is None else object_in(body, name)
    about = object_in(body, "ResponseMetadata")
    code = name or text_in(error, "Code")
    known = _STATUS.get(code[:1].lower() + code[1:])
    said = text_in(error, "Message") or text_in(error, "message") or text_in(body, "message")
    status = count_in(about, "HTTPStatusCode") or known
    return ModelError(
        (said or code or "what came is no answer")[:2_000],
        provider=FAMILY,
        status=status,
        code=code or None,
        retryable=status in _LATER,
        request_id=text_in(about, "RequestId") or None,
    )


__all__ = ["error_of", "exception_in"]
