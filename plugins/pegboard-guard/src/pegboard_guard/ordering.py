"""Rules on the order of calls: what comes first, excludes others, needs a pause, is required, or is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final

from attrs import define, field, frozen

from pegboard import ReadonlyContext
from pegboard_guard.rules import (
    WITHIN,
    Call,
    End,
    Names,
    Rule,
    Scope,
    Within,
    course_of,
    join_words,
    wait_text,
)
from pegboard_guard.settings import as_texts, one_of, seconds, texts, whole

MOST_CALLS: Final = 1_000
"""Calls that a `Distinct` or `EndsTurn` remembers of one turn or session."""


@define
class Successes:
    """Which of some names and patterns have had a successful call, by their places; how often that began anew."""

    places: list[int] = field(factory=list[int])
    starts: int = 0

    def record(self, call: Call, needs: Sequence[Names]) -> None:
        """Records a successful call."""
        self.places += [place for place, names in enumerate(needs) if call.is_of(names) and place not in self.places]

    def missing(self, needs: Sequence[Names]) -> list[Names]:
        """Those without a successful call."""
        return [names for place, names in enumerate(needs) if place not in self.places]


@frozen
class _Needing(Rule):
    """Base of rules by which some tools have to succeed."""

    State = Successes
    NEEDED: ClassVar[str]
    """The attribute with their names and patterns."""

    @cached_property
    def needs(self) -> tuple[Names, ...]:
        """What has to succeed."""
        return tuple(Names((pattern,)) for pattern in getattr(self, self.NEEDED))

    @property
    def needed(self) -> str:
        """What has to succeed, for the model."""
        return join_words(getattr(self, self.NEEDED), "and")

    def scope(self, call: Call) -> Scope:
        """The turn or session."""
        return course_of(call.request, getattr(self, "within"))  # noqa: B009


@frozen
class ComesAfter(_Needing):
    """Some tools may be called only after others have succeeded.

    A tool doesn't wait for itself: `ComesAfter("*", after="log_in")` is everything but `log_in`.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that have to wait.
        after: What each of them waits for: one successful call for every name or pattern.
        within: Whether that has to be in the same `"turn"`, or in the same `"session"`.
    """

    NEEDED = "after"
    SENTENCE = "Call {0.names} only after {0.needed} succeeded in this {0.within}."

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def refusal(self, call: Call, state: Successes) -> str | None:
        """What has to succeed first."""
        if not call.is_of(self.names):
            return None
        missing = [str(names) for names in state.missing(self.needs) if not call.is_of(names)]
        if not missing:
            return None
        return (
            f"{join_words(missing, 'and')} must succeed first in this {self.within}. "
            f"Call {missing[0]}, wait for its result, then call this tool again."
        )

    def end(self, call: Call, state: Successes, _token: None, end: End) -> None:
        """Records a successful call."""
        if end.kind is None:
            state.record(call, self.needs)


@frozen
class ComesBefore(Rule):
    """Some tools must succeed before others may be called: the reverse of `ComesAfter`.

    Attributes:
        tools: Names, or patterns with `*` and `?`; one call for each has to succeed first.
        before: Names, or patterns, of those that have to wait.
        within: As for `ComesAfter`.
    """

    before: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def reverse(self) -> ComesAfter:
        """The equivalent `ComesAfter`."""
        return ComesAfter(self.before, self.tools, self.within)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return self.reverse.sentence


@define
class _Pauses:
    """Calls of a session: their number, and the time and number of the last one of each tool with a pause."""

    calls: int = 0
    last: dict[str, list[float]] = field(factory=dict[str, "list[float]"])


@frozen
class Cooldown(Rule):
    """A pause between two calls of the same tool, in one session.

    Attributes:
        tools: Names, or patterns with `*` and `?`; each tool that matches has a pause of its own.
        seconds: Its length: from the end of one call, or its start while it is running, to the start of the next.
        calls: How many calls of other tools have to come in between.
    """

    State = _Pauses

    seconds: float = field(default=0, validator=seconds())
    calls: int = field(default=0, validator=whole())

    def __attrs_post_init__(self) -> None:
        if not self.seconds and not self.calls:
            raise ValueError(f"a cooldown of {self.names} needs seconds, or calls, or both")

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        waits = [f"wait {wait_text(self.seconds)}"] if self.seconds else []
        waits += [f"make {self.calls} call{'' if self.calls == 1 else 's'} of other tools"] if self.calls else []
        return f"Between two calls of {self.names}, {' and '.join(waits)}."

    def concerns(self, _call: Call, /) -> bool:
        """All calls, as they are counted."""
        return True

    def refusal(self, call: Call, state: _Pauses) -> str | None:
        """How long to wait, or how many calls."""
        if call.tool not in state.last:
            return None
        at, number = state.last[call.tool]
        wait = at + self.seconds - call.now
        calls = self.calls - (state.calls - int(number))
        waits = [f"in {wait_text(wait)}"] if wait > 0 else []
        if calls > 0:
            waits.append(f"after {calls} call{'' if calls == 1 else 's'} of other tools")
        return f"it was called too soon after its last call. Call it again {' and '.join(waits)}." if waits else None

    def begin(self, call: Call, state: _Pauses) -> tuple[list[float] | None, list[float]]:
        """Counts the call; a tool with a pause starts it."""
        state.calls += 1
        before, current = state.last.get(call.tool), [call.now, state.calls]
        if call.is_of(self.names):
            state.last[call.tool] = current
        return before, current

    def end(self, call: Call, state: _Pauses, token: tuple[list[float] | None, list[float]], end: End) -> None:
        """Restarts the pause at the end of the call; undoes `begin` if the tool didn't run."""
        before, current = token
        state.calls -= not end.ran
        if state.last.get(call.tool) != current:
            return
        last = [call.now, current[1]] if end.ran else before
        if last is None:
            del state.last[call.tool]
        else:
            state.last[call.tool] = last


