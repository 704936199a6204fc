"""`Toolset`: a named source of tools, queried at every resolution; checks of its answer; the base of wrappers."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable
from weakref import WeakSet, WeakValueDictionary

from attrs import Factory, evolve, field

from pegboard.callbacks import CallableKind, may_block, maybe_await
from pegboard.errors import SchemaError, cause_of, did_you_mean, log_failure, suggest, tuple_of
from pegboard.json import MOST_PROBLEMS, canonical_json, count_text
from pegboard.schema.converter import JsonRecord, json_key
from pegboard.text import visible
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.handler import Binder, Handler, LazyHandler
from pegboard.tools.spec import HOST, Origin, Problem
from pegboard.tools.tool import Tool, check_schemas
from pegboard.toolsets.filters import error_text, filter_tools
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    from pegboard.threads import OwnThread
    from pegboard.toolsets.predicates import Predicate


@runtime_checkable
class Toolset(Protocol):
    """A named source of tools.

    Any class with these two members is one. Optional members:

    - `call(name, arguments, context)`, plain or async, runs the tools that it lists without a handler: `name` is the
      name that it has listed, `arguments` a valid mapping by the tool's schema, `context` the call's `ToolContext`.
    - `close()`, plain or async, releases its resources.
    - `instructions` are added before the conversation while a tool of it is in the request: a text, several, or a
      function `(context)`, plain or async, that returns them.
    - With `publishes`, `registry list` shows its tools from the cache, as it does static tools: they are the same for
      every context. It is a sequence of the absolute paths of the files that they are read from; published tools are
      valid until one of these, the plugin's settings or its code changes. `None` publishes nothing.
    - `on_change(function)` takes a function without arguments, to call from any thread whenever its tools have
      changed. It is called when the toolset is registered, as are those of the toolsets in `inner_toolsets`.
    - With `own_thread = True`, `tools`, `call`, `close` and the handlers of its tools, where plain, run in a thread of
      its own, one after the other: for objects that only one thread may use. The first of them starts the thread; it
      ends with `close`. Async ones run in the event loop, and a tool that names an executor runs there.
    - `identity` is what its tools come from, as JSON data without secrets, such as the command that starts a server.
      `{"code": [...]}` in it lists absolute paths of files and folders with code that is in no distribution. A lock
      holds its tools back once either is another.
    - `all_tools(context)` returns what `tools` does, and what the toolset itself holds back: a lock checks all of them.
    - `name_prefix` is the prefix of the names of all its tools; a command and `registry.call` don't query it for a
      tool whose name is quite different.

    Return the same `Tool` object for the same tool each time: what is compiled for a tool is cached with the object.
    """

    @property
    def name(self) -> str:
        """Its name: `toolset:NAME` in predicates."""
        ...

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now. If it raises, only its own tools are missing.

        A `ToolsetResult` also has problems of single tools, each of which costs only that tool.

        Args:
            context: The user, session and model.
        """
        ...


def toolset_name(toolset: object) -> str:
    """Its name, or its class's where its own can't be read."""
    try:
        name: object = getattr(toolset, "name", None)
    except BaseException:  # noqa: BLE001  one bad toolset doesn't affect the others
        name = None
    return str.__str__(name) if isinstance(name, str) and name else type(toolset).__name__  # a subclass may act


def published_files(toolset: Toolset) -> Sequence[str] | None:
    """The files that its published tools are read from; `None` where it publishes none."""
    files: Any = getattr(toolset, "publishes", None)
    return None if files is None else tuple_of("publishes", str)(files)


def identity_of(toolset: Toolset) -> Any:
    """The `identity` of a toolset, as JSON data; `None` where it has none, or it can't be read."""
    try:
        identity: Any = getattr(toolset, "identity", None)
        return None if identity is None else json.loads(canonical_json(identity))
    except Exception as error:  # noqa: BLE001  of a plugin's object
        log_failure(f"identity of toolset {toolset_name(toolset)!r}", error)
        return None


