"""`Rules`: the callbacks that hold calls against some trackers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.table import NOT_A_SETTING
from pegboard_guard.tracker import Call, Ending, Tracker

if TYPE_CHECKING:
    from pegboard import Deny

MOST_TOLD: Final = 3


@define(eq=False)
class Rules:
    """Lets a call start where no tracker refuses it; all of them learn of it, or none.

    May be used from several threads at once.

    Attributes:
        trackers: The rules.
        clock: Seconds that only go forward.
    """

    trackers: Sequence[Tracker]
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True, metadata=NOT_A_SETTING)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _key: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._key = f"pegboard_guard.rules.{id(self)}"

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext, tool: Tool) -> Deny | None:
        """Denies the call, or notes that it starts."""
        with self._lock:
            call = Call(tool.name, context.request, self.clock())
            refusals = [text for tracker in self.trackers if (text := tracker.refusal(call)) is not None]
            if not refusals:
                context.values[self._key] = [tracker.begin(call) for tracker in self.trackers]
                return None
        from pegboard import Deny

        return Deny(" ".join(refusals[:MOST_TOLD]))

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, tool: Tool | None, result: ToolResult) -> None:
        """Notes how the call went; one that didn't run gives back what it took."""
        tokens: list[Any] | None = context.values.pop(self._key, None)
        if tokens is None or tool is None:
            return
        ending = Ending.of(result)
        with self._lock:
            call = Call(tool.name, context.request, self.clock())
            for tracker, token in zip(self.trackers, tokens, strict=True):
                tracker.end(call, token, ending)
