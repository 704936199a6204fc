"""`Source`: a toolset as it is asked: its answer checked, its tools able to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pegboard.chains import settle
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Flavour, Handler
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import Offer, checked
from pegboard.toolsets.remade import Remaker
from pegboard.toolsets.toolset import Toolset, name_of


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


def with_calls(toolset: Toolset, tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools, with a handler that asks `toolset.call` where one has none.

    Provider tools stay as they are: without a handler their provider runs them.
    """
    calls = _Calls(toolset.call)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  optional
    return tuple(calls(tool) for tool in tools)


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
