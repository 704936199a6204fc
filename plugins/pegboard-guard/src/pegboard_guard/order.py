"""Order rules: what comes first, what excludes what, what needs a pause, what can't be left out.

Rules may contradict each other: some tool could never be called, whatever is called before it. As patterns stand for
tools that aren't known yet, the rules are tried on representatives: each name that they hold, and for each pattern a
name that matches it and as little else as possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias

from attrs import define, field, frozen

from pegboard import ReadonlyContext, ToolResult, hookimpl
from pegboard_guard.rules import (
    WITHIN,
    Call,
    Names,
    Recent,
    Rules,
    Scope,
    Tracker,
    Within,
    course_of,
    listed,
    ran,
    scope_of,
    wait_text,
)
from pegboard_guard.settings import as_texts, one_of, seconds, texts, whole


@frozen
class _OfTools:
    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())

    @cached_property
    def names(self) -> Names:
        """The tools that the rule is about."""
        return Names(self.tools)


@frozen
class ComesAfter(_OfTools):
    """Some tools may be called only after others have succeeded.

    A tool that is itself one of those that are waited for isn't held: `ComesAfter("*", after="log_in")` is everything
    but `log_in`.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that have to wait.
        after: What each of them waits for: of every name or pattern, one call has to have succeeded.
        within: Whether it has to have been in the same `"turn"`, or in the same `"session"`.
    """

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def tracker(self) -> AfterTracker:
        """The rule at work, nothing called yet."""
        return AfterTracker(self.after, self.within, held=self.names)


@frozen
class ComesBefore(_OfTools):
    """Some tools have to have succeeded before others may be called: `ComesAfter` from the other end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; of each, one call has to succeed first.
        before: Names, or patterns, of those that have to wait.
        within: As for `ComesAfter`.
    """

    before: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def turned(self) -> ComesAfter:
        """The same from the end of those that wait."""
        return ComesAfter(self.before, self.tools, self.within)


@define(eq=False)
class _Successes(Tracker):
    """Record of which names and patterns have had a successful call, by turn or session.

    Attributes:
        patterns: The names and patterns.
        within: Whether turns are counted, or sessions.
    """

    patterns: tuple[str, ...]
    within: Within
    _names: tuple[Names, ...] = field(init=False)
    _met: Recent[Scope, set[int]] = field(factory=lambda: Recent[Scope, "set[int]"](set[int]), init=False)

    def __attrs_post_init__(self) -> None:
        self._names = tuple(Names((pattern,)) for pattern in self.patterns)

    def missing(self, scope: Scope) -> list[Names]:
        """Those without a successful call."""
        met = self._met.known(scope) or ()
        return [names for place, names in enumerate(self._names) if place not in met]

    def end(self, call: Call, _token: None, result: ToolResult) -> None:
        """Notes a call that succeeded."""
        scope = course_of(call.request, self.within)
        places = [place for place, names in enumerate(self._names) if call.is_of(names)]
        if not result.is_error and scope is not None and places:
            self._met.of(scope).update(places)


@define(eq=False)
class AfterTracker(_Successes):
    """A `ComesAfter` at work: the tools that are `held` wait for the others."""

    held: Names = field(kw_only=True)

    def refusal(self, call: Call) -> str | None:
        """What has to succeed first."""
        if not call.is_of(self.held):
            return None
        unmet = self.missing(course_of(call.request, self.within))
        missing = [str(names) for names in unmet if not call.is_of(names)]
        if not missing:
            return None
        return (
            f"it may be called only after {listed(missing, 'and')} succeeded in this {self.within}. "
            f"Call {missing[0]} first, and wait for its result."
        )


@frozen
class Cooldown(_OfTools):
    """A pause between two calls of the same tool, in one session.

    Attributes:
        tools: Names, or patterns with `*` and `?`; each tool that matches has a pause of its own.
        seconds: How long it is: from the end of one call, or its start while it is under way, to the start of the next.
        calls: How many calls of other tools have to come between.
    """

    seconds: float = field(default=0, validator=seconds())
    calls: int = field(default=0, validator=whole())

    def __attrs_post_init__(self) -> None:
        if not self.seconds and not self.calls:
            raise ValueError(f"a cooldown of {self.names} needs seconds, or calls, or both")

    def tracker(self) -> CooldownTracker:
        """The rule at work, nothing called yet."""
        return CooldownTracker(self)


@define(eq=False)
class _Session:
    """Counters of a session: its calls, and of each tool that needs a pause, when and as which it was called last."""

    calls: int = 0
    last: dict[Hashable, tuple[float, int]] = field(factory=dict[Hashable, "tuple[float, int]"])


@define(eq=False)
class CooldownTracker(Tracker):
    """A `Cooldown` at work."""

    rule: Cooldown
    _sessions: Recent[Scope, _Session] = field(factory=lambda: Recent[Scope, _Session](_Session), init=False)

    def refusal(self, call: Call) -> str | None:
        """How long to wait, or how many calls."""
        session = self._sessions.known(scope_of(call.request, "session"))
        if session is None or call.tool not in session.last:
            return None
        at, number = session.last[call.tool]
        wait = at + self.rule.seconds - call.now
        calls = self.rule.calls - (session.calls - number)
        waits = [f"in {wait_text(wait)}"] if wait > 0 else []
        if calls > 0:
            waits.append(f"after {calls} call{'' if calls == 1 else 's'} of other tools")
        return f"it needs a pause between two calls. It may be called again {' and '.join(waits)}." if waits else None

    def begin(self, call: Call) -> _Begun:
        """Counts the call; one of a tool that needs a pause starts it."""
        session = self._sessions.of(scope_of(call.request, "session"))
        session.calls += 1
        before, mine = session.last.get(call.tool), (call.now, session.calls)
        if call.is_of(self.rule.names):
            session.last[call.tool] = mine
        return session, before, mine

    def end(self, call: Call, token: _Begun, result: ToolResult) -> None:
        """Starts the pause anew, as it begins at the end; takes everything back where the tool didn't run."""
        session, before, mine = token
        did_run = ran(result)
        session.calls -= not did_run
        if session.last.get(call.tool) is mine:
            last = (call.now, mine[1]) if did_run else before
            if last is None:
                del session.last[call.tool]
            else:
                session.last[call.tool] = last


