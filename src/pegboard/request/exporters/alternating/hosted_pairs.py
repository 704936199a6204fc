"""`HostedPairs`: which calls of hosted tools, and which of their results, may be sent back."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from pegboard.messages.message import HostedPart, Message


@frozen
class HostedPairs:
    """The hosted calls and results of one conversation.

    Attributes:
        family: The provider, to which no other's are told.
        calls: The ids of the calls.
        results: The ids of the calls that have results, in whichever message.
        settled: Where the last message stands by which the user went on to something else.
    """

    family: str
    calls: frozenset[str]
    results: frozenset[str]
    settled: int

    @classmethod
    def of(cls, messages: Sequence[Message], family: str) -> HostedPairs:
        """Those of a conversation."""
        parts = [part for message in messages for part in message.parts if isinstance(part, HostedPart)]
        own = [part for part in parts if part.provider == family and part.id]
        settled = [at for at, message in enumerate(messages) if message.role == "user" and not message.results]
        return cls(
            family,
            frozenset(part.id for part in own if part.role == "call"),
            frozenset(part.id for part in own if part.role == "result"),
            settled[-1] if settled else -1,
        )

    def belongs(self, part: HostedPart, place: int) -> bool:
        """Whether a part of the message at a place may be sent back.

        A result needs its call. A call without result is one that the provider is still at (a paused turn, or a
        program that waits for other calls); behind it the user hasn't yet gone on to something else.
        """
        if part.provider != self.family:
            return False
        if not part.id:
            return True
        return part.id in self.calls if part.role == "result" else part.id in self.results or place > self.settled


__all__ = ["HostedPairs"]
