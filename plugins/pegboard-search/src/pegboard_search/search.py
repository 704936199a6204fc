"""The search tool; toolsets whose tools are deferred until it has found them.

A request leaves deferred tools out. The search tool finds those of the request that its call answers, and adds their
names to the session's state, under `pegboard:found_tools`; the next resolution lists these.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from pegboard import (
    Concurrency,
    Found,
    Predicate,
    ReadonlyContext,
    Tool,
    ToolContext,
    ToolIndex,
    ToolResult,
    Toolset,
    ToolsetBase,
    ToolSpec,
    found_names,
    parse_predicate,
    wrap,
)
from pegboard.threads import run_in_thread

_FOUND_TOOLS: Final = "pegboard:found_tools"
_MOST_FOUND: Final = 128  # how many names are stored, the latest
_MOST_RESULTS: Final = 20  # the highest limit that the model may ask for
_MOST_SHOWN: Final = 400  # how many characters of a description are shown
_MOST_ARGUMENTS: Final = 20  # how many of a tool's arguments are shown
_MOST_WORD: Final = 80
_DESCRIPTION: Final = (
    "Search for tools by task. Most tools are hidden until you search. Returns the names, descriptions and arguments "
    "of the tools that match best. You can call them in your next response."
)


def search_tool(name: str = "search_tools", *, limit: int = 5) -> Tool:
    """A tool that finds the deferred tools of the request that its call answers.

    Args:
        name: The tool's name.
        limit: How many tools it finds by default, 1 to 20.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: The limit isn't from 1 to 20.
    """
    if not 1 <= limit <= _MOST_RESULTS:
        raise ValueError(f"limit has to be from 1 to {_MOST_RESULTS}, not {limit!r}")
    properties = {
        "query": {"type": "string", "description": "What you want to do, in a few words, or the name of a tool."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MOST_RESULTS,
            "default": limit,
            "description": "Maximum number of tools to return.",
        },
    }
    return Tool.from_schema(
        name,
        {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False},
        _Search(limit),
        description=_DESCRIPTION,
        title="Search for tools",
        read_only=True,
        idempotent=True,
        open_world=False,
        meta={"pegboard/searches": True},
        concurrency=Concurrency(
            "key"
        ),  # one after the other, so that each has the names that the earlier ones have found
    )


class _Search:
    """Handler of one search tool, with one index for all of its calls."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._index: ToolIndex | None = None

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        known = set(found_names(context.state))  # what was found before is found again
        tools = [tool for tool in cast("Sequence[Tool]", context.offered) if tool.offered]
        specs = [tool.spec for tool in tools if tool.spec.deferred or tool.name in known]
        query, limit = arguments["query"], int(arguments.get("limit", self._limit))  # 3.0 is an integer, too
        found = await run_in_thread(self._find, specs, query, limit)
        _remember(context, [each.name for each in found])
        return ToolResult(
            _text_of(query, found),  # pyright: ignore[reportArgumentType]  converted
            title=f"Tools for {query:.60}",
            metadata={"found": [each.name for each in found]},
        )

    def _find(self, specs: Sequence[ToolSpec], query: str, limit: int) -> tuple[Found, ...]:
        if self._index is None:
            self._index = ToolIndex()
        return self._index.search_among(specs, query, limit=limit)


def _remember(context: ToolContext, added: Sequence[str]) -> None:
    """Adds names to those that the session of a call has found, earlier calls of the same answer included.

    Of several calls of one answer, which don't see each other's changes, the last one's count: so each call repeats
    the names of those before it.
    """
    if not added:
        return
    earlier = _names_found_before(context.request)
    known = (*found_names(context.state), *earlier, *added)
    earlier += added
    del earlier[:-_MOST_FOUND]
    latest = list(dict.fromkeys(reversed(known)))[:_MOST_FOUND]
    context.state[_FOUND_TOOLS] = latest[::-1]


_earlier_names: Final[dict[int, tuple[weakref.ref[ReadonlyContext], list[str]]]] = {}
_earlier_lock: Final = threading.Lock()


def _names_found_before(request: ReadonlyContext) -> list[str]:
    """Mutable list of the names found by earlier calls of one answer; cached as long as the request's context lives."""
    if request == ReadonlyContext():
        return []
    key = id(request)
    with _earlier_lock:
        known = _earlier_names.get(key)
        if known is None or known[0]() is not request:
            reference = weakref.ref(request, lambda _: _earlier_names.pop(key, None))
            known = _earlier_names[key] = (reference, [])
        names = known[1]
        if set(names).issubset(found_names(request.state)):
            names.clear()  # the host has stored them: from now on the state counts
    return names


Always: TypeAlias = "Predicate | Callable[[Tool, ReadonlyContext], bool] | str | Iterable[str] | None"
"""Which tools are never deferred: a predicate, its text, a plain function of tool and context, or names."""