_Begun: TypeAlias = tuple[_Session, tuple[float, int] | None, tuple[float, int]]
"""A call that has begun: its session, and when its tool was called before, and now."""


@frozen
class Exclusive(_OfTools):
    """Of a group of tools, only one is used: the first that is called, as often as it is called.

    Attributes:
        tools: Names, or patterns with `*` and `?`; those that match one are the group.
        within: Whether the choice holds for a `"turn"` or for a `"session"`.
    """

    within: Within = field(default="turn", validator=one_of(WITHIN))

    def tracker(self) -> ExclusiveTracker:
        """The rule at work, nothing chosen yet."""
        return ExclusiveTracker(self)


@define(eq=False)
class _Choice:
    """Choice of one tool: for good once a call of it ran, until then for as long as one is under way."""

    first: Call | None = None
    under_way: int = 0
    is_final: bool = False


@define(eq=False)
class ExclusiveTracker(Tracker):
    """An `Exclusive` at work."""

    rule: Exclusive
    _choices: Recent[Scope, _Choice] = field(factory=lambda: Recent[Scope, _Choice](_Choice), init=False)

    def refusal(self, call: Call) -> str | None:
        """Which one was chosen."""
        scope = self._scope(call)
        choice = None if scope is None else self._choices.known(scope)
        if choice is None or choice.first is None or choice.first.tool == call.tool:
            return None
        again = "in the next turn" if self.rule.within == "turn" else "in another session"
        return (
            f"of {self.rule.names} only one may be used in a {self.rule.within}, and it was {choice.first.name}. "
            f"Go on with {choice.first.name}; {call.name} may be called {again}."
        )

    def begin(self, call: Call) -> Scope:
        """Chooses the tool, unless it was chosen before."""
        scope = self._scope(call)
        if scope is not None:
            choice = self._choices.of(scope)
            choice.first = call
            choice.under_way += 1
        return scope

    def end(self, _call: Call, token: Scope, result: ToolResult) -> None:
        """Leaves the choice open again where nothing ran after all."""
        choice = None if token is None else self._choices.known(token)
        if choice is None:
            return
        choice.under_way -= 1
        choice.is_final = choice.is_final or ran(result)
        if not choice.is_final and choice.under_way <= 0:
            choice.first = None

    def _scope(self, call: Call) -> Scope:
        if not call.is_of(self.rule.names):
            return None
        return self.scope(call, self.rule.within, f"the exclusive group {self.rule.names}")


