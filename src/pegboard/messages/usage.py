"""`Usage`: what an answer has used, in tokens."""

from __future__ import annotations

import attrs
from attrs import frozen

from pegboard.typing import JsonObject


@frozen
class Usage:
    """What one answer, or several together, used, in tokens.

    Attributes:
        input_tokens: Of the request, those from a cache included.
        output_tokens: Of the answer, reasoning included.
        cached_tokens: Of the request, read from the provider's cache.
        cache_write_tokens: Of the request, written into the provider's cache.
        reasoning_tokens: Of the answer, thought and not said.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Request and answer."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(*(mine + its for mine, its in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def to_json(self) -> JsonObject:
        """All counts by name."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Usage:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: A count isn't a whole number, 0 or above; names it.
        """
        from pegboard.messages.reading import count, members

        read = members(data, "usage")
        return cls(*(count(read, each.name) for each in attrs.fields(cls)))


NO_USAGE = Usage()

__all__ = ["NO_USAGE", "Usage"]
