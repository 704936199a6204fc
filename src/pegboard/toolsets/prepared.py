"""`PreparedToolset`: the tools as a function makes them for each context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from pegboard.chains import settle
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import Dropped, Offer, checked
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import WrapperToolset

Prepare: TypeAlias = Callable[[ReadonlyContext, Sequence[Tool]], Sequence[Tool] | Awaitable[Sequence[Tool]]]
"""Gets the context and the tools; gives the tools to offer, changed, left out or added. Plain or async."""


class PreparedToolset(WrapperToolset):
    """The tools as a function makes them for each context; where it raises, the whole toolset fails.

    Args:
        inner: Any toolset.
        prepare: Plain or async; a plain one runs in the event loop and must not block it.
    """

    def __init__(self, inner: Toolset, prepare: Prepare) -> None:
        super().__init__(inner)
        self._prepare = prepare

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What the function gives for the inner toolset's tools."""
        offer = await self._inner.offer(context)
        tools, problems = checked(self.name, await settle(self._prepare(context, tuple(offer))))
        names = {tool.spec.name for tool in tools}
        dropped = [
            Dropped(tool.spec.name, "prepared", "left out by the function")
            for tool in offer
            if tool.spec.name not in names
        ]
        return Offer(tools, (*offer.problems, *problems), (*offer.dropped, *dropped))
