"""Rules on what is over: tools that are closed, calls that were made already, turns that have ended."""

from __future__ import annotations

from attrs import define, field, frozen

from pegboard import ReadonlyContext
from pegboard_guard.ordering import FirstCall
from pegboard_guard.rules import WITHIN, Call, End, Rule, Scope, Within, course_of, wait_text
from pegboard_guard.settings import as_texts, one_of, seconds, texts

MOST_CALLS = 1_000
"""Different calls that a `Distinct` remembers of one turn or session."""


@frozen
class NotAfter(Rule):
    """Some tools may not be called any more once others ran. While one of those is running, they are closed, too.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that are closed. `"*"` closes all, also `after` itself.
        after: Names, or patterns; one call of any of them closes the tools, also a call that failed.
        within: Whether for the rest of the `"turn"`, or of the `"session"`.
    """

    State = FirstCall

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Don't call {self.names} any more once {self.condition} ran in this {self.within}."

    @property
    def title(self) -> str:
        """The rule in a warning."""
        return f"{self.names} not after {self.condition}"

    def refusal(self, call: Call, state: FirstCall) -> str | None:
        """The tool that has closed it."""
        if not state.tool or not call.is_of(self.names):
            return None
        return f"it can't be called any more in this {self.within}, as {state.name} was called. Continue without it."

    def begin(self, call: Call, state: FirstCall) -> None:
        """Closes the tools."""
        if call.is_of(self.condition):
            state.begin(call)

    def end(self, call: Call, state: FirstCall, token: None, end: End) -> None:
        """Opens them again if nothing ran after all."""
        del token
        if call.is_of(self.condition):
            state.end(end)


@define
class _Calls:
    """Times of the calls, each by its tool and arguments."""

    times: dict[str, float] = field(factory=dict[str, float])


@frozen
class Distinct(Rule):
    """No call of some tools is made twice: with the same arguments, of the same tool.

    A call that failed may be made again, as may one that didn't run.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
        seconds: For how long after the start of a call an equal one is denied; 0: as long as `within` lasts.
        within: Whether the calls of the `"turn"` are compared, or those of the `"session"`.
    """

    State = _Calls
    compares_arguments = True

    seconds: float = field(default=0, validator=seconds())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        window = f" within {wait_text(self.seconds)}" if self.seconds else ""
        return f"Don't repeat a call of {self.names} with the same arguments in this {self.within}{window}."

    @property
    def title(self) -> str:
        """The rule in a warning."""
        return f"distinct calls of {self.names}"

    def concerns(self, call: Call) -> bool:
        """Calls of the tools whose arguments are JSON."""
        return call.digest is not None and call.is_of(self.names)

    def refusal(self, call: Call, state: _Calls) -> str | None:
        """That it was made, and when it may be made again."""
        at = state.times.get(call.identity)
        if at is None:
            return None
        again = f"in this {self.within}"
        if self.seconds:
            wait = at + self.seconds - call.now
            if wait <= 0:
                return None
            again = f"in the next {wait_text(wait)}"
        return f"the same call was made before. Use its result, or change the arguments; don't repeat it {again}."

    def begin(self, call: Call, state: _Calls) -> float:
        """Records the call."""
        times = state.times
        times[call.identity] = call.now
        if len(times) > MOST_CALLS:
            del times[min(times, key=times.__getitem__)]
        return call.now

    def end(self, call: Call, state: _Calls, token: float, end: End) -> None:
        """Forgets a call that failed, or didn't run after all."""
        is_forgotten = end.kind == "tool_failure" or not end.ran
        if is_forgotten and state.times.get(call.identity) == token:
            del state.times[call.identity]


@define
class _Ends:
    """Calls that ended a turn: the name of the tool, the turn of the caller, and its branch of agents."""

    calls: list[list[str]] = field(factory=list["list[str]"])


@frozen
class EndsTurn(Rule):
    """Tools that end the turn: once one of them has succeeded, the model isn't called again.

    A call by an agent ends the turns of the agent, of its callers, and at the top.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
    """

    State = _Ends

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"A successful call of {self.names} ends the turn, so call it last."

    def scope(self, call: Call) -> Scope:
        """The turn at the top."""
        return course_of(call.request, "turn")

    def end(self, call: Call, state: _Ends, token: None, end: End) -> None:
        """Records a successful call."""
        del token
        if end.kind is None:
            state.calls.append([call.name, call.request.invocation or "", call.request.branch or ""])
            del state.calls[:-MOST_CALLS]

    def find_end(self, request: ReadonlyContext, state: _Ends) -> str | None:
        """The tool that has ended this turn, or `None`; other agents that began in it don't end with it."""
        for name, invocation, branch in state.calls:
            is_caller = request.branch is not None and branch.startswith(f"{request.branch}.")
            if request.root is None or is_caller or invocation == request.invocation:
                return name
        return None
