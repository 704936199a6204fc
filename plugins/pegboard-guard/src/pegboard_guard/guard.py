"""The plugin: `Guard`, which combines the guards that its settings enable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen
from attrs.converters import optional

from pegboard import ReadonlyContext, Tool, ToolContext, ToolResult, hookimpl
from pegboard.errors import did_you_mean, suggest
from pegboard_guard.doom_loop import ACTIONS, Action, DoomLoop
from pegboard_guard.limits import CallLimits, Limit
from pegboard_guard.log import CallLog
from pegboard_guard.order import OrderRules
from pegboard_guard.ordering import KINDS
from pegboard_guard.rules import Names, wrap_call
from pegboard_guard.settings import check_table, flag, kind_of, one_of, read_table, read_tables
from pegboard_guard.telling import TellRules

if TYPE_CHECKING:
    import click

    from pegboard import Deny, ToolRegistry, TurnOutcome
    from pegboard_guard.gate import ModelGate
    from pegboard_guard.journal import Journal


def _check_doom_loop(_settings: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0 or value == 1:
        raise ValueError(f"doom_loop must be 0 (off) or a whole number from 2 on, got {kind_of(value)}")


def _read_order(table: Any) -> OrderRules:
    """The guard of `[plugins.guard.order]`: lists of tables, one for each kind of rule."""
    tables = check_table(table, KINDS, "order")
    kinds = [(name, kind) for name, kind in KINDS.items() if name in tables]
    rules = [rule for name, kind in kinds for rule in read_tables(kind, tables[name], f"order.{name}")]
    try:
        return OrderRules(*rules)
    except ValueError as error:
        raise ValueError(f"order: {error}") from None


def _read_journal(table: Any) -> Journal:
    from pegboard_guard.journal import Journal  # loads asyncio and hashlib

    return read_table(Journal, table, "journal")


def _read_gate(table: Any) -> ModelGate:
    from pegboard_guard.gate import ModelGate  # loads the code of turns

    return read_table(ModelGate, table, "gate")


@frozen(eq=False)
class GuardSettings:
    """Settings of one registry's guard: what isn't set is off, except for doom loops.

    Attributes:
        doom_loop: The first call in a row, of one tool with the same arguments, to be stopped: with 3, two run and the
            third doesn't. 0 is off.
        doom_loop_action: `"ask"`: a person may let it run; `"deny"`: without asking.
        log_arguments: Whether the arguments are logged, with what looks like a secret redacted.
        limits: A list of tables, each as `Limit`; or `None`.
        order: By kind of rule, such as `after`, a list of tables, each as its class, such as `ComesAfter`; or `None`.
        tell_rules: Whether requests tell the model the limits, the order and the gate, in sentences.
        journal: As `Journal`; or `None`.
        gate: As `ModelGate`, its model by name; or `None`.
    """

    doom_loop: int = field(default=3, validator=_check_doom_loop)
    doom_loop_action: Action = field(default="ask", validator=one_of(ACTIONS))
    log_arguments: bool = field(default=False, validator=flag)
    limits: CallLimits | None = field(
        default=None, converter=optional(lambda tables: CallLimits(*read_tables(Limit, tables, "limits")))
    )
    order: OrderRules | None = field(default=None, converter=optional(_read_order))
    tell_rules: bool = field(default=True, validator=flag)
    journal: Journal | None = field(default=None, converter=optional(_read_journal))
    gate: ModelGate | None = field(default=None, converter=optional(_read_gate))


_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Guard:
    """Plugin that stops repeated calls, and logs, limits, orders and records calls, by its settings.

    Each registry has a guard of its own, so that two in one process share nothing. What has to know of every call comes
    first (`tryfirst`): after a plugin that answers, it would not run, and the clocks would start too late. What judges
    the arguments comes last (`trylast`), as other plugins may change them.

    A call that order or limits refuse isn't counted as repeated, and no person is asked about it.

    Attributes:
        log: Writes one line a call to `logging`.
        journal: Writes a record a call to a file, or `None`.
        order: Enforces the order of calls, or `None`.
        limits: Limits calls, or `None`.
        doom_loop: Stops repeated calls, or `None`.
        gate: Has a model judge calls and answers, or `None`.
        rules: Those of order, limits and gate.
        tell: Tells the model these, or `None`.

    Args:
        settings: As `GuardSettings`.

    Raises:
        ValueError: An unknown setting, or a value that isn't allowed.
        TypeError: A value of the wrong type.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        read = read_table(GuardSettings, settings, "")
        self.log = CallLog(read.log_arguments)
        self.journal = read.journal
        self.order = read.order
        self.limits = read.limits
        self.doom_loop = DoomLoop(read.doom_loop, read.doom_loop_action) if read.doom_loop else None
        self.gate = read.gate
        self._rules = tuple(each for each in (self.order, self.limits) if each is not None)
        self.rules = [rule for each in (*self._rules, self.gate) if each is not None for rule in each.rules]
        self.tell = TellRules(self.rules) if self.rules and read.tell_rules else None
        self.pegboard_on_tool_error = self.log.pegboard_on_tool_error
        if self.order is not None:
            self.pegboard_before_model = self.order.pegboard_before_model
        if self.gate is not None:
            self.pegboard_before_turn = self.gate.pegboard_before_turn
            self.pegboard_resume_turn = self.gate.pegboard_resume_turn
        if self._rules:
            self.pegboard_wrap_call = wrap_call
        self._begins_late = not self._rules and self.journal is None
        if self._begins_late:  # each callback costs every call
            self.pegboard_before_tool = None  # pyright: ignore[reportAttributeAccessIssue]  pluggy leaves it out

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Starts the records of the call, which order or limits may deny."""
        await self.log.pegboard_before_tool(context)
        if self.journal is not None:
            await self.journal.pegboard_before_tool(context, tool, arguments)
        for rules in self._rules:
            denied = await rules.pegboard_before_tool(context, tool, arguments)
            if denied is not None:
                return denied
        return None

    @hookimpl(specname="pegboard_before_tool", trylast=True)
    async def check_arguments(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> Deny | ToolResult | None:
        """Runs each guard that judges the arguments, up to the first that denies."""
        if self._begins_late:
            await self.log.pegboard_before_tool(context)
        checks = (
            self.order and self.order.check_arguments,
            self.doom_loop and self.doom_loop.pegboard_before_tool,
            self.gate and self.gate.pegboard_before_tool,
        )
        for check in checks:
            answer = check and await check(context, tool, arguments)
            if answer is not None:
                return answer
        return None

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(
        self, context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
    ) -> None:
        """Passes the result on to each guard; the journal last, as it may wait for the disk."""
        for rules in self._rules:
            await rules.pegboard_after_tool(context, result)
        if self.doom_loop is not None:
            await self.doom_loop.pegboard_after_tool(context, result)
        await self.log.pegboard_after_tool(context, tool, arguments, result)
        if self.journal is not None:
            await self.journal.pegboard_after_tool(context, arguments, result)

    @hookimpl
    async def pegboard_on_stop(self, context: ReadonlyContext, outcome: TurnOutcome) -> str | None:
        """Continues a turn that lacks a required call, or that a model finds incomplete; `None` lets it end."""
        if self.order is not None:
            ended_by, reminder = await self.order.read_end(context)
            if ended_by is not None or reminder is not None:
                return reminder
        return None if self.gate is None else await self.gate.pegboard_on_stop(context, outcome)

    @hookimpl
    def pegboard_register_processors(self, register: Callable[[str, Any], None]) -> None:
        """Registers `guard_rules` if there are rules to tell, and the processors of order and gate."""
        for guard in (self.order, self.gate):
            if guard is not None:
                guard.pegboard_register_processors(register)
        if self.tell is not None:
            register("guard_rules", self.tell)

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str | None], None], registry: ToolRegistry) -> None:
        """Reports a gate's model that can't be made, and names and patterns in rules that no tool has."""
        if self.gate is not None:
            self.gate.pegboard_diagnose(report, registry)
        known = {name for tool in registry.tools() for name in (tool.name, *tool.former_names)}
        unless, fix = "", "Correct the rule, or install the tool's plugin."
        if registry.contributions.catalogue.toolsets:
            unless, fix = ", unless a toolset brings one later", None
        for pattern in dict.fromkeys(pattern for rule in self.rules for pattern in rule.patterns):
            if pattern != "*" and not any(map(Names((pattern,)).__contains__, known)):
                near = did_you_mean(suggest(pattern, known)).strip()
                report(f"rules are about {pattern!r}, and no tool is called so{unless}", near or fix)

    @hookimpl
    def pegboard_guards_calls(self) -> None:
        """Denies every call if the plugin has settings and isn't loaded."""

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry guard` and `registry logs`."""
        from pegboard_guard.commands import guard_command, logs_command

        group.add_command(guard_command)
        group.add_command(logs_command(None if self.journal is None else self.journal.file))
