"""`Required`: tools that have to have been called before a turn ends."""

from __future__ import annotations

from attrs import define, field, frozen

from pegboard import ReadonlyContext
from pegboard_guard.check import as_texts, one_of, texts
from pegboard_guard.names import Names
from pegboard_guard.recent import Recent
from pegboard_guard.scope import WITHIN, Scope, Within, course_of
from pegboard_guard.tracker import Call, Ending


@frozen
class Required:
    """Tools that have to have been called, with success, before a turn may end.

    Attributes:
        tools: Names, or patterns with `*` and `?`; of each, one call.
        within: Whether in every `"turn"` anew, or once in the `"session"`.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())
    within: Within = field(default="turn", validator=one_of(WITHIN))

    def tracker(self) -> RequiredTracker:
        """The rule at work, nothing called yet."""
        return RequiredTracker(self)


def _no_places() -> set[int]:
    return set()


@define(eq=False)
class RequiredTracker:
    """A `Required` at work.

    Attributes:
        rule: The rule.
    """

    rule: Required
    _names: tuple[Names, ...] = field(init=False)
    _met: Recent[Scope, set[int]] = field(factory=lambda: Recent[Scope, "set[int]"](_no_places), init=False)

    def __attrs_post_init__(self) -> None:
        self._names = tuple(Names((pattern,)) for pattern in self.rule.tools)

    def missing(self, request: ReadonlyContext) -> tuple[str, ...]:
        """The names and patterns of which nothing has been called; none where the context names no turn."""
        scope = course_of(request, self.rule.within)
        met = self._met.known(scope) or ()
        return () if scope is None else tuple(str(names) for place, names in enumerate(self._names) if place not in met)

    def refusal(self, _call: Call) -> None:
        """Never: nothing is held back."""

    def begin(self, _call: Call) -> None:
        """Nothing: only what succeeded counts."""

    def end(self, call: Call, _token: None, ending: Ending) -> None:
        """Notes what succeeded."""
        scope = course_of(call.request, self.rule.within)
        if not ending.well or scope is None:
            return
        places = [place for place, names in enumerate(self._names) if call.name in names]
        if places:
            self._met.of(scope).update(places)