def toolsets_with_instructions(toolset: Toolset) -> Iterator[Toolset]:
    """The toolsets with `instructions`: it, or else those that it wraps (`inner_toolsets`)."""
    try:
        has_some = getattr(toolset, "instructions", None) is not None
    except BaseException:  # noqa: BLE001  reading them reports the failure
        has_some = True
    if has_some:
        yield toolset
        return
    for each in getattr(toolset, "inner_toolsets", ()):
        yield from toolsets_with_instructions(each)


def may_contain(toolset: Toolset, names: Iterable[str]) -> bool:
    """Whether a toolset may have a tool of one of these names or a similar one, by its `name_prefix`."""
    own = toolset.inner if isinstance(toolset, OwnedToolset) else toolset
    prefix, *others = ("".join(filter(str.isalnum, each)) for each in (getattr(own, "name_prefix", ""), *names))
    return any(prefix.casefold() in each.casefold() for each in others)


def subscribe(toolset: Toolset, function: Callable[[], None]) -> None:
    """Subscribes a function to changes of the tools of a toolset, and of those that it wraps."""
    try:
        if callable(take := getattr(toolset, "on_change", None)):
            take(function)
        for each in getattr(toolset, "inner_toolsets", ()):
            subscribe(each, function)
    except Exception as error:  # noqa: BLE001  its tools are still offered
        log_failure(f"on_change of toolset {toolset_name(toolset)!r}", error)


CLOSE_SECONDS: Final = 10.0  # for one toolset or executor

_own_threads: Final[WeakValueDictionary[int, OwnThread]] = WeakValueDictionary()  # by the id of what they keep alive
_own_lock: Final = threading.Lock()


def thread_of(toolset: object) -> OwnThread:
    """The thread of a toolset with `own_thread`, the same for all its wrappers."""
    from pegboard.threads import OwnThread

    with _own_lock:
        known = _own_threads.get(id(toolset))
        if known is None:
            known = _own_threads[id(toolset)] = OwnThread(toolset, f"toolset {toolset_name(toolset)!r}")
        return known


async def call_foreign(
    function: Callable[..., Any], *arguments: Any, thread: OwnThread | None = None, blocking: bool = True
) -> Any:
    """What a function, plain or async, gives; a plain one runs in this thread, or, if it may block, in any other."""
    if thread is not None and CallableKind.of(function) is CallableKind.PLAIN:
        return await maybe_await(await thread.run(function, *arguments))
    if blocking and may_block(function):
        from pegboard.threads import run_in_thread

        return await maybe_await(await run_in_thread(function, *arguments))
    return await maybe_await(function(*arguments))


async def _close(thing: object, method: str = "close") -> None:
    function = getattr(thing, method, None)
    thread = thread_of(thing) if getattr(thing, "own_thread", False) else None
    try:
        if callable(function):
            await call_foreign(function, thread=thread)
    finally:
        if thread is not None:
            thread.close()


async def close_all(things: Iterable[object], method: str = "close") -> tuple[Exception, ...]:
    """Closes one after the other by this method, if it has it, each within 10 s; returns the failures."""
    from pegboard.timeout import LimitExpiredError, cancels_the_call, within

    failures: list[Exception] = []
    for thing in things:
        try:
            await within(CLOSE_SECONDS, _close(thing, method))
        except LimitExpiredError:
            failures.append(TimeoutError(f"{toolset_name(thing)!r:.80} was not closed within {CLOSE_SECONDS:g} s"))
        except BaseException as error:
            if cancels_the_call(error):
                raise
            failures.append(error if isinstance(error, Exception) else RuntimeError(cause_of(error)))
    return tuple(failures)


_checked: Final[WeakSet[Tool]] = WeakSet()


