"""Rules on calls: names, scopes, states, and the guard that applies rules."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import attrs
from attrs import define, field, frozen

from pegboard import ReadonlyContext, Tool, ToolContext, ToolResult, hookimpl
from pegboard.errors import log_failure
from pegboard.json import digest_of
from pegboard.toolsets.predicates import matcher
from pegboard_guard.counters import Counters, is_provided
from pegboard_guard.log import of_call, warn_of_unknown_turn
from pegboard_guard.settings import as_texts, texts
from pegboard_guard.time_limit import NoAnswerError, run_within

if TYPE_CHECKING:
    from pegboard import Deny, ToolRegistry


def digest_or_none(value: Any) -> str | None:
    """`"sha256:..."` over JSON data, the same for the same call; `None` if it isn't JSON."""
    try:
        return digest_of(value)
    except (TypeError, ValueError, RecursionError):
        return None


MOST: Final = 1000


class Names:
    """Set of tools by name patterns: `*` is any run of characters, `?` is one.

    Args:
        patterns: Names and patterns.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        matchers = tuple(matcher(pattern) for pattern in self.patterns)

        def fits(name: str) -> bool:
            return any(matches(name) for matches in matchers)

        self._fits = lru_cache(MOST)(fits)

    def __contains__(self, name: str) -> bool:
        return self._fits(name)

    def __str__(self) -> str:
        return join_words(self.patterns)


def join_words(words: Iterable[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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

    def of(self, key: K, new: V | None = None) -> V:
        """The value of a key; if there is none, `new`, or one that is made."""
        value = self._values.pop(key, new)
        if value is None:
            value = self.make()
        self._values[key] = value
        if len(self._values) > self.most:
            self._values.popitem(last=False)
        return value

    def get(self, key: K) -> V | None:
        """The value of a key, or `None`; doesn't count as a use."""
        return self._values.get(key)


def wait_text(wait: float) -> str:
    """A waiting time in whole seconds, rounded up: `1 s`."""
    return f"{max(1, math.ceil(wait))} s"


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
    """The key of one row of calls: of the session, an agent's own, or else the turn; `None` if neither is known."""
    own = request.session  # an agent's, not its caller's
    return scope_of(request, "turn") if own is None else ("session", request.user, own)


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


@define(eq=False)
class Call:
    """Call as rules see it.

    Attributes:
        name: The name that the tool is offered under.
        request: Its user, session and turn.
        now: Of the rules' clock, in seconds.
        former_names: Those that it had before it was renamed, its own first: renaming doesn't bypass a rule.
        owner: The distribution, else the plugin, that brings the tool; `""` for the host's own.
        digest: That of its arguments, if a rule compares them.
        depth: The number of calls that enclose it.
    """

    name: str
    request: ReadonlyContext
    now: float = 0.0
    former_names: tuple[str, ...] = ()
    owner: str = ""
    digest: str | None = None
    depth: int = 0

    @classmethod
    def of(cls, tool: Tool, context: ToolContext, arguments: Mapping[str, Any] | None) -> Call:
        """A call of a tool; without `arguments`, no rule compares them."""
        owner = tool.origin.distribution or tool.origin.plugin or ""
        digest = None if arguments is None else digest_or_none(dict(arguments))
        return cls(tool.name, context.request, 0.0, tool.former_names, owner, digest, context.depth)

    @property
    def tool(self) -> str:
        """Identifies the tool, whatever name it is offered under."""
        return f"{self.owner} {(*self.former_names, self.name)[0]}"

    @property
    def identity(self) -> str:
        """Identifies the tool and its arguments."""
        return f"{self.tool} {self.digest}"

    def is_of(self, names: Names) -> bool:
        """Whether one of the tool's names is among these."""
        return self.name in names or any(name in names for name in self.former_names)


class End(NamedTuple):
    """End of a call.

    Attributes:
        kind: The kind of its error; `None` if it succeeded.
        ran: Whether the tool ran, or may have.
    """

    kind: str | None = None
    ran: bool = True

    @classmethod
    def of(cls, result: ToolResult, context: ToolContext) -> End:
        """The end of a call by its result; a failure of callbacks before the tool has begun stops the call."""
        kind = (result.kind or "tool_failure") if result.is_error else None
        was_stopped = kind == "callback_failure" and not context.has_started
        return cls(kind, kind not in NOT_RUN and not was_stopped)


PATTERNS: Final = ("tools", "after", "before", "when")
"""The attributes of rules that are names and patterns."""


