"""`Cooldown`: a pause between two calls of a tool."""

from __future__ import annotations

from attrs import define, field, frozen

from pegboard_guard.check import as_texts, seconds, texts, whole
from pegboard_guard.limit import wait_text
from pegboard_guard.names import Names
from pegboard_guard.recent import Recent
from pegboard_guard.scope import Scope, scope_of
from pegboard_guard.tracker import Call, Ending


@frozen
class Cooldown:
    """A pause between two calls of the same tool, in one session.

    Attributes:
        tools: Names, or patterns with `*` and `?`; each tool that matches has a pause of its own.
        seconds: How long it is: from the end of one call, or its start while it is under way, to the start of the next.
        calls: How many calls of other tools have to come between.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())
    seconds: float = field(default=0, validator=seconds())
    calls: int = field(default=0, validator=whole())

    def __attrs_post_init__(self) -> None:
        if not self.seconds and not self.calls:
            raise ValueError(f"a cooldown of {Names(self.tools)} needs seconds, or calls, or both")

    def tracker(self) -> CooldownTracker:
        """The rule at work, nothing called yet."""
        return CooldownTracker(self)


@frozen
class _Last:
    """When a tool was called last, and how many calls the session had made by then."""

    at: float
    number: int


@define(eq=False)
class _Slot:
    last: _Last | None = None


@define(eq=False)
class _Count:
    calls: int = 0


@frozen
class _Begun:
    """A call that has begun: where it is counted, and of a tool that needs a pause, what it changed."""

    count: _Count
    slot: _Slot | None = None
    before: _Last | None = None
    mine: _Last | None = None


@define(eq=False)
class CooldownTracker:
    """A `Cooldown` at work.

    Attributes:
        rule: The rule.
    """

    rule: Cooldown
    _names: Names = field(init=False)
    _counts: Recent[Scope, _Count] = field(factory=lambda: Recent[Scope, _Count](_Count), init=False)
    _slots: Recent[Scope, _Slot] = field(factory=lambda: Recent[Scope, _Slot](_Slot), init=False)

    def __attrs_post_init__(self) -> None:
        self._names = Names(self.rule.tools)

    def refusal(self, call: Call) -> str | None:
        """Tells how long to wait, or how many calls."""
        if call.name not in self._names:
            return None
        scope = scope_of(call.request, "session")
        slot, count = self._slots.known((scope, call.name)), self._counts.known(scope)
        if slot is None or slot.last is None or count is None:
            return None
        wait = slot.last.at + self.rule.seconds - call.now
        calls = self.rule.calls - (count.calls - slot.last.number)
        waits = [f"in {wait_text(wait)}"] if wait > 0 else []
        if calls > 0:
            waits.append(f"after {calls} call{'' if calls == 1 else 's'} of other tools")
        return f"it needs a pause between two calls. It may be called again {' and '.join(waits)}." if waits else None

    def begin(self, call: Call) -> _Begun:
        """Counts the call; one of a tool that needs a pause starts it."""
        scope = scope_of(call.request, "session")
        count = self._counts.of(scope)
        count.calls += 1
        if call.name not in self._names:
            return _Begun(count)
        slot = self._slots.of((scope, call.name))
        before, slot.last = slot.last, _Last(call.now, count.calls)
        return _Begun(count, slot, before, slot.last)

    def end(self, call: Call, token: _Begun, ending: Ending) -> None:
        """Starts the pause anew, as it begins at the end; takes everything back where the tool didn't run."""
        slot, mine = token.slot, token.mine
        if not ending.ran:
            token.count.calls -= 1
        if slot is not None and mine is not None and slot.last is mine:
            slot.last = _Last(call.now, mine.number) if ending.ran else token.before
