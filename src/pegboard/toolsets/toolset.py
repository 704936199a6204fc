"""`Toolset`: a named source of tools, asked at every resolution; the check of its answer; the base of wrappers."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol, Self, TypeAlias, TypeGuard, cast, runtime_checkable
from weakref import WeakSet

from attrs import Factory, define, evolve, field, frozen

from pegboard.callbacks import Flavour, may_block, settle
from pegboard.errors import PegboardError, SchemaError, cause_of, did_you_mean, log_failure, suggest
from pegboard.schema.json import MOST_PROBLEMS
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.handler import Handler
from pegboard.tools.spec import HOST, Origin
from pegboard.tools.tool import LateHandler, Tool, check_schemas
from pegboard.tools.visible import visible_spec
from pegboard.toolsets.predicates import Not, Predicate


@runtime_checkable
class Toolset(Protocol):
    """A named source of tools.

    Any class with these two will do. Optional members:

    - `call(name, arguments, context)`, plain or async, runs the tools that it lists without a handler: `name` is the
      name that it has listed, `arguments` a mapping that the tool's schema takes, `context` the call's `ToolContext`.
    - `close()`, plain or async, releases what it holds.
    - `instructions` stand before the conversation as long as a tool of it is in the request: a text, several, or a
      function `(context)`, plain or async, that gives them.
    - `publishes` has `registry list` show its tools from the cache, as it does static tools: they are the same for
      every context. It is a sequence of the absolute paths of the files that they are read from; what was published
      holds until one of these, the plugin's settings or its code changes. `None` publishes nothing.
    - `on_change(function)` takes a function without arguments, which it calls, from any thread, whenever its tools
      have changed. It is called when the toolset is registered; those that it wraps are asked too (`inner_toolsets`).
    - `names_begin` is what the names of all its tools begin with, as a text; it isn't asked, by a command or
      `registry.call`, for a tool of quite another name.

    Give the same `Tool` object for the same tool each time: what is compiled for a tool is kept with the object.
    """

    @property
    def name(self) -> str:
        """Its name: `toolset:NAME` in predicates."""
        ...

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now. What it raises costs only its own tools.

        Args:
            context: The user, session and model.
        """
        ...


def is_toolset(thing: object) -> TypeGuard[Toolset]:
    """Whether it has a name and `tools(context)`; classes aren't toolsets, their instances are."""
    return (
        not isinstance(thing, type)
        and callable(getattr(thing, "tools", None))
        and isinstance(getattr(thing, "name", None), str)
    )


def toolset_name(toolset: object) -> str:
    """Its name, or its class's where its own can't be read."""
    try:
        name: object = getattr(toolset, "name", None)
    except BaseException:  # noqa: BLE001  a toolset without a name costs no other
        name = None
    return str.__str__(name) if isinstance(name, str) and name else type(toolset).__name__  # no subclass: it may act


def published_files(toolset: Toolset) -> Sequence[str] | None:
    """The files that its published tools are read from; `None` where it publishes none.

    Raises:
        TypeError: It names them otherwise than as a sequence of texts.
    """
    files: Any = getattr(toolset, "publishes", None)
    if files is not None and (
        not isinstance(files, list | tuple) or not all(isinstance(file, str) for file in cast("list[Any]", files))
    ):
        raise TypeError(f"publishes has to be a sequence of paths as texts, or None, not {files!r:.100}")
    return files  # pyright: ignore[reportUnknownVariableType]


def with_instructions(toolset: Toolset) -> Iterator[Toolset]:
    """The toolsets with `instructions`: it, or else those that it wraps (`inner_toolsets`)."""
    try:
        has_some = getattr(toolset, "instructions", None) is not None
    except BaseException:  # noqa: BLE001  reading them reports the failure
        has_some = True
    if has_some:
        yield toolset
        return
    for each in getattr(toolset, "inner_toolsets", ()):
        yield from with_instructions(each)


def may_have(toolset: Toolset, names: Iterable[str]) -> bool:
    """Whether a toolset may have a tool that is called nearly so, by its `names_begin`."""
    own = toolset.inner if isinstance(toolset, OwnedToolset) else toolset
    begins, *letters = ("".join(filter(str.isalnum, each)) for each in (getattr(own, "names_begin", ""), *names))
    return any(begins.casefold() in each.casefold() for each in letters)


