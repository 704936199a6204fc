"""The context of a call where its tool runs: in a child process, a program, an MCP server; and a client's here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client

from pegboard import Permissions, ReadonlyContext, Rule, tool
from pegboard.testing import plugin_registry
from pegboard_commands import ToolSettings, command_tool
from pegboard_mcp import ToolServer, mcp_toolset
from pegboard_otel import Otel

SERVER = """
import asyncio

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent


async def list_tools(context, params):
    return ListToolsResult.model_validate({"tools": [{"name": "meta", "inputSchema": {"type": "object"}}]})


async def call_tool(context, params):
    return CallToolResult(content=[TextContent(type="text", text=str((context.meta or {}).get("traceparent")))])


async def main():
    server = Server("meta", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


asyncio.run(main())
"""


def traceparent(span):
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in_child", "in_child_async"])
def test_the_spans_of_a_child_process_have_the_call_as_their_parent(telemetry, monkeypatch, name):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import child_tools

    registry = plugin_registry("processes", otel=Otel)
    registry.register(child_tools.in_child, child_tools.in_child_async)

    async def run():
        async with registry:
            return [(await registry.call(name, {})).text for _ in range(2)]

    answers = asyncio.run(run())
    spans = [span.context for span in telemetry.spans]
    assert answers == [f"{span.trace_id:032x} {span.span_id:016x}" for span in spans]
    assert len(set(answers)) == 2


@pytest.mark.slow
def test_a_program_gets_the_context_in_its_environment(telemetry, tmp_path):
    registry = plugin_registry("shell", otel=Otel)
    settings = ToolSettings(command=["printenv", "TRACEPARENT"], description="Shows it.", read_only=True)
    registry.register(command_tool("show_trace", settings))
    arguments = {"shell": {"command": "printenv TRACEPARENT"}, "show_trace": {}}

    async def run():
        async with registry:
            registry.permissions = Permissions([Rule("*", "*", "allow")])
            context = ReadonlyContext(work_dir=str(tmp_path))
            return [await registry.call(name, given, context) for name, given in arguments.items()]

    texts = [result.text.split()[0] for result in asyncio.run(run())]
    assert texts == [traceparent(span) for span in telemetry.spans]


@pytest.mark.slow
def test_a_call_of_an_mcp_server_is_one_span_whose_context_is_in_meta(telemetry, registry, tmp_path):
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    toolset = mcp_toolset("far", command=sys.executable, args=[str(server)], trusted=True)
    registry.register(toolset)

    async def run():
        async with registry:
            resolved = await registry.resolve()
            telemetry.exporter.clear()
            with telemetry.span("request"):
                return await registry.call("far__meta", {}, resolved=resolved)

    result = asyncio.run(run())
    names = [span.name for span in telemetry.spans]
    assert (result.text, names) == (traceparent(telemetry.spans[0]), ["execute_tool far__meta", "request"])
    facts = telemetry.spans[0].attributes
    assert (facts["mcp.method.name"], facts["mcp.protocol.version"][:2]) == ("tools/call", "20")


def test_the_call_of_an_mcp_client_is_a_child_of_the_clients_span(telemetry, registry):
    @tool
    def work() -> str:
        """Works."""
        return "done"

    registry.register(work)

    async def run():
        async with registry, Client(ToolServer(registry).server) as client:
            telemetry.exporter.clear()
            meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            return await client.call_tool("work", {}, meta=meta)

    assert not asyncio.run(run()).is_error
    server, call = telemetry.named("tools/call work"), telemetry.named("execute_tool work")
    assert (server.context.trace_id, server.parent.span_id) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert call.parent.span_id == server.context.span_id
