"""Foreign tools as a toolset: each converted by itself, untrusted, with the package that it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias

from attrs import evolve

from pegboard import Origin, Problem, ReadonlyContext, Tool, ToolContext, ToolError, ToolsetBase, ToolsetResult
from pegboard.errors import cause_of
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.tools import json_or_text

MOST_NAME: Final = 80  # characters of a foreign name in a problem
Trust: TypeAlias = bool | Collection[str]


def function_of(item: object) -> object:
    """The function that a foreign tool calls, by the names that frameworks give it; the tool itself without one."""
    functions = (getattr(item, name, None) for name in ("coroutine", "func", "function", "fn", "forward"))
    return next(filter(callable, functions), item)


class ForeignToolset(ToolsetBase):
    """Toolset with the tools of another framework; one that can't be converted is a problem, and only it is missing.

    Args:
        name: The toolset's name.
        items: The framework's tools.
        convert: Makes a `Tool` of one of them; called once for each, in a thread.
        trust: Whether their annotations are trusted, so that those that declare no harm run unasked; or the names of
            the tools and packages for which they are.
        expand: Gives the single items of one that may hold several, such as a module.
        function_of: Gives the function that one of them calls, which tells its package.
    """

    def __init__(  # noqa: PLR0913  what differs between frameworks, all by name
        self,
        name: str,
        items: Iterable[object],
        convert: Callable[[Any], Tool],
        *,
        trust: Trust = False,
        expand: Callable[[object], Iterable[object]] = lambda item: [item],
        function_of: Callable[[Any], object] = function_of,
    ) -> None:
        self.name = name
        self._items, self._expand = tuple(items), expand
        self._convert, self._function_of, self._trust = convert, function_of, trust
        self._result: ToolsetResult | None = None

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools, the same at each call, and the problems of those that couldn't be converted."""
        del context
        result = self._result
        if result is None:
            result = self._result = await run_in_thread(self._convert_all)
        return result

    def _convert_all(self) -> ToolsetResult:
        items: list[object] = []
        problems: list[Problem] = []
        for item in self._items:
            try:
                items += self._expand(item)
            except Exception as error:  # noqa: BLE001  one foreign item doesn't affect the others
                problems.append(item_problem(item, error))
        result = convert_each(items, self._convert, self._trust, self._function_of)
        return ToolsetResult([*result], [*problems, *result.problems])


class KnownTools:
    """The tools that a toolset offered last, so that an unchanged tool stays the same object."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, Origin], Tool] = {}

    def same(self, result: ToolsetResult) -> ToolsetResult:
        """A result with the tools of the last one, where their specs and origins are equal."""
        new = {(tool.spec.digest, tool.origin): tool for tool in result}
        self._tools = {key: self._tools.get(key, tool) for key, tool in new.items()}
        return ToolsetResult([self._tools[tool.spec.digest, tool.origin] for tool in result], result.problems)


def convert_each(
    items: Iterable[object],
    convert: Callable[[Any], Tool],
    trust: Trust = False,
    function_of: Callable[[Any], object] = function_of,
) -> ToolsetResult:
    """The tools of foreign items with their origins, and a problem for each item that fails; as for the class."""
    tools: list[Tool] = []
    problems: list[Problem] = []
    for item in items:
        try:
            tool = convert(item)
            source = source_of(function_of(item))
            is_trusted = trust if isinstance(trust, bool) else not {tool.name, source}.isdisjoint(trust)
            tools.append(tool.evolve(origin=evolve(tool.origin, source=source, trusted=is_trusted)))
        except Exception as error:  # noqa: BLE001  one foreign tool doesn't affect the others
            problems.append(item_problem(item, error))
    return ToolsetResult(tools, problems)


def item_problem(item: object, error: Exception) -> Problem:
    """The problem of a foreign item that can't be offered; its name is the item's, or its class's where it has none."""
    name: object = item if isinstance(item, str) else None
    with suppress(Exception):  # reading an attribute may raise anything
        own = getattr(item, "tool_def", item)  # Pydantic AI's
        names = (getattr(own, each, None) for each in ("name", "tool_name", "__name__"))
        name = name or next(filter(None, names), None)
    name = visible(str(name or type(item).__name__))[:MOST_NAME]
    return Problem(f"tool {name!r}: {visible(cause_of(error))}", name, error=error)


def source_of(function: object) -> str | None:
    """The distribution that a function comes from, or an object's class; `None`: of the host's own modules."""
    module = getattr(function, "__module__", None) or type(function).__module__
    if not isinstance(module, str) or module in ("__main__", "builtins") or module not in sys.modules:
        return None
    names = {*_distributions().get(module.partition(".")[0], [])}
    return names.pop() if len(names) == 1 else None


@cache
def _distributions() -> dict[str, list[str]]:
    from importlib_metadata import packages_distributions

    return {name: [*found] for name, found in packages_distributions().items()}


async def confirm(context: ToolContext, name: str, payload: object) -> None:
    """Asks a person whether a foreign tool may go on that asks for an approval itself.

    Raises:
        ToolError: It may not.
    """
    if not (await context.request_confirmation(f"{name} needs an approval", json_or_text(payload))).confirmed:
        raise ToolError(f"{name} was not run: it was not approved.")


def invalid_arguments(name: str, faults: Iterable[Mapping[str, Any]]) -> ToolError:
    """The error of arguments that only a framework's own validation by Pydantic refuses, by its faults."""
    texts = (f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in faults)
    return ToolError(f"{name} was not run, as its arguments are invalid: {'; '.join(texts)}")
