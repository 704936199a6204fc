"""`StaticToolset`: always the same tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pegboard.errors import DuplicateToolError
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.convert import as_tools
from pegboard.toolsets.fluent import ToolsetBase


class StaticToolset(ToolsetBase):
    """Always the same tools, under one name.

    Args:
        name: What people know it by.
        tools: `Tool`s, or what `registry.register` takes for tools: functions, `TypedTool`s, objects with
            `@tool` methods.
        instructions: What a model is told before the conversation, as long as it is offered one of the tools.

    Raises:
        DefinitionError: A thing can't become a tool.
        DuplicateToolError: Two tools have one name.
    """

    def __init__(self, name: str, tools: Iterable[Any], *, instructions: str | Sequence[str] | None = None) -> None:
        self.name = name
        self.instructions = instructions
        by_name: dict[str, Tool] = {}
        for tool in (tool for thing in tools for tool in as_tools(thing)):
            if tool.name in by_name:
                owner = f"toolset {name!r}"
                raise DuplicateToolError(tool.name, held_by=owner, wanted_by=owner)
            by_name[tool.name] = tool
        self._tools = tuple(by_name.values())

    async def tools(self, context: ReadonlyContext) -> tuple[Tool, ...]:  # noqa: ARG002  the same for everybody
        """The tools in the order in which they were given."""
        return self._tools
