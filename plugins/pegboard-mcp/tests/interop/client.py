"""One client library's session with `registry serve`, told as JSON: `client.py LIBRARY URL` or `LIBRARY COMMAND ...`.

It runs in the library's own environment, so it has nothing of pegboard.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

ADD = ("add", {"a": 1, "b": 2})
FAIL = ("test_error_handling", {})
PATIENCE = 60  # seconds for an answer: the libraries' own 5 are too few on a busy machine


async def openai_agents(target: list[str]) -> dict[str, Any]:
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if _is_url(target):
        server = MCPServerStreamableHttp({"url": target[0]}, client_session_timeout_seconds=PATIENCE)
    else:
        command = {"command": target[0], "args": target[1:]}
        server = MCPServerStdio(command, client_session_timeout_seconds=PATIENCE)
    async with server:
        listed = [tool.name for tool in await server.list_tools()]
        added, failed = await server.call_tool(*ADD), await server.call_tool(*FAIL)
    return {"tools": listed, "added": _text(added), "failed": _text(failed)}


async def pydantic_ai(target: list[str]) -> dict[str, Any]:
    from pydantic_ai import ModelRetry
    from pydantic_ai.mcp import MCPToolset, StdioTransport

    client = target[0] if _is_url(target) else StdioTransport(target[0], target[1:])
    async with MCPToolset(client, init_timeout=PATIENCE) as server:
        listed = [tool.name for tool in await server.list_tools()]
        added = await server.direct_call_tool(*ADD)
        try:
            failed = await server.direct_call_tool(*FAIL)
        except ModelRetry as error:
            failed = f"error: {error}"
    return {"tools": listed, "added": added, "failed": failed}


async def langchain(target: list[str]) -> dict[str, Any]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    if _is_url(target):
        server = {"transport": "streamable_http", "url": target[0]}
    else:
        server = {"transport": "stdio", "command": target[0], "args": target[1:]}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"pegboard": server}).get_tools()}

    async def called(name: str, arguments: dict[str, Any]) -> str:
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = await tools[name].ainvoke(call)
        text = "".join(part["text"] for part in message.content)
        return f"error: {text}" if message.status == "error" else text

    return {"tools": list(tools), "added": await called(*ADD), "failed": await called(*FAIL)}


async def fastmcp(target: list[str]) -> dict[str, Any]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def answer(*_: Any) -> dict[str, str]:
        return {"answer": "yes"}

    transport = target[0] if _is_url(target) else StdioTransport(target[0], target[1:])
    progress: list[float] = []

    async def progressed(done: float, *_: Any) -> None:
        progress.append(done)

    async with Client(transport, elicitation_handler=answer, progress_handler=progressed) as client:
        listed = [tool.name for tool in await client.list_tools()]
        added = await client.call_tool(*ADD)
        failed = await client.call_tool(*FAIL, raise_on_error=False)
        removed = await client.call_tool("remove", {"name": "x"}, raise_on_error=False)
        await client.call_tool("test_tool_with_progress", {})
    return {
        "tools": listed,
        "added": _text(added),
        "failed": _text(failed),
        "confirmed": _text(removed),
        "progress": progress,
    }


async def first_sdk(target: list[str]) -> dict[str, Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import ElicitResult

    async def answer(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "yes"})

    if _is_url(target):
        opened = streamable_http_client(target[0])
    else:
        opened = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    progress: list[float] = []

    async def progressed(done: float, *_: Any) -> None:
        progress.append(done)

    async with opened as streams, ClientSession(*streams[:2], elicitation_callback=answer) as client:
        await client.initialize()
        listed = [tool.name for tool in (await client.list_tools()).tools]
        added, failed = await client.call_tool(*ADD), await client.call_tool(*FAIL)
        removed = await client.call_tool("remove", {"name": "x"})
        await client.call_tool("test_tool_with_progress", {}, progress_callback=progressed)
    return {
        "tools": listed,
        "added": _text(added),
        "failed": _text(failed),
        "confirmed": _text(removed),
        "progress": progress,
    }


def _is_url(target: list[str]) -> bool:
    return target[0].startswith("http://")


def _text(result: Any) -> str:
    text = "".join(part.text for part in result.content)
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", False)
    return f"error: {text}" if is_error else text


if __name__ == "__main__":
    library, *target = sys.argv[1:]
    print(json.dumps(asyncio.run(globals()[library](target))))
