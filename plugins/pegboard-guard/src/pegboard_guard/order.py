"""Order rules: tools that come first, exclude each other, need a pause, or are required.

Rules may contradict each other, so that some tool could never be called. As patterns match tools that aren't known yet,
the rules are tried on representatives: each name in them, and for each pattern a name that matches it and as little
else as possible.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from attrs import define, field, frozen

from pegboard import ModelRequest, ModelResponse, ReadonlyContext, ToolResult, hookimpl
from pegboard_guard.closing import Distinct, EndsTurn, EndTracker, NotAfter
from pegboard_guard.counters import Counters
from pegboard_guard.rules import (
    WITHIN,
    Call,
    Names,
    OfTools,
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
class ComesAfter(OfTools):
    """Some tools may be called only after others have succeeded.

    A tool doesn't wait for itself: `ComesAfter("*", after="log_in")` is everything but `log_in`.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that have to wait.
        after: What each of them waits for: one successful call for every name or pattern.
        within: Whether that has to be in the same `"turn"`, or in the same `"session"`.
    """

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def tracker(self) -> AfterTracker:
        """A new tracker of this rule."""
        return AfterTracker(self.after, self.within, held=self.names)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Call {self.names} only after {listed(self.after, 'and')} succeeded in this {self.within}."


@frozen
class ComesBefore(OfTools):
    """Some tools must succeed before others may be called: the reverse of `ComesAfter`.

    Attributes:
        tools: Names, or patterns with `*` and `?`; one call for each has to succeed first.
        before: Names, or patterns, of those that have to wait.
        within: As for `ComesAfter`.
    """

    before: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def turned(self) -> ComesAfter:
        """The equivalent `ComesAfter`."""
        return ComesAfter(self.before, self.tools, self.within)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return self.turned.sentence


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
    _values: Recent[Scope, set[int]] = field(factory=lambda: Recent[Scope, "set[int]"](set[int]), init=False)

    def __attrs_post_init__(self) -> None:
        self._names = tuple(Names((pattern,)) for pattern in self.patterns)

    @property
    def label(self) -> str:
        """The names and patterns."""
        return f"{type(self).__name__} {self.patterns} {self.within}"

    def key(self, call: Call) -> Scope:
        """The turn or session."""
        return course_of(call.request, self.within)

    def load(self, key: Scope, data: Any) -> None:
        """Sets the places of those with a successful call."""
        self._values.of(key).update(data)

    def dump(self, key: Scope) -> Any:
        """The places of those with a successful call."""
        return sorted(self._values.known(key) or ()) or None

    def missing(self, scope: Scope) -> list[Names]:
        """The names and patterns without a successful call."""
        met = self._values.known(scope) or ()
        return [names for place, names in enumerate(self._names) if place not in met]

    def end(self, call: Call, _token: None, result: ToolResult) -> None:
        """Records a successful call."""
        scope = course_of(call.request, self.within)
        places = [place for place, names in enumerate(self._names) if call.is_of(names)]
        if not result.is_error and scope is not None and places:
            self._values.of(scope).update(places)


@define(eq=False)
class AfterTracker(_Successes):
    """Tracker of a `ComesAfter`: the `held` tools wait for the others."""

    held: Names = field(kw_only=True)

    @property
    def label(self) -> str:
        """The names and patterns, and those that wait."""
        return f"{super().label} {self.held}"

    def refusal(self, call: Call) -> str | None:
        """What has to succeed first."""
        if not call.is_of(self.held):
            return None
        unmet = self.missing(course_of(call.request, self.within))
        missing = [str(names) for names in unmet if not call.is_of(names)]
        if not missing:
            return None
        return (
            f"{listed(missing, 'and')} must succeed first in this {self.within}. "
            f"Call {missing[0]}, wait for its result, then call this tool again."
        )


@frozen
class Cooldown(OfTools):
    """A pause between two calls of the same tool, in one session.

    Attributes:
        tools: Names, or patterns with `*` and `?`; each tool that matches has a pause of its own.
        seconds: Its length: from the end of one call, or its start while it is running, to the start of the next.
        calls: How many calls of other tools have to come in between.
    """

    seconds: float = field(default=0, validator=seconds())
    calls: int = field(default=0, validator=whole())

    def __attrs_post_init__(self) -> None:
        if not self.seconds and not self.calls:
            raise ValueError(f"a cooldown of {self.names} needs seconds, or calls, or both")

    def tracker(self) -> CooldownTracker:
        """A new tracker of this rule."""
        return CooldownTracker(self)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        waits = [f"wait {wait_text(self.seconds)}"] if self.seconds else []
        waits += [f"make {self.calls} call{'' if self.calls == 1 else 's'} of other tools"] if self.calls else []
        return f"Between two calls of {self.names}, {' and '.join(waits)}."


@define(eq=False)
class _Session:
    """Counters of a session: its calls, and for each tool with a pause, the time and number of its last call."""

    calls: int = 0
    last: dict[tuple[str, str], tuple[float, int]] = field(factory=dict["tuple[str, str]", "tuple[float, int]"])


@define(eq=False)
class CooldownTracker(Tracker):
    """Tracker of a `Cooldown`."""

    rule: Cooldown
    _values: Recent[Scope, _Session] = field(factory=lambda: Recent[Scope, _Session](_Session), init=False)

    @property
    def label(self) -> str:
        """The rule."""
        return f"{self.rule}"

    def key(self, call: Call) -> Scope:
        """The session."""
        return scope_of(call.request, "session")

    def load(self, key: Scope, data: Any) -> None:
        """Sets the number of calls, and each tool with the time and number of its last one."""
        session = self._values.of(key)
        session.calls, session.last = data[0], {(owner, name): (at, number) for owner, name, at, number in data[1]}

    def dump(self, key: Scope) -> Any:
        """The number of calls, and each tool with the time and number of its last one."""
        session = self._values.known(key)
        return session and [session.calls, [[*tool, *last] for tool, last in session.last.items()]]

    def loaded_token(self, key: Scope, token: _Begun) -> _Begun:
        """The session here, with the tool's last call there, if that is still the last."""
        session, current = self._values.of(key), token[2]
        return session, token[1], next((each for each in session.last.values() if each == current), current)

    def refusal(self, call: Call) -> str | None:
        """How long to wait, or how many calls."""
        session = self._values.known(self.key(call))
        if session is None or call.tool not in session.last:
            return None
        at, number = session.last[call.tool]
        wait = at + self.rule.seconds - call.now
        calls = self.rule.calls - (session.calls - number)
        waits = [f"in {wait_text(wait)}"] if wait > 0 else []
        if calls > 0:
            waits.append(f"after {calls} call{'' if calls == 1 else 's'} of other tools")
        return f"it was called too soon after its last call. Call it again {' and '.join(waits)}." if waits else None

    def begin(self, call: Call) -> _Begun:
        """Counts the call; a tool with a pause starts it."""
        session = self._values.of(self.key(call))
        session.calls += 1
        before, current = session.last.get(call.tool), (call.now, session.calls)
        if call.is_of(self.rule.names):
            session.last[call.tool] = current
        return session, before, current

    def end(self, call: Call, token: _Begun, result: ToolResult) -> None:
        """Restarts the pause at the end of the call; undoes `begin` if the tool didn't run."""
        session, before, current = token
        did_run = ran(result)
        session.calls -= not did_run
        if session.last.get(call.tool) is current:
            last = (call.now, current[1]) if did_run else before
            if last is None:
                del session.last[call.tool]
            else:
                session.last[call.tool] = last


