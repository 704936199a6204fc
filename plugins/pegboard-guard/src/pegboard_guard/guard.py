"""`Guard`: the plugin, made of the guards that its settings switch on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import ReadonlyContext, Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.call_log import CallLog
from pegboard_guard.doom_loop import DoomLoop
from pegboard_guard.settings import GuardSettings

if TYPE_CHECKING:
    import click

    from pegboard import Deny

_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Guard:
    """Stops a model that makes the same call over and over; logs, limits, orders and writes down calls as it is told.

    Each registry has a guard of its own, so that two in one process share nothing. All hooks stand in front
    (`tryfirst`): behind a plugin that answers, they would not be asked, and the clocks would start too late.

    A call that order or limits refuse isn't counted among the same ones in a row, and nobody is asked about it.

    Attributes:
        log: Writes one line a call to `logging`.
        journal: Writes a record a call to a file, or `None`.
        order: Keeps calls in order, or `None`.
        limits: Limits calls, or `None`.
        doom_loop: Stops the same call over and over, or `None`.

    Args:
        settings: As `GuardSettings`.

    Raises:
        ValueError: A setting that there isn't, or a value that isn't allowed.
        TypeError: A value of the wrong type.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        read = GuardSettings.from_mapping(settings)
        self.log = CallLog(read.log_arguments)
        self.journal = read.journal
        self.order = read.order
        self.limits = read.limits
        self.doom_loop = DoomLoop(read.doom_loop, read.doom_loop_action) if read.doom_loop else None
        self._rules = tuple(rules for rules in (self.order, self.limits) if rules is not None)

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Asks each guard; the first that denies ends it."""
        await self.log.pegboard_before_tool(context)
        if self.journal is not None:
            await self.journal.pegboard_before_tool(context, tool, arguments)
        for rules in self._rules:
            denied = await rules.pegboard_before_tool(context, tool)
            if denied is not None:
                return denied
        return None if self.doom_loop is None else await self.doom_loop.pegboard_before_tool(context, tool, arguments)

    @hookimpl(tryfirst=True)
    async def pegboard_on_tool_error(self, context: ToolContext, error: BaseException) -> None:
        """Keeps what was raised for the log."""
        await self.log.pegboard_on_tool_error(context, error)

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(
        self, context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
    ) -> None:
        """Tells each guard how the call went; the journal last, as it may wait for the disk."""
        for rules in self._rules:
            await rules.pegboard_after_tool(context, tool, result)
        if self.doom_loop is not None:
            await self.doom_loop.pegboard_after_tool(context, result)
        await self.log.pegboard_after_tool(context, tool, arguments, result)
        if self.journal is not None:
            await self.journal.pegboard_after_tool(context, arguments, result)

    @hookimpl
    def pegboard_on_stop(self, context: ReadonlyContext) -> str | None:
        """Lets a turn go on that lacks a required call; `None` lets it end."""
        return None if self.order is None else self.order.pegboard_on_stop(context)

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry guard`."""
        from pegboard_guard.journal.commands import guard_command

        group.add_command(guard_command)
