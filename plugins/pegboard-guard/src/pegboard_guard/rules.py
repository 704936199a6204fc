"""Rules on calls: names, scopes, trackers, and limits on how many calls there may be."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar, get_args

import attrs
from attrs import define, field, frozen

from pegboard import ReadonlyContext, Tool, ToolContext, ToolResult, hookimpl
from pegboard.errors import log_failure
from pegboard.json import digest_of
from pegboard.toolsets.predicates import matcher
from pegboard_guard.counters import Counters, counters_of, key_of
from pegboard_guard.log import of_call, unknown_turn
from pegboard_guard.settings import NOT_A_SETTING, as_texts, flag, one_of, seconds, texts, whole

if TYPE_CHECKING:
    from pegboard import Deny


def digest_or_none(value: Any) -> str | None:
    """`"sha256:..."` over JSON data, the same for the same call; `None` if it isn't JSON."""
    try:
        return digest_of(value)
    except (TypeError, ValueError, RecursionError):
        return None


class Names:
    """Set of tools by name patterns: `*` is any run of characters, `?` is one.

    Args:
        patterns: Names and patterns.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._matchers = tuple(matcher(pattern) for pattern in self.patterns)

    def __contains__(self, name: str) -> bool:
        return any(matches(name) for matches in self._matchers)

    def __str__(self) -> str:
        return listed(self.patterns)


@frozen
class OfTools:
    """Base of rules about some tools.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
    """

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())

    @cached_property
    def names(self) -> Names:
        """The tools that the rule is about."""
        return Names(self.tools)

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        raise NotImplementedError


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
MOST: Final = 1000


@define(eq=False)
class Recent(Generic[K, V]):
    """LRU cache of a value for each key. Not thread-safe.

    Attributes:
        make: Makes the value of a new key.
        most: How many keys are stored; the least recently used is dropped first.
    """

    make: Callable[[], V]
    most: int = MOST
    _values: OrderedDict[K, V] = field(factory=OrderedDict[K, V], init=False)

    def __len__(self) -> int:
        return len(self._values)

    def of(self, key: K) -> V:
        """The value of a key, made if there is none."""
        value = self._values.pop(key, None)
        if value is None:
            value = self.make()
        self._values[key] = value
        if len(self._values) > self.most:
            self._values.popitem(last=False)
        return value

    def known(self, key: K) -> V | None:
        """The value of a key, or `None`; doesn't count as a use."""
        return self._values.get(key)

    def items(self) -> Iterable[tuple[K, V]]:
        """The keys with their values, the least recently used first."""
        return self._values.items()


Within: TypeAlias = Literal["turn", "session"]
Per: TypeAlias = Literal["turn", "session", "user", "registry"]
WITHIN: Final[tuple[Within, ...]] = get_args(Within)
PER: Final[tuple[Per, ...]] = get_args(Per)
Scope: TypeAlias = Hashable
"""Key of all calls that count together; `None` if a context doesn't name its turn."""


def scope_of(request: ReadonlyContext, per: Per) -> Scope:
    """The key of all calls that count together with one of this context.

    A turn is the host's invocation, or else one message of the model's. Sessions and turns are separate for each user.
    Calls without a session share one unnamed session. Calls of an agent count in the session and turn of its caller.
    """
    top = request.root or request
    if per == "registry":
        return "registry"
    if per == "user":
        return ("user", top.user)
    if per == "session":
        return ("session", top.user, top.session)
    turn = _invocation_of(request) or top.message
    return None if turn is None else ("turn", top.user, top.session, turn)


def course_of(request: ReadonlyContext, within: Within) -> Scope:
    """The key of the calls of a session, or of a whole turn, never of one message only."""
    if within == "session":
        return scope_of(request, within)
    return None if _invocation_of(request) is None else scope_of(request, within)


def _invocation_of(request: ReadonlyContext) -> str | None:
    """The turn at the top; if that isn't known, an agent's own."""
    return (request.root or request).invocation or request.invocation


def streak_of(request: ReadonlyContext) -> Scope:
    """The key of the calls that form one row: of the session, or else the turn; `None` if neither is known."""
    return scope_of(request, "turn" if request.session is None else "session")


