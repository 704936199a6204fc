"""`Writer`: a thread that takes records from a bounded queue, as many at once as are there."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakSet

from attrs import define, field

from pegboard_guard.journal.record import Facts
from pegboard_guard.operator_log import warn

MOST_WAITING: Final = 10_000
MOST_AT_ONCE: Final = 500
LINGER_SECONDS: Final = 5.0
"""How long the thread waits for another record before it ends."""
EXIT_SECONDS: Final = 5.0
"""How long the end of the program waits, at most, for what is still to be written."""


@define(eq=False)
class _Waiting:
    facts: Facts
    done: Callable[[], None] | None = None


@define(eq=False)
class Writer:
    """Hands records to `append` in a thread of its own, in order. Never raises: who writes is never disturbed.

    The thread is made at the first record, ends when nothing has come for a while, and doesn't keep the program from
    ending. Records that can't be written are counted, and the journal itself tells how many they were as soon as it
    can be written again. The operator is told when that begins, and when it ends.

    Attributes:
        append: Writes some records, or raises.
        name: Of the journal, for the operator.
        most: How many records may wait; more are lost.
    """

    append: Callable[[Sequence[Facts]], None]
    name: str
    most: int = MOST_WAITING
    _waiting: deque[_Waiting] = field(factory=deque[_Waiting], init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _has_thread: bool = field(default=False, init=False)
    _is_busy: bool = field(default=False, init=False)
    _process: int = field(factory=os.getpid, init=False)
    _lost: int = field(default=0, init=False)
    _is_failing: bool = field(default=False, init=False)

    def put(self, facts: Facts, done: Callable[[], None] | None = None) -> bool:
        """Takes a record.

        Args:
            facts: What it says.
            done: Called in the thread once the record has been written, or couldn't be.

        Returns:
            Whether it was taken; `done` isn't called for one that wasn't.
        """
        if self._process != os.getpid():
            self._begin_anew()
        with self._changed:
            cause = self._refusal()
            if cause is None:
                self._waiting.append(_Waiting(facts, done))
                self._changed.notify_all()
            else:
                self._lost += 1
        if cause is not None:
            self._failed(cause)
        return cause is None

    def flush(self, seconds: float) -> bool:
        """Waits until everything is written, at most so long; whether it is."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._waiting or self._is_busy:
                if not self._changed.wait(until - time.monotonic()):
                    return False
        return True

    # The thread --------------------------------------------------------------------------------------------------

    def _refusal(self) -> str | None:
        """Makes sure that there is a thread; why the record can't be taken, or `None`."""
        if len(self._waiting) >= self.most:
            return f"{self.most} records wait to be written"
        if not self._has_thread:
            try:
                threading.Thread(target=self._work, name="pegboard-guard-journal", daemon=True).start()
            except RuntimeError as error:  # no more threads, or the program is ending
                return str(error)
            self._has_thread = True
            _flush_at_exit(self)
        return None

    def _work(self) -> None:
        while batch := self._next():
            self._write(batch)

    def _next(self) -> list[_Waiting]:
        """What there is to write, once there is something; nothing where the thread shall end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting, LINGER_SECONDS)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            self._is_busy = self._has_thread = bool(batch)
            return batch

    def _write(self, batch: list[_Waiting]) -> None:
        lost = self._lost
        gap: list[Facts] = [{"kind": "lost", "records": lost}] if lost else []
        try:
            self.append([*gap, *(waiting.facts for waiting in batch)])
        except Exception as error:  # noqa: BLE001  whatever it is: a journal that fails disturbs no call
            self._count(len(batch))
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._count(-lost)
            self._went_well(lost)
        for waiting in batch:
            if waiting.done is not None:
                waiting.done()

    def _count(self, lost: int) -> None:
        with self._changed:
            self._lost += lost

    # Telling -----------------------------------------------------------------------------------------------------

    def _failed(self, cause: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            warn(f"the journal {self.name} isn't written: {cause}. Calls go on without it; lost records are counted")

    def _went_well(self, lost: int) -> None:
        if self._is_failing:
            self._is_failing = False
            warn(f"the journal {self.name} is written again; {lost} records were lost")

    def _begin_anew(self) -> None:
        """In a forked child: what waits is its parent's to write, and the thread isn't there."""
        self._process = os.getpid()
        self._waiting, self._changed = deque(), threading.Condition()
        self._has_thread = self._is_busy = False
        self._lost = 0


_writers: Final[WeakSet[Writer]] = WeakSet()


def _flush_at_exit(writer: Writer) -> None:
    if not _writers:
        atexit.unregister(_flush_all)
        atexit.register(_flush_all)
    _writers.add(writer)


def _flush_all() -> None:
    until = time.monotonic() + EXIT_SECONDS
    for writer in list(_writers):
        writer.flush(max(0.0, until - time.monotonic()))
