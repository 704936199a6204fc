"""`Toolset`: a named source of tools, queried at every resolution; what one offers, checked; the base of wrappers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable
from weakref import WeakSet

import attrs
from attrs import evolve, field, frozen

from pegboard.callbacks import Flavour, settle
from pegboard.errors import PegboardError, SchemaError, did_you_mean, suggest
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.policy import HOST, Origin
from pegboard.tools.tool import LateHandler, Tool
from pegboard.toolsets.predicate import Not, Predicate


@runtime_checkable
class Toolset(Protocol):
    """A named source of tools.

    Any class with these two will do. These are used, too, where they are there:

    - `call(name, arguments, context)`, plain or async, runs the tools that it lists without a handler: `name` is the
      name that it has listed, `arguments` a mapping that the tool's schema takes, `context` the call's `ToolContext`.
    - `_close()`, plain or async, lets go of what it holds.
    - `instructions` is what the model is told before the conversation, as long as a tool of it is in the request: a
      text, several, or a function `(context)`, plain or async, that gives them.

    Give the same `Tool` object for the same tool each time: what is compiled for a tool is kept with the object.
    """

    @property
    def name(self) -> str:
        """What people know it by: `toolset:NAME` in predicates."""
        ...

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now. What it raises costs only its own tools.

        Args:
            context: For whom, and for which model.
        """
        ...


def is_toolset(thing: object) -> TypeGuard[Toolset]:
    """Whether it has a name and `tools(context)`; classes aren't toolsets, their instances are."""
    return (
        not isinstance(thing, type)
        and callable(getattr(thing, "tools", None))
        and isinstance(getattr(thing, "name", None), str)
    )


def name_of(toolset: Toolset) -> str:
    """Its name; where that can't be had, the name of its class."""
    try:
        name: object = toolset.name
    except Exception:  # noqa: BLE001  a toolset without a name costs nobody else
        name = None
    return name if isinstance(name, str) and name else type(toolset).__name__


def speaking(toolset: Toolset) -> Iterator[Toolset]:
    """Those that have `instructions`: it, or else the toolsets that it stands round (`inner_toolsets`)."""
    try:
        speaks = getattr(toolset, "instructions", None) is not None
    except Exception:  # noqa: BLE001  whoever asks it finds out
        speaks = True
    if speaks:
        yield toolset
        return
    inner: Iterable[Toolset] = getattr(toolset, "inner_toolsets", ())
    for each in inner:
        yield from speaking(each)


async def _close(toolset: Toolset) -> None:
    """Calls the toolset's `_close`, where it has one; raises what that raises."""
    method = getattr(toolset, "close", None)
    if callable(method):
        await settle(method())


async def close_all(toolsets: Iterable[Toolset]) -> tuple[Exception, ...]:
    """Closes them one after the other; one that fails keeps no other from being closed.

    Returns:
        What those that failed raised.
    """
    failures: list[Exception] = []
    for toolset in toolsets:
        try:
            await _close(toolset)
        except Exception as error:  # noqa: BLE001  handed back
            failures.append(error)
    return tuple(failures)


MOST_REMEMBERED: Final = 4096
MAX_REMEMBERED_CHARACTERS: Final = 8192
"""Of one text: what is remembered comes from outside, and stays under 32 Mi characters in all."""

_sound: Final[WeakSet[Tool]] = WeakSet()


def check_sound(tool: Tool) -> None:
    """Refuses a tool with a schema that can't judge, or whose cost is unbounded.

    Some 0.4 us for a tool that has been here before, 1 us for a schema that has.

    Raises:
        SchemaError: Says which schema is refused, and why.
    """
    if tool in _sound:
        return
    texts = {"input_schema": tool.spec.input_schema_text, "output_schema": tool.spec.output_schema_text}
    for what, text in texts.items():
        if text is not None and (fault := _schema_fault(text, what)) is not None:
            raise SchemaError(fault, tool=tool.spec.name)
    _sound.add(tool)


def _schema_fault(text: str, what: str) -> str | None:
    return (_remembered if len(text) <= MAX_REMEMBERED_CHARACTERS else _looked_at)(text, what)


def _looked_at(text: str, what: str) -> str | None:
    from pegboard.schema.validator import check_schema

    try:
        check_schema(text, tool="", what=what)
    except SchemaError as error:
        return error.message
    return None