def check_tool_schemas(tool: Tool) -> None:
    """Raises `SchemaError` for a tool whose schemas are refused; checks each tool once."""
    if tool not in _checked:
        check_schemas(tool, foreign=True)
        _checked.add(tool)


_MOST_TOOLS: Final = 100_000
_MOST_CAUSE: Final = 1_000  # characters


@frozen
class Reason(JsonRecord):
    """Decision of one step on one tool: of a resolution, or of a toolset that leaves the tool out for this context."""

    step: str  # of the resolution (`"where"`), of a wrapper (`"filtered"`), or of the request's steps (`"budget"`)
    verdict: Literal["in", "out"]  # `"in"`: the tool goes on; `"out"`: that tool isn't offered
    text: str  # why, for people
    tool: str = field(default="", metadata=json_key(""))  # the tool's name, as it would be offered

    def __str__(self) -> str:
        sign, how = ("+", "matches ") if self.verdict == "in" else ("-", "excluded by ")
        by = _FILTERS.get(self.step)
        return f"{sign} {self.step if by is None else how + by}: {self.text}"


_FILTERS: Final = {"default": "the default filter", "where": "where", "filtered": "the toolset's filter"}


class ToolsetResult(tuple[Tool, ...]):  # noqa: SLOT001  a tuple has no room for slots
    """Answer of a toolset: its tools, and what is wrong with others.

    It isn't trusted: bad tools are left out; of the problems, the first 20 count, and of each its `cause`, `fix`,
    `tool`, `error` and `note`, as short texts with hidden characters escaped.

    Args:
        tools: The tools, of distinct names.
        problems: What went wrong: `Problem("its schema has no type", "get_pet")` for one tool, `Problem("...")` for
            the toolset. It is for the operator, and never for the model.
        dropped: What was left out for this context, for explanations.

    Raises:
        TypeError: A problem isn't a `Problem`.
    """

    problems: tuple[Problem, ...]
    dropped: tuple[Reason, ...]

    def __new__(
        cls, tools: Iterable[Tool] = (), problems: Iterable[Problem] = (), dropped: Iterable[Reason] = ()
    ) -> Self:
        """Keeps the three; they are checked where a toolset returns them."""
        offer = super().__new__(cls, tools)
        offer.problems = tuple_of("problems", Problem)(problems) if problems else ()
        offer.dropped = tuple(dropped)
        return offer

    @property
    def has_failed(self) -> bool:
        """Whether the toolset failed, wholly or in part; notes and problems of single tools don't count."""
        return any(not (problem.note or problem.tool) for problem in self.problems)


async def ask_all(
    sources: Sequence[WrapperToolset],
    context: ReadonlyContext,
    timeout: float,  # noqa: ASYNC109  all share one wait
    limit: str = "toolset_timeout",
) -> list[ToolsetResult]:
    """Queries toolsets concurrently: one offer each, in order; of one that fails or is late, one with that problem.

    The problem of one that is late ends with `limit`.
    """
    import asyncio  # loading it takes longer than resolving static tools

    from pegboard.timeout import LimitExpiredError, within

    async def offer(source: WrapperToolset) -> ToolsetResult:
        try:
            return await within(timeout, source.tools(context))
        except LimitExpiredError as late:
            advice = getattr(late.__cause__, "__notes__", ())
            error: BaseException = TimeoutError("; ".join([f"no answer within {timeout:g} s ({limit})", *advice]))
        except BaseException as raised:  # noqa: BLE001  even SystemExit affects only its toolset
            error = raised
        return ToolsetResult((), [Problem(error_text(error), subject=f"toolset {source.name!r}", error=error)])

    return await asyncio.gather(*map(offer, sources))