@frozen
class Rule:
    """Base of rules: which calls one is about, and what their starts and ends mean for those that follow.

    A rule itself remembers nothing. `Rules` stores its state for each scope, and passes it on to `refusal`, `begin` and
    `end`; only one thread at a time is in these.

    Attributes:
        tools: Names, or patterns with `*` and `?`.
    """

    State: ClassVar[type[Any]]
    """Class of its state, with JSON data only."""
    SENTENCE: ClassVar[str] = ""
    """The rule, for the model: a format of the rule."""
    TITLE: ClassVar[str | None] = None
    """The rule in a warning, likewise."""
    compares_arguments: ClassVar[bool] = False
    """Whether it needs the digest of a call's arguments."""
    is_for_end: ClassVar[bool] = False
    """Whether it is about the end of a turn."""

    tools: tuple[str, ...] = field(converter=as_texts, validator=texts())

    @cached_property
    def names(self) -> Names:
        """The tools that the rule is about."""
        return Names(self.tools)

    @cached_property
    def condition(self) -> Names:
        """Other tools that matter to it: those in `after` or `when`."""
        return Names(getattr(self, "after", getattr(self, "when", ())))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names and patterns of all tools that matter to it."""
        return tuple(pattern for each in PATTERNS for pattern in getattr(self, each, ()))

    @property
    def sentence(self) -> str:
        """The rule, for the model."""
        return self.SENTENCE.format(self)

    @property
    def title(self) -> str | None:
        """The rule in the warning that it doesn't apply to calls without a turn; `None`: there is none."""
        return self.TITLE and self.TITLE.format(self)

    @property
    def most(self) -> int:
        """For how many scopes there is a state."""
        return MOST

    def concerns(self, call: Call, /) -> bool:
        """Whether a call reads or changes the state."""
        return call.is_of(self.names) or call.is_of(self.condition)

    def scope(self, call: Call) -> Scope:
        """The key of the state for a call; `None` if its context doesn't name its turn."""
        return scope_of(call.request, getattr(self, "within", "session"))

    def refusal(self, _call: Call, _state: Any, /) -> str | None:
        """Why the call may not start now, as sentences for the model; `None` if it may. Changes nothing."""

    def begin(self, _call: Call, _state: Any, /) -> Any:
        """Records the start of the call; the return value is passed to `end`."""

    def end(self, _call: Call, _state: Any, _token: Any, _end: End, /) -> None:
        """Records the end of the call; its `now` is the time of its end."""


MOST_REFUSALS: Final = 3
_SHARE: Final = 0.15
"""Of the time limit of callbacks, for one change of `Counters`: a callback may make several, and a gate takes 0.8."""


def _id_of(context: ToolContext) -> Hashable:
    """Identifies a call of the model, also when it is run again."""
    return context.user, context.session, context.tool, context.call_id


_Concerned: TypeAlias = tuple[int, Rule, Scope]
"""A rule that a call concerns, with its place, and the key of its state."""

_Change: TypeAlias = Callable[[float, Sequence[Any]], bool]
"""Gets the time and the rules' states, which it may change if it returns true; `Counters` may call it again."""


@define(eq=False)
class Begun:
    """What a call has begun: the rules that it concerns, their states, and what `begin` returned."""

    rules: Rules
    context: ToolContext
    call: Call
    concerned: Sequence[_Concerned]
    states: Sequence[Any] = ()
    tokens: Sequence[Any] = ()


_begun: Final[ContextVar[set[Begun] | None]] = ContextVar("pegboard_guard_begun", default=None)
"""What the innermost call has begun and not ended; `None` if `wrap_call` doesn't run it."""


