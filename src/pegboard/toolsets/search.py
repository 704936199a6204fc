"""Tool search: the index, the search tool, and the toolset that offers what it finds."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs
from attrs import frozen

from pegboard.tools.content import ToolResult
from pegboard.tools.context import NOBODY, ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.spec import Concurrency, ToolSpec, check_name
from pegboard.tools.tool import LateHandler, Tool
from pegboard.toolsets import search_table as table
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.predicate import Predicate, PredicateFunction
from pegboard.toolsets.predicates import any_of, named, nothing
from pegboard.toolsets.search_table import MOST_TEXT, question_words, spaced, with_parts
from pegboard.toolsets.toolset import Dropped, Offer, Remaker, Toolset, ToolsetProblem, WrapperToolset, shortened, sift

if TYPE_CHECKING:
    import sqlite3

    from pegboard.tools.spec import ToolSpec
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.search_table import Row

_MOST_INDEXED: Final = 20_000
"""How many characters of a description are indexed."""

_MOST_PARAMETERS: Final = 500
"""How many names of parameters are indexed, those that lie outermost first."""

_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, in which `properties` means nothing."""

_CONTAINERS: Final = (dict, list)


def _row_of(spec: ToolSpec) -> Row:
    """What is indexed of a tool."""
    labels = " ".join((spec.title or "", *spec.tags, *parameter_names(spec)))
    return (
        spec.name,
        with_parts(spec.name),
        spaced(with_parts(labels)),
        spaced(spec.description[:_MOST_INDEXED]),
    )


def parameter_names(spec: ToolSpec) -> list[str]:
    """The names of a tool's parameters, those within others too, each once; at most 500."""
    if '"properties"' not in spec.input_schema_text:
        return []
    names: dict[str, None] = {}
    level: list[Any] = [json.loads(spec.input_schema_text)]
    while level and len(names) < _MOST_PARAMETERS:
        within: list[Any] = []
        for schema in level:
            _look_into(schema, names, within)
        level = within
    return list(names)[:_MOST_PARAMETERS]


