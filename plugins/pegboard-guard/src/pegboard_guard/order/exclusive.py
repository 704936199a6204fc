"""`Exclusive`: of some tools, only one."""

from __future__ import annotations

from attrs import define, field, frozen

from pegboard_guard.check import as_texts, one_of, texts
from pegboard_guard.names import Names
from pegboard_guard.operator_log import unknown_turn
from pegboard_guard.recent import Recent
from pegboard_guard.scope import WITHIN, Scope, Within, scope_of
from pegboard_guard.tracker import Call, Ending


@frozen
class Exclusive:
    """Of a group of tools, only one is used: the first that is called, as often as it is called.

    Attributes:
        tools: Names, or patterns with `*` and `?`; those that match one are the group.
        within: Whether the choice holds for a `"turn"` or for a `"session"`.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="turn", validator=one_of(WITHIN))

    def tracker(self) -> ExclusiveTracker:
        """The rule at work, nothing chosen yet."""
        return ExclusiveTracker(self)


@define(eq=False)
class _Choice:
    """Which tool was chosen: for good once a call of it ran, until then for as long as one is under way."""

    name: str | None = None
    under_way: int = 0
    is_final: bool = False


@define(eq=False)
class ExclusiveTracker:
    """An `Exclusive` at work.

    Attributes:
        rule: The rule.
    """

    rule: Exclusive
    _group: Names = field(init=False)
    _choices: Recent[Scope, _Choice] = field(factory=lambda: Recent[Scope, _Choice](_Choice), init=False)
    _has_told: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._group = Names(self.rule.tools)

    def refusal(self, call: Call) -> str | None:
        """Tells which one was chosen."""
        scope = self._scope(call)
        choice = None if scope is None else self._choices.known(scope)
        if choice is None or choice.name in (None, call.name):
            return None
        again = "in the next turn" if self.rule.within == "turn" else "in another session"
        return (
            f"of {self._group} only one may be used in a {self.rule.within}, and it was {choice.name}. "
            f"Go on with {choice.name}; {call.name} may be called {again}."
        )

    def begin(self, call: Call) -> Scope:
        """Chooses the tool, unless it was chosen before."""
        scope = self._scope(call)
        if scope is not None:
            choice = self._choices.of(scope)
            choice.name = call.name
            choice.under_way += 1
        return scope

    def end(self, _call: Call, token: Scope, ending: Ending) -> None:
        """Leaves the choice open again where nothing ran after all."""
        choice = None if token is None else self._choices.known(token)
        if choice is None:
            return
        choice.under_way -= 1
        choice.is_final = choice.is_final or ending.ran
        if not choice.is_final and choice.under_way <= 0:
            choice.name = None

    def _scope(self, call: Call) -> Scope:
        if call.name not in self._group:
            return None
        scope = scope_of(call.request, self.rule.within)
        if scope is None and not self._has_told:
            self._has_told = True
            unknown_turn(f"the exclusive group {self._group}")
        return scope