@hookimpl(tryfirst=True)
async def wrap_call(call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Runs a call; if it has to wait for an answer, it counts only when it is run again."""
    before, begun = _begun.get(), set[Begun]()
    _begun.set(begun)
    try:
        result = await call_next()
    finally:
        _begun.set(before)
    if result.kind == "confirmation_required":
        for each in tuple(begun):
            await each.rules.undo(each)
    return result


class Rules:
    """Lets a call start if no rule refuses it; either all of them record it or none. Thread-safe.

    Args:
        rules: The rules.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, rules: Sequence[Rule], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rules = tuple(rules)
        self._clock = clock
        self._key = f"pegboard_guard.rules.{id(self)}"
        self._compares_arguments = any(rule.compares_arguments for rule in rules)
        self._states = [Recent[Scope, Any](rule.State, rule.most) for rule in rules]
        self._open = OrderedDict[Hashable, Begun]()
        self._warned = set[int]()
        self._lock = threading.Lock()
        self._counters: Counters | None = None
        self._registry: ToolRegistry | None = None
        if rules:
            self.pegboard_wrap_call = wrap_call  # not defined by the class, so that calls without rules cost less

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Deny | None:
        """Denies the call, or records its start."""
        refusals = await self.begin(context, tool, arguments) if self._rules else None
        if not isinstance(refusals, list):
            return None
        from pegboard import Deny

        return Deny(" ".join(refusals[:MOST_REFUSALS]))

    async def begin(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Begun | list[str] | None:
        """What the call begins; why it may not start; or `None` if no rule concerns it."""
        await self._find_counters(context)
        if _begun.get() is None and (earlier := self._pop_open(context)) is not None:
            await self.undo(earlier)  # the same call, which had to wait for an answer
        call, refusals = Call.of(tool, context, arguments if self._compares_arguments else None), list[str]()
        begun = Begun(self, context, call, self._find_concerned(call))
        if not begun.concerned:
            return None

        def begin(now: float, states: Sequence[Any]) -> bool:
            call.now, begun.states = now, states
            pairs = [(rule, state) for (_, rule, _), state in zip(begun.concerned, states, strict=True)]
            refusals[:] = [text for rule, state in pairs if (text := rule.refusal(call, state)) is not None]
            begun.tokens = () if refusals else [rule.begin(call, state) for rule, state in pairs]
            return not refusals

        await self._change(begun.concerned, begin)
        if refusals:
            return refusals
        self._keep(begun)
        return begun

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, result: ToolResult) -> None:
        """Records the result of the call; one that didn't run doesn't count."""
        if (begun := self.forget(context)) is not None:
            await self._end(begun, End.of(result, context))

    async def undo(self, begun: Begun) -> None:
        """Forgets a call that hasn't run: it waits for an answer, and is judged again when it is run."""
        self.forget(begun.context)
        await self._end(begun, End("confirmation_required", ran=False))

    async def _end(self, begun: Begun, ending: End) -> None:
        def end(now: float, states: Sequence[Any]) -> bool:
            begun.call.now = now
            for (_, rule, _), state, token in zip(begun.concerned, states, begun.tokens, strict=True):
                rule.end(begun.call, state, token, ending)
            return True

        await self._try_change("counting a call", begun.concerned, end, begun.states)

    def forget(self, context: ToolContext) -> Begun | None:
        """Forgets what a call has begun, and returns it."""
        is_open, mine = self._pop_open(context), _begun.get()
        begun = context.values.pop(of_call(self._key, context), is_open)  # of another context if the host has run it
        if mine is not None:
            mine.discard(begun)
        return begun

    def _keep(self, begun: Begun) -> None:
        """Keeps what a call has begun: for its end, by its id for the result of a host, and for `wrap_call`."""
        context, mine = begun.context, _begun.get()
        context.values[of_call(self._key, context)] = begun
        if mine is not None:
            mine.add(begun)
        if context.call_id:
            with self._lock:
                self._open[_id_of(context)] = begun
                if len(self._open) > MOST:
                    self._open.popitem(last=False)

    def _pop_open(self, context: ToolContext) -> Begun | None:
        if not context.call_id:
            return None
        with self._lock:
            return self._open.pop(_id_of(context), None)

    async def _find_counters(self, services: ToolContext) -> None:
        if is_provided(services, Counters):
            from pegboard import ToolRegistry

            self._counters = await services.use(Counters)
            self._registry = self._registry or services.service(ToolRegistry)  # not that of an agent

    def _find_concerned(self, call: Call) -> list[_Concerned]:
        """The rules that a call concerns; warns once of each that can't be applied without a turn."""
        concerned = [(place, rule, rule.scope(call)) for place, rule in enumerate(self._rules) if rule.concerns(call)]
        for place, rule, key in concerned:
            if key is None and rule.title is not None and place not in self._warned:
                self._warned.add(place)
                warn_of_unknown_turn(rule.title)
        return concerned

    async def _change(self, concerned: Sequence[_Concerned], change: _Change, begun: Sequence[Any] = ()) -> None:
        """Changes the states of rules.

        Args:
            concerned: The rules; one without a key has an empty state, which is dropped.
            change: Changes them.
            begun: The states at the start of the call. In this process it changes these at its end, too, as later calls
                have others if they were dropped meanwhile.
        """
        if self._counters is not None and any(key is not None for _, _, key in concerned):
            await _change_shared(self._counters, concerned, change)
            return
        with self._lock:
            states = [
                rule.State() if key is None else self._states[place].of(key, state)
                for (place, rule, key), state in zip(concerned, begun or [None] * len(concerned), strict=True)
            ]
            change(self._clock(), begun or states)

    async def _try_change(
        self, purpose: str, concerned: Sequence[_Concerned], change: _Change, begun: Sequence[Any] = ()
    ) -> None:
        """`_change`, where a host's store that fails or hangs is logged: the call has its result, or the turn ends."""
        changing = self._change(concerned, change, begun)
        if self._registry is None:  # without a store
            return await changing
        limit = _SHARE * self._registry.limits.callback_timeout
        try:
            await run_within(limit, changing, "the counters gave no answer")
        except NoAnswerError as error:
            log_failure(purpose, error)


async def _change_shared(counters: Counters, concerned: Sequence[_Concerned], change: _Change) -> None:
    """`Rules._change` in all processes."""
    names = [None if key is None else digest_of((place, f"{rule}", key)) for place, rule, key in concerned]

    def update(now: float, known: Mapping[str, Any]) -> dict[str, Any]:
        stored: list[Mapping[str, Any]] = [known.get(name or "", {}) for name in names]
        states = [rule.State(**data) for (_, rule, _), data in zip(concerned, stored, strict=True)]
        if not change(now, states):
            return {}
        pairs = zip(names, states, strict=True)
        return {name: attrs.asdict(state, recurse=False) for name, state in pairs if name is not None}

    await counters.update([name for name in names if name is not None], update)
