"""The official SDK's low-level server, which checks nothing: `bare.py`, or `bare.py PORT`."""

from __future__ import annotations

import inspect
import sys

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

import tools

FUNCTIONS = {name: value for name, value in vars(tools).items() if inspect.iscoroutinefunction(value)}
TYPES = {"int": "integer", "str": "string"}


def listed(name, function):
    parameters = inspect.signature(function).parameters.values()
    schema = {
        "type": "object",
        "properties": {each.name: {"type": TYPES[each.annotation]} for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
    }
    return Tool(name=name, description=function.__doc__, input_schema=schema)


TOOLS = [listed(name, function) for name, function in FUNCTIONS.items()]


async def list_tools(_context, _params):
    return ListToolsResult(tools=TOOLS)


async def call_tool(_context, params):
    result = await FUNCTIONS[params.name](**params.arguments)
    return CallToolResult(content=[TextContent(text=str(result))], structured_content={"result": result})


SERVER = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio():
    async with stdio_server() as (incoming, outgoing):
        await SERVER.run(incoming, outgoing, SERVER.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1:]:
        import uvicorn

        uvicorn.run(SERVER.streamable_http_app(), port=int(sys.argv[1]), log_level="warning")
    else:
        anyio.run(over_stdio)
