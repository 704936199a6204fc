"""`registry serve`: the registry's tools for an MCP client."""

from __future__ import annotations

import os
from typing import Any

import click

from pegboard.cli.options import Options, context_of, context_options, tool_options
from pegboard.cli.session import open_session


@click.command("serve")
@click.option("--where", metavar="EXPRESSION", help="Only tools that this predicate takes ('read_only').")
@context_options
@tool_options
@click.pass_obj
def serve_command(options: Options, *, where: str | None, **context: Any) -> int:
    """Offer the tools to a program that speaks the Model Context Protocol.

    The program starts this command and speaks over its standard input and output. Tools are resolved for each request.
    What tools print goes to standard error.
    """
    session = open_session(options)
    asked, only = context_of(**context), session.where(where)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as wire:

        async def work() -> None:
            import anyio
            from mcp.server.stdio import stdio_server

            from pegboard_mcp.server import ToolServer

            server = ToolServer(session.registry, where=only, context=asked).server
            async with stdio_server(stdout=anyio.wrap_file(wire)) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())

        session.run(work)
    return 0