@frozen
class Required(_OfTools):
    """Tools that have to have been called, with success, before a turn may end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; of each, one call.
        within: Whether in every `"turn"` anew, or once in the `"session"`.
    """

    within: Within = field(default="turn", validator=one_of(WITHIN))

    def tracker(self) -> _Successes:
        """The rule at work, nothing called yet; it holds nothing back."""
        return _Successes(self.tools, self.within)


_ANY: Final = "\x00"  # stands in no tool's name


def check_order(after: Sequence[ComesAfter], exclusive: Sequence[Exclusive], required: Sequence[Required]) -> None:
    """Refuses rules that contradict each other.

    Raises:
        ValueError: A tool could never be called, or nothing could do all that is required; with the rules at fault.
    """
    waits = [_Wait(Names(rule.tools), Names((need,)), rule) for rule in after for need in rule.after]
    named = _named(after, exclusive, required)
    for wait in waits:
        _check_pointless(wait)
    possible = _possible(named, waits)
    for name in named:
        if name not in possible:
            raise ValueError(_circle(name, named, waits, possible))
    for group in exclusive:
        _check_group(_Group(Names(group.tools), group), named, waits, required)


@frozen
class _Wait:
    """One tool, or pattern, that others wait for."""

    held: Names
    need: Names
    rule: ComesAfter = field(eq=False)

    def holds(self, name: str) -> bool:
        return name in self.held and name not in self.need


@frozen
class _Group:
    names: Names
    rule: Exclusive


def _named(*families: Iterable[ComesAfter | Exclusive | Required]) -> list[str]:
    """A representative of each name and pattern, in the order in which they stand there."""
    patterns = [
        pattern
        for family in families
        for rule in family
        for pattern in (*rule.tools, *(rule.after if isinstance(rule, ComesAfter) else ()))
    ]
    return list(dict.fromkeys(pattern.replace("*", _ANY).replace("?", _ANY) for pattern in patterns))


def _shown(name: str) -> str:
    return name.replace(_ANY, "*")


def _check_pointless(wait: _Wait) -> None:
    held = [pattern.replace("*", _ANY).replace("?", _ANY) for pattern in wait.held.patterns]
    if not any(wait.holds(name) for name in held):
        raise ValueError(f"{wait.held} can't wait for {wait.need}: those are the same tools")


def _possible(named: Sequence[str], waits: Sequence[_Wait]) -> set[str]:
    """Those that can be called sooner or later: first those that wait for nothing, then those that waited for them."""
    possible: set[str] = set()
    while True:
        more = {name for name in named if name not in possible and not list(_unmet(name, waits, possible))}
        if not more:
            return possible
        possible |= more


def _unmet(name: str, waits: Sequence[_Wait], called: Iterable[str]) -> Iterator[_Wait]:
    for wait in waits:
        if wait.holds(name) and not any(other in wait.need for other in called):
            yield wait


