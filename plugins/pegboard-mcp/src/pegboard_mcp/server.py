"""`ToolServer`: an MCP server that offers a registry's tools."""

from __future__ import annotations

import uuid
from importlib.metadata import version
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard import ReadonlyContext, ToolCall, ToolRegistry
from pegboard.registry import Where
from pegboard.tools.context import EMPTY_CONTEXT
from pegboard.tools.spec import is_valid_name
from pegboard.typing import JsonObject
from pegboard_mcp.content import listed, result_json

MOST_LISTED: Final = 1_000
"""Tools on one page of `tools/list`."""

_NOT_KEPT: Final = {"ttlMs": 0, "cacheScope": "private"}
"""Lists differ from user to user, and with what the predicates find; revisions that know no caches are sent neither."""


class ToolServer:
    """MCP server that offers a registry's tools.

    Tools are resolved anew for each request, so that each client is offered what its context may use now.

    Attributes:
        server: The SDK's server, for its transports.

    Args:
        registry: Where the tools are.
        where: A predicate that all tools have to fit, beside the registry's own.
        context: Of the user that every request is for.
        most_listed: How many tools a page of the list has.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        where: Where = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        most_listed: int = MOST_LISTED,
    ) -> None:
        self.server: Final[Server[Any]] = Server("pegboard", version=version("pegboard-mcp"))
        self.server.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        self.server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        self._registry = registry
        self._where = where
        self._context = context
        self._most_listed = most_listed

    async def _list_tools(self, _context: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> JsonObject:
        """One page of the tools, sorted by name; the cursor is the last name of the page before."""
        after = params.cursor
        if after is not None and not is_valid_name(after):
            raise MCPError(INVALID_PARAMS, "Invalid cursor")
        resolved = await self._registry.resolve(self._context, where=self._where)
        tools = sorted(resolved.tools, key=lambda tool: tool.name)
        entries = [entry for tool in tools if (after is None or tool.name > after) and (entry := listed(tool))]
        page = entries[: self._most_listed]
        more = {"nextCursor": page[-1]["name"]} if len(entries) > len(page) else {}
        return {"resultType": "complete", **_NOT_KEPT, "tools": page, **more}

    async def _call_tool(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> JsonObject:
        """Runs one call and answers its result; an unknown tool is a fault of the protocol."""
        resolved = await self._registry.resolve(self._context, where=self._where)
        if resolved.get(params.name) is None:
            # The same words whether there is no such tool or it is another user's.
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        call = ToolCall(params.name, params.arguments or {}, id=uuid.uuid4().hex)
        outcome = await self._registry.dispatch([call], resolved, self._context)
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return result_json(outcome.results[0], any_structure=is_modern)
