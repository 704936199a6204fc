"""`Streaks`: how often in a row each session has made the same call."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final

from attrs import define, field

from pegboard_guard.recent import Recent

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
