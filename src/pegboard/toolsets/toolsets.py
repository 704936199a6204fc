"""Toolsets: static, from a function, combined."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from pegboard.callbacks import CallableKind
from pegboard.errors import DuplicateToolError, RegistrationError
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.spec import Problem, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.filters import error_text
from pegboard.toolsets.toolset import (
    Reason,
    Toolset,
    ToolsetResult,
    WrapperToolset,
    ask_all,
    call_foreign,
    check_list,
    check_result,
    close_all,
    first_problems,
    thread_of,
)
from pegboard.toolsets.wrappers import ToolsetBase


class StaticToolset(ToolsetBase):
    """Toolset that always has the same tools.

    Args:
        name: Its name.
        tools: `Tool`s, or what `registry.register` takes for tools: functions, `TypedTool`s, objects with
            `@tool` methods.
        instructions: Added before the conversation while one of the tools is offered.

    Raises:
        DefinitionError: A thing can't become a tool.
        DuplicateToolError: Two tools have one name.
    """

    def __init__(self, name: str, tools: Iterable[Any], *, instructions: str | Sequence[str] | None = None) -> None:
        self.name = name
        self.instructions = instructions
        by_name: dict[str, Tool] = {}
        for tool in (tool for thing in tools for tool in _as_tools(thing)):
            if tool.name in by_name:
                owner = f"toolset {name!r}"
                raise DuplicateToolError(tool.name, held_by=owner, wanted_by=owner)
            by_name[tool.name] = tool
        self._tools = tuple(by_name.values())

    async def tools(self, context: ReadonlyContext) -> tuple[Tool, ...]:  # noqa: ARG002  the same for every context
        """The tools in the order in which they were given."""
        return self._tools


def _as_tools(thing: Any) -> Sequence[Tool]:
    """The tools of a thing: a `Tool`, a `ToolSpec` (without a handler), or what `tools_from` takes."""
    if isinstance(thing, Tool):
        return (thing,)
    if isinstance(thing, ToolSpec):
        return (Tool(thing),)
    from pegboard.tools.typed import tools_from  # deriving schemas from types is heavy

    return tools_from(thing, foreign=True)


class ToolsetFunction(ToolsetBase):
    """Toolset whose tools a function returns for each context.

    Args:
        name: Its name.
        function: Plain or async; takes the context or nothing; returns tools, or what can become tools. Return the
            same objects each time: the tool made of an object is cached while it is returned.
        blocking: Whether a plain function may block; it then runs in a thread, so that it can time out.
        own_thread: Whether it, if plain, and plain handlers run in one thread of their own, one after the other.
        publishes: The files that the tools, if always the same, are read from: listings are cached until one changes.

    Raises:
        RegistrationError: The function takes something else, or is a generator.
    """

    is_checked: ClassVar = True

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        blocking: bool = True,
        own_thread: bool = False,
        publishes: Sequence[str] | None = None,
    ) -> None:
        flavour = CallableKind.of(function)
        if flavour not in (CallableKind.PLAIN, CallableKind.ASYNC):
            raise RegistrationError(f"toolset {name!r}: {function!r} is a generator; let it return a list of tools")
        self.name = name
        self.own_thread = own_thread
        self.publishes = publishes
        self._function = function
        self._thread = thread_of(self) if own_thread else None
        self._blocking = blocking
        self._takes_context = _takes_context(name, function)
        self._made: dict[int, tuple[Any, Sequence[Tool]]] = {}  # a reference to the thing keeps its id unique

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools that the function returns now."""
        given = (context,) if self._takes_context else ()
        answer = await call_foreign(self._function, *given, thread=self._thread, blocking=self._blocking)
        things = check_list(answer)
        problems: list[Problem] = []
        made: dict[int, tuple[Any, Sequence[Tool]]] = {}
        for index, thing in enumerate(things):
            try:
                made[id(thing)] = self._made.get(id(thing)) or (thing, _as_tools(thing))
            except BaseException as error:  # noqa: BLE001  any error costs only the item
                problems.append(Problem(f"item {index} can't become a tool: {error_text(error)}", error=error))
        self._made = made
        tools = [tool for thing in things for tool in made.get(id(thing), (None, ()))[1]]
        own = answer if type(answer) is ToolsetResult else ToolsetResult()
        return check_result(ToolsetResult(tools, (*own.problems, *problems), own.dropped))


def _takes_context(name: str, function: Callable[..., Any]) -> bool:
    """Whether it can be called with the context; raises `RegistrationError` where neither with nor without it."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return True  # a builtin without a signature
    for arguments in ((None,), ()):
        with suppress(TypeError):
            signature.bind(*arguments)
            return bool(arguments)
    raise RegistrationError(f"toolset {name!r}: {function!r} has to take the context or nothing")


class CombinedToolset(ToolsetBase):
    """Several toolsets as one; of two tools of one name the earlier toolset's is offered.

    They are queried concurrently; only the tools of one that fails are missing.

    Args:
        name: Its name.
        toolsets: In the order of their precedence.
        timeout: Seconds that they have to answer; less than the resolution gives this one (30).
    """

    is_checked: ClassVar = True

    def __init__(self, name: str, toolsets: Iterable[Toolset], *, timeout: float = 20.0) -> None:
        self.name = name
        self._sources = tuple(WrapperToolset(toolset) for toolset in toolsets)
        self._timeout = timeout

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools of all of them, in their order."""
        offers = await ask_all(self._sources, context, self._timeout) if self._sources else []
        tools: dict[str, Tool] = {}
        holders: dict[str, str] = {}
        held: list[Problem] = []
        dropped = [each for offer in offers for each in offer.dropped]
        for source, offer in zip(self._sources, offers, strict=True):
            for tool in offer:
                name = tool.spec.name
                if tools.setdefault(name, tool) is tool:
                    holders[name] = source.name
                    continue
                why = f"held back: toolset {holders[name]!r} offers a tool of this name"
                held.append(Problem(f"tool {name!r} is {why}", name, subject=f"toolset {source.name!r}"))
                dropped.append(Reason("combined", "out", why, name))
        problems = (problem for offer in offers for problem in offer.problems)
        return ToolsetResult(tools.values(), (*problems, *first_problems(held)), dropped)

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolsets that it combines."""
        return tuple(source.inner for source in self._sources)

    @property
    def publishes(self) -> list[str] | None:
        """The files of all of them; `None` where one of them publishes nothing."""
        files = [source.publishes for source in self._sources]
        return None if None in files else [file for of_one in files for file in of_one or ()]

    async def close(self) -> None:
        """Closes all of them; raises an `ExceptionGroup` of the failures."""
        failures = await close_all(source.inner for source in self._sources)
        if failures:
            raise BaseExceptionGroup(f"toolsets of {self.name!r} failed to close", failures)
