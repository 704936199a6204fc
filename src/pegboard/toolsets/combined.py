"""`CombinedToolset`: several toolsets as one."""

from __future__ import annotations

from collections.abc import Iterable

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.fluent import ToolsetBase
from pegboard.toolsets.offer import Dropped, Offer, ToolsetProblem, shortened
from pegboard.toolsets.source import Source
from pegboard.toolsets.toolset import Toolset, close_all


class CombinedToolset(ToolsetBase):
    """Several toolsets as one; of two tools of one name the earlier toolset's is offered.

    They are asked at the same time; one that fails costs only its own tools.

    Args:
        name: What people know it by.
        toolsets: In the order of their precedence.
        timeout: Seconds that they have for their answer; less than the resolution has for this one (30).
    """

    def __init__(self, name: str, toolsets: Iterable[Toolset], *, timeout: float = 20.0) -> None:
        self.name = name
        self._sources = tuple(Source(toolset) for toolset in toolsets)
        self._timeout = timeout

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The tools of all of them, in their order."""
        if not self._sources:
            return Offer()
        from pegboard.toolsets.asking import ask_all

        offers = await ask_all(self._sources, context, self._timeout)
        tools: dict[str, Tool] = {}
        holders: dict[str, str] = {}
        held: list[tuple[str, str, str]] = []
        for source, offer in zip(self._sources, offers, strict=True):
            for tool in offer:
                name = tool.spec.name
                if tools.setdefault(name, tool) is tool:
                    holders[name] = source.name
                else:
                    held.append((name, source.name, f"held back: toolset {holders[name]!r} offers a tool of this name"))
        problems = [ToolsetProblem(toolset, f"tool {name!r} is {text}", name) for name, toolset, text in held]
        return Offer(
            tools.values(),
            [*(problem for offer in offers for problem in offer.problems), *shortened(self.name, problems)],
            [*(each for offer in offers for each in offer.dropped), *(Dropped(n, "combined", t) for n, _, t in held)],
        )

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolsets that it is made of."""
        return tuple(source.toolset for source in self._sources)

    async def close(self) -> None:
        """Closes all of them.

        Raises:
            ExceptionGroup: What those raised that failed; the others are closed.
        """
        failures = await close_all(source.toolset for source in self._sources)
        if failures:
            raise ExceptionGroup(f"toolsets of {self.name!r} failed to close", failures)