def check_result(answer: Any) -> ToolsetResult:
    """The usable part of an untrusted answer; bad items and repeated names are left out, each with a problem."""
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    advice = "for a function that @tool decorates, return tool_of(function)"
    for index, item in enumerate(check_list(answer)):
        if not issubclass(type(item), Tool):  # `isinstance` would run code of the value
            problems.append(Problem(f"item {index} isn't a Tool but {type(item).__name__}; {advice}"))
        elif (problem := schema_problem(item)) is not None:
            problems.append(problem)
        elif tools.setdefault(item.spec.name, item) is not item:
            problems.append(_duplicate_problem(item.spec.name))
    if type(answer) is not ToolsetResult:
        return ToolsetResult(tools.values(), first_problems(problems))
    own = map(_limit_problem, first_problems([*answer.problems]))
    dropped = islice((each for each in answer.dropped if type(each) is Reason), _MOST_TOOLS)
    return ToolsetResult(tools.values(), (*own, *first_problems(problems)), dropped)


def _limit_problem(given: Problem) -> Problem:
    """A problem as a toolset may report it: in short texts, and only of itself, so a subject is part of the cause."""

    def text(value: object) -> str:
        return visible(" ".join(f"{value}"[: 2 * _MOST_CAUSE].split())[:_MOST_CAUSE], again=True)

    cause = text(f"{given.subject}: {given.cause}" if given.subject else given.cause)
    tool = None if given.tool is None else text(given.tool)
    if tool is not None and tool not in cause:
        cause = f"tool '{tool}': {cause}"  # without `!r`, which would escape its escapes
    fix, error = given.fix and text(given.fix), given.error if isinstance(given.error, BaseException) else None
    return Problem(cause, tool, fix=fix, error=error, note=given.note is True)


def _duplicate_problem(name: str) -> Problem:
    return Problem(f"it has two tools called {name!r}; the first is offered", name)


def schema_problem(tool: Tool, origin: Origin = HOST) -> Problem | None:
    """The problem of a tool whose schemas are refused."""
    try:
        check_tool_schemas(tool)
    except SchemaError as error:
        return Problem.of(origin, error_text(error), tool.spec.name, subject=None, error=error)
    return None