def subscribe(toolset: Toolset, function: Callable[[], None]) -> None:
    """Hands a function to the toolset, and to those that it wraps, for when their tools have changed."""
    try:
        if callable(take := getattr(toolset, "on_change", None)):
            take(function)
        for each in getattr(toolset, "inner_toolsets", ()):
            subscribe(each, function)
    except Exception as error:  # noqa: BLE001  its tools are offered all the same
        log_failure(f"on_change of toolset {toolset_name(toolset)!r}", error)


CLOSE_SECONDS: Final = 10.0
"""How long one toolset or executor may take to close."""


async def _close(thing: object, method: str = "close") -> None:
    function = getattr(thing, method, None)
    if callable(function):
        from pegboard.threads import off_loop

        await settle(await off_loop(function) if may_block(function) else function())


async def close_all(things: Iterable[object], method: str = "close") -> tuple[Exception, ...]:
    """Closes them one after the other, all of them, each within 10 s; gives what those that failed raised.

    Args:
        things: They may be plugins'.
        method: The name of what closes one, where it has it: plain or async; a plain one runs in a thread.
    """
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


def check_once(tool: Tool) -> None:
    """Raises `SchemaError` for a tool whose schemas are refused; checks each tool once."""
    if tool not in _checked:
        check_schemas(tool, foreign=True)
        _checked.add(tool)


_MOST_TOOLS: Final = 100_000


@frozen
class ToolsetProblem:
    """Something that went wrong with a toolset, or with what was asked of a resolution; everything else works.

    Attributes:
        toolset: The toolset's name, or `""` where it isn't about one.
        cause: What happened, for the operator.
        tool: The name of the tool that it cost, or `None`.
        origin: Who brought the toolset.
        error: What was raised, or `None`.
        note: Whether nothing failed: it is worth knowing, and no more.
    """

    toolset: str
    cause: str
    tool: str | None = None
    origin: Origin = HOST
    error: BaseException | None = field(default=None, eq=False, repr=False)
    note: bool = False

    def __str__(self) -> str:
        return ": ".join(part for part in (self.toolset and f"toolset {self.toolset!r}", self.cause) if part)


@frozen
class Dropped:
    """A tool that a toolset has, and doesn't offer for this context.

    Attributes:
        name: The tool's name, as it would be offered.
        step: What dropped it: `"filtered"`, `"combined"` ...
        text: Why.
    """

    name: str
    step: str
    text: str


class Offer(tuple[Tool, ...]):  # noqa: SLOT001  a tuple has no room for slots
    """Tools with handlers where there are any, each name once; what went wrong, and what was left out."""

    problems: tuple[ToolsetProblem, ...]
    dropped: tuple[Dropped, ...]

    def __new__(
        cls, tools: Iterable[Tool] = (), problems: Iterable[ToolsetProblem] = (), dropped: Iterable[Dropped] = ()
    ) -> Self:
        """An offer of tools whose names are distinct."""
        offer = super().__new__(cls, tools)
        offer.problems = tuple(problems)
        offer.dropped = tuple(dropped)
        return offer

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong, wholly or in part; notes don't count."""
        return any(not problem.note for problem in self.problems)


async def ask_all(sources: Sequence[WrapperToolset], context: ReadonlyContext, timeout: float) -> list[Offer]:  # noqa: ASYNC109  all share one wait
    """One offer a source, in their order; of a source that failed or gave no answer in time, one with that problem.

    They are asked at the same time. One that blocks the event loop can't be bounded.
    """
    import asyncio  # loading it takes longer than resolving static tools

    from pegboard.timeout import LimitExpiredError, within

    async def offer(source: WrapperToolset) -> Offer:
        try:
            return await within(timeout, source.tools(context))
        except LimitExpiredError as late:
            text = f"no answer within {timeout:g} s (toolset_timeout)"
            notes = getattr(late.__cause__, "__notes__", ())  # the toolset's own, on what to do
            return _failed(source, TimeoutError("; ".join([text, *notes])))
        except BaseException as error:  # noqa: BLE001  a toolset's SystemExit costs only itself
            return _failed(source, error)

    return await asyncio.gather(*map(offer, sources))


def _failed(source: WrapperToolset, error: BaseException) -> Offer:
    return Offer((), [ToolsetProblem(source.name, error_text(error), error=error)])


def error_text(error: BaseException) -> str:
    """What was raised, in one short line; of our own errors the text alone."""
    text = cause_of(error)
    return text.removeprefix(f"{type(error).__name__}: ") if isinstance(error, PegboardError) else text


