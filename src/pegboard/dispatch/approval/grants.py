"""`Grants`: what people have allowed for longer than one call, and which answers have been used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from attrs import define, field, frozen

from pegboard.errors import PendingError
from pegboard.tools.context import ReadonlyContext

if TYPE_CHECKING:
    from pegboard.dispatch.permissions.rule import Rule

MOST_SESSIONS: Final = 10_000
MOST_GRANTS: Final = 1_000
MOST_USED: Final = 100_000
USED_SECONDS: Final = 90 * 24 * 3600.0
"""How long a used id is remembered: three times as long as a pending call may wait."""


class Grants(Protocol):
    """Keeps what people have allowed. Called from several threads; `add` and `consume` off the event loop."""

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now, as rules; nothing of what has expired. Must not block.

        Args:
            session: As `session_key` gives it.
        """
        ...

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good."""
        ...

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, false ever after.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """
        ...


def session_key(request: ReadonlyContext) -> str | None:
    """What grants and waiting requests of this context are kept under.

    The session's id. Without one each user has a session of their own, and all that is left is one nameless session,
    that of a program for one person.
    """
    if request.session is not None or request.user is None:
        return request.session
    return f"(no session, user {request.user})"


@frozen
class Grant:
    """One thing that was allowed.

    Attributes:
        permission: Its name.
        patterns: For what.
        until: When it expires, by the clock of whoever keeps it; `None`: never.
    """

    permission: str
    patterns: tuple[str, ...] = field(converter=tuple[str, ...])
    until: float | None = None

    def rules(self) -> Iterable[Rule]:
        """One rule a pattern."""
        from pegboard.dispatch.permissions.rule import Rule

        return (Rule(self.permission, pattern, "allow") for pattern in self.patterns)


@frozen
class SessionGrants:
    """What one session has been allowed.

    Attributes:
        grants: In the order in which they were given.
        until: When the first of them expires, or `None`.
        rules: The same as rules, ready to be asked for.
    """

    grants: tuple[Grant, ...]
    until: float | None
    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, grants: Iterable[Grant], now: float) -> SessionGrants:
        """What is left of them now; the oldest of more than 1,000 are dropped."""
        kept = tuple(grant for grant in grants if grant.until is None or grant.until > now)[-MOST_GRANTS:]
        until = min((grant.until for grant in kept if grant.until is not None), default=None)
        return cls(kept, until, tuple(rule for grant in kept for rule in grant.rules()))

    def at(self, now: float) -> SessionGrants:
        """What is left of them now."""
        return self if self.until is None or now < self.until else SessionGrants.of(self.grants, now)


def note_used(used: dict[str, float], pending_id: str, now: float, most: int) -> bool:
    """Adds an id to those that are used; false where it is among them. Those of long ago are dropped.

    Raises:
        PendingError: There are too many: forgetting one would let it be used again.
    """
    if pending_id in used:
        return False
    if len(used) >= most:
        for old in [one for one, when in used.items() if when < now - USED_SECONDS]:
            del used[old]
    if len(used) >= most:
        raise PendingError(f"{most:,} answers were used in {USED_SECONDS / 86400:g} days; no more can be recorded")
    used[pending_id] = now
    return True


@define(eq=False)
class MemoryGrants:
    """Grants that last as long as this process. Up to 10,000 sessions; the one that was granted to longest ago goes.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str | None, SessionGrants] = field(factory=dict["str | None", SessionGrants], init=False)
    _used: dict[str, float] = field(factory=dict[str, float], init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        held = self._sessions.get(session)
        return () if held is None else held.rules if held.until is None else held.at(self.clock()).rules

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good."""
        now = self.clock()
        grant = Grant(permission, patterns, None if seconds is None else now + seconds)
        with self._lock:
            held = self._sessions.pop(session, None)
            self._sessions[session] = SessionGrants.of((*(held.grants if held else ()), grant), now)
            while len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time.

        Raises:
            PendingError: Too many were used in the last 90 days.
        """
        with self._lock:
            return note_used(self._used, pending_id, self.clock(), MOST_USED)

    def forget(self, session: str | None) -> None:
        """Takes back all that this session was allowed, as when it ends."""
        with self._lock:
            self._sessions.pop(session, None)