_Begun: TypeAlias = tuple[_Session, tuple[float, int] | None, tuple[float, int]]
"""A call that has begun: its session, and the time and number of its tool's call before, and of this one."""


@frozen
class Exclusive(OfTools):
    """Only one of a group of tools may be used: the first that is called, any number of times.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of the group.
        within: Whether the choice is for a `"turn"` or for a `"session"`.
    """

    within: Within = field(default="turn", validator=one_of(WITHIN))

    def tracker(self) -> ExclusiveTracker:
        """A new tracker of this rule."""
        return ExclusiveTracker(self)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Use only one of {self.names} in a {self.within}: the one that you call first."


@define(eq=False)
class _Choice:
    """Choice of one tool: permanent once a call of it ran, until then as long as one is running."""

    first: tuple[tuple[str, str], str] | None = None  # what identifies the tool, and its name
    running: int = 0
    is_final: bool = False


@define(eq=False)
class ExclusiveTracker(Tracker):
    """Tracker of an `Exclusive`."""

    rule: Exclusive
    _values: Recent[Scope, _Choice] = field(factory=lambda: Recent[Scope, _Choice](_Choice), init=False)

    @property
    def label(self) -> str:
        """The rule."""
        return f"{self.rule}"

    def load(self, key: Scope, data: Any) -> None:
        """Sets the chosen tool, its number of running calls, and whether the choice is permanent."""
        choice = self._values.of(key)
        first, choice.running, choice.is_final = data
        choice.first = first and ((first[0], first[1]), first[2])

    def dump(self, key: Scope) -> Any:
        """The chosen tool, its number of running calls, and whether the choice is permanent."""
        choice = self._values.known(key)
        return choice and [choice.first and [*choice.first[0], choice.first[1]], choice.running, choice.is_final]

    def loaded_token(self, key: Scope, token: _Choice | None) -> _Choice | None:
        """The choice here."""
        return token and self._values.of(key)

    def refusal(self, call: Call) -> str | None:
        """The tool that was chosen instead."""
        scope = self.key(call)
        choice = None if scope is None else self._values.known(scope)
        if choice is None or choice.first is None or choice.first[0] == call.tool:
            return None
        chosen = choice.first[1]
        again = "in the next turn" if self.rule.within == "turn" else "in another session"
        return (
            f"only one of {self.rule.names} can be used in a {self.rule.within}, and {chosen} was used. "
            f"Continue with {chosen}; {call.name} can be called {again}."
        )

    def begin(self, call: Call) -> _Choice | None:
        """Chooses the tool."""
        scope = self.key(call)
        if scope is None:
            return None
        choice = self._values.of(scope)
        choice.first = call.tool, call.name
        choice.running += 1
        return choice

    def end(self, _call: Call, choice: _Choice | None, result: ToolResult) -> None:
        """Undoes the choice if nothing ran after all."""
        if choice is None:
            return
        choice.running -= 1
        choice.is_final = choice.is_final or ran(result)
        if not choice.is_final and not choice.running:
            choice.first = None

    def key(self, call: Call) -> Scope:
        """The turn or session, for a tool of the group."""
        if not call.is_of(self.rule.names):
            return None
        return self.scope(call, self.rule.within, f"the exclusive group {self.rule.names}")


