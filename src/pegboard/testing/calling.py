"""`call_tool`: one call through the real stages, for a test of one tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import RegistrationError
from pegboard.registry import ToolRegistry
from pegboard.tools.content import ToolResult
from pegboard.tools.context import NOBODY, ReadonlyContext, ToolContext


def call_tool(
    tool: Any,
    arguments: str | bytes | Mapping[str, Any] | None = None,
    context: ReadonlyContext | ToolContext | None = None,
    **more: Any,
) -> ToolResult:
    """Runs one call as a model's call runs (judged, structured, limited, shaped), on a registry of its own.

    Nobody is asked: what would ask a person is allowed. `plugin_registry` with a `ScriptedApprover` tests that.
    Inside an event loop write `await registry.call(...)` instead, on a registry of `plugin_registry`.

    Args:
        tool: A `Tool`, a function, decorated or not, a `TypedTool`, or an object with one tool.
        arguments: JSON text or a mapping; nothing means `{}`.
        context: For whom the call runs.
        more: Further arguments by name, over those of a mapping.

    Returns:
        The result. A call that fails gives an error result (`is_error`, `kind`), as a model would get it.

    Raises:
        DefinitionError: `tool` can't become a tool.
        RegistrationError: It holds several tools.
        TypeError: Arguments are given as text and by name.
        FatalToolError: The tool ends the turn.
        RunningLoopError: An event loop runs in this thread.
    """
    registry = ToolRegistry(permissions=Permissions(mode="bypass"))
    tools = registry.register(tool).tools
    if len(tools) != 1:
        names = ", ".join(each.name for each in tools)
        raise RegistrationError(f"call_tool runs one tool, and {tool!r:.100} holds {names or 'none'}: pass one of them")
    result = registry.call_sync(tools[0].name, _joined(arguments, more), NOBODY if context is None else context)
    asyncio.run(registry.aclose())
    return result


def _joined(
    arguments: str | bytes | Mapping[str, Any] | None, more: Mapping[str, Any]
) -> str | bytes | Mapping[str, Any] | None:
    if not more:
        return arguments
    if isinstance(arguments, str | bytes):
        raise TypeError("arguments are given as JSON text and by name: give one of the two")
    return {**(arguments or {}), **more}