NOT_RUN: Final = frozenset(
    (
        "unknown_tool",
        "not_offered",
        "invalid_arguments",
        "denied",
        "rejected",
        "confirmation_required",
        "skipped",
        "not_executed",
        "cut_off",
        "limit",
    )
)
"""Kinds of results for which the tool surely did not run."""


@frozen
class Call:
    """Call as rules see it.

    Attributes:
        name: The name that the tool is offered under.
        request: Its user, session and turn.
        now: Of the rules' clock, in seconds.
        former_names: Those that it had before it was renamed, its own first: renaming doesn't bypass a rule.
        owner: The distribution, else the plugin, that brings the tool; `""` for the host's own.
        digest: That of its arguments, if a rule compares them.
    """

    name: str
    request: ReadonlyContext
    now: float
    former_names: tuple[str, ...] = ()
    owner: str = ""
    digest: str | None = None

    @classmethod
    def of(cls, tool: Tool, request: ReadonlyContext, now: float) -> Call:
        """A call of a tool."""
        return cls(tool.name, request, now, tool.former_names, tool.origin.distribution or tool.origin.plugin or "")

    @property
    def tool(self) -> tuple[str, str]:
        """Identifies the tool, whatever name it is offered under."""
        return self.owner, (*self.former_names, self.name)[0]

    def is_of(self, names: Names) -> bool:
        """Whether one of the tool's names is among these."""
        return any(name in names for name in (self.name, *self.former_names))


def ran(result: ToolResult) -> bool:
    """Whether the tool ran, or may have."""
    return result.kind not in NOT_RUN


class Tracker:
    """One rule with its state. Only one thread at a time is in any of these methods."""

    compares_arguments = False
    """Whether it needs the digest of a call's arguments."""

    rule: Any
    _has_warned = False
    _values: Recent[Any, Any]

    def scope(self, call: Call, per: Per, rule: str) -> Scope:
        """The key of what counts together with a call; warns once of a context that doesn't name its turn."""
        scope = scope_of(call.request, per)
        if scope is None and not self._has_warned:
            self._has_warned = True
            unknown_turn(rule)
        return scope

    @property
    def label(self) -> str:
        """Identifies the rule, the same in every process."""
        return f"{self.rule}"

    def key(self, call: Call, /) -> Scope:
        """The key of the state for a call; `None` if there is none."""
        raise NotImplementedError

    def fresh(self) -> Self:
        """The rule without any state."""
        return attrs.evolve(self)  # pyright: ignore[reportArgumentType]  each is an attrs class

    def load(self, key: Scope, data: Any, /) -> None:
        """Sets the state of a key, as JSON data."""
        raise NotImplementedError

    def dump(self, key: Scope, /) -> Any:
        """The state of a key as JSON data, or `None`."""
        raise NotImplementedError

    def loaded_token(self, key: Scope, token: Any, /) -> Any:
        """What `begin` returned in another copy, for `end` in this one, which has loaded the key's state."""
        del key
        return token

    def refusal(self, call: Call, /) -> str | None:
        """Why the call may not start now, as sentences for the model; `None` if it may. Changes nothing."""

    def begin(self, call: Call, /) -> Any:
        """Records the start of the call; the return value is passed to `end`."""

    def end(self, call: Call, token: Any, result: ToolResult, /) -> None:
        """Records the result of the call; its `now` is the time of its end."""


MOST_REFUSALS: Final = 3


