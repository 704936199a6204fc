"""Changing tools on their way through a toolset: each once, and those that are loaded late when they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pegboard.tools.handler import LateHandler
from pegboard.tools.tool import Tool

Change: TypeAlias = Callable[[Tool], Tool]
"""Gives the tool changed; may raise, which costs the tool."""


def remade(tool: Tool, change: Change) -> Tool:
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

    def __init__(self, change: Change) -> None:
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
