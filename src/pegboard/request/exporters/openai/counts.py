"""What an answer has used, in the words of either wire."""

from __future__ import annotations

from pegboard.messages.response import Usage
from pegboard.request.exporters.untrusted import count_in, object_in
from pegboard.typing import JsonMapping


def read_usage(usage: JsonMapping, asked: str, answered: str) -> Usage:
    """The tokens of an answer; what isn't said, or isn't a count, is 0.

    Args:
        usage: The provider's.
        asked: What it calls those of the request (`"prompt"` or `"input"`).
        answered: What it calls those of the answer (`"completion"` or `"output"`).
    """
    request = object_in(usage, f"{asked}_tokens_details")
    answer = object_in(usage, f"{answered}_tokens_details")
    return Usage(
        count_in(usage, f"{asked}_tokens"),
        count_in(usage, f"{answered}_tokens"),
        count_in(request, "cached_tokens"),
        count_in(request, "cache_write_tokens"),
        count_in(answer, "reasoning_tokens"),
    )


__all__ = ["read_usage"]