@define(eq=False)
class Rules:
    """Lets a call start if no tracker refuses it; either all of them record it or none. Thread-safe.

    Attributes:
        trackers: The rules.
        clock: Monotonic clock, in seconds.
    """

    trackers: Sequence[Tracker]
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True, metadata=NOT_A_SETTING)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _key: str = field(init=False)

    _counters: Counters | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._key = f"pegboard_guard.rules.{id(self)}"

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Deny | None:
        """Denies the call, or records its start."""
        call, refusals, tokens = Call.of(tool, context.request, self.clock()), list[str](), list[Any]()
        if any(tracker.compares_arguments for tracker in self.trackers):
            call = attrs.evolve(call, digest=digest_or_none(dict(arguments)))

        def begin(trackers: Sequence[Tracker], call: Call) -> bool:
            refusals[:] = [text for tracker in trackers if (text := tracker.refusal(call)) is not None]
            tokens[:] = () if refusals else [tracker.begin(call) for tracker in trackers]
            return not refusals

        self._counters = counters = await counters_of(context)
        if counters is None:
            with self._lock:
                begin(self.trackers, call)
        else:
            await self._change(counters, call, begin)
        if not refusals:
            context.values[of_call(self._key, context)] = tokens
            return None
        from pegboard import Deny

        return Deny(" ".join(refusals[:MOST_REFUSALS]))

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, tool: Tool | None, result: ToolResult) -> None:
        """Records the result of the call; one that didn't run doesn't count."""
        tokens: list[Any] | None = context.values.pop(of_call(self._key, context), None)
        if tokens is None or tool is None:
            return
        call, counters = Call.of(tool, context.request, self.clock()), self._counters
        if counters is None:
            with self._lock:
                for tracker, token in zip(self.trackers, tokens, strict=True):
                    tracker.end(call, token, result)
            return

        def end(trackers: Sequence[Tracker], call: Call) -> bool:
            for tracker, token in zip(trackers, tokens, strict=True):
                tracker.end(call, tracker.loaded_token(tracker.key(call), token), result)
            return True

        try:
            await self._change(counters, call, end)
        except Exception as error:  # noqa: BLE001  a host's store: the call has its result
            log_failure("counting a call", error)

    async def _change(self, counters: Counters, call: Call, change: Callable[[Sequence[Tracker], Call], bool]) -> None:
        """Calls `change` with trackers that have the shared state of a call; stores the state if it returns true."""
        scopes = [tracker.key(call) for tracker in self.trackers]
        keys = [key_of(place, each.label, scopes[place]) for place, each in enumerate(self.trackers)]

        def update(now: float, known: dict[str, Any]) -> dict[str, Any]:
            trackers = [tracker.fresh() for tracker in self.trackers]
            shared = [each for each in zip(trackers, scopes, keys, strict=True) if each[1] is not None]
            for tracker, scope, key in shared:
                if known.get(key) is not None:
                    tracker.load(scope, known[key])
            if not change(trackers, attrs.evolve(call, now=now)):
                return {}
            return {key: tracker.dump(scope) for tracker, scope, key in shared}

        await counters.update([key for key, scope in zip(keys, scopes, strict=True) if scope is not None], update)


MOST_CALLS: Final = 100_000
_MOST_TIMES: Final = 1_000_000  # stored by one limit, over all sessions
_AGAIN: Final = {
    "turn": "Call it again in the next turn, after the user's next message; until then, continue without it",
    "session": "Don't call it again in this session; continue without it",
    "user": "Don't call it again for this user; continue without it",
    "registry": "Don't call it again; continue without it",
}


_WHERE: Final = {"turn": " in one turn", "session": " in one session", "user": " for one user", "registry": ""}


@frozen
class Limit:
    """Limit on the number of calls of some tools.

    Attributes:
        calls: The largest number of calls.
        tools: Names, or patterns with `*` and `?`, of the limited tools; all by default.
        per: What is counted separately: each `"turn"`, `"session"`, `"user"`, or nothing (`"registry"`).
        seconds: Sliding time window for these calls; `None`: the limit is never reset.
        each: Whether it applies to each of the tools by itself, or to all of them together.
    """

    calls: int = field(validator=whole(1, MOST_CALLS))
    tools: tuple[str, ...] = field(default=("*",), converter=as_texts, validator=texts())
    per: Per = field(default="session", validator=one_of(PER))
    seconds: float | None = field(default=None)
    each: bool = field(default=False, validator=flag)

    @seconds.validator  # pyright: ignore[reportAttributeAccessIssue, reportUntypedFunctionDecorator, reportUnknownMemberType, reportOptionalMemberAccess]
    def _check_seconds(self, attribute: object, value: object) -> None:
        if value is not None:
            seconds(least=0.001)(self, attribute, value)

    def tracker(self) -> LimitTracker:
        """A new tracker of this limit."""
        return LimitTracker(self)

    @property
    def text(self) -> str:
        """`2 calls of search* for one user within 60 s`."""
        named = "each of " * self.each + listed(self.tools) if self.each or self.tools != ("*",) else ""
        return self.text_for(named)

    def text_for(self, named: str) -> str:
        """The limit, of tools that are named so; `""` for all."""
        allowed = f"{self.calls} call{'' if self.calls == 1 else 's'}{f' of {named}' if named else ''}"
        return f"{allowed}{_WHERE[self.per]}{'' if self.seconds is None else f' within {self.seconds:g} s'}"

    @property
    def names(self) -> Names:
        """The limited tools."""
        return Names(self.tools)

    @property
    def sentence(self) -> str:
        """The limit, for the model."""
        return f"Make at most {self.text}."


