"""mcp, the official SDK: tools of an MCPServer, called in the same process, without any transport."""

from __future__ import annotations

import json

DISTRIBUTION = "mcp"
FLAVOUR = "pydantic"
IMPORT = "from mcp.server import MCPServer"


class Host:
    def __init__(self):
        from mcp.server import MCPServer

        self.server = MCPServer("measured")

    def add(self, functions):
        for function in functions:
            self.server.add_tool(function)

    async def half(self, keep):
        from mcp_types import ListToolsResult

        kept = [tool for tool in await self.server.list_tools() if keep(tool.name)]
        return ListToolsResult(tools=kept).model_dump_json(by_alias=True, exclude_none=True)

    async def caller(self, function):
        server, name = self.server, function.__name__

        async def call(text):
            outcome = await server.call_tool(name, json.loads(text))
            if outcome.is_error:
                raise ValueError(outcome.content[0].text)
            return outcome.content[0].text

        return call

    async def checker(self, function):
        return self.server._tool_manager.get_tool(function.__name__).fn_metadata.validate_arguments  # noqa: SLF001  the way of its `call_tool`

    async def close(self):
        pass
