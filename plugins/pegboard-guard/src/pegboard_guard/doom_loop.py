"""Doom loops: the same call over and over in one session, counted and stopped."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.rules import Recent, digest_or_none, streak_of
from pegboard_guard.settings import one_of, whole

if TYPE_CHECKING:
    from pegboard import Deny

MOST_SESSIONS: Final = 1000


@define(eq=False)
class _Streak:
    call: str = ""
    times: int = 0


@define(eq=False)
class Streaks:
    """Remembers the last call of each session, for the sessions that have called last.

    May be used from several threads at once.

    Attributes:
        most: How many sessions are remembered; the one that has been silent the longest is forgotten first.
    """

    most: int = MOST_SESSIONS
    _streaks: Recent[Hashable, _Streak] = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._streaks = Recent(_Streak, self.most)

    def count(self, session: Hashable, call: str) -> int:
        """Notes a call, and gives its number among the same ones in a row: 1 for the first.

        Args:
            session: What stands for the session.
            call: What makes two calls the same, such as a digest of tool and arguments.
        """
        with self._lock:
            streak = self._streaks.of(session)
            streak.times = streak.times + 1 if streak.call == call else 1
            streak.call = call
            return streak.times

    def take_back(self, session: Hashable, call: str) -> None:
        """Forgets one call of the row, where it is still the last one."""
        with self._lock:
            streak = self._streaks.known(session)
            if streak is not None and streak.call == call:
                streak.times -= 1


Action: TypeAlias = Literal["ask", "deny"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
PERMISSION: Final = "doom_loop"
_COUNTED: Final = "pegboard_guard.doom_loop"


@define(eq=False)
class DoomLoop:
    """From some same call in a row on, asks a person, or denies.

    Two calls are the same where tool and arguments are, whatever the order of the keys. Any other call of the session
    that gets as far ends the row. Calls that name neither a session nor a turn aren't counted: they may be anybody's.

    Attributes:
        times: From which call on, counted in a row: with 3, two run and the third is stopped.
        action: `"ask"` asks for the permission `doom_loop` of the tool's name, and denies without an approver;
            `"deny"` never asks.
    """

    times: int = field(default=3, validator=whole(least=2))
    action: Action = field(default="ask", validator=one_of(ACTIONS))
    _streaks: Streaks = field(factory=Streaks, init=False)

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Counts the call, and stops it where it is one too many."""
        session, digest = streak_of(context.request), digest_or_none([tool.name, dict(arguments)])
        if session is None or digest is None:
            return None
        context.values[_COUNTED] = (session, digest)
        times = self._streaks.count(session, digest)
        return await self._stopped(context, tool, times) if times >= self.times else None

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, result: ToolResult) -> None:
        """Takes a call back that waits for an answer: it is counted when it is run after all."""
        counted = context.values.pop(_COUNTED, None)
        if counted is not None and result.kind == "confirmation_required":
            self._streaks.take_back(*counted)

    async def _stopped(self, context: ToolContext, tool: Tool, times: int) -> Deny | ToolResult | None:
        from pegboard import CallError, Deny

        refusal = Deny(
            f"this is call number {times} in a row of {tool.name} with the same arguments. "
            "Change the arguments, use another tool, or say what is missing."
        )
        if self.action == "deny" or context.host is None:
            return refusal
        try:
            await context.ask(PERMISSION, [tool.name], always=[tool.name], metadata={"times": times})
        except CallError as error:
            if error.kind == "denied":  # by a rule, or without an approver: the model gets what helps it
                return refusal
            return error.result()  # a person's answer, or that the answer comes later
        return None
