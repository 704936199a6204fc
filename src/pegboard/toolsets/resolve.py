"""Resolution: tools -> transforms -> names -> checks -> predicates -> active -> order -> `ResolvedTools`.

Each step is a plain function over frozen values; only querying toolsets is async, and only that needs asyncio. Name
conflicts come before predicates: a tool that is filtered out keeps its name, so that no other can take it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs
from attrs import field

from pegboard.errors import ToolsetError, did_you_mean, suggest, tuple_of
from pegboard.json import digest_of
from pegboard.schema.converter import ALWAYS, JsonRecord
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.tools.spec import Origin, Problem, alike
from pegboard.tools.tool import Tool, tools_html
from pegboard.toolsets.filters import PREDICATE_SECONDS, Faults, explain_filter, filter_now, filter_tools
from pegboard.toolsets.predicates import Predicate
from pegboard.toolsets.toolset import (
    MOST_PROBLEMS,
    OwnedToolset,
    Reason,
    ToolMapper,
    Toolset,
    ToolsetResult,
    ask_all,
    first_problems,
    owned_tool,
    schema_problem,
    unknown_names,
)
from pegboard.typing import frozen

if TYPE_CHECKING:
    from pegboard.toolsets.transforms import Transforms


@frozen
class Explanation(JsonRecord):
    """Explanation of why the tool of a name is in or out, step by step.

    Attributes:
        name: The tool's name.
        offered: Whether the resolution offers a tool of that name.
        reasons: What each step decided, in order; empty where there is no tool of that name.
        near: Tools that had the name, or up to three near misses, where there is none.
        notes: Toolsets that failed and might have it, where it isn't offered.
    """

    name: str
    offered: bool = field(metadata=ALWAYS)
    reasons: tuple[Reason, ...]
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.reasons:
            head = f"{self.name}: {'offered' if self.offered else 'not offered'}"
        else:
            head = f"{self.name}: there is no tool of this name.{did_you_mean(self.near)}"
        return "\n  ".join([head, *map(str, self.reasons), *(f"note: {note}" for note in self.notes)])


FOUND_TOOLS: Final = "pegboard:found_tools"
"""The key of a session's state for the names of the tools that search tools have found, the latest last."""

SEARCHES: Final = "pegboard/searches"
"""A key in the meta of a search tool's spec: where the provider searches by itself, the tool isn't offered."""

MOST_FOUND: Final = 128  # how many names count, those that were found last


