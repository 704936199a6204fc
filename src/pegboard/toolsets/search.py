"""Tool search: the full-text index, the search tool, and the toolset that defers tools until they are found."""

from __future__ import annotations

import json
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs
from attrs import frozen

from pegboard.tools.content import ToolResult
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.spec import Concurrency, ToolSpec, check_name
from pegboard.tools.tool import LateHandler, Tool
from pegboard.toolsets import search_table as table
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.predicates import Predicate, PredicateFunction, any_of, named, nothing
from pegboard.toolsets.search_table import MOST_TEXT, question_words, spaced, with_parts
from pegboard.toolsets.toolset import (
    Dropped,
    Offer,
    ToolMapper,
    Toolset,
    ToolsetProblem,
    WrapperToolset,
    filter_tools,
    first_problems,
)
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    import sqlite3

    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.search_table import Row

_MOST_INDEXED: Final = 20_000  # how many characters of a description are indexed
_MOST_PARAMETERS: Final = 500  # how many names of parameters are indexed, those that lie outermost first
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, in which `properties` means nothing."""


def _row_of(spec: ToolSpec) -> Row:
    return (
        spec.name,
        with_parts(spec.name),
        spaced(with_parts(" ".join((spec.title or "", *spec.tags, *_parameter_names(spec))))),
        spaced(spec.description[:_MOST_INDEXED]),
    )


def _parameter_names(spec: ToolSpec) -> list[str]:
    """The names of a tool's parameters, nested ones too, each once, outermost first; at most 500."""
    names: dict[str, None] = {}
    waiting: deque[Any] = deque([json.loads(spec.input_schema_text)])
    while waiting and len(names) < _MOST_PARAMETERS:
        schema: Any = waiting.popleft()
        if isinstance(schema, list):
            waiting.extend(cast("list[Any]", schema))
        elif isinstance(schema, dict):
            for keyword, value in cast("JsonObject", schema).items():
                if keyword == "properties" and isinstance(value, dict):
                    names.update(dict.fromkeys(cast("JsonObject", value)))
                    waiting.extend(part for part in cast("JsonObject", value).values() if not isinstance(part, list))
                elif keyword not in _DATA:
                    waiting.append(value)
    return list(names)[:_MOST_PARAMETERS]


_MOST_SHOWN: Final = 400  # how many characters of a description are shown
_MOST_ARGUMENTS: Final = 20  # how many of a tool's arguments are shown
_MOST_WORD: Final = 80


def _found_text(query: str, found: Sequence[Found]) -> str:
    query = _cut(query, _MOST_WORD)
    if not found:
        return f"No tool fits {query!r}. Try other words: what the tool does, or what it works on."
    near = any(each.near for each in found)
    words = f"No tool speaks of {query!r}; these have names that are near.\n" if near else ""
    head = "1 tool was found. It" if len(found) == 1 else f"{len(found)} tools were found. They"
    tools = "\n\n".join(_tool_text(each.spec) for each in found)
    return f"{words}{head} can be called from your next answer on.\n\n{tools}"


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
    for name, rule in islice(cast("JsonObject", properties).items(), _MOST_ARGUMENTS):
        kind: Any = cast("JsonObject", rule).get("type") if isinstance(rule, dict) else None
        kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
        facts = [" or ".join(each for each in kinds if isinstance(each, str))]
        if isinstance(required, list) and name in required:
            facts.append("required")
        text = ", ".join(filter(None, facts))
        texts.append(_cut(name, _MOST_WORD) + (f" ({text})" if text else ""))
    more = len(cast("JsonObject", properties)) - _MOST_ARGUMENTS
    return ", ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


MOST_NEAR: Final = 3  # how many near misses stand for a question, or for a word of it, that nothing is found for
MOST_GUESSED: Final = 4
"""How many words of a question are held against all that is known; each takes some 20 ms among 10,000 tools."""


@frozen
class Found:
    """A tool that was found.

    Attributes:
        spec: The tool's.
        score: BM25, times the part of the question's words that was found; a higher one is better, and 0.0 is
            unknown. Comparable within one answer only.
        near: Whether no word was found as it was written, and this tool's name, or a word of it, is near to one.
    """

    spec: ToolSpec
    score: float
    near: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.spec.name


