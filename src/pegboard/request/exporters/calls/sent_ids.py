"""`SentIds`: the ids of calls as a provider takes them, each once, the same on a call and on its result."""

from __future__ import annotations

import re
from collections import deque

from attrs import define, field

_DIGITS = 10


@define(eq=False)
class SentIds:
    """Gives each call of a conversation an id that its provider takes, in the order of the conversation.

    An id that the provider takes stays as it is at its first call. Others become a readable part and a digest of the
    whole, and one that comes again (providers without ids make `call_0` in every answer) gets a number. A longer
    conversation has the same ids at its beginning, so that what a provider has cached of it stays good. Results find
    the oldest call under their id that has none yet.

    Attributes:
        refused: What can't stand in an id, as a pattern for one character.
        most: How long one may be.
    """

    refused: re.Pattern[str]
    most: int
    _used: set[str] = field(factory=set[str], init=False)
    _numbers: dict[str, int] = field(factory=dict[str, int], init=False)
    _open: dict[str, deque[str]] = field(factory=dict[str, "deque[str]"], init=False)

    def turn(self) -> None:
        """The model speaks again, for providers to which what is still open of its last turn can't be answered."""
        self._open.clear()

    def call(self, own: str) -> str:
        """The provider's id of the next call with this id."""
        base = own if 0 < len(own) <= self.most and self.refused.search(own) is None else self._readable(own)
        given = base
        while given in self._used:
            number = self._numbers[base] = self._numbers.get(base, 1) + 1
            suffix = f"_{number}"
            given = base[: self.most - len(suffix)] + suffix
        self._used.add(given)
        self._open.setdefault(own, deque()).append(given)
        return given

    def result(self, own: str) -> str | None:
        """The provider's id of the call that this result answers; `None` where no open call has this id."""
        waiting = self._open.get(own)
        return waiting.popleft() if waiting else None

    def _readable(self, own: str) -> str:
        import hashlib

        digest = hashlib.sha256(own.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        return f"{self.refused.sub('_', own)[: self.most - 1 - _DIGITS] or 'call'}_{digest}"


__all__ = ["SentIds"]