_remembered: Final = lru_cache(MOST_REMEMBERED)(_looked_at)
_MOST_TOOLS: Final = 100_000
MOST_PROBLEMS: Final = 20
_MOST_TEXT: Final = 500


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
    """Tools with handlers where there are any, each name once; and what isn't among them.

    Attributes:
        problems: What went wrong.
        dropped: What was left out.
    """

    problems: tuple[ToolsetProblem, ...]
    dropped: tuple[Dropped, ...]

    def __new__(
        cls,
        tools: Iterable[Tool] = (),
        problems: Iterable[ToolsetProblem] = (),
        dropped: Iterable[Dropped] = (),
    ) -> Self:
        """Tools whose names are distinct."""
        offer = super().__new__(cls, tools)
        offer.problems = tuple(problems)
        offer.dropped = tuple(dropped)
        return offer

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong, wholly or in part; notes don't count."""
        return any(not problem.note for problem in self.problems)

    def owned_by(self, origin: Origin) -> Offer:
        """The same with the problems in somebody's name."""
        if not self.problems or origin is HOST:
            return self
        return Offer(self, (attrs.evolve(problem, origin=origin) for problem in self.problems), self.dropped)


def described(error: BaseException) -> str:
    """What was raised, in one short line."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  an exception whose own text can't be had
        text = ""
    kind = type(error).__name__
    line = " ".join(text.split())[:_MOST_TEXT]
    if isinstance(error, PegboardError):
        return line or kind
    return f"{kind}: {line}" if line else kind


def failed(toolset: str, error: BaseException) -> Offer:
    """The offer of a toolset that failed as a whole."""
    return Offer((), [ToolsetProblem(toolset, described(error), error=error)])


Checked: TypeAlias = tuple[list[Tool], list[ToolsetProblem]]


def checked(toolset: str, answer: Any) -> Checked:
    """The tools of an answer that may be anything; what isn't a sound tool, or repeats a name, costs only itself.

    Raises:
        TypeError: The answer is no sequence.
        ValueError: It is longer than 100,000.
    """
    tools: dict[str, Tool] = {}
    problems: list[ToolsetProblem] = []
    for index, item in enumerate(listed(answer)):
        if not isinstance(item, Tool):
            problems.append(ToolsetProblem(toolset, f"item {index} is no Tool but {type(item).__name__}"))
        elif (fault := _tool_fault(item)) is not None:
            problems.append(ToolsetProblem(toolset, described(fault), item.spec.name, error=fault))
        elif tools.setdefault(item.spec.name, item) is not item:
            problems.append(_repeated(toolset, item.spec.name))
    return list(tools.values()), shortened(toolset, problems)


def _tool_fault(tool: Tool) -> SchemaError | None:
    try:
        check_sound(tool)
    except SchemaError as error:
        return error
    return None


def listed(answer: Any) -> list[Any]:
    """The items of an answer that may be anything.

    Raises:
        TypeError: The answer is no sequence.
        ValueError: It is longer than 100,000.
    """
    if not _is_list(answer):
        raise TypeError(f"a toolset has to give a list of tools, and gave {type(answer).__name__}")
    items: list[Any] = list(islice(answer, _MOST_TOOLS + 1))
    if len(items) > _MOST_TOOLS:
        raise ValueError(f"a toolset may give {_MOST_TOOLS:,} tools, and gave more")
    return items


def _is_list(answer: object) -> bool:
    """Whether its items can be looked at without an end that never comes: a generator's can't."""
    return hasattr(answer, "__getitem__") and hasattr(answer, "__len__") and not isinstance(answer, str | bytes | dict)


def _repeated(toolset: str, name: str) -> ToolsetProblem:
    """The problem of a second tool of the same name."""
    return ToolsetProblem(toolset, f"it has two tools called {name!r}; the first is offered", name)


def shortened(toolset: str, problems: list[ToolsetProblem]) -> list[ToolsetProblem]:
    """At most 20 problems, and how many more there were."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], ToolsetProblem(toolset, f"and {more} more problems of this kind")]


_Change: TypeAlias = Callable[[Tool], Tool]
"""Gives the tool changed; may raise, which costs the tool."""


def remade(tool: Tool, change: _Change) -> Tool:
    """The tool changed; one whose handler is found late is changed in the same way once it is found."""
    changed = change(tool)
    late = tool.handler
    if isinstance(late, LateHandler) and changed.handler is late and changed is not tool:
        return changed.evolve(handler=LateHandler(lambda: change(late.load())))
    return changed


