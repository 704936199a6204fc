"""`Streaks`: how often in a row each session has made the same call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from attrs import define, field

MOST_SESSIONS: Final = 1000


@define(eq=False)
class Streaks:
    """Remembers the last call of each session, for the sessions that have called last.

    May be used from several threads at once.

    Attributes:
        most: How many sessions are remembered; the one that has been silent the longest is forgotten first.
    """

    most: int = MOST_SESSIONS
    _last: OrderedDict[str, tuple[str, int]] = field(factory=OrderedDict[str, tuple[str, int]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def count(self, session: str, call: str) -> int:
        """Notes a call, and gives its number among the same ones in a row: 1 for the first.

        Args:
            session: The session's id.
            call: What makes two calls the same, such as a digest of tool and arguments.
        """
        with self._lock:
            last, times = self._last.pop(session, ("", 0))
            times = times + 1 if last == call else 1
            self._last[session] = (call, times)
            if len(self._last) > self.most:
                self._last.popitem(last=False)
            return times