def check_tools(toolset: str, answer: Any) -> tuple[list[Tool], list[ToolsetProblem]]:
    """The usable tools of an answer that may be anything; a bad item, or a repeated name, costs only itself.

    Raises as `check_list`.
    """
    tools: dict[str, Tool] = {}
    problems: list[ToolsetProblem] = []
    for index, item in enumerate(check_list(answer)):
        if not issubclass(type(item), Tool):  # `isinstance` would ask a foreign value what it is
            problems.append(ToolsetProblem(toolset, _NO_TOOL.format(index, type(item).__name__)))
        elif (problem := schema_problem(toolset, item)) is not None:
            problems.append(problem)
        elif tools.setdefault(item.spec.name, item) is not item:
            problems.append(ToolsetProblem(toolset, _REPEATED.format(item.spec.name), item.spec.name))
    return list(tools.values()), first_problems(toolset, problems)


def schema_problem(toolset: str, tool: Tool, origin: Origin = HOST) -> ToolsetProblem | None:
    """The problem of a tool whose schemas are refused."""
    try:
        check_once(tool)
    except SchemaError as error:
        return ToolsetProblem(toolset, error_text(error), tool.spec.name, origin, error)
    return None


def check_list(answer: Any) -> list[Any]:
    """The items of an answer that may be anything.

    Raises:
        TypeError: The answer is no sequence.
        ValueError: It is longer than 100,000.
    """
    # A generator's items can't be looked at without an end that may never come.
    is_sequence = hasattr(answer, "__getitem__") and hasattr(answer, "__len__")
    if not is_sequence or isinstance(answer, str | bytes | dict):
        raise TypeError(f"a toolset has to give a list of tools, and gave {type(answer).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    items: list[Any] = list(islice(answer, _MOST_TOOLS + 1))
    if len(items) > _MOST_TOOLS:
        raise ValueError(f"a toolset may give {_MOST_TOOLS:,} tools, and gave more")
    return items


_NO_TOOL: Final = "item {} is no Tool but {}; of a function that @tool decorates it is tool_of(function)"
_REPEATED: Final = "it has two tools called {!r}; the first is offered"


def first_problems(toolset: str, problems: list[ToolsetProblem]) -> list[ToolsetProblem]:
    """At most 20 problems, and how many more there were."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], ToolsetProblem(toolset, f"and {more} more problems of this kind")]


def unknown_names(names: Sequence[str], known: Collection[str], more: str = "") -> Iterator[str]:
    """What is said of names that no tool has; with near misses only of few, as they take time among thousands."""
    for name in names:
        near = did_you_mean(suggest(name[:200], known)) if len(names) <= 3 else ""
        yield f"no tool is called {name!r}{more}.{near}"


_Change: TypeAlias = Callable[[Tool], Tool]  # gives the tool changed; may raise, which costs the tool


def map_tool(tool: Tool, change: _Change) -> Tool:
    """The tool changed; one whose handler is loaded later is changed in the same way once it is loaded."""
    changed = change(tool)
    late = tool.handler
    if isinstance(late, LateHandler) and changed.handler is late and changed is not tool:
        return changed.evolve(handler=late.changed(tool, change))
    return changed


class ToolMapper:
    """A function of tools with a cache: gives the same tool for the same tool, so what is compiled for it is kept.

    Keeps at most twice as many tools as were offered last, and a hundred.
    """

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._cache: dict[Tool, Tool] = {}

    def one(self, tool: Tool) -> Tool:
        """The tool changed."""
        known = self._cache.get(tool)
        if known is None:
            known = self._cache[tool] = map_tool(tool, self._change)
        return known

    def trim(self, tools: Sequence[Tool]) -> None:
        """Forgets what isn't offered now, where it has become too much."""
        if len(self._cache) > 2 * len(tools) + 100:
            self._cache = {tool: known for tool in tools if (known := self._cache.get(tool)) is not None}


Faults: TypeAlias = dict[str, str]  # names of tools for which a predicate gave no answer, and why


PREDICATE_SECONDS: Final = 5.0  # what the functions of a predicate may take for all tools together


async def filter_tools(
    tools: Sequence[Tool], predicate: Predicate, context: ReadonlyContext, seconds: float | None = PREDICATE_SECONDS
) -> tuple[list[Tool], Faults]:
    """The tools for which the predicate is true, in their order; and those for which it gave no answer.

    Functions are called off the event loop. The tools that they haven't answered for in so many seconds are out; a
    function that never returns is left behind. With `None`, they are called here and now: where they hang, it does.
    """
    answers: dict[Tool, Any] = {}
    if seconds is None or not predicate.calls_functions:
        _ask(answers, tools, predicate, context, PREDICATE_SECONDS)
        return _sorted_out(tools, answers)
    import asyncio

    from pegboard.threads import off_loop

    try:
        async with asyncio.timeout(seconds):
            await off_loop(_ask, answers, tools, predicate, context, seconds)
    except TimeoutError:
        answers = answers.copy()  # the thread may still work at it
    return _sorted_out(tools, answers)


def _ask(
    answers: dict[Tool, Any], tools: Sequence[Tool], predicate: Predicate, context: ReadonlyContext, seconds: float
) -> None:
    """Notes for each tool the answer, or what was raised in place of one, as long as there is time."""
    deadline = time.monotonic() + seconds
    try:
        test = predicate.bound(context)
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tools that it is asked about
        answers.update(dict.fromkeys(tools, _cause(error)))
        return
    is_timed = predicate.calls_functions
    for tool in tools:
        try:
            answer: object = test(tool)
            if answer is not True and answer is not False:
                answer = f"the answer is of type {type(answer).__name__}, neither True nor False"
        except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
            answer = _cause(error)
        if is_timed and time.monotonic() > deadline:
            return
        answers[tool] = answer


def _cause(error: BaseException) -> str:
    """What was raised; an interrupt passes on in the main thread, which alone gets the user's."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
    return error_text(error)


def _sorted_out(tools: Sequence[Tool], answers: Mapping[Tool, Any]) -> tuple[list[Tool], Faults]:
    kept = [tool for tool in tools if answers.get(tool) is True]
    late = "no answer in time (predicate_timeout)"
    return kept, {tool.spec.name: cause for tool in tools if isinstance(cause := answers.get(tool, late), str)}


def explain_filter(predicate: Predicate, tool: Tool, context: ReadonlyContext, faults: Faults, *, passed: bool) -> str:
    """The part of the predicate that decides for this tool, and the tool's facts; functions aren't called again."""
    if (fault := faults.get(tool.spec.name)) is not None:
        return f"{predicate} failed: {fault}"
    if predicate.calls_functions:
        return f"{predicate} is {'' if passed else 'not '}so"
    try:
        part = predicate.deciding(tool, context)
        part = ~part if isinstance(part, Not) else part  # "tag:net is so", rather than "not tag:net is not so"
        facts = part.facts(tool, context)
        answer = "is so" if part(tool, context) else "is not so"
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only an explanation
        return f"{predicate} failed: {_cause(error)}"
    return f"{part} {answer}" + (f" ({facts})" if facts else "")


def _add_handler(call: Any, flavour: Flavour, tool: Tool) -> Tool:
    """Gives a tool without a handler one that calls its toolset's `call`, by the name that it has listed."""
    if tool.handler is not None or tool.spec.kind == "provider":
        return tool
    handler = Handler(
        partial(call, tool.spec.name), lambda: lambda context, arguments: ((arguments, context), {}), flavour
    )
    return tool.evolve(handler=handler)


Transform: TypeAlias = Callable[[str, Offer, ReadonlyContext], Awaitable[Offer]]
"""What a wrapper makes of an offer: gets the toolset's name, the offer and the context."""


class WrapperToolset:
    """A toolset round any object with the interface of one, under the same name; closing it closes the inner one.

    What the inner one offers is checked, and able to run, so that a wrapper that changes a tool changes what is listed
    and what is called together.

    Args:
        inner: Any toolset.
        transform: What is made of its offers; `None` leaves them as they are.
    """

    def __init__(self, inner: Toolset, transform: Transform | None = None) -> None:
        self.inner = inner
        self.name = toolset_name(inner)
        self._transform = transform
        call = getattr(inner, "call", None)
        self._with_handlers = ToolMapper(partial(_add_handler, call, Flavour.of(call))) if callable(call) else None

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What is made of the inner toolset's offer for this context; raises whatever it raises."""
        answer: Any = await settle(self.inner.tools(context))
        if type(answer) is Offer:
            offer = answer
        else:
            tools, problems = check_tools(self.name, answer)
            if self._with_handlers is not None:
                self._with_handlers.trim(tools)
                tools = [self._with_handlers.one(tool) for tool in tools]
            offer = Offer(tools, problems)
        return offer if self._transform is None else await self._transform(self.name, offer, context)

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolset that it wraps."""
        return (self.inner,)

    @property
    def publishes(self) -> Sequence[str] | None:
        """What the inner toolset says."""
        return published_files(self.inner)

    async def close(self) -> None:
        """Closes the inner toolset."""
        await _close(self.inner)


@define(eq=False)
class Step:
    """Transform that changes tools one by one; the order stays, and the first tool of a name.

    Attributes:
        word: What it does, for people: `"prefixed"`.
        change: Changes one tool; where it raises, that tool is out.
        where: Picks the tools that are changed, in a context; `None` picks all. Where it raises, the tool is out.
        rename: What becomes of the names of tools that aren't there.
        names: The names of tools that it is about; one that no tool has is noted.
    """

    word: str
    change: _Change
    where: Predicate | None = None
    rename: Callable[[str], str] = field(default=str)
    names: Collection[str] = ()
    _mapper: ToolMapper = field(init=False, default=Factory(lambda step: ToolMapper(step.change), takes_self=True))
    _unseen: set[str] = field(init=False, default=Factory(lambda step: set(step.names), takes_self=True))

    async def __call__(self, toolset: str, offer: Offer, context: ReadonlyContext) -> Offer:
        """The same offer, its tools changed where the step applies."""
        tools: dict[str, Tool] = {}
        problems: list[ToolsetProblem] = []
        picked, faults = (offer, {}) if self.where is None else await filter_tools(offer, self.where, context)
        changing = set(picked)
        for tool in offer:
            name = tool.spec.name
            if name not in faults:
                try:
                    changed = self._mapper.one(tool) if tool in changing else tool
                except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
                    faults[name] = error_text(error)
                else:
                    if tools.setdefault(changed.spec.name, changed) is not changed:
                        text = _REPEATED.format(changed.spec.name)
                        problems.append(ToolsetProblem(toolset, text, changed.spec.name))
                    continue
            problems.append(ToolsetProblem(toolset, f"tool {name!r} can't be {self.word}: {faults[name]}", name))
        self._mapper.trim(offer)
        lost = (Dropped(name, self.word, f"failed: {cause}") for name, cause in faults.items())
        dropped = (evolve(each, name=self.rename(each.name)) for each in offer.dropped)
        own = first_problems(toolset, problems)
        return Offer(tools.values(), (*offer.problems, *self._notes(toolset, offer), *own), (*dropped, *lost))

    def _notes(self, toolset: str, offer: Offer) -> Iterator[ToolsetProblem]:
        """The names that it is about and that no tool has had so far."""
        unseen = self._unseen
        if not unseen or offer.has_failed:
            return
        known = {*(tool.spec.name for tool in offer), *(each.name for each in offer.dropped)}
        unseen -= known
        for cause in unknown_names(sorted(unseen)[:MOST_PROBLEMS], known, f", which was to be {self.word}"):
            yield ToolsetProblem(toolset, cause, note=True)


class OwnedToolset(WrapperToolset):
    """A toolset as it is registered: its tools carry its name and its origin, whatever they say of themselves.

    Only the host's toolsets may pass on tools in a plugin's name. No origin makes tools trusted that aren't.

    Args:
        inner: Any toolset.
        origin: Who brought it.
    """

    def __init__(self, inner: Toolset, origin: Origin = HOST) -> None:
        super().__init__(inner, Step("taken over", self._with_origin))
        self.origin = origin

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The inner toolset's tools and problems, under its origin."""
        offer = await super().tools(context)
        return Offer(offer, (evolve(problem, origin=self.origin) for problem in offer.problems), offer.dropped)

    def _with_origin(self, tool: Tool) -> Tool:
        return owned_tool(tool, evolve(self.origin, toolset=self.name))


def owned_tool(tool: Tool, owner: Origin) -> Tool:
    """A tool as this owner brings it: checked, with its origin, and with nothing hidden in its texts.

    Raises:
        SchemaError: Its schemas are refused, or hold hidden characters.
    """
    check_once(tool)  # an `Offer` of a toolset of others comes unchecked
    own = tool.origin
    base = own if owner.plugin is None else owner
    origin = evolve(base, toolset=owner.toolset, trusted=own.trusted and owner.trusted)
    return tool.evolve(origin=origin, spec=visible_spec(tool.spec))
