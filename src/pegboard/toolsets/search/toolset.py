"""`SearchableToolset`: a search tool, and the other tools once they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.name import check_name
from pegboard.tools.tool import Tool
from pegboard.toolsets.custom import PredicateFunction
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.offer import Dropped, Offer, ToolsetProblem, shortened
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.predicates import any_of, named, nothing
from pegboard.toolsets.remade import Remaker
from pegboard.toolsets.search.found_tools import found_names
from pegboard.toolsets.search.tool import MOST_RESULTS, SEARCH_TOOL, note_own_name, search_tool_of
from pegboard.toolsets.sift import sift
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import WrapperToolset

Always: TypeAlias = "Predicate | PredicateFunction | str | Iterable[str] | None"
"""Which tools are never deferred: a predicate, its text, a plain function of tool and context, or names."""


class SearchableToolset(WrapperToolset):
    """A toolset whose tools have to be found: it offers a search tool, and defers the others until they were.

    What was found stands in the session's state, in `pegboard:found_tools`; from the next resolution on these tools
    aren't deferred. The search tool finds every tool that the request defers, whoever defers it; so of several
    searchable toolsets on one board, one search tool is enough.

    Args:
        inner: Any toolset.
        name: The search tool's name. An inner tool of this name is held back.
        limit: How many tools a search finds where the model doesn't say, 1 to 20.
        always: What is never deferred: a predicate, its text, a plain function of tool and context, or a list of
            names. Where a predicate raises for a tool, the tool is deferred.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: The limit isn't from 1 to 20.
        ExpressionError: The text of `always` doesn't parse.
    """

    def __init__(self, inner: Toolset, *, name: str = SEARCH_TOOL, limit: int = 5, always: Always = None) -> None:
        super().__init__(inner)
        if not 1 <= limit <= MOST_RESULTS:
            raise ValueError(f"limit has to be from 1 to {MOST_RESULTS}, not {limit!r}")
        self._search_name = check_name(name)
        self._limit = limit
        self._always = _predicate(always)
        self._deferred = Remaker(_with_deferred(deferred=True))
        self._listed = Remaker(_with_deferred(deferred=False))
        self._search: Tool | None = None

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The search tool where there is something to find, then the tools, deferred where they weren't found."""
        offer = await self._inner.offer(context)
        tools = [tool for tool in offer if tool.name != self._search_name]
        always, faults = sift(tools, self._always, context)
        shown = {*always, *(tool for tool in tools if not tool.offered)}  # what only processes requests isn't found
        found = set(found_names(context.state))
        if len(shown) == len(tools):
            return Offer(map(self._listed.one, offer), offer.problems, offer.dropped)
        made = [self._made(tool, known=tool in shown or tool.name in found) for tool in tools]
        problems = [self._problem(name, cause) for name, cause in faults.items()]
        dropped = offer.dropped
        if len(tools) < len(offer):
            problems.append(ToolsetProblem(self.name, _TAKEN.format(self._search_name), self._search_name))
            dropped = (*dropped, Dropped(self._search_name, "searchable", "held back: the search tool has the name"))
        for remaker in (self._deferred, self._listed):
            remaker.forget_others(offer)
        return Offer((self._tool(), *made), (*offer.problems, *shortened(self.name, problems)), dropped)

    def _made(self, tool: Tool, *, known: bool) -> Tool:
        return (self._listed if known else self._deferred).one(tool)

    def _problem(self, name: str, cause: str) -> ToolsetProblem:
        return ToolsetProblem(self.name, f"tool {name!r} is deferred, as 'always' failed: {cause}", name, note=True)

    def _tool(self) -> Tool:
        """The search tool, made once."""
        if self._search is None:
            self._search = search_tool_of(self._search_name, self._limit, self.tools)
        return self._search


_TAKEN = "tool {!r} is held back: the search tool has the name; give it another, searchable(..., name=...)"


def _with_deferred(*, deferred: bool) -> Callable[[Tool], Tool]:
    def change(tool: Tool) -> Tool:
        note_own_name(tool)
        return tool if tool.spec.deferred is deferred else tool.with_spec(deferred=deferred)

    return change


def _predicate(always: Always) -> Predicate:
    if always is None:
        return nothing
    if isinstance(always, str | Predicate) or not isinstance(always, Iterable):
        return as_predicate(always)
    names: Iterable[Any] = always  # pyright: ignore[reportUnknownVariableType]  a callable might be iterable, too
    return any_of(*map(named, names))


__all__ = ["Always", "SearchableToolset"]
