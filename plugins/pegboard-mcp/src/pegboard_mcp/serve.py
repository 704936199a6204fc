"""`registry serve`: the registry's tools for an MCP client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.options import Options, call_options, context_of, context_options, tool_options
from pegboard.cli.output import remark
from pegboard.cli.run import approver_for, interruptible
from pegboard.cli.session import Session, open_session

if TYPE_CHECKING:
    from pegboard_mcp.server import ToolServer


@click.command("serve")
@click.option("--where", metavar="EXPRESSION", help="Only tools that this predicate takes ('read_only').")
@call_options
@context_options
@tool_options
@click.pass_obj
def serve_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    where: str | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Offer the tools to a program that speaks the Model Context Protocol.

    The program starts this command and speaks over its standard input and output. Tools are resolved for each request.
    What has to be confirmed is asked through the program. What tools print goes to standard error. Once the program
    closes its end, calls that run have 10 seconds to end, and are answered.
    """
    session = open_session(options)
    session.read_rules(rules)
    settings = {
        "where": session.where(where),
        "context": context_of(**context),
        "approver": approver_for(yes=yes, no=no) if yes or no else None,
        "timeout": timeout,
    }
    _serve_stdio(session, settings)
    return 0


def _serve_stdio(session: Session, settings: dict[str, Any]) -> None:
    from pegboard_mcp.stdio import StdioTransport, own_descriptors

    if sys.stdin.isatty():
        remark("Waiting for messages of a client, which starts this command itself. Ctrl-C ends it.")
    with own_descriptors() as (incoming, outgoing):

        async def work() -> None:
            transport = StdioTransport(_server(session, settings), incoming, outgoing)
            with interruptible(transport.end):
                await transport.serve()

        session.run(work)


def _server(session: Session, settings: dict[str, Any]) -> ToolServer:
    from pegboard_mcp.server import ToolServer  # loads the SDK

    return ToolServer(session.registry, **settings)