def _circle(name: str, named: Sequence[str], waits: Sequence[_Wait], possible: set[str]) -> str:
    """`a waits for b, b waits for a`."""
    way = [name]
    while True:
        wait = next(_unmet(way[-1], waits, possible))
        following = next(other for other in named if other in wait.need)
        if following in way:
            circle = [*way[way.index(following) :], following]
            break
        way.append(following)
    steps = ", ".join(f"{_shown(one)} waits for {_shown(other)}" for one, other in pairwise(circle))
    return f"the rules contradict each other, so that none of these could ever be called: {steps}. Take one of them out"


def _check_group(group: _Group, named: Sequence[str], waits: Sequence[_Wait], required: Sequence[Required]) -> None:
    """Refuses a group of which one member needs another, or of which two are required."""
    near = [wait for wait in waits if _is_within(wait.rule.within, group.rule.within)]
    for name in named:
        _check_members(group, _forced([name], named, near), f"{_shown(name)} needs ")
    all_required = [
        pattern
        for rule in required
        if _is_within(rule.within, group.rule.within)
        for pattern in rule.tools
        if pattern in named
    ]
    _check_members(group, _forced(all_required, named, near), "the turn needs ")


def _check_members(group: _Group, forced: Sequence[str], before: str) -> None:
    members = [name for name in forced if name in group.names]
    if len(members) > 1:
        raise ValueError(
            f"the rules contradict each other: {before}{listed(map(_shown, forced), 'and')}, but of {group.names} "
            f"only one may be used in a {group.rule.within}. Take one of the rules out"
        )


def _forced(names: Sequence[str], named: Sequence[str], waits: Sequence[_Wait]) -> list[str]:
    """The names, and all that have to be called for their sake; what could be done in several ways is left out."""
    forced = list(names)
    for name in forced:
        for wait in waits:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and len(ways) == 1 and ways[0] not in forced:
                forced.append(ways[0])
    return forced


def _is_within(inner: str, outer: str) -> bool:
    """Whether what has to be done in the one has to be done in the other too: a turn lies in a session."""
    return inner in (outer, "turn")


Rule: TypeAlias = ComesAfter | ComesBefore | Exclusive | Cooldown | Required


class OrderRules(Rules):
    """Denies a call that comes too early, beside another, or too soon again; finds what a turn still lacks.

    Each rule remembers the 1,000 turns or sessions that have called last.

    Args:
        rules: A call has to keep all of them.
        clock: Seconds that only go forward.

    Raises:
        ValueError: The rules contradict each other: some tool could never be called.
    """

    def __init__(self, *rules: Rule, clock: Callable[[], float] = time.monotonic) -> None:
        turned = [rule.turned if isinstance(rule, ComesBefore) else rule for rule in rules]
        trackers = [rule.tracker() for rule in turned]
        check_order(
            [rule for rule in turned if isinstance(rule, ComesAfter)],
            [rule for rule in turned if isinstance(rule, Exclusive)],
            [rule for rule in turned if isinstance(rule, Required)],
        )
        super().__init__(trackers, clock=clock)
        self.rules = rules
        pairs = zip(turned, trackers, strict=True)
        self._required = [each for rule, each in pairs if isinstance(rule, Required) and isinstance(each, _Successes)]

    def missing(self, request: ReadonlyContext) -> tuple[str, ...]:
        """What this turn, or session, still has to call: the names and patterns of `Required`, in their order.

        Args:
            request: What the calls ran for: its `invocation` and its `session` count. Without an invocation nothing
                is known to be missing in a turn.
        """
        with self._lock:
            scopes = [(tracker, course_of(request, tracker.within)) for tracker in self._required]
            missing = [str(name) for tracker, scope in scopes if scope is not None for name in tracker.missing(scope)]
        return tuple(dict.fromkeys(missing))

    def reminder(self, request: ReadonlyContext) -> str | None:
        """What the model has to read before the turn may end, or `None`."""
        missing = self.missing(request)
        return f"Before you finish, call {listed(missing, 'and')}." if missing else None

    @hookimpl
    def pegboard_on_stop(self, context: ReadonlyContext) -> str | None:
        """Lets the turn go on with words that name what is missing; `None` lets it end."""
        return self.reminder(context)
