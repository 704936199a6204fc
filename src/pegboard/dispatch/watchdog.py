"""`Watchdog`: notices an async tool that blocks the event loop, while it does, and names it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Final, TypeAlias

from attrs import define, field

LIMIT_SECONDS: Final = 0.1
"""How long one step of a coroutine may take before it is reported."""

IDLE_LOOKS: Final = 40
"""So many looks at nothing, and the thread that looks ends."""


@define(eq=False)
class Step:
    """One step of a coroutine, from where it goes on to where it waits again.

    Attributes:
        name: The tool's name.
        since: When it began, by `time.monotonic()`.
        outer: The step that it stands in, where a tool calls a tool, or `None`.
        is_reported: Whether it was reported already.
    """

    name: str
    since: float
    outer: Step | None
    is_reported: bool = False


Report: TypeAlias = Callable[[str, float, str], None]
"""Told who blocks, for how many seconds up to now, and where; in another thread than the loop's."""


def log_blocked(name: str, seconds: float, where: str) -> None:
    """Tells the operator: a warning of the logger `pegboard`."""
    import logging

    log = logging.getLogger("pegboard")
    log.warning("%s blocks the event loop, for %.1f s up to now%s; run it off the loop", name, seconds, where)


@define(eq=False)
class Watchdog:
    """Looks after the steps of coroutines, of any number of event loops.

    A thread looks every half of the limit while anything runs, and ends when nothing has for a while: a loop that is
    blocked can't look after itself.

    Attributes:
        limit: Seconds that one step may take.
        report: Told of one that takes longer, once.
        blocked: How often that has happened.
        given_up: How many coroutines ignored that they were cancelled, and were closed by force.
    """

    limit: float = LIMIT_SECONDS
    report: Report = log_blocked
    blocked: int = field(default=0, init=False)
    given_up: int = field(default=0, init=False)
    _steps: dict[int, Step] = field(factory=dict[int, Step], init=False)
    _is_looking: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def enter(self, name: str) -> Step:
        """A step begins in this thread; give what this gives to `leave`."""
        steps, here = self._steps, get_ident()
        step = steps[here] = Step(name, monotonic(), steps.get(here))
        if not self._is_looking:
            self._look_out()
        return step

    def leave(self, step: Step) -> None:
        """The step is over. One that the thread couldn't see, as other code held the interpreter, is reported now."""
        here = get_ident()
        if step.outer is None:
            self._steps.pop(here, None)
        else:
            self._steps[here] = step.outer
        seconds = monotonic() - step.since
        if seconds > self.limit and not step.is_reported:
            self._tell(step, seconds, "")

    def look(self) -> bool:
        """Reports the steps that take too long; whether any step is under way."""
        now = monotonic()
        under_way = list(self._steps.items())
        for thread, step in under_way:
            if now - step.since > self.limit and not step.is_reported:
                self._tell(step, now - step.since, place_of(thread))
        return bool(under_way)

    def _tell(self, step: Step, seconds: float, where: str) -> None:
        step.is_reported = True
        self.blocked += 1
        # The step round it has taken as long, and isn't to blame.
        outer = step.outer
        while outer is not None:
            outer.is_reported = True
            outer = outer.outer
        try:
            self.report(step.name, seconds, where)
        except Exception as error:  # noqa: BLE001  the host's own fault; the looking goes on
            from pegboard.errors import log_failure

            log_failure("the watchdog's report", error)

    def _look_out(self) -> None:
        with self._lock:
            if self._is_looking:
                return
            self._is_looking = True
        try:
            threading.Thread(target=self._keep_looking, name="pegboard-watchdog", daemon=True).start()
        except RuntimeError:  # the system gives no thread: what blocks is reported when it is over
            self._is_looking = False

    def _keep_looking(self) -> None:
        idle = 0
        while idle < IDLE_LOOKS or self._goes_on():
            time.sleep(self.limit / 2)
            idle = 0 if self.look() else idle + 1

    def _goes_on(self) -> bool:
        """Whether to go on all the same: a step that began before the flag was down has started no thread."""
        with self._lock:
            self._is_looking = False
        if not self.look():
            return False
        with self._lock:
            if self._is_looking:  # another thread has been started since
                return False
            self._is_looking = True
        return True


def place_of(thread: int) -> str:
    """What a thread does just now: `", at tools.py:12 in compute"`; nothing where it has gone."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the one way to see what another thread does
    if frame is None:
        return ""
    return f", at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


__all__ = ["Watchdog", "log_blocked"]