@frozen
class Required(OfTools):
    """Tools that must be called successfully before a turn may end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; one call for each.
        within: Whether in every `"turn"`, or once in the `"session"`.
        when: Names, or patterns, of the tools that make it necessary: then, and only then, each of `tools` has to
            succeed after the last call of them. Empty: always.
    """

    within: Within = field(default="turn", validator=one_of(WITHIN))
    when: tuple[str, ...] = field(default=(), converter=as_texts, validator=texts(least=0))

    def tracker(self) -> RequiredTracker:
        """A new tracker of this rule, which refuses no call."""
        return RequiredTracker(self.tools, self.within, when=Names(self.when) if self.when else None)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        after = f" after your last call of {listed(self.when)}" if self.when else ""
        return f"Before you finish, call {listed(self.tools, 'and')}{after}."


_CONDITION: Final = -1  # among the places of the tools with a successful call


@define(eq=False)
class RequiredTracker(_Successes):
    """Tracker of a `Required`."""

    when: Names | None = field(default=None, kw_only=True)

    @property
    def label(self) -> str:
        """The names and patterns, and the condition."""
        return super().label if self.when is None else f"{super().label} when {self.when}"

    def missing(self, scope: Scope) -> list[Names]:
        """The names and patterns without a successful call, if they are necessary."""
        is_needed = self.when is None or _CONDITION in (self._values.known(scope) or ())
        return super().missing(scope) if is_needed else []

    def end(self, call: Call, token: None, result: ToolResult) -> None:
        """Records that the tools are necessary from now on, or a successful call."""
        scope = course_of(call.request, self.within)
        if self.when is not None and scope is not None and call.is_of(self.when) and ran(result):
            places = self._values.of(scope)
            places.clear()
            places.add(_CONDITION)
        super().end(call, token, result)


_ANY: Final = "\x00"  # in no tool's name


