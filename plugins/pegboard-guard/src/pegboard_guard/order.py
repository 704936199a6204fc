"""`OrderRules`: the guard that enforces rules on the order of calls, and on what is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pegboard import ModelRequest, ModelResponse, ReadonlyContext, Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.contradictions import check_order
from pegboard_guard.ordering import ComesBefore, EndsTurn, Required
from pegboard_guard.rules import Call, Rule, Rules, Scope, join_words, wrap_call

if TYPE_CHECKING:
    from pegboard import Deny


class OrderRules(Rules):
    """Guard that denies calls that are too early, excluded or too soon, and finds what a turn still lacks.

    Args:
        rules: All of them apply.
        clock: Monotonic clock, in seconds.

    Raises:
        ValueError: The rules contradict each other: some tool could never be called.
    """

    def __init__(self, *rules: Rule, clock: Callable[[], float] = time.monotonic) -> None:
        uniform = [rule.reverse if isinstance(rule, ComesBefore) else rule for rule in rules]
        check_order(uniform)
        super().__init__([rule for rule in uniform if not rule.compares_arguments], clock=clock)
        self.rules = rules
        self._distinct = Rules([rule for rule in uniform if rule.compares_arguments], clock=clock)
        if rules:
            self.pegboard_wrap_call = wrap_call

    @hookimpl(specname="pegboard_before_tool", trylast=True)
    async def check_arguments(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Deny | None:
        """Denies a repeated call, by the arguments as other plugins have changed them; or records its start."""
        return await self._distinct.pegboard_before_tool(context, tool, arguments)

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, result: ToolResult) -> None:
        """Records the result of the call; one that didn't run doesn't count."""
        await self._distinct.pegboard_after_tool(context, result)
        await super().pegboard_after_tool(context, result)

    def missing(self, request: ReadonlyContext) -> tuple[str, ...]:
        """What this turn, or session, still has to call: the names and patterns of `Required`, in their order.

        Args:
            request: The context of the calls: its `invocation` and its `session` count. Without an invocation nothing
                is missing in a turn.
        """
        return _find_missing(self._states_here(self._of_turn(request)))

    def reminder(self, request: ReadonlyContext) -> str | None:
        """The message for the model if calls are missing, else `None`."""
        return _remind(self.missing(request))

    @hookimpl
    async def pegboard_on_stop(self, context: ReadonlyContext) -> str | None:
        """Continues the turn with a message that names the missing calls; `None` lets it end.

        A turn that an `EndsTurn` has ended isn't continued, nor is that of an agent, which is a part of its caller's.
        """
        _, reminder = await self.read_end(context)
        return reminder

    async def find_end(self, context: ReadonlyContext) -> str | None:
        """The tool of an `EndsTurn` that has succeeded in this turn, if there is one: the turn ends."""
        name, _ = await self.read_end(context)
        return name

    async def read_end(self, context: ReadonlyContext) -> tuple[str | None, str | None]:
        """What `find_end` and `pegboard_on_stop` return."""
        states = await self._read(context)
        ends = (rule.find_end(context, state) for rule, state in states if isinstance(rule, EndsTurn))
        if (name := next(filter(None, ends), None)) is not None or context.root is not None:
            return name, None
        return None, _remind(_find_missing(states))

    @hookimpl
    async def pegboard_before_model(self, context: ReadonlyContext, request: ModelRequest) -> ModelResponse | None:
        """Ends a turn in which a tool of an `EndsTurn` has succeeded, in place of the next request.

        A turn whose output has a type ends as one that is cut off, as it has none.
        """
        if (name := await self.find_end(context)) is None:
            return None
        text = f"{name} succeeded, which ends the turn."
        is_typed = request.output is not None or any(tool.name == "final_result" for tool in request.offered)
        return ModelResponse(text, interrupted=is_typed, error_message=text)

    @hookimpl
    def pegboard_register_processors(self, register: Callable[[str, Any], None]) -> None:
        """Registers `guard_order`, which finds the counters if turns can end or lack something: they may be resumed."""
        if any(isinstance(rule, Required | EndsTurn) for rule in self._rules):
            register("guard_order", self._find_counters)

    async def _read(self, request: ReadonlyContext) -> list[tuple[Rule, Any]]:
        """The rules about ends with their states, in all processes; none if these can't be read in time."""
        concerned, states = self._of_turn(request), list[tuple[Rule, Any]]()
        if self._counters is None or not concerned:
            return self._states_here(concerned)

        def read(_now: float, current: Sequence[Any]) -> bool:
            states[:] = [(rule, state) for (_, rule, _), state in zip(concerned, current, strict=True)]
            return False

        await self._try_change("reading what calls were counted", concerned, read)
        return states

    def _states_here(self, concerned: Iterable[tuple[int, Rule, Scope]]) -> list[tuple[Rule, Any]]:
        """Rules with their states in this process."""
        with self._lock:
            return [(rule, self._states[place].get(key) or rule.State()) for place, rule, key in concerned]

    def _of_turn(self, request: ReadonlyContext) -> list[tuple[int, Rule, Scope]]:
        """The rules about the end of a turn, with their places and the keys of their states if the turn is known."""
        call = Call("", request)
        rules = [(place, rule) for place, rule in enumerate(self._rules) if isinstance(rule, Required | EndsTurn)]
        return [(place, rule, key) for place, rule in rules if (key := rule.scope(call)) is not None]


def _find_missing(states: Iterable[tuple[Rule, Any]]) -> tuple[str, ...]:
    names = (name for rule, state in states if isinstance(rule, Required) for name in rule.missing(state))
    return tuple(dict.fromkeys(map(str, names)))


def _remind(missing: Sequence[str]) -> str | None:
    return f"Before you finish, call {join_words(missing, 'and')}." if missing else None
