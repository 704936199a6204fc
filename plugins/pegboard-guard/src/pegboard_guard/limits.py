"""`CallLimits`: limits on calls, per tool, turn, session and time."""

from __future__ import annotations

import time
from collections.abc import Callable

from pegboard_guard.limit import Limit
from pegboard_guard.rules import Rules


class CallLimits(Rules):
    """Denies a call that is one more than some limit allows, and says when it may be made again.

    A call that did not run after all (denied by somebody else, rejected by a person) gives back what it took. Each
    limit remembers the 1,000 turns, sessions or users that have called last.

    Args:
        limits: A call has to keep all of them.
        clock: Seconds that only go forward.
    """

    def __init__(self, *limits: Limit, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__([limit.tracker() for limit in limits], clock=clock)
        self.limits = limits
