"""Rules on what is over: tools that are closed, calls that were made already, turns that have ended."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from attrs import define, field, frozen

from pegboard import ReadonlyContext, ToolResult
from pegboard_guard.rules import (
    WITHIN,
    Call,
    Names,
    OfTools,
    Recent,
    Scope,
    Tracker,
    Within,
    course_of,
    ran,
    wait_text,
)
from pegboard_guard.settings import as_texts, one_of, seconds, texts

MOST_CALLS = 1_000
"""Different calls that a `Distinct` remembers of one turn or session."""


@frozen
class NotAfter(OfTools):
    """Some tools may not be called any more once others ran.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that are closed. `"*"` closes all, also `after` itself.
        after: Names, or patterns; one call of any of them closes the tools, also a call that failed.
        within: Whether for the rest of the `"turn"`, or of the `"session"`.
    """

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @cached_property
    def closing(self) -> Names:
        """The tools that close the others."""
        return Names(self.after)

    def tracker(self) -> ClosedTracker:
        """A new tracker of this rule."""
        return ClosedTracker(self)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Don't call {self.names} any more once {self.closing} ran in this {self.within}."


@define(eq=False)
class _Closed:
    """What has closed the tools: the name of a tool that ran, and how many of them are running."""

    by: str = ""
    running: int = 0
    is_final: bool = False


@define(eq=False)
class ClosedTracker(Tracker):
    """Tracker of a `NotAfter`. While a closing tool is running, the others are closed, too."""

    rule: NotAfter
    _values: Recent[Scope, _Closed] = field(factory=lambda: Recent[Scope, _Closed](_Closed), init=False)

    def key(self, call: Call) -> Scope:
        """The turn or session, for a tool of the rule."""
        if not call.is_of(self.rule.names) and not call.is_of(self.rule.closing):
            return None
        return self.scope(call, self.rule.within, f"{self.rule.names} not after {self.rule.closing}")

    def load(self, key: Scope, data: Any) -> None:
        """Sets what has closed the tools."""
        closed = self._values.of(key)
        closed.by, closed.running, closed.is_final = data

    def dump(self, key: Scope) -> Any:
        """What has closed the tools."""
        closed = self._values.known(key)
        return closed and [closed.by, closed.running, closed.is_final]

    def loaded_token(self, key: Scope, token: _Closed | None) -> _Closed | None:
        """What has closed them here."""
        return token and self._values.of(key)

    def refusal(self, call: Call) -> str | None:
        """The tool that has closed it."""
        scope = self.key(call)
        closed = None if scope is None else self._values.known(scope)
        if closed is None or not closed.by or not call.is_of(self.rule.names):
            return None
        return (
            f"it can't be called any more in this {self.rule.within}, as {closed.by} was called. Continue without it."
        )

    def begin(self, call: Call) -> _Closed | None:
        """Closes the tools."""
        scope = self.key(call)
        if scope is None or not call.is_of(self.rule.closing):
            return None
        closed = self._values.of(scope)
        closed.by = closed.by or call.name
        closed.running += 1
        return closed

    def end(self, _call: Call, closed: _Closed | None, result: ToolResult) -> None:
        """Opens them again if nothing ran after all."""
        if closed is None:
            return
        closed.running -= 1
        closed.is_final = closed.is_final or ran(result)
        if not closed.is_final and not closed.running:
            closed.by = ""


@frozen
class Distinct(OfTools):
    """No call of some tools is made twice: with the same arguments, of the same tool.

    A call that failed may be made again, as may one that didn't run.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
        seconds: For how long after the start of a call an equal one is denied; 0: as long as `within` lasts.
        within: Whether the calls of the `"turn"` are compared, or those of the `"session"`.
    """

    seconds: float = field(default=0, validator=seconds())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def tracker(self) -> DistinctTracker:
        """A new tracker of this rule."""
        return DistinctTracker(self)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        window = f" within {wait_text(self.seconds)}" if self.seconds else ""
        return f"Don't repeat a call of {self.names} with the same arguments in this {self.within}{window}."


@define(eq=False)
class DistinctTracker(Tracker):
    """Tracker of a `Distinct`."""

    rule: Distinct
    compares_arguments = True
    _values: Recent[Scope, Recent[str, list[float]]] = field(
        factory=lambda: Recent[Scope, Recent[str, "list[float]"]](lambda: Recent(list[float], MOST_CALLS)), init=False
    )

    def key(self, call: Call) -> Scope:
        """The turn or session, for a tool of the rule."""
        if not call.is_of(self.rule.names):
            return None
        return self.scope(call, self.rule.within, f"distinct calls of {self.rule.names}")

    def load(self, key: Scope, data: Any) -> None:
        """Sets the times of the calls."""
        calls = self._values.of(key)
        for made, times in data:
            calls.of(made)[:] = times

    def dump(self, key: Scope) -> Any:
        """The times of the calls."""
        calls = self._values.known(key)
        return None if calls is None else [[made, times] for made, times in calls.items() if times]

    def refusal(self, call: Call) -> str | None:
        """That it was made, and when it may be made again."""
        scope = self.key(call)
        calls = None if scope is None else self._values.known(scope)
        times = None if calls is None else calls.known(_identify(call))
        if not times:
            return None
        again = f"in this {self.rule.within}"
        if self.rule.seconds:
            wait = times[-1] + self.rule.seconds - call.now
            if wait <= 0:
                return None
            again = f"in the next {wait_text(wait)}"
        return f"the same call was made before. Use its result, or change the arguments; don't repeat it {again}."

    def begin(self, call: Call) -> tuple[str, float] | None:
        """Records the call."""
        scope = self.key(call)
        if scope is None or call.digest is None:
            return None
        self._values.of(scope).of(_identify(call))[:] = [call.now]
        return _identify(call), call.now

    def end(self, call: Call, token: tuple[str, float] | None, result: ToolResult) -> None:
        """Forgets a call that failed, or didn't run after all."""
        if token is None or (ran(result) and result.kind != "tool_failure"):
            return
        made, started = token
        times = self._values.of(self.key(call)).of(made)
        if started in times:
            times.remove(started)


def _identify(call: Call) -> str:
    """Identifies a call by its tool and arguments."""
    return " ".join((*call.tool, call.digest or ""))


@frozen
class EndsTurn(OfTools):
    """Tools that end the turn: once one of them has succeeded, the model isn't called again.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
    """

    def tracker(self) -> EndTracker:
        """A new tracker of this rule."""
        return EndTracker(self)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"A successful call of {self.names} ends the turn, so call it last."


@define(eq=False)
class EndTracker(Tracker):
    """Tracker of an `EndsTurn`, which refuses no call. A turn runs in one process, so nothing is shared."""

    rule: EndsTurn
    _values: Recent[Scope, list[str]] = field(factory=lambda: Recent[Scope, "list[str]"](list[str]), init=False)

    def key(self, call: Call) -> Scope:
        """Nothing is shared."""
        del call

    def fresh(self) -> EndTracker:
        """This one."""
        return self

    def end(self, call: Call, _token: None, result: ToolResult) -> None:
        """Records a successful call."""
        scope = course_of(call.request, "turn")
        if scope is not None and call.is_of(self.rule.names) and not result.is_error:
            self._values.of(scope)[:] = [call.name]

    def ended(self, request: ReadonlyContext) -> str | None:
        """The tool that has ended this turn, or `None`."""
        scope = course_of(request, "turn")
        return next(iter(self._values.known(scope) or ()), None) if scope is not None else None
