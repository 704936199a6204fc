"""Doom loop guard: counts repeated calls in a session, and stops them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from attrs import define, field, frozen

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.rules import Begun, Call, End, Rule, Rules, Scope, streak_of
from pegboard_guard.settings import one_of, whole

if TYPE_CHECKING:
    from pegboard import Deny


@define
class _Row:
    """The same call in a row."""

    call: str = ""
    times: int = 0


@frozen
class _Repeats(Rule):
    """Counts the same call in a row; refuses none."""

    State = _Row
    compares_arguments = True

    def concerns(self, call: Call) -> bool:
        """Calls of a session or turn whose arguments are JSON."""
        return call.digest is not None and streak_of(call.request) is not None

    def scope(self, call: Call) -> Scope:
        """The session or turn; a call and those that it makes don't end each other's rows."""
        return streak_of(call.request), call.depth

    def begin(self, call: Call, state: _Row) -> int:
        """Counts the call; returns which one in the row it is."""
        identity = call.identity
        state.times = state.times + 1 if state.call == identity else 1
        state.call = identity
        return state.times

    def end(self, call: Call, state: _Row, _token: int, _end: End) -> None:
        """Uncounts a call that waits for an answer: it is counted again when it is resumed."""
        state.times -= state.call == call.identity


Action: TypeAlias = Literal["ask", "deny"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
PERMISSION: Final = "doom_loop"


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
    _rows: Rules = field(factory=lambda: Rules([_Repeats("*")]), init=False)

    @hookimpl(trylast=True)
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Counts the call, and stops it if it is one too many."""
        begun = await self._rows.begin(context, tool, arguments)
        times = begun.tokens[0] if isinstance(begun, Begun) else 0
        return await self._stop(context, tool, times) if times >= self.times else None

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, result: ToolResult) -> None:
        """Uncounts a call that waits for an answer."""
        if result.kind == "confirmation_required":
            await self._rows.pegboard_after_tool(context, result)
        else:
            self._rows.forget(context)

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
