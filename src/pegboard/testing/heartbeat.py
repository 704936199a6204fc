"""`Heartbeat`: whether something keeps the event loop from running."""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import threading
import time
from types import FrameType
from typing import Final, Self

from attrs import define, field

import pegboard

BLOCKED: Final = 0.1
"""Seconds from which on everybody else in the loop notices."""

_BEAT: Final = 0.01
_LOOP: Final = (os.path.dirname(asyncio.__file__), os.path.dirname(pegboard.__file__), selectors.__file__)  # noqa: PTH120
"""Where the code that runs tools lies: below it stands a tool's own."""


@define(eq=False)
class Heartbeat:
    """Watches the running loop, from inside and from a thread beside it, while its `async with` lasts.

    The loop is blocked while its beat stays out. Where the watching thread was kept waiting too and the process
    got no processor time, the machine was busy, and that time isn't counted.

    Attributes:
        blocked: The longest time in seconds for which the loop stood still.
        place: Where its thread was then (`"file.py:12 in function"`), or `""`.
    """

    blocked: float = 0.0
    place: str = ""
    _last: float = field(factory=time.monotonic, init=False)
    _lost: float = field(default=0.0, init=False)
    _thread: int = field(factory=threading.get_ident, init=False)
    _ended: threading.Event = field(factory=threading.Event, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        self._last = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._beat())
        threading.Thread(target=self._watch, name="pegboard-heartbeat", daemon=True).start()
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # a beat that is due is counted
        self._measure()
        self._ended.set()
        assert self._task is not None
        self._task.cancel()

    async def _beat(self) -> None:
        while True:
            self._measure()
            await asyncio.sleep(_BEAT)

    def _measure(self) -> None:
        now = time.monotonic()
        self.blocked = max(self.blocked, now - self._last - _BEAT - self._lost)
        self._last, self._lost = now, 0.0

    def _watch(self) -> None:
        """Runs in the thread beside: counts what the machine took away, and looks where the loop's thread stands."""
        while not self._ended.is_set():
            before, used = time.monotonic(), time.process_time()
            self._ended.wait(_BEAT)
            late = time.monotonic() - before - _BEAT
            self._lost += max(0.0, late - (time.process_time() - used))
            if not self.place and time.monotonic() - self._last > BLOCKED / 2:
                self.place = _place(sys._current_frames().get(self._thread))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (documented, for debuggers)


def _place(frame: FrameType | None) -> str:
    """Where the tool's own code stands: the last of what it called is of no use to its author."""
    place = ""
    while frame is not None and not frame.f_code.co_filename.startswith(_LOOP):
        code = frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"  # noqa: PTH119
        frame = frame.f_back
    return place
