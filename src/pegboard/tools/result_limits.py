"""`ResultLimits`: how much of a result the model gets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs
from attrs import Factory, field, frozen

Keep: TypeAlias = Literal["head", "tail", "middle"]
"""Which part stays: the beginning, the end, or both ends without the middle."""

TokenCounter: TypeAlias = Callable[[str], int]
"""How many tokens a text has: at most one a byte."""

BYTES_A_TOKEN: Final = 4
"""The estimate where nobody counts: English text and code have three to five."""

_MOST_BYTES_A_CHARACTER: Final = 4
_at_least_one: Final = attrs.validators.optional(attrs.validators.ge(1))


def _small(limits: ResultLimits) -> int:
    lines, most, tokens = limits.lines, limits.bytes, limits.tokens
    return min(
        sys.maxsize if lines is None else lines,
        sys.maxsize if most is None else most // _MOST_BYTES_A_CHARACTER,
        sys.maxsize if tokens is None else tokens // _MOST_BYTES_A_CHARACTER,
    )


@frozen
class ResultLimits:
    """How much of a result the model gets; whatever limit is hit first holds, `None` is none.

    The words that say what was left out, and how to read on, come on top.

    Attributes:
        lines: How many lines of text.
        bytes: How many bytes of text, in UTF-8.
        tokens: How many tokens of text.
        keep: Which part stays: `"head"`, `"tail"`, or `"middle"` for both ends without the middle.
        count_tokens: Counts the tokens of a text; `None` takes four bytes for one. Called off the event loop.
        media_bytes: How many bytes of pictures, sounds and files, all of a result's together. What goes beyond it
            becomes an attachment.
        small: Texts of so many characters are surely within the limits.
    """

    lines: int | None = field(default=2_000, validator=_at_least_one)
    bytes: int | None = field(default=51_200, validator=_at_least_one)
    tokens: int | None = field(default=None, validator=_at_least_one)
    keep: Keep = field(default="head", validator=attrs.validators.in_(("head", "tail", "middle")))
    count_tokens: TokenCounter | None = None
    media_bytes: int | None = field(default=10_485_760, validator=_at_least_one)
    small: int = field(init=False, repr=False, eq=False, default=Factory(_small, takes_self=True))


DEFAULT_RESULT_LIMITS: Final = ResultLimits()
"""2,000 lines or 50 KiB of text, 10 MiB of anything else, and the head stays."""
