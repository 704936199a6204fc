"""Limits on how many calls there may be: `Limit`, and the guard that applies them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen
from attrs.validators import optional

from pegboard_guard.rules import MOST, PER, Call, End, Per, Rule, Rules, Scope, scope_of, wait_text
from pegboard_guard.settings import as_texts, flag, one_of, seconds, texts, whole

MOST_CALLS: Final = 100_000
_MOST_TIMES: Final = 1_000_000  # stored by one limit, over all sessions
_AGAIN: Final = {
    "turn": "Call it again in the next turn, after the user's next message; until then, continue without it",
    "session": "Don't call it again in this session; continue without it",
    "user": "Don't call it again for this user; continue without it",
    "registry": "Don't call it again; continue without it",
}
_WHERE: Final = {"turn": " in one turn", "session": " in one session", "user": " for one user", "registry": ""}


@define
class _Tally:
    """Calls of one scope, such as a session: their times, or only their number."""

    used: int = 0
    times: list[float] = field(factory=list[float])


@frozen
class Limit(Rule):
    """Limit on the number of calls of some tools.

    Attributes:
        calls: The largest number of calls.
        tools: Names, or patterns with `*` and `?`, of the limited tools; all by default.
        per: What is counted separately: each `"turn"`, `"session"`, `"user"`, or nothing (`"registry"`).
        seconds: Sliding time window for these calls; `None`: the limit is never reset.
        each: Whether it applies to each of the tools by itself, or to all of them together.
    """

    State = _Tally
    SENTENCE = "Make at most {0.text}."
    TITLE = "the limit of {0.calls} calls of {0.names}"

    calls: int = field(validator=whole(1, MOST_CALLS))
    tools: tuple[str, ...] = field(default=("*",), converter=as_texts, validator=texts())
    per: Per = field(default="session", validator=one_of(PER))
    seconds: float | None = field(default=None, validator=optional(seconds(least=0.001)))
    each: bool = field(default=False, validator=flag)

    @property
    def text(self) -> str:
        """`2 calls of search* for one user within 60 s`."""
        named = "each of " * self.each + f"{self.names}" if self.each or self.tools != ("*",) else ""
        return self.text_for(named)

    def text_for(self, named: str) -> str:
        """The limit, of tools that are named so; `""` for all."""
        allowed = f"{self.calls} call{'' if self.calls == 1 else 's'}{f' of {named}' if named else ''}"
        return f"{allowed}{_WHERE[self.per]}{'' if self.seconds is None else f' within {self.seconds:g} s'}"

    @property
    def most(self) -> int:
        """Fewer scopes for many calls in a time, so that memory stays bounded."""
        return MOST if self.seconds is None else max(10, min(MOST, _MOST_TIMES // self.calls))

    def scope(self, call: Call) -> Scope:
        """What counts together with the call."""
        scope = scope_of(call.request, self.per)
        return (scope, call.tool) if self.each and scope is not None else scope

    def refusal(self, call: Call, state: _Tally) -> str | None:
        """The limit, and when the next call is allowed."""
        if self.seconds is None:
            left, again = self.calls - state.used, _AGAIN[self.per]
        else:
            past = self._count_past(state, call.now)
            left, again = self.calls - len(state.times) + past, ""
            if left <= 0:
                wait = state.times[past] + self.seconds - call.now
                again = f"Call it again in {wait_text(wait)}; until then, continue without it"
        if left > 0:
            return None
        named = call.name if self.each else "" if self.tools == ("*",) else f"{self.names}"
        return f"the limit of {self.text_for(named)} is used up. {again}."

    def begin(self, call: Call, state: _Tally) -> float:
        """Counts the call."""
        if self.seconds is None:
            state.used += 1
        else:
            del state.times[: self._count_past(state, call.now)]
            state.times.append(call.now)
        return call.now

    def end(self, _call: Call, state: _Tally, token: float, end: End) -> None:
        """Uncounts the call if the tool didn't run."""
        if end.ran:
            return
        if self.seconds is None:
            state.used -= 1
        elif token in state.times:
            state.times.remove(token)

    def _count_past(self, state: _Tally, now: float) -> int:
        """How many of the calls were before the time window."""
        length = self.seconds or 0.0
        return bisect_left(state.times, True, key=lambda at: now - at < length)  # noqa: FBT003


class CallLimits(Rules):
    """Guard that denies calls beyond a limit, and states when the call may be made again.

    A call that did not run after all (denied by another guard, rejected by a person) doesn't count. Each limit tracks
    the 1,000 turns, sessions or users with the latest calls.

    Args:
        limits: All of them apply.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, *limits: Limit, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(limits, clock=clock)
        self.limits = self.rules = limits
