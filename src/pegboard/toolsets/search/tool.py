"""`search_tool`: the tool by which a model finds tools that it isn't shown."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler, LateHandler
from pegboard.tools.spec import Concurrency
from pegboard.tools.tool import Tool
from pegboard.toolsets.remade import Remaker
from pegboard.toolsets.search.found_tools import SEARCHES, found_names, remember

if TYPE_CHECKING:
    from pegboard.toolsets.resolved import ResolvedTools
    from pegboard.toolsets.search.index import Found, ToolIndex

SEARCH_TOOL: Final = "search_tools"
MOST_RESULTS: Final = 20
"""The highest limit that the model may ask for."""

DESCRIPTION: Final = (
    "Finds tools. Most tools are not listed until they are found: say in a few words what you need (what is to be "
    "done, and to what), or a tool's name. What is found can be called from your next answer on."
)

Asked: TypeAlias = Callable[[ReadonlyContext], Awaitable[Sequence[Tool]]]
"""Gives the tools that a context is offered."""

_OWN_NAMES: Final[weakref.WeakKeyDictionary[Handler | LateHandler, str]] = weakref.WeakKeyDictionary()
"""What the toolset that defers a tool calls it, by the tool's handler: toolsets round that one may rename it."""


def search_tool(name: str = SEARCH_TOOL, *, limit: int = 5) -> Tool:
    """A tool that finds the deferred tools of the request that its call answers.

    What was found is noted in the session's state; see `found_names`. From the next request on, which the search tool
    processes for it, these tools aren't deferred.

    Args:
        name: The tool's name.
        limit: How many tools it finds where the model doesn't say, 1 to 20.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: The limit isn't from 1 to 20.
    """
    return search_tool_of(name, limit, None)


def search_tool_of(name: str, limit: int, asked: Asked | None) -> Tool:
    """The same, for calls that answer no request: what `asked` gives is searched then."""
    if not 1 <= limit <= MOST_RESULTS:
        raise ValueError(f"limit has to be from 1 to {MOST_RESULTS}, not {limit!r}")
    return Tool.from_schema(
        name,
        _schema(limit),
        _Search(limit, asked),
        description=DESCRIPTION,
        title="Search for tools",
        read_only=True,
        idempotent=True,
        open_world=False,
        meta={SEARCHES: True},
        process_request=_ShowFound(),
        concurrency=Concurrency("key"),  # one after the other, so that each knows what the earlier ones have found
    )


def note_own_name(tool: Tool) -> None:
    """Notes what the toolset that defers a tool calls it."""
    if tool.handler is not None:
        _OWN_NAMES[tool.handler] = tool.name


def _schema(limit: int) -> dict[str, Any]:
    query = {"type": "string", "description": "What the tool is to do, or its name."}
    most = {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_RESULTS,
        "default": limit,
        "description": "At most so many.",
    }
    return {
        "type": "object",
        "properties": {"query": query, "limit": most},
        "required": ["query"],
        "additionalProperties": False,
    }


class _ShowFound:
    """Lets a request offer the deferred tools that its session has found."""

    def __init__(self) -> None:
        self._shown = Remaker(lambda tool: tool.with_spec(deferred=False))

    def __call__(self, request: Any, context: ReadonlyContext) -> Any:
        """The request (a `ModelRequest`, of which this room knows nothing more); `None` where nothing changes."""
        resolved: ResolvedTools | None = request.tools
        known = set(found_names(context.state))
        if resolved is None or not known:
            return None
        found = {tool.name for tool in resolved if tool.spec.deferred and not known.isdisjoint(_names(tool))}
        if not found:
            return None
        tools = tuple(self._shown.one(tool) if tool.name in found else tool for tool in resolved)
        self._shown.forget_others(resolved.tools)
        return request.evolve(tools=attrs.evolve(resolved, tools=tools))


class _Search:
    """Runs the searches of one search tool, with one index for all of them."""

    def __init__(self, limit: int, asked: Asked | None) -> None:
        self._limit = limit
        self._asked = asked
        self._index: ToolIndex | None = None

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        from pegboard.toolsets.off_loop import off_loop

        offered = context.offered
        if not offered and self._asked is not None:
            offered = await self._asked(context.request)
        tools = {tool.name: tool for tool in _hidden(offered, found_names(context.state))}
        query, limit = arguments["query"], arguments.get("limit", self._limit)
        found: tuple[Found, ...] = await off_loop(self._found, tuple(tools.values()), query, limit)
        remember(context, (name for each in found for name in _names(tools[each.name])))
        return _result(query, found)

    def _found(self, tools: Sequence[Tool], query: str, limit: int) -> tuple[Found, ...]:
        from pegboard.toolsets.search.index import ToolIndex

        if self._index is None:
            self._index = ToolIndex()
        return self._index.search_among([tool.spec for tool in tools], query, limit=limit)


def _hidden(tools: Iterable[Tool], found: Iterable[str]) -> list[Tool]:
    """The tools that have to be found, those that were found before among them."""
    known = set(found)
    return [tool for tool in tools if tool.offered and (tool.spec.deferred or not known.isdisjoint(_names(tool)))]


def _names(tool: Tool) -> Iterable[str]:
    """The name that a tool is offered by, and the one that the toolset that defers it knows it by."""
    own = None if tool.handler is None else _OWN_NAMES.get(tool.handler)
    return (tool.name,) if own is None else dict.fromkeys((tool.name, own))


def _result(query: str, found: Sequence[Found]) -> ToolResult:
    from pegboard.toolsets.search.summary import found_text

    near = any(each.near for each in found)
    return ToolResult(
        found_text(query, [each.spec for each in found], near=near),  # pyright: ignore[reportArgumentType]  converted
        title=f"Tools for {query:.60}",
        metadata={"found": [each.name for each in found]},
    )


__all__ = ["DESCRIPTION", "MOST_RESULTS", "SEARCH_TOOL", "note_own_name", "search_tool", "search_tool_of"]
