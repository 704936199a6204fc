"""One way to call a tool in a pool of child processes."""

from __future__ import annotations

from dispatch.executors.isolated_tools import tool_named
from pegboard.dispatch.executors.executor import SILENCE
from pegboard.dispatch.executors.request import request_for
from pegboard.tools.context import ToolContext
from pegboard.tools.tool import Tool


def execute(pool, tool, context=None, *, talk=SILENCE, timeout=30.0, memory_limit=None, **arguments):
    """The response of a call of `tool`: one of `isolated_tools` by its name, or any."""
    found = tool if isinstance(tool, Tool) else tool_named(tool)
    context = context or ToolContext(call_id="c1", tool=found.name)
    request = request_for(found.name, arguments, context, timeout=timeout, memory_limit=memory_limit)
    return pool.execute_tool(found, request, context, talk)
