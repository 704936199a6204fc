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
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP, at this address; port 0 is any.")
@click.option("--token-env", metavar="NAME", help="With --http: the variable that holds what clients have to show.")
@call_options
@context_options
@tool_options
@click.pass_obj
def serve_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    where: str | None,
    address: str | None,
    token_env: str | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Offer the tools to programs that speak the Model Context Protocol.

    A program starts this command and speaks over its standard input and output; with --http, any number of programs
    speak over HTTP. Tools are resolved for each request. What has to be confirmed is asked through the program. What
    tools print goes to standard error. At the end, calls that run have 10 seconds to end, and are answered.
    """
    if token_env is not None and address is None:
        raise click.UsageError("--token-env is for --http: the program that starts this command needs no token")
    session = open_session(options)
    session.read_rules(rules)
    settings = {
        "where": session.where(where),
        "context": context_of(**context),
        "approver": approver_for(yes=yes, no=no) if yes or no else None,
        "timeout": timeout,
    }
    if address is None:
        _serve_stdio(session, settings)
    else:
        _serve_http(session, settings, address, token_env)
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


def _serve_http(session: Session, settings: dict[str, Any], address: str, token_env: str | None) -> None:
    from pegboard_mcp.access import read_http_settings

    given = session.config.settings("mcp", "pegboard-mcp").get("serve", {})
    http = read_http_settings(given, token_env)
    from pegboard_mcp.http import HttpTransport

    async def work() -> None:
        transport = HttpTransport(_server(session, settings), address, http)
        remark(f"Serving at {transport.url}. Ctrl-C ends it.")
        with interruptible(transport.end):
            await transport.serve()

    session.run(work)


def _server(session: Session, settings: dict[str, Any]) -> ToolServer:
    from pegboard_mcp.server import ToolServer  # loads the SDK

    return ToolServer(session.registry, **settings)
