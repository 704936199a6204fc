"""Rules on the order of calls: tools that come first, exclude each other, need a pause, or are required."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from attrs import define, field, frozen

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
class ComesAfter(Rule):
    """Some tools may be called only after others have succeeded.

    A tool doesn't wait for itself: `ComesAfter("*", after="log_in")` is everything but `log_in`.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that have to wait.
        after: What each of them waits for: one successful call for every name or pattern.
        within: Whether that has to be in the same `"turn"`, or in the same `"session"`.
    """

    State = Successes

    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @cached_property
    def needs(self) -> tuple[Names, ...]:
        """What the tools wait for."""
        return tuple(Names((pattern,)) for pattern in self.after)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Call {self.names} only after {join_words(self.after, 'and')} succeeded in this {self.within}."

    def scope(self, call: Call) -> Scope:
        """The turn or session."""
        return course_of(call.request, self.within)

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

    def end(self, call: Call, state: Successes, token: None, end: End) -> None:
        """Records a successful call."""
        del token
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

    def concerns(self, call: Call) -> bool:
        """All calls, as they are counted."""
        del call
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

    within: Within = field(default="turn", validator=one_of(WITHIN))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return f"Use only one of {self.names} in a {self.within}: the one that you call first."

    @property
    def title(self) -> str:
        """The rule in a warning."""
        return f"the exclusive group {self.names}"

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

    def end(self, call: Call, state: FirstCall, token: None, end: End) -> None:
        """Undoes the choice if nothing ran after all."""
        del call, token
        state.end(end)


@frozen
class Required(Rule):
    """Tools that must be called successfully before a turn may end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; one call for each.
        within: Whether in every `"turn"`, or once in the `"session"`.
        when: Names, or patterns, of the tools that make it necessary: then, and only then, each of `tools` has to
            succeed in a call that starts after the last call of them has ended. Empty: always.
    """

    State = Successes
    is_for_end = True

    within: Within = field(default="turn", validator=one_of(WITHIN))
    when: tuple[str, ...] = field(default=(), converter=as_texts, validator=texts(least=0))

    @cached_property
    def needs(self) -> tuple[Names, ...]:
        """What has to succeed."""
        return tuple(Names((pattern,)) for pattern in self.tools)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        after = f" after your last call of {self.condition}" if self.when else ""
        return f"Before you finish, call {join_words(self.tools, 'and')}{after}."

    def scope(self, call: Call) -> Scope:
        """The turn or session."""
        return course_of(call.request, self.within)

    def missing(self, state: Successes) -> list[Names]:
        """The names and patterns without a successful call, if they are necessary."""
        return [] if self.when and not state.starts else state.missing(self.needs)

    def begin(self, call: Call, state: Successes) -> int:
        """Which calls have made it necessary before this one."""
        del call
        return state.starts

    def end(self, call: Call, state: Successes, token: int, end: End) -> None:
        """Records that the tools are necessary from now on, or a successful call."""
        is_late_enough = token == state.starts
        if end.ran and call.is_of(self.condition):
            state.places.clear()
            state.starts += 1
        if end.kind is None and is_late_enough:
            state.record(call, self.needs)
