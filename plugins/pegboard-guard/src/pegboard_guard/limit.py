"""`Limit`: how many calls there may be of some tools, in a turn, a session, or a time."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from attrs import define, field, frozen

from pegboard_guard.check import as_texts, flag, one_of, seconds, texts, whole
from pegboard_guard.names import Names
from pegboard_guard.operator_log import unknown_turn
from pegboard_guard.recent import MOST, Recent
from pegboard_guard.scope import PER, Per, Scope, scope_of
from pegboard_guard.tracker import Call, Ending

MOST_CALLS: Final = 100_000
_MOST_KEPT: Final = 1_000_000  # times kept by one limit, over all sessions
_AGAIN: Final = {
    "turn": "again in the next turn, once the user has spoken; until then, go on without it",
    "session": "no more in this session; go on without it",
    "user": "no more for this user; go on without it",
    "registry": "no more; go on without it",
}
_WHERE: Final = {"turn": " in one turn", "session": " in one session", "user": " for one user", "registry": ""}


@frozen
class Limit:
    """So many calls of some tools, counted together.

    Attributes:
        calls: How many there may be.
        tools: Names, or patterns with `*` and `?`, of the tools that it holds for; all by default.
        per: What is counted apart: each `"turn"`, `"session"`, `"user"`, or nothing (`"registry"`).
        seconds: The time in which there may be so many, which slides on; `None`: there are no more later either.
        each: Whether each of the tools has so many for itself, or all of them together.
    """

    calls: int = field(validator=whole(1, MOST_CALLS))
    tools: tuple[str, ...] = field(default=("*",), converter=as_texts, validator=texts())
    per: Per = field(default="session", validator=one_of(PER))
    seconds: float | None = field(default=None)
    each: bool = field(default=False, validator=flag)

    @seconds.validator  # pyright: ignore[reportAttributeAccessIssue, reportUntypedFunctionDecorator, reportUnknownMemberType, reportOptionalMemberAccess]
    def _check_seconds(self, attribute: object, value: object) -> None:
        if value is not None:
            seconds(least=0.001)(self, attribute, value)

    def tracker(self) -> LimitTracker:
        """The limit at work, with nothing counted yet."""
        return LimitTracker(self)


@define(eq=False)
class _Tally:
    """What one session, say, has used: the times of its calls, or only their number where time doesn't matter."""

    used: int = 0
    times: deque[float] = field(factory=deque[float])


@define(eq=False)
class LimitTracker:
    """A `Limit` at work.

    Attributes:
        limit: The limit.
    """

    limit: Limit
    _names: Names = field(init=False)
    _tallies: Recent[Scope, _Tally] = field(init=False)
    _has_told: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._names = Names(self.limit.tools)
        most = MOST if self.limit.seconds is None else max(10, min(MOST, _MOST_KEPT // self.limit.calls))
        self._tallies = Recent(_Tally, most)

    def refusal(self, call: Call) -> str | None:
        """Tells how many there may be, and when the next may come."""
        key = self._key(call)
        tally = None if key is None else self._tallies.known(key)
        if tally is None or self._left(tally, call.now) > 0:
            return None
        limit = self.limit
        named = call.name if limit.each else "" if limit.tools == ("*",) else str(self._names)
        allowed = f"{limit.calls} call{'' if limit.calls == 1 else 's'}{f' of {named}' if named else ''}"
        within = "" if limit.seconds is None else f" within {limit.seconds:g} s"
        return (
            f"{allowed} may be made{_WHERE[limit.per]}{within}, and that is used up. "
            f"It may be called {self._again(tally, call.now)}."
        )

    def begin(self, call: Call) -> tuple[Scope, float] | None:
        """Takes one of the calls."""
        key = self._key(call)
        if key is None:
            return None
        tally = self._tallies.of(key)
        if self.limit.seconds is None:
            tally.used += 1
        else:
            tally.times.append(call.now)
        return key, call.now

    def end(self, _call: Call, token: tuple[Scope, float] | None, ending: Ending) -> None:
        """Gives it back where the tool didn't run."""
        tally = None if token is None or ending.ran else self._tallies.known(token[0])
        if tally is None or token is None:
            return
        if self.limit.seconds is None:
            tally.used -= 1
        elif token[1] in tally.times:
            tally.times.remove(token[1])

    def _key(self, call: Call) -> Scope:
        """What counts together with this call; `None` where the limit doesn't hold for it."""
        if call.name not in self._names:
            return None
        scope = scope_of(call.request, self.limit.per)
        if scope is None:
            if not self._has_told:
                self._has_told = True
                unknown_turn(f"the limit of {self.limit.calls} calls of {self._names}")
            return None
        return (scope, call.name) if self.limit.each else scope

    def _left(self, tally: _Tally, now: float) -> int:
        if self.limit.seconds is None:
            return self.limit.calls - tally.used
        while tally.times and now - tally.times[0] >= self.limit.seconds:
            tally.times.popleft()
        return self.limit.calls - len(tally.times)

    def _again(self, tally: _Tally, now: float) -> str:
        if self.limit.seconds is None:
            return _AGAIN[self.limit.per]
        wait = tally.times[0] + self.limit.seconds - now
        return f"again in {wait_text(wait)}; until then, go on without it"


def wait_text(wait: float) -> str:
    """A time to wait, in whole seconds, rounded up: `1 s`."""
    return f"{max(1, math.ceil(wait))} s"
