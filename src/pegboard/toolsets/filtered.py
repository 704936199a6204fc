"""`FilteredToolset`: only the tools for which a predicate is so."""

from __future__ import annotations

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.custom import PredicateFunction
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.offer import Dropped, Offer, ToolsetProblem, shortened
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.sift import sift, why
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import WrapperToolset


class FilteredToolset(WrapperToolset):
    """Only the tools for which a predicate is so; where it raises for a tool, that tool is out.

    Args:
        inner: Any toolset.
        predicate: A predicate, its text, or a plain function of tool and context.
    """

    def __init__(self, inner: Toolset, predicate: Predicate | PredicateFunction | str) -> None:
        super().__init__(inner)
        self._predicate = as_predicate(predicate)

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The tools that are left."""
        offer = await self._inner.offer(context)
        kept, faults = sift(offer, self._predicate, context)
        left = set(kept)
        out = [tool for tool in offer if tool not in left]
        dropped = [Dropped(tool.spec.name, "filtered", why(self._predicate, tool, context)) for tool in out]
        problems = [
            ToolsetProblem(self.name, f"tool {name!r} can't be filtered: {cause}", name)
            for name, cause in faults.items()
        ]
        return Offer(kept, (*offer.problems, *shortened(self.name, problems)), (*offer.dropped, *dropped))
