"""Grants: what people have allowed for longer than one call, and used answers; `MemoryGrants` keeps them in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Final, Protocol

from attrs import define, field, frozen

from pegboard.dispatch.permissions.permissions import owner_of
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError
from pegboard.schema.json import digest_of
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool

MOST_SESSIONS: Final = 10_000
MOST_GRANTS: Final = 1_000
MOST_USED: Final = 100_000
USED_SECONDS: Final = 90 * 24 * 3600.0
"""How long a used id is remembered: three times as long as a pending call may wait."""


class Grants(Protocol):
    """Store of what people have allowed. Called from several threads; `add` and `consume` off the event loop."""

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now, as rules; nothing of what has expired. Must not block.

        Args:
            session: As `session_key` gives it.
            tool: As `tool_key` gives it.
        """
        ...

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good."""
        ...

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, false ever after.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """
        ...

    def forget(self, context: ReadonlyContext) -> None:
        """Takes back all that was allowed to this user in this session, as when it ends."""
        ...


def session_key(request: ReadonlyContext) -> str | None:
    """The key that grants and waiting requests of this context are kept under: its user and its session, as JSON.

    Without either, all that is left is one nameless session, that of a program for one person.
    """
    if request.session is None and request.user is None:
        return None
    return json.dumps([request.user, request.session])


def tool_key(tool: Tool) -> str:
    """What grants and approvals of a tool are bound to, as a digest.

    That is its definition with its presets, who brings it, where it runs, and what rules have known it by.
    """
    former = tool.former_names, tool.former_permissions, tuple(tool.own_names.items())
    return _digest_of(tool.digest, owner_of(tool), tool.origin.toolset, tool.policy.executor, former)


_digest_of: Final = lru_cache(maxsize=1_024)(lambda *facts: digest_of(facts))  # asked for with each decision


@frozen
class Grant:
    """One thing that was allowed.

    Attributes:
        tool: Which tool it was, as `tool_key` gives it.
        permission: The permission's name.
        pattern: For what.
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
        """The same as a rule."""
        return Rule(self.permission, self.pattern, "allow", literal=self.literal)

    def lasts(self, now: float) -> bool:
        """Whether it holds at this time."""
        return self.until is None or self.until > now


@define(eq=False)
class MemoryGrants:
    """Grants that last as long as this process. Up to 10,000 sessions; the one that was granted to longest ago goes.

    Attributes:
        clock: Seconds that only grow.
        sessions: What was granted, by session; the one that was granted to longest ago first.
        used: When each answer was used, by the id of what was answered.
        most_sessions: How many sessions have grants at once.
        most_used: How many used answers are remembered.
    """

    clock: Callable[[], float] = time.monotonic
    sessions: dict[str | None, list[Grant]] = field(factory=dict["str | None", "list[Grant]"], kw_only=True)
    used: dict[str, float] = field(factory=dict[str, float], kw_only=True)
    most_sessions: int = field(default=MOST_SESSIONS, kw_only=True)
    most_used: int = field(default=MOST_USED, kw_only=True)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now."""
        now = self.clock()
        return tuple(each.rule for each in self.sessions.get(session, ()) if each.tool == tool and each.lasts(now))

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good."""
        until = None if seconds is None else self.clock() + seconds
        grants = [Grant(tool, rule.permission, rule.pattern, rule.literal, until) for rule in rules]
        with self._lock:
            self.expire()
            self.sessions[session] = [*self.sessions.pop(session, ()), *grants][-MOST_GRANTS:]
            while len(self.sessions) > self.most_sessions:
                del self.sessions[next(iter(self.sessions))]

    def expire(self) -> None:
        """Drops what has expired."""
        now = self.clock()
        for key, grants in list(self.sessions.items()):
            self.sessions[key] = [grant for grant in grants if grant.lasts(now)]

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time. Those of long ago are forgotten.

        Raises:
            PendingError: Too many were used in the last 90 days: forgetting one would let it be used again.
        """
        now, most = self.clock(), self.most_used
        with self._lock:
            if pending_id in self.used:
                return False
            if len(self.used) >= most:
                for old in [one for one, when in self.used.items() if when < now - USED_SECONDS]:
                    del self.used[old]
            if len(self.used) >= most:
                days = f"{USED_SECONDS / 86400:g} days"
                raise PendingError(f"{most:,} answers were used in {days}; no more can be recorded")
            self.used[pending_id] = now
            return True

    def forget(self, context: ReadonlyContext) -> None:
        """Takes back all that was allowed to this user in this session, as when it ends."""
        with self._lock:
            self.sessions.pop(session_key(context), None)