def _look_into(schema: Any, names: dict[str, None], within: list[Any]) -> None:
    """Notes the properties of a schema, or of a list of them, and what may hold more."""
    if isinstance(schema, list):
        within += [part for part in schema if isinstance(part, _CONTAINERS)]  # pyright: ignore[reportUnknownVariableType]
        return
    for keyword, value in schema.items():
        if keyword == "properties" and isinstance(value, dict):
            names.update(dict.fromkeys(value))  # pyright: ignore[reportUnknownArgumentType]
            within += [part for part in value.values() if isinstance(part, dict)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif keyword not in _DATA and isinstance(value, _CONTAINERS):
            within.append(value)


_MOST_SHOWN: Final = 400
"""How many characters of a description are told."""

_MOST_ARGUMENTS: Final = 20
"""How many of a tool's arguments are told."""

_MOST_WORD: Final = 80


def _found_text(query: str, specs: Sequence[ToolSpec], *, near: bool = False) -> str:
    """What the search tool answers.

    Args:
        query: What was asked for.
        specs: What was found, best first.
        near: Whether only near names were found.
    """
    if not specs:
        return f"No tool fits {_cut(query, _MOST_WORD)!r}. Try other words: what the tool does, or what it works on."
    words = f"No tool speaks of {_cut(query, _MOST_WORD)!r}; these have names that are near.\n" if near else ""
    head = "1 tool was found. It" if len(specs) == 1 else f"{len(specs)} tools were found. They"
    told = "\n\n".join(_told(spec) for spec in specs)
    return f"{words}{head} can be called from your next answer on.\n\n{told}"


def _told(spec: ToolSpec) -> str:
    description = _cut(" ".join((spec.description or spec.title or "").split()), _MOST_SHOWN)
    head = f"{spec.name}: {description}" if description else spec.name
    return f"{head}\n  arguments: {_arguments_text(spec)}"


def _arguments_text(spec: ToolSpec) -> str:
    """A tool's arguments in one line: `path (string, required), limit (integer)`; at most 20 of them."""
    schema: Any = json.loads(spec.input_schema_text)
    properties: Any = schema.get("properties")
    if spec.kind == "freeform":
        return "free text"
    if not isinstance(properties, dict) or not properties:
        return "none"
    required: Any = schema.get("required")
    needed: list[Any] = required if isinstance(required, list) else []  # pyright: ignore[reportUnknownVariableType]
    facts = list(properties.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    told = [_argument(name, rule, required=name in needed) for name, rule in facts[:_MOST_ARGUMENTS]]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    more = len(facts) - _MOST_ARGUMENTS  # pyright: ignore[reportUnknownArgumentType]
    return ", ".join([*told, f"and {more} more"] if more > 0 else told)


def _argument(name: str, rule: Any, *, required: bool) -> str:
    kind: Any = rule.get("type") if isinstance(rule, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    kinds: list[Any] = kind if isinstance(kind, list) else [kind]  # pyright: ignore[reportUnknownVariableType]
    facts = [" or ".join(each for each in kinds if isinstance(each, str)), "required" if required else ""]
    told = ", ".join(fact for fact in facts if fact)
    return _cut(name, _MOST_WORD) + (f" ({told})" if told else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


MOST_NEAR: Final = 3
"""How many near misses stand for a question, or for a word of it, that nothing is found for."""

MOST_GUESSED: Final = 4
"""How many words of a question are held against all that is known; each takes some 20 ms among 10,000 tools."""


@frozen
class Found:
    """A tool that was found.

    Attributes:
        spec: The tool's.
        score: BM25, times the part of the question's words that was found; a higher one is better, and 0.0 tells
            nothing. Comparable within one answer only.
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
        saved: An index as `dump` has written it; it finds tools once `update` has been told of their specs.

    Raises:
        RuntimeError: This Python's SQLite comes without FTS5.
        ValueError: What was saved is damaged, or another version's.
    """

    def __init__(self, specs: Iterable[ToolSpec] = (), *, saved: bytes | None = None) -> None:
        self._lock = threading.RLock()
        self._specs: dict[str, ToolSpec] = {}
        self._kept: dict[str, str] = {}
        self._connection = _made() if saved is None else _loaded(saved)
        weakref.finalize(self, self._connection.close)  # from Python 3.13 on, one left open is warned of
        if saved is not None:
            self._kept = table.digests(self._connection)
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
                table.set_digests(self._connection, own)
                table.set_facts(self._connection, (facts or {}).items())
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
            new = [spec for name, spec in wanted.items() if not self._has(name, spec)]
            fresh = {spec.name for spec in new}
            known = self._specs.keys() | self._kept.keys()
            old = [name for name in known if name not in wanted or name in fresh]
            with self._connection:
                table.remove(self._connection, old)
                table.add(self._connection, map(_row_of, new))
            self._specs, self._kept = wanted, {}
            return bool(new or old)

    def _has(self, name: str, spec: ToolSpec) -> bool:
        known = self._specs.get(name)
        if known is not None:
            return known is spec or known.digest == spec.digest
        return name in self._kept and self._kept[name] == spec.digest

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
            near = not hits
            if near:
                hits = self._near(words[:MOST_TEXT], limit)
            return tuple(Found(self._specs[name], score, near) for name, score in hits if name in self._specs)

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


def _made() -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        table.create(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        raise RuntimeError(f"searching for tools needs an SQLite with FTS5: {error}") from error
    return connection


def _loaded(saved: bytes) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        connection.deserialize(saved)
        if table.is_of_this_format(connection) and table.is_whole(connection):
            connection.commit()
            return connection
        fault = "it is another version's, or its parts don't fit together"
    except (sqlite3.Error, MemoryError, OverflowError) as error:  # SQLite takes no bytes at all for a lack of memory
        fault = str(error) or type(error).__name__
    connection.close()
    raise ValueError(f"the index can't be used: {fault}")


_FOUND_TOOLS: Final = "pegboard:found_tools"
"""Where the names are in a session's state."""

SEARCHES: Final = "pegboard/searches"
"""Stands in the meta of a search tool's spec: where the provider searches by itself, it isn't offered."""

_MOST_FOUND: Final = 128
"""How many names are remembered, those that were found last."""


def found_names(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a session has found, the latest last, at most 128.

    A state that says something else than a list of texts under `pegboard:found_tools` is passed over as far as it
    does: a session's state may come from anywhere.
    """
    kept = state.get(_FOUND_TOOLS)
    if not isinstance(kept, list | tuple):
        return ()
    latest: list[Any] = list(kept[-_MOST_FOUND:])  # pyright: ignore[reportUnknownArgumentType]
    return tuple(dict.fromkeys(name for name in latest if isinstance(name, str)))


def _remember(context: ToolContext, names: Iterable[str]) -> None:
    """Adds names to what the session of a call has found, with what earlier calls of the same answer have found.

    The host takes the changes of the last of several calls of one answer, which don't see each other's: so each of
    them says what those before it have found, too.
    """
    added = list(names)
    if not added:
        return
    earlier = _EARLIER.of(context.request)
    known = (*found_names(context.state), *earlier, *added)
    earlier += added
    del earlier[:-_MOST_FOUND]
    latest = list(dict.fromkeys(reversed(known)))[:_MOST_FOUND]
    context.state[_FOUND_TOOLS] = latest[::-1]


class _Earlier:
    """What calls have found that answer one request: a request is one context object, for as long as that lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[int, tuple[weakref.ref[ReadonlyContext], list[str]]] = {}

    def of(self, request: ReadonlyContext) -> list[str]:
        """The names that were found for this request, to be added to; nothing is kept for nobody."""
        if request is NOBODY:
            return []
        key = id(request)
        with self._lock:
            known = self._names.get(key)
            if known is None or known[0]() is not request:
                reference = weakref.ref(request, lambda _: self._names.pop(key, None))
                known = self._names[key] = (reference, [])
            names = known[1]
            if set(names).issubset(found_names(request.state)):
                names.clear()  # the host has taken them over: from now on the state decides
        return names


_EARLIER: Final = _Earlier()
SEARCH_TOOL: Final = "search_tools"
_MOST_RESULTS: Final = 20
"""The highest limit that the model may ask for."""

_DESCRIPTION: Final = (
    "Finds tools. Most tools are not listed until they are found: say in a few words what you need (what is to be "
    "done, and to what), or a tool's name. What is found can be called from your next answer on."
)

_Asked: TypeAlias = Callable[[ReadonlyContext], Awaitable[Sequence[Tool]]]
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
    return _search_tool_of(name, limit, None)


def _search_tool_of(name: str, limit: int, asked: _Asked | None) -> Tool:
    """The same, for calls that answer no request: what `asked` gives is searched then."""
    if not 1 <= limit <= _MOST_RESULTS:
        raise ValueError(f"limit has to be from 1 to {_MOST_RESULTS}, not {limit!r}")
    return Tool.from_schema(
        name,
        _schema(limit),
        _Search(limit, asked),
        description=_DESCRIPTION,
        title="Search for tools",
        read_only=True,
        idempotent=True,
        open_world=False,
        meta={SEARCHES: True},
        process_request=_ShowFound(),
        concurrency=Concurrency("key"),  # one after the other, so that each knows what the earlier ones have found
    )


def _note_own_name(tool: Tool) -> None:
    """Notes what the toolset that defers a tool calls it."""
    if tool.handler is not None:
        _OWN_NAMES[tool.handler] = tool.name


def _schema(limit: int) -> dict[str, Any]:
    query = {"type": "string", "description": "What the tool is to do, or its name."}
    most = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_RESULTS,
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

    def __init__(self, limit: int, asked: _Asked | None) -> None:
        self._limit = limit
        self._asked = asked
        self._index: ToolIndex | None = None

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        from pegboard.threads import off_loop

        offered = cast("Sequence[Tool]", context.offered)
        if not offered and self._asked is not None:
            offered = await self._asked(context.request)
        tools = {tool.name: tool for tool in _hidden(offered, found_names(context.state))}
        query, limit = arguments["query"], arguments.get("limit", self._limit)
        found: tuple[Found, ...] = await off_loop(self._found, tuple(tools.values()), query, limit)
        _remember(context, (name for each in found for name in _names(tools[each.name])))
        return _result(query, found)

    def _found(self, tools: Sequence[Tool], query: str, limit: int) -> tuple[Found, ...]:

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

    near = any(each.near for each in found)
    return ToolResult(
        _found_text(query, [each.spec for each in found], near=near),  # pyright: ignore[reportArgumentType]  converted
        title=f"Tools for {query:.60}",
        metadata={"found": [each.name for each in found]},
    )


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
        if not 1 <= limit <= _MOST_RESULTS:
            raise ValueError(f"limit has to be from 1 to {_MOST_RESULTS}, not {limit!r}")
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
            self._search = _search_tool_of(self._search_name, self._limit, self.tools)
        return self._search


_TAKEN = "tool {!r} is held back: the search tool has the name; give it another, searchable(..., name=...)"


def _with_deferred(*, deferred: bool) -> Callable[[Tool], Tool]:
    def change(tool: Tool) -> Tool:
        _note_own_name(tool)
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