class Remaker:
    """Changes tools, and gives the same tool for the same tool: what is compiled for it is compiled once.

    Keeps at most twice as many tools as were offered last, and a hundred.
    """

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._kept: dict[Tool, Tool] = {}

    def one(self, tool: Tool) -> Tool:
        """The tool changed."""
        known = self._kept.get(tool)
        if known is None:
            known = self._kept[tool] = remade(tool, self._change)
        return known

    def all(self, tools: Sequence[Tool]) -> list[Tool]:
        """All of them changed, in their order."""
        changed = [self.one(tool) for tool in tools]
        self.forget_others(tools)
        return changed

    def forget_others(self, tools: Sequence[Tool]) -> None:
        """Forgets what isn't offered now, where it has become too much."""
        if len(self._kept) > 2 * len(tools) + 100:
            self._kept = {tool: known for tool in tools if (known := self._kept.get(tool)) is not None}


Faults: TypeAlias = dict[str, str]
"""Names of tools for which a predicate raised, and what."""


def sift(tools: Iterable[Tool], predicate: Predicate, context: ReadonlyContext) -> tuple[list[Tool], Faults]:
    """The tools for which it is so, in their order; and those for which it raised."""
    kept: list[Tool] = []
    faults: Faults = {}
    try:
        test = predicate.bound(context)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tools that it is asked about
        cause = described(error)
        return kept, {tool.spec.name: cause for tool in tools}
    for tool in tools:
        try:
            if test(tool):
                kept.append(tool)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
            faults[tool.spec.name] = described(error)
    return kept, faults


def why(predicate: Predicate, tool: Tool, context: ReadonlyContext) -> str:
    """The part of the predicate that settles the answer for this tool, and what the tool says to it."""
    try:
        part = predicate.deciding(tool, context)
        part = ~part if isinstance(part, Not) else part  # "tag:net is so", rather than "not tag:net is not so"
        facts = part.facts(tool, context)
        answer = "is so" if part(tool, context) else "is not so"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only an explanation
        return f"{predicate} failed: {described(error)}"
    return f"{part} {answer}" + (f" ({facts})" if facts else "")


class Source:
    """A toolset, any object of that shape, asked safely.

    Attributes:
        toolset: The toolset.
        name: Its name when it was wrapped.
    """

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        self.name = name_of(toolset)
        call = getattr(toolset, "call", None)
        self._served = Remaker(_Calls(call)) if callable(call) else None

    async def offer(self, context: ReadonlyContext) -> Offer:
        """What it offers for this context; raises whatever it raises."""
        answer: Any = await settle(self.toolset.tools(context))
        if type(answer) is Offer:
            return answer
        tools, problems = checked(self.name, answer)
        return Offer(tools if self._served is None else self._served.all(tools), problems)


