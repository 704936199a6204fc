"""What may stand for a tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool


def as_tools(thing: Any) -> Sequence[Tool]:
    """The tools that a thing stands for: a `Tool`, a `ToolSpec` (without a handler), or what makes tools of its own.

    Raises:
        DefinitionError: It can't become a tool.
    """
    if isinstance(thing, Tool):
        return (thing,)
    if isinstance(thing, ToolSpec):
        return (Tool(thing),)
    from pegboard.tools.typed import as_tools as tools_of

    return tools_of(thing)
