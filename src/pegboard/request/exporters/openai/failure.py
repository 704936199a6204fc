"""An error that OpenAI answered with, as a `ModelError`."""

from __future__ import annotations

from typing import Final

from pegboard.errors import ModelError
from pegboard.request.exporters.untrusted import known_text, object_or_none
from pegboard.tools.call import writable
from pegboard.typing import JsonMapping

_AGAIN: Final = frozenset(
    {"overloaded_error", "rate_limit_exceeded", "requests", "server_error", "tokens", "vector_store_timeout"}
)
"""Codes and types of errors after which the same request may succeed."""

NEVER: Final = frozenset({"insufficient_quota"})
"""Codes of errors that don't pass, whatever the status: this one comes as 429, and it is the credit that is used up."""

_AGAIN_STATUS: Final = frozenset({408, 409, 429})
_MOST_SHOWN: Final = 2_000


def failure(error: object, provider: str) -> ModelError:
    """The error of an error body (`{"message", "type", "code"}`, or a text)."""
    said = object_or_none(error) or {}
    code, message = error_facts(said)
    if isinstance(error, str):
        message = error
    status = _status(said)
    again = code in _AGAIN or known_text(said, "type") in _AGAIN or status in _AGAIN_STATUS or (status or 0) >= 500
    text = writable(message or "the provider answered with an error")[:_MOST_SHOWN]
    return ModelError(text, provider=provider, status=status, code=code, retryable=again and code not in NEVER)


def error_facts(error: JsonMapping) -> tuple[str | None, str | None]:
    """The provider's word for an error, and its text; `None` for what it doesn't say."""
    return known_text(error, "code") or known_text(error, "type"), known_text(error, "message")


def no_answer(what: str, provider: str) -> ModelError:
    """What is raised for a body that can't be read as an answer."""
    return ModelError(f"the answer can't be read: {what}", provider=provider, code="invalid_response")


def _status(error: JsonMapping) -> int | None:
    """Some servers give the status as the code."""
    code = error.get("status", error.get("code"))
    return code if type(code) is int and 100 <= code < 600 else None


__all__ = ["NEVER", "error_facts", "failure", "no_answer"]