def check_order(
    after: Sequence[ComesAfter],
    exclusive: Sequence[Exclusive],
    required: Sequence[Required],
    closed: Sequence[NotAfter] = (),
) -> None:
    """Refuses rules that contradict each other.

    Raises:
        ValueError: A tool could never be called, or not all that is required; names the rules.
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
    for rule in closed:
        _check_closed(rule, named, waits)


@frozen
class _Wait:
    """A tool or pattern that others wait for."""

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
    """A representative of each name and pattern, in their order."""
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
    """The names that can be called at some time: those that wait for nothing, then those that waited for them."""
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
    """Refuses a group in which one member needs another, or two are required."""
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


def _check_closed(rule: NotAfter, named: Sequence[str], waits: Sequence[_Wait]) -> None:
    """Refuses a rule that closes a tool as soon as what it waits for has run."""
    near = [wait for wait in waits if _is_within(wait.rule.within, rule.within)]
    for name in named:
        for wait in near:
            ways = [other for other in named if other in wait.need]
            if name in rule.names and wait.holds(name) and all(other in rule.closing for other in ways):
                raise ValueError(
                    f"the rules contradict each other: {_shown(name)} waits for {wait.need}, and may not be called any "
                    f"more once {rule.closing} ran. Take one of the rules out"
                )


def _check_members(group: _Group, forced: Sequence[str], before: str) -> None:
    members = [name for name in forced if name in group.names]
    if len(members) > 1:
        raise ValueError(
            f"the rules contradict each other: {before}{listed(map(_shown, forced), 'and')}, but of {group.names} "
            f"only one may be used in a {group.rule.within}. Take one of the rules out"
        )


def _forced(names: Sequence[str], named: Sequence[str], waits: Sequence[_Wait]) -> list[str]:
    """The names with all that must be called before them, as far as there is only one way."""
    forced = list(names)
    for name in forced:
        for wait in waits:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and len(ways) == 1 and ways[0] not in forced:
                forced.append(ways[0])
    return forced


def _is_within(inner: str, outer: str) -> bool:
    """Whether what must be done within `inner` must be done within `outer` too: a turn is part of a session."""
    return inner in (outer, "turn")


Rule: TypeAlias = ComesAfter | ComesBefore | Exclusive | Cooldown | Required | NotAfter | Distinct | EndsTurn


class OrderRules(Rules):
    """Guard that denies calls that are too early, excluded or too soon, and finds what a turn still lacks.

    Each rule tracks the 1,000 turns or sessions with the latest calls.

    Args:
        rules: All of them apply.
        clock: Monotonic clock, in seconds.

    Raises:
        ValueError: The rules contradict each other: some tool could never be called.
    """

    def __init__(self, *rules: Rule, clock: Callable[[], float] = time.monotonic) -> None:
        uniform = [rule.turned if isinstance(rule, ComesBefore) else rule for rule in rules]
        trackers = [rule.tracker() for rule in uniform]
        check_order(
            [rule for rule in uniform if isinstance(rule, ComesAfter)],
            [rule for rule in uniform if isinstance(rule, Exclusive)],
            [rule for rule in uniform if isinstance(rule, Required) and not rule.when],
            [rule for rule in uniform if isinstance(rule, NotAfter)],
        )
        super().__init__(trackers, clock=clock)
        self.rules = rules
        pairs = zip(uniform, trackers, strict=True)
        self._required = [
            each for rule, each in pairs if isinstance(rule, Required) and isinstance(each, RequiredTracker)
        ]

    def missing(self, request: ReadonlyContext) -> tuple[str, ...]:
        """What this turn, or session, still has to call: the names and patterns of `Required`, in their order.

        Args:
            request: The context of the calls: its `invocation` and its `session` count. Without an invocation nothing
                is missing in a turn.
        """
        with self._lock:
            return self._missing(request, self._required)

    @staticmethod
    def _missing(request: ReadonlyContext, required: Iterable[RequiredTracker]) -> tuple[str, ...]:
        scopes = [(tracker, course_of(request, tracker.within)) for tracker in required]
        missing = [str(name) for tracker, scope in scopes if scope is not None for name in tracker.missing(scope)]
        return tuple(dict.fromkeys(missing))

    def ended(self, request: ReadonlyContext) -> str | None:
        """The tool of an `EndsTurn` that has succeeded in this turn, if there is one: the turn ends."""
        with self._lock:
            names = (each.ended(request) for each in self.trackers if isinstance(each, EndTracker))
            return next(filter(None, names), None)

    def reminder(self, request: ReadonlyContext) -> str | None:
        """The message for the model if calls are missing, else `None`."""
        return _reminder(self.missing(request))

    async def shared_reminder(self, request: ReadonlyContext, counters: Counters) -> str | None:
        """`reminder` by what all processes have counted."""
        missing = list[str]()

        def look(trackers: Sequence[Tracker], _call: Call) -> bool:
            places = [self.trackers.index(each) for each in self._required]
            of_all = cast("list[RequiredTracker]", [trackers[place] for place in places])
            missing[:] = self._missing(request, of_all)
            return False

        await self._change(counters, Call("", request, 0.0), look)
        return _reminder(missing)

    @hookimpl
    def pegboard_on_stop(self, context: ReadonlyContext) -> str | Awaitable[str | None] | None:
        """Continues the turn with a message that names the missing calls; `None` lets it end.

        A turn that an `EndsTurn` has ended isn't continued, nor is that of an agent, which is a part of its caller's.
        """
        if context.root is not None or self.ended(context) is not None:
            return None
        if self._required and self._counters is not None:
            return self.shared_reminder(context, self._counters)
        return self.reminder(context)

    @hookimpl
    async def pegboard_before_model(self, context: ReadonlyContext, request: ModelRequest) -> ModelResponse | None:
        """Ends a turn in which a tool of an `EndsTurn` has succeeded, in place of the next request.

        A turn whose output has a type ends as one that is cut off, as it has none.
        """
        if (name := self.ended(context)) is None:
            return None
        text = f"{name} succeeded, which ends the turn."
        is_typed = request.output is not None or any(tool.name == "final_result" for tool in request.offered)
        return ModelResponse(text, interrupted=is_typed, error_message=text)


def _reminder(missing: Sequence[str]) -> str | None:
    return f"Before you finish, call {listed(missing, 'and')}." if missing else None
