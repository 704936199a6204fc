"""Why an answer ended, and what the provider says where there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pegboard.errors import ModelError
from pegboard.messages.response import FinishReason
from pegboard.request.exporters.gemini.limits import FAMILY
from pegboard.request.exporters.untrusted import as_object, object_in, objects_in, text_in
from pegboard.typing import JsonMapping

_FILTERED: Final = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
)
_FAILED: Final = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
    "IMAGE_OTHER",
    "NO_IMAGE",
)
_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "error"),
}
CUT_OFF: Final = frozenset({"length", "content_filter", "error"})
"""Reasons after which an answer isn't whole: its calls never run."""

_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


def reason_of(word: str, *, calls: bool) -> FinishReason:
    """Why an answer ended, by the provider's word.

    Args:
        word: The `finishReason`; `""` where none was given.
        calls: Whether it calls tools.
    """
    reason = _REASONS.get(word, "other" if word else "stop")
    return "tool_calls" if calls and reason == "stop" else reason


def error_of(body: Any, *, status: int | None = None, retry_after: float | None = None) -> ModelError:
    """The error that a provider's body tells.

    Args:
        body: `{"error": {"code", "message", "status", "details"}}`, or whatever came instead.
        status: The HTTP status, where it is known otherwise.
        retry_after: Seconds, by a header.
    """
    said = object_in(as_object(body), "error")
    code = said.get("code")
    status = code if status is None and type(code) is int else status
    return ModelError(
        text_in(said, "message") or f"an answer that can't be read: {type(body).__name__}",
        provider=FAMILY,
        status=status,
        code=text_in(said, "status") or None,
        retryable=status in _RETRYABLE,
        retry_after=_retry_after(said) if retry_after is None else retry_after,
    )


def _retry_after(said: JsonMapping) -> float | None:
    """Seconds by `google.rpc.RetryInfo`."""
    for detail in objects_in(said, "details"):
        found = _SECONDS.fullmatch(text_in(detail, "retryDelay"))
        if found is not None:
            return float(found[1])
    return None


__all__ = ["CUT_OFF", "error_of", "reason_of"]