class ToolIndex:
    """Finds tools by the words of their names, titles, tags, parameters and descriptions.

    Kept in memory by SQLite's FTS5 and ranked by BM25: a word weighs most in a name, then in title, tags and names of
    parameters (nested ones too), then in the description. A word finds whatever begins with it, without regard to
    case and accents. May be used by several threads.

    Args:
        specs: What to begin with.
        saved: An index as `dump` has written it; it finds tools once `update` has got their specs.

    Raises:
        RuntimeError: This Python's SQLite comes without FTS5.
        ValueError: What was saved is damaged, or another version's.
    """

    def __init__(self, specs: Iterable[ToolSpec] = (), *, saved: bytes | None = None) -> None:
        self._lock = threading.RLock()
        self._specs: dict[str, ToolSpec] = {}
        self._connection = _connect(saved)
        weakref.finalize(self, self._connection.close)  # from Python 3.13 on, one left open is warned of
        self._saved = table.digests(self._connection)  # of the tools that a saved index has and no spec was given for
        if specs:
            self.update(specs)

    def dump(self, facts: Mapping[str, str] | None = None) -> bytes:
        """The whole index, to begin with another time.

        Args:
            facts: What to note in it; see `facts`.
        """
        with self._lock:
            own = [(name, spec.digest) for name, spec in self._specs.items()]
            with self._connection:
                table.note(self._connection, own, (facts or {}).items())
            return self._connection.serialize()

    @property
    def facts(self) -> Mapping[str, str]:
        """What was noted by `dump`."""
        with self._lock:
            return table.facts(self._connection)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that it finds, sorted."""
        return tuple(sorted(self._specs))

    def __len__(self) -> int:
        return len(self._specs)

    def update(self, specs: Iterable[ToolSpec]) -> bool:
        """Makes these the tools that are found; of two of one name the first.

        Only what has changed is indexed anew: a spec counts as the same where its digest is.

        Returns:
            Whether anything had to be changed.
        """
        wanted: dict[str, ToolSpec] = {}
        for spec in specs:
            wanted.setdefault(spec.name, spec)
        with self._lock:
            new = [spec for spec in wanted.values() if not self._has(spec)]
            fresh = {spec.name for spec in new}
            old = [name for name in self._specs.keys() | self._saved.keys() if name not in wanted or name in fresh]
            with self._connection:
                table.remove(self._connection, old)
                table.add(self._connection, map(_row_of, new))
            self._specs, self._saved = wanted, {}
            return bool(new or old)

    def _has(self, spec: ToolSpec) -> bool:
        known = self._specs.get(spec.name)
        if known is None:
            return self._saved.get(spec.name, "") == spec.digest
        return known is spec or known.digest == spec.digest

    def search(self, words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """The tools that some words ask for, best first; ties by name.

        A tool is found by any of the words; the more of them, the better. Whatever stands in the text is looked for
        and nothing is syntax: the first 2,000 characters, and 24 different words of them. A tool whose name is the
        whole text, or stands in it and is made of several words, comes first. Where no word is found at all, tools
        with near names are.

        Args:
            words: What is wanted, in any words.
            limit: How many tools at most, from 1.

        Raises:
            ValueError: The limit is below 1.
        """
        if limit < 1:
            raise ValueError(f"limit has to be at least 1, not {limit!r}")
        with self._lock:
            hits = table.best(self._connection, words, limit)
            found = hits or self._near(words[:MOST_TEXT], limit)
            return tuple(Found(self._specs[name], score, not hits) for name, score in found if name in self._specs)

    def search_among(self, specs: Iterable[ToolSpec], words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """`update` and `search`, with no other thread's between them."""
        with self._lock:
            self.update(specs)
            return self.search(words, limit=limit)

    def _near(self, text: str, limit: int) -> list[tuple[str, float]]:
        """The tools whose names are near to the whole text, then those with words that are near to one of it."""
        from pegboard.errors import suggest

        hits = dict.fromkeys(suggest(text.strip(), self._specs, most=MOST_NEAR), 0.0)
        known = table.words_in_names(self._connection)
        asked = [word for word in question_words(text) if len(word) > 2][:MOST_GUESSED]
        words = [near for word in asked for near in suggest(word, known, most=1)]
        if words:
            hits = {**hits, **dict(table.best(self._connection, " ".join(words), limit))}
        return list(hits.items())[:limit]

    def close(self) -> None:
        """Gives its memory back; afterwards it can't be used."""
        with self._lock:
            self._connection.close()


def _connect(saved: bytes | None) -> sqlite3.Connection:
    import sqlite3  # the extension module is loaded only to search

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        if saved is None:
            table.create(connection)
            return connection
        connection.deserialize(saved)
        if table.is_of_this_format(connection) and table.is_whole(connection):
            connection.commit()
            return connection
        fault = "it is another version's, or its parts don't fit together"
    except (sqlite3.Error, MemoryError, OverflowError) as error:  # SQLite takes no bytes at all for a lack of memory
        fault = str(error) or type(error).__name__
    connection.close()
    if saved is None:
        raise RuntimeError(f"searching for tools needs an SQLite with FTS5: {fault}")
    raise ValueError(f"the index can't be used: {fault}")


