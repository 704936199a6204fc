"""`ToolsetFunction`: the tools that a function gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pegboard.errors import RegistrationError
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.handler import Flavour
from pegboard.tools.tool import Tool
from pegboard.toolsets.convert import as_tools
from pegboard.toolsets.fluent import ToolsetBase
from pegboard.toolsets.offer import Offer, ToolsetProblem, checked, described, listed, shortened


class ToolsetFunction(ToolsetBase):
    """The tools that a function gives for each context.

    Args:
        name: What people know it by.
        function: Plain or async; takes the context or nothing; gives tools, or what can become tools. Give the same
            objects each time: what a function becomes is kept as long as it is given.
        blocking: Whether a plain function may block; it then runs in a thread, so that a time limit holds for it.

    Raises:
        RegistrationError: The function takes something else, or is a generator.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, blocking: bool = True) -> None:
        flavour = Flavour.of(function)
        if flavour not in (Flavour.PLAIN, Flavour.ASYNC):
            raise RegistrationError(f"toolset {name!r}: {function!r} is a generator; let it return a list of tools")
        self.name = name
        self._function = function
        self._off_loop = blocking and flavour is Flavour.PLAIN
        self._takes_context = _takes_context(name, function)
        self._made: dict[int, tuple[Any, tuple[Tool, ...]]] = {}

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What the function gives now."""
        things = listed(await self._asked(*((context,) if self._takes_context else ())))
        problems: list[ToolsetProblem] = []
        made: dict[int, tuple[Any, tuple[Tool, ...]]] = {}
        for index, thing in enumerate(things):
            try:
                made[id(thing)] = self._tools_of(thing)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the item
                cause = f"item {index} can't become a tool: {described(error)}"
                problems.append(ToolsetProblem(self.name, cause, error=error))
        self._made = made
        every = [tool for thing in things for tool in made.get(id(thing), (None, ()))[1]]
        tools, repeated = checked(self.name, every)
        return Offer(tools, [*shortened(self.name, problems), *repeated])

    def _tools_of(self, thing: Any) -> tuple[Any, tuple[Tool, ...]]:
        """The thing and its tools, made once; the thing is kept, so that its id stays its own."""
        return self._made.get(id(thing)) or (thing, tuple(as_tools(thing)))

    async def _asked(self, *arguments: Any) -> Any:
        if self._off_loop:
            from pegboard.toolsets.off_loop import off_loop

            answer = await off_loop(self._function, *arguments)
        else:
            answer = self._function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer


def _takes_context(name: str, function: Callable[..., Any]) -> bool:
    """Whether it can be called with the context.

    Raises:
        RegistrationError: It can be called neither with nor without it.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:
        return True  # a builtin that doesn't tell
    for arguments in ((None,), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise RegistrationError(f"toolset {name!r}: {function!r} has to take the context or nothing")