def searchable(toolset: Toolset, *, name: str = "search_tools", limit: int = 5, always: Always = None) -> ToolsetBase:
    """A toolset of a search tool, and of the toolset's own tools, deferred until a search has found them.

    The search tool finds every deferred tool of the request, from any toolset; so several searchable toolsets of one
    registry need only one search tool. To search several toolsets as one, combine them first:
    `searchable(CombinedToolset(...))`.

    Args:
        toolset: Any toolset. A tool of it that has the search tool's name is held back.
        name: The search tool's name.
        limit: How many tools a search finds by default, 1 to 20.
        always: Which tools are never deferred: a predicate, its text, a plain function of tool and context, or a list
            of names. Where a predicate raises for a tool, the tool is deferred.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: The limit isn't from 1 to 20.
        ExpressionError: The text of `always` doesn't parse.
    """
    return wrap(toolset).prepared(_Deferring(search_tool(name, limit=limit), always))


class _Deferring:
    """Defers the tools of a toolset, and adds a search tool before them if any is deferred."""

    def __init__(self, search: Tool, always: Always) -> None:
        self._search = search
        self._always = _predicate(always)
        self._may_block = callable(always) and not isinstance(always, Predicate)
        self._made: weakref.WeakKeyDictionary[Tool, dict[bool, Tool]] = weakref.WeakKeyDictionary()

    async def __call__(self, context: ReadonlyContext, tools: Sequence[Tool]) -> Sequence[Tool]:
        asked = (self._visible_tools, context, tools)
        listed = await run_in_thread(*asked) if self._may_block else self._visible_tools(context, tools)
        changed = [self._with_deferred(tool, deferred=tool not in listed) for tool in tools]
        return changed if len(listed) == len(tools) else (self._search, *changed)

    def _visible_tools(self, context: ReadonlyContext, tools: Sequence[Tool]) -> set[Tool]:
        """The tools that aren't deferred, those that only process requests included, as no search finds them."""
        return {tool for tool in tools if not tool.offered or self._is_always(tool, context)}

    def _is_always(self, tool: Tool, context: ReadonlyContext) -> bool:
        try:
            return self._always(tool, context) is True
        except Exception:  # noqa: BLE001  the tool is deferred, and can still be found
            return False

    def _with_deferred(self, tool: Tool, *, deferred: bool) -> Tool:
        """The changed tool, cached, so that what is compiled for it stays cached."""
        if tool.spec.deferred is deferred:
            return tool
        made = self._made.setdefault(tool, {})
        if deferred not in made:
            made[deferred] = tool.with_spec(deferred=deferred)
        return made[deferred]


def _predicate(always: Always) -> Callable[[Tool, ReadonlyContext], bool]:
    if isinstance(always, str):
        return parse_predicate(always)
    if callable(always):
        return always
    names = frozenset[str](always or ())
    return lambda tool, _: tool.name in names


def _text_of(query: str, found: Sequence[Found]) -> str:
    query = _cut(query, _MOST_WORD)
    if not found:
        return f"No tool matches {query!r}. Try other words: what the tool does, or what it works on."
    near = any(each.near for each in found)
    words = f"No tool matches {query!r}. These tools have similar names.\n" if near else ""
    head = "Found 1 tool. You can call it" if len(found) == 1 else f"Found {len(found)} tools. You can call them"
    tools = "\n\n".join(_tool_text(each.spec) for each in found)
    return f"{words}{head} in your next response.\n\n{tools}"


def _tool_text(spec: ToolSpec) -> str:
    description = _cut(" ".join((spec.description or spec.title or "").split()), _MOST_SHOWN)
    head = f"{spec.name}: {description}" if description else spec.name
    return f"{head}\n  arguments: {_arguments_text(spec)}"


def _arguments_text(spec: ToolSpec) -> str:
    """A tool's arguments in one line: `path (string, required), limit (integer)`; at most 20 of them."""
    if spec.kind == "freeform":
        return "free text"
    schema: Any = json.loads(spec.input_schema_text)
    properties: Any = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return "none"
    required: Any = schema.get("required")
    texts: list[str] = []
    for name, rule in islice(cast("dict[str, Any]", properties).items(), _MOST_ARGUMENTS):
        kind: Any = cast("dict[str, Any]", rule).get("type") if isinstance(rule, dict) else None
        kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
        facts = [" or ".join(each for each in kinds if isinstance(each, str))]
        if isinstance(required, list) and name in required:
            facts.append("required")
        text = ", ".join(filter(None, facts))
        texts.append(_cut(name, _MOST_WORD) + (f" ({text})" if text else ""))
    more = len(cast("dict[str, Any]", properties)) - _MOST_ARGUMENTS
    return ", ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
