"""`BudgetTools`: as many tools as a number of tokens allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from attrs import field, frozen

from pegboard.callbacks import quick
from pegboard.request.model_request import ModelRequest
from pegboard.request.tool_choice import NamedTool
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool

Rank: TypeAlias = Callable[[Tool], Any]
"""What a tool is worth: the higher, the sooner it is kept; anything that can be compared."""

BYTES_A_TOKEN: Final = 4
FRAME_BYTES: Final = 60
"""Of what stands round each entry, whoever the provider is."""

_estimates: Final[WeakKeyDictionary[ToolSpec, int]] = WeakKeyDictionary()


def estimated_tokens(spec: ToolSpec) -> int:
    """About how many tokens a model is sent of a spec: a quarter of its bytes as compact JSON. Kept with the spec."""
    known = _estimates.get(spec)
    if known is None:
        examples = sum(len(str(example)) for example in spec.examples)
        size = len(spec.name) + len(spec.description.encode()) + len(spec.input_schema_text.encode()) + examples
        known = _estimates[spec] = -(-(size + FRAME_BYTES) // BYTES_A_TOKEN)
    return known


@frozen
class BudgetTools:
    """Leaves out tools where all of them together would take more than so many tokens.

        registry.pipeline = registry.pipeline.replace("budget_tools", BudgetTools(8000, pinned=["search"]))

    Attributes:
        tokens: How many tokens the tools may take, as `estimated_tokens` has it; `None` is any number.
        pinned: The names of tools that stay, whatever they take; so does the one that the request says must be called.
        rank: Which are kept first; in the order in which they are offered by default, and where two rank the same.
    """

    tokens: int | None = None
    pinned: Collection[str] = field(default=(), kw_only=True)
    rank: Rank | None = field(default=None, kw_only=True)

    @quick
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Leaves out tools where all would take more tokens than there are for them; off where no number is given."""
        if self.tokens is None or request.tools is None:
            return None
        # Those that the provider loads when it needs them take none.
        sizes = {tool: estimated_tokens(tool.spec) for tool in request.offered if not tool.spec.deferred}
        if sum(sizes.values()) <= self.tokens:
            return None
        return request.evolve(tools=request.tools.without("budget", self._too_much(sizes, request)))

    def _too_much(self, sizes: Mapping[Tool, int], request: ModelRequest) -> dict[str, str]:
        """The tools that are left out, and why."""
        assert self.tokens is not None
        pinned = {*self.pinned}
        if isinstance(request.tool_choice, NamedTool):
            pinned.add(request.tool_choice.name)
        left = self.tokens - sum(size for tool, size in sizes.items() if tool.name in pinned)
        reasons: dict[str, str] = {}
        for tool in self._ranked([tool for tool in sizes if tool.name not in pinned]):
            needed = sizes[tool]
            if needed <= left:
                left -= needed
            else:
                of = f"{max(left, 0):,} of {self.tokens:,}"
                reasons[tool.name] = f"it takes about {needed:,} tokens, and {of} are left"
        return reasons

    def _ranked(self, tools: list[Tool]) -> list[Tool]:
        return tools if self.rank is None else sorted(tools, key=self.rank, reverse=True)


__all__ = ["BudgetTools", "Rank", "estimated_tokens"]
