"""Resolving: static tools and every toolset's -> names settled -> predicates -> active -> order -> `ResolvedTools`.

Each step is a plain function over frozen values; only asking toolsets is async, and only that needs asyncio. Names
are settled before predicates look: a tool that is filtered out keeps its name, and no other slips under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from pegboard.errors import ToolsetError, did_you_mean, suggest
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.tools.origin import ConflictPolicy
from pegboard.tools.tool import Tool
from pegboard.toolsets.explanation import Explanation, Reason
from pegboard.toolsets.names import Candidates, settled_names
from pegboard.toolsets.offer import MOST_PROBLEMS, Offer, ToolsetProblem
from pegboard.toolsets.owned import OwnedToolset
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.resolved import ResolvedTools
from pegboard.toolsets.sift import Faults, sift
from pegboard.toolsets.source import Source
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.trace import Pass, Trace

OnToolsetError: TypeAlias = Literal["skip", "fail"]
TOOLSET_TIMEOUT: Final = 30.0


async def resolve_tools(  # noqa: PLR0913  each is one facet of the question
    static: Sequence[Tool],
    toolsets: Sequence[Toolset] = (),
    context: ReadonlyContext = NOBODY,
    *,
    where: Predicate | None = None,
    default: Predicate | None = None,
    active: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    conflicts: ConflictPolicy = "keep",
    on_toolset_error: OnToolsetError = "skip",
    toolset_timeout: float = TOOLSET_TIMEOUT,
) -> ResolvedTools:
    """The tools that this context may be offered now.

    Args:
        static: Sorted by name, each name once.
        toolsets: Asked at the same time, in the order of their precedence. One that isn't an `OwnedToolset` counts
            as the host's.
        context: For whom, and for which model.
        where: What the request asks of tools.
        default: What the board asks of tools before that.
        active: Names to keep, in this order; `None` keeps all, `[]` none. A name that nobody has is a problem.
        order: Names to list first, each once; the rest follow by name, or as in `active`. Names that aren't offered
            are passed over.
        conflicts: What happens to a second tool of a name; see `settled_names`.
        on_toolset_error: `"skip"`: a toolset that fails costs only its own tools; `"fail"`: it raises.
        toolset_timeout: Seconds that toolsets have for their answer.

    Raises:
        ToolsetError: A toolset failed, or gave something wrong, and `on_toolset_error` is `"fail"`.
        DuplicateToolError: Two tools have one name and `conflicts` is `"error"`.
    """
    offers = await _asked(toolsets, context, toolset_timeout) if toolsets else []
    if on_toolset_error == "fail":
        _fail_on_problems(offers)
    candidates = settled_names(static, offers, conflicts)
    resolved = resolve_candidates(candidates, context, where=where, default=default, active=active, order=order)
    return attrs.evolve(resolved, toolsets=tuple(toolsets)) if toolsets else resolved


def resolve_candidates(  # noqa: PLR0913  the same facets
    candidates: Candidates,
    context: ReadonlyContext = NOBODY,
    *,
    where: Predicate | None = None,
    default: Predicate | None = None,
    active: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
) -> ResolvedTools:
    """The steps that need nobody else: predicates, active, order. Arguments as in `resolve_tools`."""
    tools = candidates.tools
    passes: list[Pass] = []
    problems = list(candidates.problems)
    for step, predicate in (("default", default), ("where", where)):
        if predicate is not None:
            tools, faults = sift(tools, predicate, context)
            passes.append(Pass(step, tools, predicate, faults))
            problems.extend(_faults(step, predicate, faults))
    if active is not None:
        tools = picked(tools, active)
        passes.append(Pass("active", tools))
    if order is not None:
        tools = ordered(tools, order)
    trace = Trace(candidates, passes, tools, context)
    problems.extend(_unknown(active or (), trace))
    return ResolvedTools(tuple(tools), tuple(problems), trace)


def picked(tools: Sequence[Tool], active: Sequence[str]) -> list[Tool]:
    """The tools of these names, in the order of the names, each once."""
    known = {tool.spec.name: tool for tool in tools}
    return [known[name] for name in dict.fromkeys(_names("active", active)) if name in known]


def ordered(tools: Sequence[Tool], order: Sequence[str]) -> list[Tool]:
    """The tools of these names first, in the order of the names, each once; then the rest as they stand."""
    first = picked(tools, _names("order", order))
    names = {tool.spec.name for tool in first}
    return [*first, *(tool for tool in tools if tool.spec.name not in names)]


def _names(argument: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str):
        raise TypeError(f"{argument} has to be a list of names, not the string {names!r}")
    return names


def _faults(step: str, predicate: Predicate, faults: Faults) -> Iterator[ToolsetProblem]:
    """One problem for all the tools for which a predicate raised."""
    if not faults:
        return
    name, cause = next(iter(faults.items()))
    others = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
    yield ToolsetProblem("", f"{step}: {predicate} failed for tool {name!r}{others}, all out: {cause}")


def _unknown(active: Sequence[str], trace: Trace) -> Iterator[ToolsetProblem]:
    """A problem for each active name that nobody has."""
    unknown = [name for name in dict.fromkeys(active) if name not in trace.considered]
    for name in unknown[:MOST_PROBLEMS]:
        # Near misses among thousands of names take time: only where few are asked for.
        near = did_you_mean(suggest(name[:200], trace.considered)) if len(unknown) <= 3 else ""
        yield ToolsetProblem("", f"active: no tool is called {name!r}.{near}")
    if len(unknown) > MOST_PROBLEMS:
        yield ToolsetProblem("", f"active: nor has anybody {len(unknown) - MOST_PROBLEMS} more of the names")


async def _asked(toolsets: Sequence[Toolset], context: ReadonlyContext, timeout: float) -> list[Offer]:  # noqa: ASYNC109  all share one wait
    from pegboard.toolsets.asking import ask_all

    owned = [toolset if isinstance(toolset, OwnedToolset) else OwnedToolset(toolset) for toolset in toolsets]
    return await ask_all([Source(toolset) for toolset in owned], context, timeout)


def _fail_on_problems(offers: Sequence[Offer]) -> None:
    problem = next((each for offer in offers for each in offer.problems if not each.note), None)
    if problem is not None:
        raise ToolsetError(problem.toolset, problem.cause) from problem.error


__all__ = [
    "TOOLSET_TIMEOUT",
    "Explanation",
    "Reason",
    "ResolvedTools",
    "ordered",
    "picked",
    "resolve_candidates",
    "resolve_tools",
]