@define(eq=False)
class _Tally:
    """Usage of one scope, such as a session: the times of its calls, or only their number."""

    used: int = 0
    times: deque[float] = field(factory=deque[float])


@define(eq=False)
class LimitTracker(Tracker):
    """Tracker of a `Limit`."""

    limit: Limit
    _names: Names = field(init=False)
    _values: Recent[Scope, _Tally] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._names = Names(self.limit.tools)
        most = MOST if self.limit.seconds is None else max(10, min(MOST, _MOST_TIMES // self.limit.calls))
        self._values = Recent(_Tally, most)

    @property
    def label(self) -> str:
        """The limit."""
        return f"{self.limit}"

    def load(self, key: Scope, data: Any) -> None:
        """Sets the number, and the times."""
        tally = self._values.of(key)
        tally.used, tally.times = data[0], deque(data[1])

    def dump(self, key: Scope) -> Any:
        """The number, and the times."""
        tally = self._values.known(key)
        return tally and [tally.used, [*tally.times]]

    def loaded_token(self, key: Scope, token: tuple[_Tally, float] | None) -> tuple[_Tally, float] | None:
        """The tally here, with the time."""
        return token and (self._values.of(key), token[1])

    def refusal(self, call: Call) -> str | None:
        """The limit, and when the next call is allowed."""
        key = self.key(call)
        tally = None if key is None else self._values.known(key)
        if tally is None or self._left(tally, call.now) > 0:
            return None
        limit = self.limit
        named = call.name if limit.each else "" if limit.tools == ("*",) else str(self._names)
        return f"the limit of {limit.text_for(named)} is used up. {self._again(tally, call.now)}."

    def begin(self, call: Call) -> tuple[_Tally, float] | None:
        """Counts the call."""
        key = self.key(call)
        if key is None:
            return None
        tally = self._values.of(key)
        if self.limit.seconds is None:
            tally.used += 1
        else:
            tally.times.append(call.now)
        return tally, call.now

    def end(self, _call: Call, token: tuple[_Tally, float] | None, result: ToolResult) -> None:
        """Uncounts the call if the tool didn't run."""
        if token is None or ran(result):
            return
        tally, started = token
        if self.limit.seconds is None:
            tally.used -= 1
        elif started in tally.times:
            tally.times.remove(started)

    def key(self, call: Call) -> Scope:
        """The key of what counts together with this call; `None` if the limit doesn't apply to it."""
        if not call.is_of(self._names):
            return None
        scope = self.scope(call, self.limit.per, f"the limit of {self.limit.calls} calls of {self._names}")
        return (scope, call.tool) if self.limit.each and scope is not None else scope

    def _left(self, tally: _Tally, now: float) -> int:
        if self.limit.seconds is None:
            return self.limit.calls - tally.used
        while tally.times and now - tally.times[0] >= self.limit.seconds:
            tally.times.popleft()
        return self.limit.calls - len(tally.times)

    def _again(self, tally: _Tally, now: float) -> str:
        if self.limit.seconds is None:
            return _AGAIN[self.limit.per]
        wait = tally.times[0] + self.limit.seconds - now
        return f"Call it again in {wait_text(wait)}; until then, continue without it"


def wait_text(wait: float) -> str:
    """A waiting time in whole seconds, rounded up: `1 s`."""
    return f"{max(1, math.ceil(wait))} s"


class CallLimits(Rules):
    """Guard that denies calls beyond a limit, and states when the call may be made again.

    A call that did not run after all (denied by another guard, rejected by a person) doesn't count. Each limit tracks
    the 1,000 turns, sessions or users with the latest calls.

    Args:
        limits: All of them apply.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, *limits: Limit, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__([limit.tracker() for limit in limits], clock=clock)
        self.limits = limits
