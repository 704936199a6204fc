"""`Memory`: what is remembered of a user beyond one conversation, behind a protocol with an in-memory default."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import define, field, frozen

if TYPE_CHECKING:
    from pegboard.tools.context import ToolContext

MOST_ENTRIES: Final = 10_000
"""Entries that `InMemoryMemory` keeps by default, of all users together."""

MOST_CHARACTERS: Final = 20_000
"""Characters of one entry that `InMemoryMemory` keeps; the rest is cut off."""


def _nothing() -> dict[str, Any]:
    return {}


@frozen
class MemoryEntry:
    """Something that is remembered.

    Attributes:
        text: What.
        user: Of whom; `None` is nobody in particular, and so is kept apart from every user.
        session: In which conversation it came up, or `None`.
        author: Who said it, or `None`.
        time: When it was added, in seconds since 1970 (UTC).
        metadata: What whoever added it keeps beside it.
    """

    text: str
    user: str | None = None
    session: str | None = None
    author: str | None = None
    time: float = 0.0
    metadata: Mapping[str, Any] = field(factory=_nothing)


class Memory(Protocol):
    """Keeps and finds what is remembered; the host brings its own by `registry.provide(Memory, ...)`.

    Entries of different users must never meet: a search for `user=None` finds what belongs to nobody, not
    everything.
    """

    async def search(
        self, query: str, *, user: str | None = None, session: str | None = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """What fits a query, the best first.

        Args:
            query: In plain words.
            user: Whose entries.
            session: Only what came up in this conversation; `None` for all of the user's.
            limit: How many at most.
        """
        ...

    async def add(
        self,
        text: str,
        *,
        user: str | None = None,
        session: str | None = None,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Remembers something; gives it as it is kept."""
        ...


@frozen
class _Kept:
    entry: MemoryEntry
    words: frozenset[str]


@define(eq=False)
class InMemoryMemory(Memory):
    """Remembers until the process ends, and finds by the words that a query and an entry share.

    For tests and small hosts. When it is full, the user with the most entries loses the oldest one.

    Attributes:
        most: How many entries it keeps, of all users together.
    """

    most: int = MOST_ENTRIES
    _kept: dict[str | None, deque[_Kept]] = field(factory=dict[str | None, deque[_Kept]], init=False)
    _count: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def search(
        self, query: str, *, user: str | None = None, session: str | None = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """What shares the most words with the query, the newest first among equals; nothing for no shared word."""
        wanted = _words(query)
        with self._lock:
            kept = list(self._kept.get(user, ()))
        here = [each for each in reversed(kept) if session is None or each.entry.session == session]
        scored = [(len(wanted & each.words), each.entry) for each in here]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return tuple(entry for _, entry in found[: max(limit, 0)])

    async def add(
        self,
        text: str,
        *,
        user: str | None = None,
        session: str | None = None,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Remembers the first 20,000 characters of a text."""
        entry = MemoryEntry(text[:MOST_CHARACTERS], user, session, author, time.time(), dict(metadata or {}))
        kept = _Kept(entry, _words(entry.text))
        with self._lock:
            self._kept.setdefault(user, deque()).append(kept)
            self._count += 1
            if self._count > self.most:
                self._forget()
        return entry

    def _forget(self) -> None:
        user, kept = max(self._kept.items(), key=lambda item: len(item[1]))
        kept.popleft()
        self._count -= 1
        if not kept:
            del self._kept[user]


def _words(text: str) -> frozenset[str]:
    import re

    return frozenset(re.findall(r"\w+", text.casefold()))


@frozen
class CallMemory:
    """The memory as one call sees it: that of the call's user.

    From a plain function: `context.wait(context.memory.search("..."))`.

    Attributes:
        context: Of the call.
    """

    context: ToolContext

    async def search(self, query: str, *, limit: int = 10, session_only: bool = False) -> tuple[MemoryEntry, ...]:
        """What is remembered of this user and fits a query, the best first.

        Args:
            query: In plain words.
            limit: How many at most.
            session_only: Only what came up in this conversation.
        """
        memory = await self.context.use_or(Memory, InMemoryMemory)
        session = self.context.session if session_only else None
        return await memory.search(query, user=self.context.user, session=session, limit=limit)

    async def add(
        self, text: str, *, author: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> MemoryEntry:
        """Remembers something of this user, said in this conversation; by the call's agent unless told otherwise."""
        context = self.context
        memory = await context.use_or(Memory, InMemoryMemory)
        author = context.agent if author is None else author
        return await memory.add(text, user=context.user, session=context.session, author=author, metadata=metadata)


__all__ = ["CallMemory", "InMemoryMemory", "Memory", "MemoryEntry"]