class _Calls:
    """Gives tools a handler that calls their toolset by the name that it has listed."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._flavour = Flavour.of(call)

    def __call__(self, tool: Tool) -> Tool:
        if tool.handler is not None or tool.spec.kind == "provider":
            return tool
        function = partial(self._call, tool.spec.name)
        return tool.evolve(handler=Handler(function, make_binder=_passing_on, flavour=self._flavour))


def _passing_on() -> Any:
    return _pass_on


def _pass_on(
    context: ToolContext, arguments: Mapping[str, Any]
) -> tuple[tuple[Mapping[str, Any], ToolContext], Mapping[str, Any]]:
    return (arguments, context), {}


class WrapperToolset:
    """A toolset round another, of the same name; closing it closes the inner one.

    Tools come out of the inner toolset able to run, so that a wrapper that changes a tool changes what is listed and
    what is called together.

    Args:
        inner: Any toolset.

    Attributes:
        name: The inner toolset's.
    """

    def __init__(self, inner: Toolset) -> None:
        self._inner = Source(inner)
        self.name = self._inner.name

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What the inner toolset offers."""
        return await self._inner.offer(context)

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolset that it stands round."""
        return (self._inner.toolset,)

    async def close(self) -> None:
        """Closes the inner toolset."""
        await _close(self._inner.toolset)


def _same_name(name: str) -> str:
    return name


@frozen
class Step:
    """How a wrapper changes tools.

    Attributes:
        word: What it does, for people: `"prefixed"`.
        change: Changes one tool; where it raises, that tool is out.
        where: Picks the tools that are changed, in a context; `None` picks all. Where it raises, the tool is out.
        rename: What becomes of the names of tools that aren't there.
        speaks_of: The names of tools that it is about; one that nobody has is noted.
    """

    word: str
    change: _Change
    where: Predicate | None = None
    rename: Callable[[str], str] = field(default=_same_name)
    speaks_of: Collection[str] = ()


class ChangedToolset(WrapperToolset):
    """A toolset whose tools are changed one by one; the order stays."""

    def __init__(self, inner: Toolset, step: Step) -> None:
        super().__init__(inner)
        self._step = step
        self._remaker = Remaker(step.change)
        self._unseen = set(step.speaks_of)

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The tools of the inner toolset, changed where the step says so."""
        offer = await self._inner.offer(context)
        changed = _Changed(self.name, self._step.word)
        picked, faults = self._picked(offer, context)
        for tool in offer:
            if tool.spec.name in faults:
                changed.lose(tool.spec.name, faults[tool.spec.name])
            elif picked is None or tool in picked:
                changed.take(tool, self._remaker.one)
            else:
                changed.add(tool)
        self._remaker.forget_others(offer)
        dropped = [evolve(each, name=self._step.rename(each.name)) for each in offer.dropped]
        return changed.offer((*offer.problems, *self._notes(offer)), dropped)

    def _notes(self, offer: Offer) -> Iterator[ToolsetProblem]:
        """The names that it speaks of and that nobody has; tools that are there now and then have been seen before."""
        unseen = self._unseen
        if not unseen or offer.has_failed:
            return
        known = {*(tool.spec.name for tool in offer), *(each.name for each in offer.dropped)}
        unseen -= known
        for name in sorted(unseen)[:MOST_PROBLEMS]:
            near = did_you_mean(suggest(name[:200], known)) if len(unseen) <= 3 else ""
            cause = f"no tool is called {name!r}, which was to be {self._step.word}.{near}"
            yield ToolsetProblem(self.name, cause, note=True)

    def _picked(self, tools: Sequence[Tool], context: ReadonlyContext) -> tuple[set[Tool] | None, dict[str, str]]:
        if self._step.where is None:
            return None, {}
        picked, faults = sift(tools, self._step.where, context)
        return set(picked), faults


class _Changed:
    """The tools that a wrapper has so far; the first of a name stays."""

    def __init__(self, toolset: str, word: str) -> None:
        self._toolset = toolset
        self._word = word
        self._tools: dict[str, Tool] = {}
        self._problems: list[ToolsetProblem] = []
        self._dropped: list[Dropped] = []

    def add(self, tool: Tool) -> None:
        if self._tools.setdefault(tool.spec.name, tool) is not tool:
            self._problems.append(_repeated(self._toolset, tool.spec.name))

    def take(self, tool: Tool, change: _Change) -> None:
        try:
            changed = change(tool)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
            self.lose(tool.spec.name, described(error))
        else:
            self.add(changed)

    def lose(self, name: str, cause: str) -> None:
        self._problems.append(ToolsetProblem(self._toolset, f"tool {name!r} can't be {self._word}: {cause}", name))
        self._dropped.append(Dropped(name, self._word, f"failed: {cause}"))

    def offer(self, problems: Sequence[ToolsetProblem], dropped: Sequence[Dropped]) -> Offer:
        """Everything, with what was wrong and left out before."""
        own = shortened(self._toolset, self._problems)
        return Offer(self._tools.values(), (*problems, *own), (*dropped, *self._dropped))


class OwnedToolset(ChangedToolset):
    """A toolset as it hangs on the board: its tools carry its name and its owner, whatever they say of themselves.

    Only the host's toolsets may pass on tools in a plugin's name. No owner makes tools trusted that aren't.

    Args:
        inner: Any toolset.
        origin: Who brought it.
    """

    def __init__(self, inner: Toolset, origin: Origin = HOST) -> None:
        super().__init__(inner, Step("taken over", self._owned))
        self.origin = origin

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The inner toolset's tools; problems are the owner's."""
        return (await super().tools(context)).owned_by(self.origin)

    def _owned(self, tool: Tool) -> Tool:
        check_sound(tool)  # a toolset of another's making may give an `Offer`, which nobody has looked at
        own, owner = tool.origin, self.origin
        base = own if owner.plugin is None else owner
        origin = attrs.evolve(base, toolset=self.name, trusted=own.trusted and owner.trusted)
        return tool if origin == own else tool.evolve(origin=origin)


__all__ = ["Toolset", "close_all", "is_toolset", "name_of", "speaking"]