@define
class FirstCall:
    """The first call of some tools, which counts for good once one of them ran; until then while one is running."""

    tool: str = ""
    name: str = ""
    running: int = 0
    is_final: bool = False

    def begin(self, call: Call) -> None:
        """Records the start of a call."""
        if not self.tool:
            self.tool, self.name = call.tool, call.name
        self.running += 1

    def end(self, end: End) -> None:
        """Records the end of a call; forgets the first one if nothing ran after all."""
        self.running -= 1
        self.is_final = self.is_final or end.ran
        if not self.is_final and not self.running:
            self.tool = self.name = ""


@frozen
class Exclusive(Rule):
    """Only one of a group of tools may be used: the first that is called, any number of times.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of the group.
        within: Whether the choice is for a `"turn"` or for a `"session"`.
    """

    State = FirstCall
    SENTENCE = "Use only one of {0.names} in a {0.within}: the one that you call first."
    TITLE = "the exclusive group {0.names}"

    within: Within = field(default="turn", validator=one_of(WITHIN))

    def refusal(self, call: Call, state: FirstCall) -> str | None:
        """The tool that was chosen instead."""
        if state.tool in ("", call.tool):
            return None
        again = "in the next turn" if self.within == "turn" else "in another session"
        return (
            f"only one of {self.names} can be used in a {self.within}, and {state.name} was used. "
            f"Continue with {state.name}; {call.name} can be called {again}."
        )

    def begin(self, call: Call, state: FirstCall) -> None:
        """Chooses the tool."""
        state.begin(call)

    def end(self, _call: Call, state: FirstCall, _token: None, end: End) -> None:
        """Undoes the choice if nothing ran after all."""
        state.end(end)


@frozen
class Required(_Needing):
    """Tools that must be called successfully before a turn may end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; one call for each.
        within: Whether in every `"turn"`, or once in the `"session"`.
        when: Names, or patterns, of the tools that make it necessary: then, and only then, each of `tools` has to
            succeed in a call that starts after the last call of them has ended. Empty: always.
    """

    NEEDED = "tools"
    is_for_end = True

    within: Within = field(default="turn", validator=one_of(WITHIN))
    when: tuple[str, ...] = field(default=(), converter=as_texts, validator=texts(least=0))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        after = f" after your last call of {self.condition}" if self.when else ""
        return f"Before you finish, call {self.needed}{after}."

    def missing(self, state: Successes) -> list[Names]:
        """The names and patterns without a successful call, if they are necessary."""
        return [] if self.when and not state.starts else state.missing(self.needs)

    def begin(self, _call: Call, state: Successes) -> int:
        """Which calls have made it necessary before this one."""
        return state.starts

    def end(self, call: Call, state: Successes, token: int, end: End) -> None:
        """Records that the tools are necessary from now on, or a successful call."""
        is_late_enough = token == state.starts
        if end.ran and call.is_of(self.condition):
            state.places.clear()
            state.starts += 1
        if end.kind is None and is_late_enough:
            state.record(call, self.needs)


@frozen
class NotAfter(Rule):
    """Some tools may not be called any more once others ran. While one of those is running, they are closed, too.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that are closed. `"*"` closes all, also `after` itself.
        after: Names, or patterns; one call of any of them closes the tools, also a call that failed.
        within: Whether for the rest of the `"turn"`, or of the `"session"`.
    """

    State = FirstCall
    SENTENCE = "Don't call {0.names} any more once {0.condition} ran in this {0.within}."
    TITLE = "{0.names} not after {0.condition}"

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def refusal(self, call: Call, state: FirstCall) -> str | None:
        """The tool that has closed it."""
        if not state.tool or not call.is_of(self.names):
            return None
        return f"it can't be called any more in this {self.within}, as {state.name} was called. Continue without it."

    def begin(self, call: Call, state: FirstCall) -> None:
        """Closes the tools."""
        if call.is_of(self.condition):
            state.begin(call)

    def end(self, call: Call, state: FirstCall, _token: None, end: End) -> None:
        """Opens them again if nothing ran after all."""
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
    TITLE = "distinct calls of {0.names}"
    compares_arguments = True

    seconds: float = field(default=0, validator=seconds())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        window = f" within {wait_text(self.seconds)}" if self.seconds else ""
        return f"Don't repeat a call of {self.names} with the same arguments in this {self.within}{window}."

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
    SENTENCE = "A successful call of {0.names} ends the turn, so call it last."

    def scope(self, call: Call) -> Scope:
        """The turn at the top."""
        return course_of(call.request, "turn")

    def end(self, call: Call, state: _Ends, _token: None, end: End) -> None:
        """Records a successful call."""
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


KINDS: Final[Mapping[str, type[Rule]]] = {
    "after": ComesAfter,
    "before": ComesBefore,
    "exclusive": Exclusive,
    "cooldown": Cooldown,
    "required": Required,
    "not_after": NotAfter,
    "distinct": Distinct,
    "ends_turn": EndsTurn,
}
"""The rules by their keys in the settings."""
