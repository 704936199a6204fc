"""The hook that registers the tool `find_tools`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard import ModelRequest, hookimpl
from pegboard_search.search import search_tool


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None]) -> None:
    """Registers `find_tools`, which finds deferred tools."""
    register(search_tool("find_tools").evolve(process_request=hide_if_useless))


def hide_if_useless(request: ModelRequest) -> ModelRequest | None:
    """The request without `find_tools` where no tool is deferred, or another tool finds them."""
    tools = request.tools
    if tools is None:
        return None
    others = [tool.spec for tool in tools if tool.name != "find_tools"]
    if any(spec.deferred for spec in others) and not any("pegboard/searches" in spec.meta for spec in others):
        return None
    return request.evolve(tools=tools.without("search", {"find_tools": "there are no hidden tools"}))