def found_names(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a session has found, the latest last, at most 128.

    Anything but a list of texts under `pegboard:found_tools` is ignored: a state may come from anywhere.
    """
    names = state.get(FOUND_TOOLS)
    if not isinstance(names, list | tuple):
        return ()
    latest: list[Any] = list(names[-MOST_FOUND:])  # pyright: ignore[reportUnknownArgumentType]
    return tuple(dict.fromkeys(name for name in latest if isinstance(name, str)))


@frozen(eq=False)
class _Pass:
    """One step: the tools that came to it, those that passed it, and the reason for a tool."""

    step: str
    before: Sequence[Tool]
    after: Sequence[Tool]
    text: Callable[[Tool], str]

    @cached_property
    def passed(self) -> Mapping[str, bool]:
        after = {tool.spec.name for tool in self.after}
        return {tool.spec.name: tool.spec.name in after for tool in self.before}


@frozen(eq=False)
class _Trace:
    """What each step did."""

    tools: Sequence[Tool]  # those considered, each name once: sorted, followed by those added later
    context: ReadonlyContext = EMPTY_CONTEXT
    dropped: Sequence[Reason] = ()  # the others: those that toolsets have but don't offer now, and those held back
    passes: Sequence[_Pass] = ()
    reads_context: bool = False  # whether a predicate of a step does

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        return {tool.spec.name: tool for tool in self.tools}

    @cached_property
    def considered(self) -> frozenset[str]:
        return frozenset({*self.by_name, *(each.tool for each in self.dropped)})


_Held: TypeAlias = tuple[Tool, Tool | None]  # A tool that isn't offered, and the one that has its name, or had it


@frozen(eq=False)
class ResolvedTools:
    """The tools that one request offers, in order; and the reason for every tool that is in or out.

    It keeps the tools themselves: a request runs exactly these, even if they are replaced or removed since.

    Attributes:
        tools: In the order in which they are offered.
        problems: What went wrong: toolsets that failed, tools that were held back, predicates that raised, active
            names that no tool has.
        trace: What each step did.
        toolsets: Those that were queried.
        findable: Tools that are left out until a search finds them; the search looks through these, too.
        registry: The registry that resolved them; only it runs calls to them. `None`: any registry does.
        held_back: Registered tools that another of their name keeps out, as (name, why); for explanations.
    """

    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]
    trace: _Trace = field(repr=False)
    toolsets: tuple[Toolset, ...] = field(default=(), repr=False)
    findable: tuple[Tool, ...] = field(default=(), repr=False)
    registry: object = field(default=None, repr=False, eq=False)
    held_back: Sequence[tuple[str | None, str]] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(tool.spec.name for tool in self.tools)

    @property
    def context(self) -> ReadonlyContext:
        """The context that they were resolved for."""
        return self.trace.context

    @property
    def depends_on_context(self) -> bool:
        """Whether another context may get other tools: of a toolset, by a predicate, or as a search has found them."""
        if self.toolsets or self.trace.reads_context or found_names(self.context.state):
            return True
        return any(tool.spec.deferred for tool in self.trace.tools)

    @property
    def considered(self) -> frozenset[str]:
        """The names of all tools, offered or not."""
        return self.trace.considered

    @cached_property
    def digest(self) -> str:
        """`"sha256:..."` over the digests of the tools in their order; cached."""
        return digest_of([tool.spec.digest for tool in self.tools])

    def get(self, name: str) -> Tool | None:
        """The offered tool of this name, or `None`."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, Tool]:
        return {tool.spec.name: tool for tool in self.tools}

    def evolve(self, **changes: Any) -> ResolvedTools:
        """A copy with some attributes changed; explanations name the `tools` that this adds and leaves out."""
        if "tools" not in changes:
            return attrs.evolve(self, **changes)
        tools: tuple[Tool, ...] = tuple(changes["tools"])
        out = set(self.names).difference(tool.spec.name for tool in tools)
        trace = self.without("evolve", dict.fromkeys(out, "left out by evolve(tools=...)")).trace
        new = [tool for tool in tools if tool.spec.name not in trace.by_name]
        trace = attrs.evolve(trace, tools=(*trace.tools, *new))
        return attrs.evolve(self, **{**changes, "tools": tools, "trace": trace})

    def without(self, step: str, reasons: Mapping[str, str]) -> ResolvedTools:
        """A copy without some tools.

        Args:
            step: What leaves them out, for explanations: a word.
            reasons: The names of those that are left out, each with the reason; names not offered are ignored.
        """
        out = {name: text for name, text in reasons.items() if name in self}
        if not out:
            return self
        tools = [tool for tool in self.tools if tool.spec.name not in out]
        return _after_step(self, step, tools, lambda tool: out.get(tool.spec.name, "not removed"))

    def with_tools(self, *tools: Tool) -> ResolvedTools:
        """A copy with more tools, after the others.

        A tool whose name is taken, even by one that is left out, is held back, as is one whose schemas are refused;
        a problem names it.
        """
        taken = {**self.trace.by_name, **{tool.spec.name: tool for tool in self.tools}}
        new, held, refused = list[Tool](), list[_Held](), list[Problem]()
        for tool in tools:
            if (holder := taken.get(tool.spec.name)) is not None:
                held.append((tool, holder))
            elif (problem := schema_problem(tool, tool.origin)) is not None:
                refused.append(problem)
            else:
                new.append(taken.setdefault(tool.spec.name, tool))
        trace = attrs.evolve(self.trace, tools=(*self.trace.tools, *new))
        return _hold_back(attrs.evolve(self, tools=(*self.tools, *new), trace=trace), held, refused)

    def distinct(self) -> ResolvedTools:
        """A copy with each name once: the first tool of a name stays, and a problem names the others."""
        first: dict[str, Tool] = {}
        others = [tool for tool in self.tools if first.setdefault(tool.spec.name, tool) is not tool]
        held = [(tool, first[tool.spec.name]) for tool in others]
        return _hold_back(attrs.evolve(self, tools=tuple(first.values())), held) if held else self

    def provided_by(self, owner: Origin, before: ResolvedTools | None) -> ResolvedTools:
        """A copy in which each tool that is new or replaced since `before` has this owner's origin.

        Raises `SchemaError` if one's schemas are refused, or hold hidden characters.
        """
        known = set[Tool]() if before is None else {*before.tools, *before.findable}
        new = {tool: owned_tool(tool, owner) for tool in (*self.tools, *self.findable) if tool not in known}
        if not new:
            return self
        several = self.tools, self.findable, self.trace.tools
        tools, findable, every = (tuple(new.get(tool, tool) for tool in each) for each in several)
        return attrs.evolve(self, tools=tools, findable=findable, trace=attrs.evolve(self.trace, tools=every))

    def finding(self, tools: Sequence[Tool]) -> ResolvedTools:
        """A copy with more tools that a search may find."""
        return attrs.evolve(self, findable=(*self.findable, *tools)) if tools else self

    def was_held_back(self, name: str) -> bool:
        """Whether there is a tool of this name that this request doesn't offer."""
        return name not in self and name in self.considered

    def unsolved(self, problems: Iterable[Problem]) -> list[Problem]:
        """Problems of registration, without those of tools that are there after all: a transform has renamed one."""
        tools = self.trace.tools if (problems := [*problems]) else ()
        there = [(tool.origin.plugin, name) for tool in tools for name in {tool.spec.name, *tool.former_names}]
        times = Counter(name for _, name in there)  # once: the tool that holds it, of the same plugin
        return [each for each in problems if (each.plugin, each.tool) not in there or times[each.tool or ""] < 2]

    def explain(self, name: str) -> Explanation:
        """Why the tool of this name is in or out, step by step."""
        trace = self.trace
        reasons = [each for each in trace.dropped if each.tool == name]
        if (tool := trace.by_name.get(name)) is not None:
            steps = ((each, each.passed.get(name)) for each in trace.passes)
            passed = (Reason(each.step, "in" if ok else "out", each.text(tool)) for each, ok in steps if ok is not None)
            reasons = [Reason("offered", "in", f"by {tool.origin}"), *reasons, *passed]
        held = tuple(why for held, why in self.held_back if held == name)
        if (offered := self.get(name)) is not None:
            if runs := offered.policy.runs:
                reasons.append(Reason("runs", "in", ", ".join(f"{key} {value}" for key, value in runs.items())))
            reasons.append(Reason("order", "in", f"{self.names.index(name) + 1} of {len(self)}"))
            return Explanation(name, offered=True, reasons=tuple(reasons), notes=held)
        renamed = tuple(tool.spec.name for tool in trace.tools if name in tool.former_names)
        near = () if name in self.considered else renamed or suggest(name[:200], self.considered)
        told = (None,) if reasons else (None, name)  # a tool that is held back has its reasons
        notes = tuple(str(problem) for problem in self.problems if problem.subject and problem.tool in told)
        return Explanation(name, offered=False, reasons=tuple(reasons), near=near, notes=(*notes, *held))

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        return tools_html(self.tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


_undefer: Final = ToolMapper(lambda tool: tool.with_spec(deferred=False))


def resolve_names(
    static: Sequence[Tool],
    offers: Sequence[ToolsetResult] = (),
    taken: Mapping[str, Tool | None] | None = None,
    context: ReadonlyContext = EMPTY_CONTEXT,
) -> ResolvedTools:
    """Static tools and toolsets' tools, sorted by name, each name once; those that were found are no longer deferred.

    A host's tool takes precedence over a plugin's. Otherwise a static tool does over a toolset's, and an earlier
    toolset's over a later one's, which is held back. Of two plugins' toolsets from different distributions both are
    held back: load order never decides. Names in `taken` are those of tools that aren't offered, or of several plugins'
    (`None`): no plugin's tool gets one, and the host's only one that isn't its own.
    """
    tools = {tool.spec.name: tool for tool in static} if offers else {}
    held: list[_Held] = []
    taken = dict(taken or {})
    for later in (tool for offer in offers for tool in offer):
        name, is_plugins = later.spec.name, later.origin.plugin is not None
        earlier, holder = tools.get(name), taken.get(name)
        if earlier is None and name in taken and (is_plugins or (holder is not None and holder.origin.plugin is None)):
            held.append((later, holder))
        elif earlier is None:
            tools[name] = later
        elif earlier is later:
            continue
        elif _are_conflicting(earlier, later):
            taken[name] = tools.pop(name)
            held += [(earlier, later), (later, earlier)]
        elif earlier.origin.plugin is not None and not is_plugins:
            tools[name] = later
            held.append((earlier, later))
        else:
            held.append((later, earlier))
    found = set(found_names(context.state))
    every = [tools[name] for name in sorted(tools)] if offers else static
    if found:
        _undefer.trim(every)
        every = [_undefer.one(tool) if tool.spec.deferred and tool.spec.name in found else tool for tool in every]
    dropped = [each for offer in offers for each in offer.dropped]
    problems = tuple(problem for offer in offers for problem in offer.problems)
    resolved = ResolvedTools(tuple(every), problems, _Trace(every, context, dropped))
    return _hold_back(resolved, held) if held else resolved


def _hold_back(resolved: ResolvedTools, held: Iterable[_Held], problems: Iterable[Problem] = ()) -> ResolvedTools:
    """A copy with more tools held back, each with a problem."""
    dropped, problems = list(resolved.trace.dropped), [*resolved.problems, *problems]
    for tool, holder in held:
        why = "several plugins bring one" if holder is None else f"{holder.origin} has the name"
        dropped.append(Reason("name", "out", f"the tool of {tool.origin} is held back: {why}", tool.name))
        cause = f"tool {tool.name!r} is held back: {why}; prefix or rename one of the two"
        problems.append(Problem.of(tool.origin, cause, tool.name))
    return attrs.evolve(resolved, problems=tuple(problems), trace=attrs.evolve(resolved.trace, dropped=dropped))


def _after_step(
    resolved: ResolvedTools,
    step: str,
    tools: Sequence[Tool],
    text: Callable[[Tool], str],
    problems: Iterable[Problem] = (),
    **of_trace: bool,
) -> ResolvedTools:
    """A copy with the tools that have passed one more step."""
    passes = (*resolved.trace.passes, _Pass(step, resolved.tools, tools, text))
    trace = attrs.evolve(resolved.trace, passes=passes, **of_trace)
    return attrs.evolve(resolved, tools=tuple(tools), problems=(*resolved.problems, *problems), trace=trace)


def _are_conflicting(one: Tool, other: Tool) -> bool:
    """Whether two distributions' plugins bring them, both in toolsets or both static, which only transforms cause."""
    distributions = {one.origin.distribution, other.origin.distribution}
    are_alike = bool(one.origin.toolset) == bool(other.origin.toolset)
    return len(distributions) > 1 and None not in distributions and are_alike


OnToolsetError: TypeAlias = Literal["skip", "fail"]


async def resolve_tools(  # noqa: PLR0913  each is one facet of the question
    static: Sequence[Tool],
    toolsets: Sequence[Toolset] = (),
    context: ReadonlyContext = EMPTY_CONTEXT,
    *,
    where: Predicate | None = None,
    default: Predicate | None = None,
    active: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    conflicting: Collection[str] = (),
    on_toolset_error: OnToolsetError = "skip",
    toolset_timeout: float = 30.0,
    predicate_timeout: float = PREDICATE_SECONDS,
    transforms: Transforms | None = None,
    check: Callable[[ResolvedTools], Awaitable[ResolvedTools]] | None = None,
) -> ResolvedTools:
    """The tools that this context may be offered now.

    Args:
        static: Sorted by name, each name once.
        toolsets: Queried concurrently, in the order of their precedence. One that isn't an `OwnedToolset` counts
            as the host's.
        context: The user, session and model.
        where: The request's predicate.
        default: The registry's predicate, which comes first.
        active: Names to keep, in this order; `None` keeps all, `[]` none. A name that no tool has is a problem.
        order: Names to list first, each once; the rest follow by name, or as in `active`. Names that aren't offered
            are ignored.
        conflicting: Names that no plugin gets.
        on_toolset_error: `"skip"` leaves out the tools of a toolset that fails; `"fail"` raises.
        toolset_timeout: Seconds that toolsets have for their answer.
        predicate_timeout: Seconds that the functions of both predicates have together for their answers.
        transforms: Change the tools before name conflicts are resolved, those of `static`, too: a catalogue's.
        check: Leaves tools out, before the predicates are evaluated.

    Raises:
        ToolsetError: A toolset failed, or gave something wrong, and `on_toolset_error` is `"fail"`.
    """
    owned = [toolset if isinstance(toolset, OwnedToolset) else OwnedToolset(toolset) for toolset in toolsets]
    offers: list[ToolsetResult] = []
    taken: dict[str, Tool | None] = dict.fromkeys(conflicting)
    if transforms is not None:
        offers, taken = await transforms.ask(owned, context, toolset_timeout)
    elif owned:
        offers = await ask_all(owned, context, toolset_timeout)
    if on_toolset_error == "fail":
        _raise_first(offers)
    resolved = resolve_names(static if transforms is None else (), offers, taken, context)
    if toolsets or transforms is not None:
        trace = attrs.evolve(resolved.trace, reads_context=transforms is not None)  # these may depend on it
        resolved = attrs.evolve(resolved, toolsets=tuple(toolsets), trace=trace)
    if check is not None:
        resolved = await check(resolved)
    deadline = time.monotonic() + predicate_timeout
    for step, predicate in (("default", default), ("where", where)):
        if predicate is not None:
            answer = await filter_tools(resolved.tools, predicate, context, deadline - time.monotonic())
            resolved = _apply_filter(resolved, step, predicate, *answer)
    return _finish(resolved, active, order)


def _raise_first(offers: Iterable[ToolsetResult]) -> None:
    """Raises a `ToolsetError` for the first problem that isn't a note."""
    for problem in (each for offer in offers for each in offer.problems if not each.note):
        name = (problem.subject or "").removeprefix("toolset ").strip("'\"")  # as `WrapperToolset` has quoted it
        raise ToolsetError(name, problem.cause) from problem.error


def resolve_static(  # noqa: PLR0913  as above
    static: Sequence[Tool],
    context: ReadonlyContext = EMPTY_CONTEXT,
    *,
    where: Predicate | None = None,
    default: Predicate | None = None,
    published: Sequence[Tool] = (),
    conflicting: Collection[str] = (),
) -> ResolvedTools:
    """`resolve_tools` for static and published tools, without an event loop or a time limit for functions."""
    offers = [ToolsetResult(published)] if published else ()
    resolved = resolve_names(static, offers, dict.fromkeys(conflicting), context)
    for step, predicate in (("default", default), ("where", where)):
        if predicate is not None:
            resolved = _apply_filter(resolved, step, predicate, *filter_now(resolved.tools, predicate, context))
    return _finish(resolved)


def _apply_filter(
    resolved: ResolvedTools, step: str, predicate: Predicate, tools: Sequence[Tool], faults: Faults
) -> ResolvedTools:
    """A copy with the tools that match a predicate, and a problem if that failed for some."""
    problems: list[Problem] = []
    if faults:
        name, cause = next(iter(faults.items()))
        others = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        problems.append(Problem(f"{step}: {predicate} failed for tool {name!r}{others}, all out: {cause}"))
    explain = partial(explain_filter, predicate, context=resolved.context, faults=faults)
    reads_context = resolved.trace.reads_context or predicate.reads_context
    return _after_step(resolved, step, tools, explain, problems, reads_context=reads_context)


def _finish(
    resolved: ResolvedTools, active: Sequence[str] | None = None, order: Sequence[str] | None = None
) -> ResolvedTools:
    """A copy with the active tools, those first that an order names, and with notes on names that look alike."""
    if active is not None:
        names, known, text = tuple_of("active", str)(active), resolved.considered, "among the active names"
        unknown = [name for name in dict.fromkeys(names) if name not in known]
        problems = first_problems([Problem(f"active: {why}") for why in unknown_names(unknown, known)])
        explain: Callable[[Tool], str] = lambda tool: text if tool.spec.name in names else f"not {text}"  # noqa: E731
        resolved = _after_step(resolved, "active", _pick(resolved, names), explain, problems)
    if order is not None:
        first = _pick(resolved, tuple_of("order", str)(order))
        resolved = attrs.evolve(resolved, tools=tuple(dict.fromkeys((*first, *resolved.tools))))
    how = "have names that differ only in case or in look-alikes; rename one"
    alikes = _look_alikes(tuple([tool.spec.name for tool in resolved.trace.tools]))
    notes = [Problem(f"tools {one!r} and {other!r} {how}", other, note=True) for one, other in alikes]
    return attrs.evolve(resolved, problems=(*resolved.problems, *notes)) if notes else resolved


def _pick(resolved: ResolvedTools, names: Sequence[str]) -> list[Tool]:
    return [tool for name in dict.fromkeys(names) if (tool := resolved.get(name)) is not None]


@lru_cache(maxsize=8)  # among 10,000 tools it takes 9 ms, and finding the same names again 0.3
def _look_alikes(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Pairs of names that differ only in case, or in characters that look alike; at most 20."""
    first: dict[str, str] = {}
    pairs = ((first.setdefault(alike(name), name), name) for name in names)
    return tuple(islice((pair for pair in pairs if pair[0] != pair[1]), MOST_PROBLEMS))
