"""`ComesAfter`: a tool that may be called only once others have succeeded."""

from __future__ import annotations

from attrs import define, field, frozen

from pegboard_guard.check import as_texts, one_of, texts
from pegboard_guard.names import Names, listed
from pegboard_guard.recent import Recent
from pegboard_guard.scope import WITHIN, Scope, Within, course_of
from pegboard_guard.tracker import Call, Ending


@frozen
class ComesAfter:
    """Some tools may be called only after others have succeeded.

    A tool that is itself one of those that are waited for isn't held: `ComesAfter("*", after="log_in")` is everything
    but `log_in`.

    Attributes:
        tools: Names, or patterns with `*` and `?`, of those that have to wait.
        after: What each of them waits for: of every name or pattern, one call has to have succeeded.
        within: Whether it has to have been in the same `"turn"`, or in the same `"session"`.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())
    after: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    def tracker(self) -> AfterTracker:
        """The rule at work, nothing called yet."""
        return AfterTracker(self)


@frozen
class ComesBefore:
    """Some tools have to have succeeded before others may be called: `ComesAfter`, told from the other end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; of each, one call has to succeed first.
        before: Names, or patterns, of those that have to wait.
        within: As for `ComesAfter`.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())
    before: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="session", validator=one_of(WITHIN))

    @property
    def turned(self) -> ComesAfter:
        """The same, told from the end of those that wait."""
        return ComesAfter(self.before, self.tools, self.within)


def _no_places() -> set[int]:
    return set()


@define(eq=False)
class AfterTracker:
    """A `ComesAfter` at work.

    Attributes:
        rule: The rule.
    """

    rule: ComesAfter
    _held: Names = field(init=False)
    _awaited: tuple[Names, ...] = field(init=False)
    _met: Recent[Scope, set[int]] = field(factory=lambda: Recent[Scope, "set[int]"](_no_places), init=False)

    def __attrs_post_init__(self) -> None:
        self._held = Names(self.rule.tools)
        self._awaited = tuple(Names((pattern,)) for pattern in self.rule.after)

    def refusal(self, call: Call) -> str | None:
        """Tells what has to succeed first."""
        if call.name not in self._held:
            return None
        met = self._met.known(course_of(call.request, self.rule.within)) or ()
        missing = [
            str(names) for place, names in enumerate(self._awaited) if place not in met and call.name not in names
        ]
        if not missing:
            return None
        return (
            f"it may be called only after {listed(missing, 'and')} succeeded in this {self.rule.within}. "
            f"Call {missing[0]} first, and wait for its result."
        )

    def begin(self, _call: Call) -> None:
        """Nothing: only what succeeded counts."""

    def end(self, call: Call, _token: None, ending: Ending) -> None:
        """Notes what succeeded."""
        scope = course_of(call.request, self.rule.within)
        if not ending.well or scope is None:
            return
        places = [place for place, names in enumerate(self._awaited) if call.name in names]
        if places:
            self._met.of(scope).update(places)
