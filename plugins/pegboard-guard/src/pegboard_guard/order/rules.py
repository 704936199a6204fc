"""`OrderRules`: the guard that keeps calls in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from pegboard import ReadonlyContext, hookimpl
from pegboard_guard.names import listed
from pegboard_guard.order.after import ComesAfter, ComesBefore
from pegboard_guard.order.contradiction import check_order
from pegboard_guard.order.cooldown import Cooldown
from pegboard_guard.order.exclusive import Exclusive
from pegboard_guard.order.required import Required, RequiredTracker
from pegboard_guard.rules import Rules

Rule: TypeAlias = ComesAfter | ComesBefore | Exclusive | Cooldown | Required


class OrderRules(Rules):
    """Denies a call that comes too early, beside another, or too soon again; says what a turn still lacks.

    Each rule remembers the 1,000 turns or sessions that have called last.

    Args:
        rules: A call has to keep all of them.
        clock: Seconds that only go forward.

    Raises:
        ValueError: The rules contradict each other: some tool could never be called.
    """

    def __init__(self, *rules: Rule, clock: Callable[[], float] = time.monotonic) -> None:
        turned = [rule.turned if isinstance(rule, ComesBefore) else rule for rule in rules]
        check_order(
            [rule for rule in turned if isinstance(rule, ComesAfter)],
            [rule for rule in turned if isinstance(rule, Exclusive)],
            [rule for rule in turned if isinstance(rule, Required)],
        )
        super().__init__([rule.tracker() for rule in turned], clock=clock)
        self.rules = rules

    def missing(self, request: ReadonlyContext) -> tuple[str, ...]:
        """What this turn, or session, still has to call: the names and patterns of `Required`, in their order.

        Args:
            request: What the calls ran for: its `invocation` and its `session` count. Without an invocation nothing
                is known to be missing in a turn.
        """
        with self._lock:
            missing = [
                name
                for tracker in self.trackers
                if isinstance(tracker, RequiredTracker)
                for name in tracker.missing(request)
            ]
        return tuple(dict.fromkeys(missing))

    def reminder(self, request: ReadonlyContext) -> str | None:
        """What the model has to be told before the turn may end, or `None`."""
        missing = self.missing(request)
        return f"Before you finish, call {listed(missing, 'and')}." if missing else None

    @hookimpl
    def pegboard_on_stop(self, context: ReadonlyContext) -> str | None:
        """Lets the turn go on with words that name what is missing; `None` lets it end."""
        return self.reminder(context)
