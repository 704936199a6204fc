"""Doom loop guard: counts repeated calls in a session, and stops them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard.errors import log_failure
from pegboard_guard.counters import counters_of, key_of
from pegboard_guard.log import of_call
from pegboard_guard.rules import Recent, digest_or_none, streak_of
from pegboard_guard.settings import one_of, whole

if TYPE_CHECKING:
    from pegboard import Deny


@define(eq=False)
class _Row:
    """Counter of the same call in a row, by its digest."""

    call: str = ""
    times: int = 0


Action: TypeAlias = Literal["ask", "deny"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
PERMISSION: Final = "doom_loop"
_COUNTED: Final = "pegboard_guard.doom_loop"


@define(eq=False)
class DoomLoop:
    """Guard that asks a person about the same call in a row, or denies it.

    Two calls are the same if tool and arguments are, whatever the order of the keys. Any other call of the session that
    gets as far ends the row; calls that tools make (a batch) have rows of their own. Calls that name neither a session
    nor a turn aren't counted, as they may have different users.

    Attributes:
        times: The first call in a row to be stopped: with 3, two run and the third is stopped.
        action: `"ask"` asks for the permission `doom_loop` of the tool's name, and denies without an approver;
            `"deny"` never asks.
    """

    times: int = field(default=3, validator=whole(least=2))
    action: Action = field(default="ask", validator=one_of(ACTIONS))
    _rows: Recent[Hashable, _Row] = field(factory=lambda: Recent[Hashable, _Row](_Row), init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @hookimpl(trylast=True)
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Counts the call, and stops it if it is one too many."""
        session, digest = streak_of(context.request), digest_or_none([tool.name, dict(arguments)])
        if session is None or digest is None:
            return None
        streak = (session, context.depth)  # a call and those that it makes don't end each other's rows
        context.values[of_call(_COUNTED, context)] = (streak, digest)
        times = 0

        def count(row: _Row) -> None:
            nonlocal times
            row.times = times = row.times + 1 if row.call == digest else 1
            row.call = digest

        await self._change(context, streak, count)
        return await self._stop(context, tool, times) if times >= self.times else None

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, result: ToolResult) -> None:
        """Uncounts a call that waits for an answer: it is counted again when it is resumed."""
        counted = context.values.pop(of_call(_COUNTED, context), None)
        if counted is None or result.kind != "confirmation_required":
            return
        streak, digest = counted

        def uncount(row: _Row) -> None:
            row.times -= row.call == digest

        try:
            await self._change(context, streak, uncount)
        except Exception as error:  # noqa: BLE001  a host's store: the call has its result
            log_failure("counting a call", error)

    async def _change(self, context: ToolContext, streak: Hashable, change: Callable[[_Row], None]) -> None:
        """Changes a row, in this process or in the host's counters."""
        counters = await counters_of(context)
        if counters is None:
            with self._lock:
                change(self._rows.of(streak))
            return
        key = key_of("doom_loop", streak)

        def update(_now: float, known: dict[str, Any]) -> dict[str, Any]:
            row = _Row(*known.get(key, ()))
            change(row)
            return {key: [row.call, row.times]}

        await counters.update([key], update)

    async def _stop(self, context: ToolContext, tool: Tool, times: int) -> Deny | ToolResult | None:
        from pegboard import CallError, Deny

        refusal = Deny(
            f"this is call {times} in a row of {tool.name} with the same arguments. "
            "Change the arguments, use another tool, or tell the user what is missing."
        )
        if self.action == "deny" or context.host is None:
            return refusal
        try:
            await context.ask(PERMISSION, [tool.name], metadata={"times": times})
        except CallError as error:
            if error.kind == "denied":  # by a rule, or without an approver: this text helps the model more
                return refusal
            return error.result()  # a person's answer, or that the answer comes later
        return None
