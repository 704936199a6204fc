"""Grants: stores of what people have allowed for longer than one call, and of used answers."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Final, Protocol

from attrs import define, field, frozen

from pegboard.dispatch.permissions.permissions import owner_of
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError
from pegboard.json import digest_of, json_text
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool

MOST_SESSIONS: Final = 10_000
MOST_GRANTS: Final = 1_000  # of a session
MOST_USED: Final = 100_000
USED_SECONDS: Final = 90 * 24 * 3600.0
"""How long a used id is remembered: three times as long as a pending call may wait."""


class Grants(Protocol):
    """Store of what people have allowed. Called from several threads; `add` and `consume` off the event loop.

    Each method may be async, called in several event loops. With an async `rules`, what another process revokes no
    longer applies: it is read before each decision, also right before the tool runs.
    """

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...] | Awaitable[tuple[Rule, ...]]:
        """The grants of a tool in this session that haven't expired, as rules. Must not block.

        Args:
            session: As `session_key` gives it.
            tool: As `tool_key` gives it.
        """
        ...

    def add(
        self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None
    ) -> Awaitable[None] | None:
        """Grants a tool what these rules allow, in this session, for some seconds or without a time limit."""

    def consume(self, pending_id: str) -> bool | Awaitable[bool]:
        """Records that the answer to this pending call is used; true only the first time.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """
        ...

    def forget(self, context: ReadonlyContext) -> Awaitable[None] | None:
        """Revokes all grants of this user in this session, for example when it ends."""


def session_key(request: ReadonlyContext) -> str | None:
    """The key of the grants of this context: its user and session, or those of the turn that called it, as JSON.

    `None` without either: the single session of a program for one person.
    """
    top = request.root or request
    return None if top.session is None and top.user is None else json.dumps([top.user, top.session])


def tool_key(tool: Tool) -> str:
    """Digest of what grants and approvals of a tool are bound to.

    That is its definition with its presets, its origin with its source, its executor with queue, limits and what is
    sent there, and its former names and permissions.
    """
    former = tool.former_names, tool.former_permissions, tuple(tool.own_names.items())
    # What a tool doesn't have is left out, so that the stored keys of versions in which no tool had it stay valid.
    source = () if tool.origin.source is None else (tool.origin.source,)
    runs = tool.policy.runs
    executor = runs.pop("executor", None)
    rest = (*source, ("runs", str(json_text(runs)))) if runs else source
    return _digest_of(tool.digest, owner_of(tool), tool.origin.toolset, executor, former, *rest)


_digest_of: Final = lru_cache(maxsize=1_024)(lambda *facts: digest_of(facts))  # asked for with each decision


@frozen
class Grant:
    """One grant.

    Attributes:
        tool: The tool, as `tool_key` gives it.
        permission: The permission's name.
        pattern: What is allowed.
        literal: Whether the pattern is exactly what was asked.
        until: When it expires, by the store's clock; `None`: never.
    """

    tool: str
    permission: str
    pattern: str
    literal: bool
    until: float | None = None

    @cached_property
    def rule(self) -> Rule:
        """The grant as a rule."""
        return Rule(self.permission, self.pattern, "allow", literal=self.literal)

    def lasts(self, now: float) -> bool:
        """Whether it hasn't expired at this time."""
        return self.until is None or self.until > now


@define(eq=False)
class MemoryGrants:
    """Store of grants in memory, for up to 10,000 sessions; the one with the oldest last grant is dropped first.

    Attributes:
        clock: Monotonic clock, in seconds.
        sessions: Grants by session; the session with the oldest last grant first.
        used: When each answer was used, by the id of what was answered.
        most_sessions: How many sessions are stored.
        most_used: How many used answers are stored.
    """

    clock: Callable[[], float] = time.monotonic
    sessions: dict[str | None, list[Grant]] = field(factory=dict["str | None", "list[Grant]"], kw_only=True)
    used: dict[str, float] = field(factory=dict[str, float], kw_only=True)
    most_sessions: int = field(default=MOST_SESSIONS, kw_only=True)
    most_used: int = field(default=MOST_USED, kw_only=True)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """The grants of a tool in this session that haven't expired, as rules."""
        now = self.clock()
        return tuple(each.rule for each in self.sessions.get(session, ()) if each.tool == tool and each.lasts(now))

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Grants a tool what these rules allow, in this session, for some seconds or without a time limit."""
        until = None if seconds is None else self.clock() + seconds
        grants = [Grant(tool, rule.permission, rule.pattern, rule.literal, until) for rule in rules]
        with self._lock:
            self.expire()
            self.sessions[session] = [*self.sessions.pop(session, ()), *grants][-MOST_GRANTS:]
            while len(self.sessions) > self.most_sessions:
                del self.sessions[next(iter(self.sessions))]

    def expire(self) -> None:
        """Drops what has expired, with sessions that have no grants left. `add` calls it with the lock held."""
        now = self.clock()
        lasting = {key: [each for each in grants if each.lasts(now)] for key, grants in list(self.sessions.items())}
        self.sessions = {key: grants for key, grants in lasting.items() if grants}

    def consume(self, pending_id: str) -> bool:
        """Records that the answer to this pending call is used; true only the first time. Old records are dropped.

        Raises:
            PendingError: Too many were used in the last 90 days: forgetting one would let it be used again.
        """
        now, most = self.clock(), self.most_used
        with self._lock:
            if pending_id in self.used:
                return False
            if len(self.used) >= most:
                for old_id in [key for key, used_at in self.used.items() if used_at < now - USED_SECONDS]:
                    del self.used[old_id]
            if len(self.used) >= most:
                days = f"{USED_SECONDS / 86400:g} days"
                raise PendingError(f"{most:,} answers were used in {days}; no more can be recorded")
            self.used[pending_id] = now
            return True

    def forget(self, context: ReadonlyContext) -> None:
        """Revokes all grants of this user in this session, for example when it ends."""
        with self._lock:
            self.sessions.pop(session_key(context), None)
