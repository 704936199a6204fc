"""Rules on the order of calls: tools that come first, exclude each other, need a pause, or are required."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from pegboard import ToolResult
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