_FOUND_TOOLS: Final = "pegboard:found_tools"  # where the names are in a session's state
SEARCHES: Final = "pegboard/searches"
"""Stands in the meta of a search tool's spec: where the provider searches by itself, it isn't offered."""

_MOST_FOUND: Final = 128  # how many names are kept, those that were found last


def found_names(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a session has found, the latest last, at most 128.

    Anything but a list of texts under `pegboard:found_tools` is passed over: a state may come from anywhere.
    """
    kept = state.get(_FOUND_TOOLS)
    if not isinstance(kept, list | tuple):
        return ()
    latest: list[Any] = list(kept[-_MOST_FOUND:])  # pyright: ignore[reportUnknownArgumentType]
    return tuple(dict.fromkeys(name for name in latest if isinstance(name, str)))


def _remember(context: ToolContext, added: Sequence[str]) -> None:
    """Adds names to what the session of a call has found, with what earlier calls of the same answer have found.

    The host takes the changes of the last of several calls of one answer, which don't see each other's: so each of
    them repeats what those before it have found.
    """
    if not added:
        return
    earlier = _found_earlier(context.request)
    known = (*found_names(context.state), *earlier, *added)
    earlier += added
    del earlier[:-_MOST_FOUND]
    latest = list(dict.fromkeys(reversed(known)))[:_MOST_FOUND]
    context.state[_FOUND_TOOLS] = latest[::-1]


_earlier_names: Final[dict[int, tuple[weakref.ref[ReadonlyContext], list[str]]]] = {}
_earlier_lock: Final = threading.Lock()


def _found_earlier(request: ReadonlyContext) -> list[str]:
    """The names found by earlier calls that answer one request, to be added to; kept as long as its context lives."""
    if request is EMPTY_CONTEXT:
        return []
    key = id(request)
    with _earlier_lock:
        known = _earlier_names.get(key)
        if known is None or known[0]() is not request:
            reference = weakref.ref(request, lambda _: _earlier_names.pop(key, None))
            known = _earlier_names[key] = (reference, [])
        names = known[1]
        if set(names).issubset(found_names(request.state)):
            names.clear()  # the host has taken them over: from now on the state decides
    return names


SEARCH_TOOL: Final = "search_tools"
_MOST_RESULTS: Final = 20  # the highest limit that the model may ask for
_DESCRIPTION: Final = (
    "Finds tools. Most tools are not listed until they are found: say in a few words what you need (what is to be "
    "done, and to what), or a tool's name. What is found can be called from your next answer on."
)

_Asked: TypeAlias = Callable[[ReadonlyContext], Awaitable[Sequence[Tool]]]  # gives the tools that a context is offered
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
    return _search_tool_of(name, limit, None)


def _search_tool_of(name: str, limit: int, asked: _Asked | None) -> Tool:
    """The search tool; `asked` gives the tools to search for calls that answer no request."""
    if not 1 <= limit <= _MOST_RESULTS:
        raise ValueError(f"limit has to be from 1 to {_MOST_RESULTS}, not {limit!r}")
    return Tool.from_schema(
        name,
        _search_schema(limit),
        _Search(limit, asked),
        description=_DESCRIPTION,
        title="Search for tools",
        read_only=True,
        idempotent=True,
        open_world=False,
        meta={SEARCHES: True},
        process_request=partial(_show_found, ToolMapper(_with_deferred(deferred=False))),
        concurrency=Concurrency("key"),  # one after the other, so that each knows what the earlier ones have found
    )


def _search_schema(limit: int) -> JsonObject:
    most = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_RESULTS,
        "default": limit,
        "description": "At most so many.",
    }
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool is to do, or its name."},
            "limit": most,
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def shows_found(tool: Tool) -> bool:
    """Whether all that it does to a request is to offer deferred tools that were found."""
    return getattr(tool.process_request, "func", None) is _show_found


def _show_found(shown: ToolMapper, request: Any, context: ReadonlyContext) -> Any:
    """The `ModelRequest` with the deferred tools that the session has found, or `None` where nothing changes."""
    resolved: ResolvedTools | None = request.tools
    known = set(found_names(context.state))
    if resolved is None or not known:
        return None
    found = {tool.name for tool in resolved if tool.spec.deferred and not known.isdisjoint(_names(tool))}
    if not found:
        return None
    tools = tuple(shown.one(tool) if tool.name in found else tool for tool in resolved)
    shown.trim(resolved.tools)
    return request.evolve(tools=attrs.evolve(resolved, tools=tools))


class _Search:
    """Runs the searches of one search tool, with one index for all of them."""

    def __init__(self, limit: int, asked: _Asked | None) -> None:
        self._limit = limit
        self._asked = asked
        self._index: ToolIndex | None = None

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        from pegboard.threads import off_loop

        offered = cast("Sequence[Tool]", context.offered)
        if not offered and self._asked is not None:
            offered = await self._asked(context.request)
        known = set(found_names(context.state))
        tools = {
            tool.name: tool  # what was found before is found again
            for tool in offered
            if tool.offered and (tool.spec.deferred or not known.isdisjoint(_names(tool)))
        }
        query, limit = arguments["query"], arguments.get("limit", self._limit)
        found = await off_loop(self._found, [tool.spec for tool in tools.values()], query, limit)
        _remember(context, [name for each in found for name in _names(tools[each.name])])
        return ToolResult(
            _found_text(query, found),  # pyright: ignore[reportArgumentType]  converted
            title=f"Tools for {query:.60}",
            metadata={"found": [each.name for each in found]},
        )

    def _found(self, specs: Sequence[ToolSpec], query: str, limit: int) -> tuple[Found, ...]:
        if self._index is None:
            self._index = ToolIndex()
        return self._index.search_among(specs, query, limit=limit)


def _names(tool: Tool) -> Iterable[str]:
    """The name that a tool is offered by, and its name in the toolset that defers it."""
    own = None if tool.handler is None else _OWN_NAMES.get(tool.handler)
    return (tool.name,) if own is None else dict.fromkeys((tool.name, own))


Always: TypeAlias = "Predicate | PredicateFunction | str | Iterable[str] | None"
"""Which tools are never deferred: a predicate, its text, a plain function of tool and context, or names."""


class SearchableToolset(WrapperToolset):
    """A toolset whose tools have to be found: it offers a search tool, and defers the others until they were.

    What was found stands in the session's state, in `pegboard:found_tools`; from the next resolution on these tools
    aren't deferred. The search tool finds every deferred tool of the request, from any toolset; so of several
    searchable toolsets of one registry, one search tool is enough.

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
        if not 1 <= limit <= _MOST_RESULTS:
            raise ValueError(f"limit has to be from 1 to {_MOST_RESULTS}, not {limit!r}")
        self._search_name = check_name(name)
        self._limit = limit
        self._always = _predicate(always)
        self._deferred = ToolMapper(_with_deferred(deferred=True))
        self._listed = ToolMapper(_with_deferred(deferred=False))
        self._search: Tool | None = None

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The search tool where there is something to find, then the tools, deferred where they weren't found."""
        offer = await self._inner.offer(context)
        tools = [tool for tool in offer if tool.name != self._search_name]
        always, faults = await filter_tools(tools, self._always, context)
        shown = {*always, *(tool for tool in tools if not tool.offered)}  # what only processes requests isn't found
        found = set(found_names(context.state))
        if len(shown) == len(tools):
            return Offer(map(self._listed.one, offer), offer.problems, offer.dropped)
        made = [(self._listed if tool in shown or tool.name in found else self._deferred).one(tool) for tool in tools]
        problems = [
            ToolsetProblem(self.name, f"tool {name!r} is deferred, as 'always' failed: {cause}", name, note=True)
            for name, cause in faults.items()
        ]
        dropped = offer.dropped
        if len(tools) < len(offer):
            problems.append(ToolsetProblem(self.name, _TAKEN.format(self._search_name), self._search_name))
            dropped = (*dropped, Dropped(self._search_name, "searchable", "held back: the search tool has the name"))
        for mapper in (self._deferred, self._listed):
            mapper.trim(offer)
        if self._search is None:
            self._search = _search_tool_of(self._search_name, self._limit, self.tools)
        return Offer((self._search, *made), (*offer.problems, *first_problems(self.name, problems)), dropped)


_TAKEN = "tool {!r} is held back: the search tool has the name; give it another, searchable(..., name=...)"


def _with_deferred(*, deferred: bool) -> Callable[[Tool], Tool]:
    def change(tool: Tool) -> Tool:
        if tool.handler is not None:
            _OWN_NAMES[tool.handler] = tool.name
        return tool if tool.spec.deferred is deferred else tool.with_spec(deferred=deferred)

    return change


def _predicate(always: Always) -> Predicate:
    if always is None:
        return nothing
    if isinstance(always, str | Predicate) or not isinstance(always, Iterable):
        return as_predicate(always)
    names: Iterable[Any] = always  # pyright: ignore[reportUnknownVariableType]  a callable might be iterable, too
    return any_of(*map(named, names))


__all__ = ["SEARCH_TOOL", "Always", "Found", "SearchableToolset", "ToolIndex", "found_names", "search_tool"]
