"""`OrderRules`: the guard that enforces rules on the order of calls, and on what is over."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, cast

from pegboard import ModelRequest, ModelResponse, ReadonlyContext, hookimpl
from pegboard_guard.closing import Distinct, EndsTurn, EndTracker, NotAfter
from pegboard_guard.contradictions import check_order
from pegboard_guard.counters import Counters
from pegboard_guard.ordering import ComesAfter, ComesBefore, Cooldown, Exclusive, Required, RequiredTracker
from pegboard_guard.rules import Call, Rules, Tracker, course_of, listed

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