def check_list(answer: Any) -> list[Any]:
    """The items of an untrusted answer, which has to be a sequence of at most 100,000."""
    is_sequence = hasattr(answer, "__getitem__") and hasattr(answer, "__len__")  # a generator may never end
    if not is_sequence or isinstance(answer, str | bytes | dict):
        raise TypeError(f"a toolset has to return a list of tools, not {type(answer).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    items: list[Any] = list(islice(answer, _MOST_TOOLS + 1))
    if len(items) > _MOST_TOOLS:
        raise ValueError(f"a toolset may return at most {_MOST_TOOLS:,} tools")
    return items


def first_problems(problems: list[Problem]) -> list[Problem]:
    """At most 20 problems, and how many more there were."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], Problem(f"and {count_text(more, 'more problem')} of this kind")]


def unknown_names(names: Sequence[str], known: Collection[str], more: str = "") -> Iterator[str]:
    """A text for each name that no tool has; near misses only for up to three, as they take time among thousands."""
    for name in names:
        near = did_you_mean(suggest(name[:200], known)) if len(names) <= 3 else ""
        yield f"no tool is called {name!r}{more}.{near}"


_Change: TypeAlias = Callable[[Tool], Tool]  # returns the changed tool; may raise, which drops the tool


class ToolMapper:
    """Cached function of tools: the same result for the same tool, so that what is compiled for it stays cached.

    A lazily loaded tool is changed in the same way once it is loaded. Caches at most twice as many tools as were
    offered last, plus 100.
    """

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._cache: dict[Tool, Tool] = {}

    def one(self, tool: Tool) -> Tool:
        """The tool changed."""
        known = self._cache.get(tool)
        if known is None:
            known, lazy = self._change(tool), tool.handler
            if isinstance(lazy, LazyHandler) and known.handler is lazy and known is not tool:
                known = known.evolve(handler=lazy.with_change(tool, self._change))
            self._cache[tool] = known
        return known

    def trim(self, tools: Sequence[Tool]) -> None:
        """Drops what isn't offered now from a cache that has grown too large."""
        if len(self._cache) > 2 * len(tools) + 100:
            self._cache = {tool: known for tool in tools if (known := self._cache.get(tool)) is not None}


def _add_handler(call: Any, flavour: CallableKind | None, thread: OwnThread | None, tool: Tool) -> Tool:
    """Gives a tool without a handler one that calls its toolset's `call`, in the toolset's own thread, if any."""
    handler = tool.handler
    if handler is None and flavour is not None and tool.spec.kind != "provider":
        bind: Binder = lambda context, arguments: ((arguments, context), {})  # noqa: E731
        handler = Handler(partial(call, tool.spec.name), lambda: bind, flavour)
    if thread is not None and isinstance(handler, Handler) and handler.thread is None:
        handler = evolve(handler, blocking=True, thread=thread)
    is_lazy = thread is not None and isinstance(handler, LazyHandler)  # `ToolMapper` changes a copy's once it is loaded
    return tool if handler is tool.handler and not is_lazy else tool.evolve(handler=handler)


OfferChange: TypeAlias = Callable[[ToolsetResult, ReadonlyContext], Awaitable[ToolsetResult]]  # of one query's result


class WrapperToolset:
    """Wrapper of any toolset, under the same name; closing it closes the inner one.

    The inner one's tools are checked and have their handlers, so that a wrapper that changes a tool changes what is
    listed and what is called together. Each of its problems gets `of_problems`, such as the plugin.
    """

    is_checked: ClassVar = True  # its offers, which aren't checked again, so that their problems keep their subjects

    def __init__(self, inner: Toolset, change: OfferChange | None = None, **of_problems: str | None) -> None:
        self.inner = inner
        self.name = toolset_name(inner)
        self._change = change
        self._of_problems = of_problems
        call = getattr(inner, "call", None)
        flavour = CallableKind.of(call) if callable(call) else None
        self._thread = thread = thread_of(inner) if getattr(inner, "own_thread", False) else None
        may_add = flavour is not None or thread is not None
        self._with_handlers = ToolMapper(partial(_add_handler, call, flavour, thread)) if may_add else None

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The inner toolset's offer for this context, changed; raises whatever that raises."""
        return await self._offer(self.inner.tools, context)

    async def all_tools(self, context: ReadonlyContext) -> ToolsetResult:
        """As `tools`, with what the inner toolset holds back itself."""
        return await self._offer(getattr(self.inner, "all_tools", self.inner.tools), context)

    async def _offer(self, inner_tools: Callable[[ReadonlyContext], Any], context: ReadonlyContext) -> ToolsetResult:
        answer = await call_foreign(inner_tools, context, thread=self._thread, blocking=False)
        is_checked = type(answer) is ToolsetResult and getattr(self.inner, "is_checked", False)
        offer = answer if is_checked else check_result(answer)
        if self._with_handlers is not None:
            self._with_handlers.trim(offer)
            offer = ToolsetResult(map(self._with_handlers.one, offer), offer.problems, offer.dropped)
        if self._change is not None:
            offer = await self._change(offer, context)
        own, subject = self._of_problems, f"toolset {self.name!r}"
        problems = [each.evolve(subject=each.subject or subject, **own) for each in offer.problems]
        return ToolsetResult(offer, problems, offer.dropped) if problems else offer

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolset that it wraps."""
        return (self.inner,)

    @property
    def identity(self) -> Any:
        """The inner toolset's."""
        return getattr(self.inner, "identity", None)

    @property
    def publishes(self) -> Sequence[str] | None:
        """The inner toolset's."""
        return published_files(self.inner)

    async def close(self) -> None:
        """Closes the inner toolset."""
        await _close(self.inner)


@define(eq=False)
class ToolChange:
    """Change of an offer that changes tools one by one, those that `where` picks; of one name, the first tool stays.

    A tool is out where it can't be changed, or `where` fails for it.
    """

    word: str  # what it does, for people: "prefixed"
    change: _Change
    where: Predicate | None = None
    rename: Callable[[str], str] = field(default=str)  # of tools that are missing
    names: Collection[str] | None = None  # of the tools to change, `None` for all; one that no tool has is noted
    _mapper: ToolMapper = field(init=False, default=Factory(lambda self: ToolMapper(self.change), takes_self=True))
    _unseen: set[str] = field(init=False, default=Factory(lambda self: set(self.names or ()), takes_self=True))

    async def __call__(self, offer: ToolsetResult, context: ReadonlyContext) -> ToolsetResult:
        """The offer with its tools changed where `where` picks them, and with what went wrong."""
        tools: dict[str, Tool] = {}
        problems: list[Problem] = []
        picked, faults = (offer, {}) if self.where is None else await filter_tools(offer, self.where, context)
        changing = {tool for tool in picked if self.names is None or tool.spec.name in self.names}
        for tool in offer:
            name, changed = tool.spec.name, tool
            try:
                if tool in changing:
                    changed = self._mapper.one(tool)
            except BaseException as error:  # noqa: BLE001  any error drops only the tool
                faults[name] = error_text(error)
            if name in faults:
                problems.append(Problem(f"tool {name!r} can't be {self.word}: {faults[name]}", name))
            elif tools.setdefault(changed.spec.name, changed) is not changed:
                problems.append(_duplicate_problem(changed.spec.name))
        self._mapper.trim(offer)
        failed = (Reason(self.word, "out", f"failed: {cause}", name) for name, cause in faults.items())
        dropped = (evolve(each, tool=self.rename(each.tool)) for each in offer.dropped)
        names = (self.rename(each.tool) if each.tool and not each.note else each.tool for each in offer.problems)
        earlier = [each.evolve(tool=name) for each, name in zip(offer.problems, names, strict=True)]
        problems = [*earlier, *self._notes(offer), *first_problems(problems)]
        return ToolsetResult(tools.values(), problems, (*dropped, *failed))

    def _notes(self, offer: ToolsetResult) -> Iterator[Problem]:
        """Notes on names to change that no tool has had so far."""
        unseen = self._unseen
        if not unseen or offer.has_failed:
            return
        gone = (*offer.dropped, *(each for each in offer.problems if not each.note))
        known = {*(tool.spec.name for tool in offer), *(each.tool for each in gone if each.tool)}
        unseen -= known
        names = sorted(unseen)[:MOST_PROBLEMS]
        for name, cause in zip(names, unknown_names(names, known, f", which was to be {self.word}"), strict=True):
            yield Problem(cause, name, note=True)


class OwnedToolset(WrapperToolset):
    """Wrapper of a registered toolset: its tools get its name and its origin, in place of their own.

    Only tools of the host's toolsets may keep a plugin's origin. Untrusted tools stay so under any origin, and a
    tool's `source` is kept.
    """

    def __init__(self, inner: Toolset, origin: Origin = HOST) -> None:
        owner = evolve(origin, toolset=toolset_name(inner))
        change = ToolChange("taken over", lambda tool: owned_tool(tool, owner))
        super().__init__(inner, change, plugin=origin.plugin, distribution=origin.distribution)
        self.origin = origin


def owned_tool(tool: Tool, owner: Origin) -> Tool:
    """A tool under this owner: checked, with its origin, and without hidden characters in its texts."""
    check_tool_schemas(tool)  # a processor's hasn't been checked
    from pegboard.tools.visible import visible_spec  # only for tools that aren't the host's own

    own = tool.origin
    base = own if owner.plugin is None else owner
    source = own.source or owner.source
    origin = evolve(base, toolset=owner.toolset, trusted=own.trusted and owner.trusted, source=source)
    return tool.evolve(origin=origin, spec=visible_spec(tool.spec))
