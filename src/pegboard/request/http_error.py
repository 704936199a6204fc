"""`model_error`: an HTTP answer that is no success, or none at all, as the error that hosts know."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

from pegboard.errors import ModelError

LONGEST_MESSAGE: Final = 2_000
"""Characters of a message that are kept: where a proxy answers, it may be a whole page."""

LONG_SECRET: Final = 8
"""Characters from which on a secret is taken for one wherever it stands, and a part of one at a text's end, too."""

_SHORTEST_SECRET: Final = 4
_LATER: Final = frozenset({408, 409, 425, 429})
_NEVER: Final = frozenset({501, 505})
_NOTHING: Final[Mapping[str, str]] = {}


def model_error(  # noqa: PLR0913  facts, all by name
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
        message: What it says; cut where it is very long.
        provider: The provider's name.
        status: The HTTP status, or `None` where there was no answer: no connection, or none in time.
        headers: Those of the answer; names in any case.
        code: The provider's word for the error, passed over where it is no text.
        retryable: Whether the same request may succeed later, where the caller knows better than the status and the
            header `x-should-retry` do.
        request_id: The provider's id of the request.
    """
    said = {name.lower(): value for name, value in headers.items()}
    return ModelError(
        message[:LONGEST_MESSAGE],
        provider=provider,
        status=status,
        code=code if isinstance(code, str) and code else None,
        retryable=_may_succeed_later(status, said.get("x-should-retry")) if retryable is None else retryable,
        retry_after=retry_after(said),
        request_id=request_id,
    )


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds after which a request may be made again, never below 0; `None` where that isn't said, or can't be read.

    That is `retry-after-ms`, in milliseconds, as some providers send it; or `Retry-After`, a number of seconds or a
    date (RFC 9110, section 10.2.3; fractions are taken, too).

    Args:
        headers: Names in lower case.
        now: Seconds since 1970; by default what the clock says.
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return max(exact / 1000, 0.0)
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is None and said is not None:
        date = _date(said)
        seconds = None if date is None else date - (time.time() if now is None else now)
    return None if seconds is None else max(seconds, 0.0)


def told(error: BaseException) -> str:
    """What an error says, with its cause: of a lost connection, that says more than an SDK's own error does."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return text if cause is None or str(cause) == text else f"{text} ({type(cause).__name__}: {cause})"


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text with `***` for each secret in it, as it is or as addresses and Python's `repr` write it.

    Where the text was cut in the middle of one, its beginning goes, too. One of fewer than `LONG_SECRET` characters
    counts where it stands alone, and fewer than four hide nothing: servers that want no key are given any word.

    Args:
        text: Such as an SDK's error, or what a server says.
        secrets: What it must not show.
    """
    written = {form for secret in secrets for form in _written(secret.strip()) if len(form) >= _SHORTEST_SECRET}
    for form in sorted(written, key=len, reverse=True):
        text = _without(text, form)
    return text


def _written(secret: str) -> tuple[str, ...]:
    return (
        secret,
        quote(secret, safe="", errors="replace"),
        repr(secret)[1:-1],
        repr(secret.encode(errors="replace"))[2:-1],
    )


def _without(text: str, form: str) -> str:
    if len(form) < LONG_SECRET:
        return re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", "***", text)
    text = text.replace(form, "***")
    for length in range(len(form) - 1, LONG_SECRET - 1, -1):
        if text.endswith(form[:length]):
            return f"{text[:-length]}***"
    return text


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


__all__ = ["LONGEST_MESSAGE", "LONG_SECRET", "model_error", "retry_after", "told", "without_secrets"]
