"""The command `registry serve`: an MCP server with the registry's tools."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from pegboard.cli import (
    Options,
    Session,
    approver_for,
    call_options,
    context_of,
    context_options,
    handle_interrupts,
    log_to_stderr,
    open_session,
    tool_options,
    write_note,
)
from pegboard.files import project_file
from pegboard_mcp.manage import SERVERS_KEYS, config_option, read_servers, with_servers

if TYPE_CHECKING:
    from pegboard_mcp.serving.server import ToolServer


_COLLECT: Final = (10_000, 20, 20)
"""Thresholds of the garbage collector's generations while serving."""

PROGRAMS: Final = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini-cli", "opencode")


@click.command("serve")
@click.option("--where", metavar="PREDICATE", help="Only tools that match: 'read_only and not tag:network'.")
@click.option("--all", "every", is_flag=True, help="Also serve tools that need a host's turn (ask_user, ...).")
@click.option(
    "--http", "address", metavar="HOST:PORT", help="Serve over HTTP at this address; port 0 takes a free one."
)
@click.option("--token-env", metavar="NAME", help="With --http: the environment variable of the token for clients.")
@click.option("--search", is_flag=True, help="List only a search tool and the tools it has found (pegboard-search).")
@click.option("--install", type=click.Choice(PROGRAMS), help="Show the configuration for this program.")
@click.option("--write", is_flag=True, help="With --install: write it to the program's configuration file.")
@config_option
@call_options
@context_options
@tool_options
@click.pass_context
def serve_command(  # noqa: PLR0913  one an option, by name
    run: click.Context,
    *,
    where: str | None,
    every: bool,
    address: str | None,
    token_env: str | None,
    search: bool,
    install: str | None,
    write: bool,
    mcp_config: str | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Serve the tools over the Model Context Protocol.

    A client starts this command and uses its standard input and output; with --http, any number of clients connect
    over HTTP. Tools are resolved for each request. Approvals are asked for through the client. Output of tools goes to
    standard error. On shutdown, running calls have 10 seconds to finish, and are answered.

    Tools that need a host's own turn (tag needs-turn), or a tool that isn't offered (tag needs-tool:NAME), are left out
    unless --all, --where or -T is given.

    With --install it shows or writes the configuration instead of serving; the other options become part of it.
    """
    options = run.ensure_object(Options)
    if token_env is not None and address is None:
        raise click.UsageError("--token-env is for --http: the program that starts this command needs no token")
    if write and install is None:
        raise click.UsageError("--write is for --install, which names the program")
    if install is not None:
        _install(run, options, install, write=write)
        return 0
    with _rare_collections():
        session = open_session(with_servers(options, mcp_config))
        _report_faults(session)
        session.read_rules(rules)
        settings = {
            "where": session.where(where),
            "context": context_of(**context),
            "approver": approver_for(yes=yes, no=no) if yes or no else None,
            "timeout": timeout,
            "search": search,
            "left_out": not (every or where is not None or options.only),
        }
        if address is None:
            _serve_stdio(session, settings)
        else:
            _serve_http(session, settings, address, token_env)
    return 0


@contextmanager
def _rare_collections() -> Generator[None]:
    """No garbage collection until `_server` has loaded everything and sets higher thresholds; at the end, as before."""
    usual = gc.get_threshold()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
        gc.enable()


def _report_faults(session: Session) -> None:
    """Reports faults of the configuration, and logs warnings to standard error."""
    read_servers(session)
    for ignored in session.config.ignored:
        if ignored.key not in SERVERS_KEYS:
            write_note(str(ignored))
    if not session.options.debug:  # which logs everything
        log_to_stderr()


def _install(run: click.Context, options: Options, program: str, *, write: bool) -> None:
    from pegboard_mcp.serving.install import Served, command_line, install, is_of_folder

    address = run.params["address"]
    if run.params["where"] is not None:
        open_session(options).where(run.params["where"])  # an invalid one would only fail in the client
    if address is None:
        served = Served(command_line(_words(run, options)))
        project = project_file(os.getcwd())  # noqa: PTH109  a text is wanted
        if project is not None and not is_of_folder(program) and options.config is None:
            write_note(
                f"{program} may start the server in another folder, where {project} isn't read: add --config {project}"
            )
    elif address.endswith(":0"):
        raise click.UsageError("--install needs the port that the server will have, not 0")
    else:
        served = Served(url=f"http://{address}/mcp", token_env=run.params["token_env"])
    click.echo(install(program, served, write=write).rstrip("\n"))


def _words(run: click.Context, options: Options) -> list[str]:
    """The given options as arguments, with absolute paths: the client starts the command in another folder."""
    files = [("--config", options.config), *(("--functions", file) for file in options.functions)]
    words = [word for option, file in files if file is not None for word in (option, str(Path(file).absolute()))]
    words += [word for only in options.only for word in ("-T", only)]
    words += [word for setting in options.settings for word in ("--set", setting)]
    words += ["--live"] * options.live
    for parameter in run.command.params:
        name = parameter.name or ""
        if name in ("install", "write") or run.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        given = run.params.get(name)
        if given is True:
            words.append(parameter.opts[0])
        elif given is not None:
            values: list[Any] = [*given] if parameter.multiple else [given]
            for each in values:
                is_file = isinstance(parameter.type, click.Path)
                words += [parameter.opts[0], str(Path(each).absolute() if is_file else each)]
    return words


def _serve_stdio(session: Session, settings: dict[str, Any]) -> None:
    from pegboard_mcp.serving.stdio import StdioTransport, own_descriptors

    if sys.stdin.isatty():
        write_note(
            "Waiting for an MCP client's messages on standard input; clients start this command. Ctrl-C ends it."
        )
    with own_descriptors() as (incoming, outgoing):

        async def work() -> None:
            transport = StdioTransport(_server(session, settings), incoming, outgoing)
            with handle_interrupts(transport.end):
                await transport.serve()

        session.run(work)


def _serve_http(session: Session, settings: dict[str, Any], address: str, token_env: str | None) -> None:
    from pegboard_mcp.serving.access import read_http_settings

    given = session.config.settings("mcp", "pegboard-mcp").get("serve", {})
    http = read_http_settings(given, token_env)
    from pegboard_mcp.serving.http import HttpTransport

    async def work() -> None:
        transport = HttpTransport(_server(session, settings), address, http)
        write_note(f"Serving at {transport.url}. Ctrl-C ends it.")
        if not http.is_guarded:
            write_note("Every user of this machine may use it: --token-env NAME requires a token.")
        with handle_interrupts(transport.end):
            await transport.serve()

    session.run(work)


def _server(session: Session, settings: dict[str, Any]) -> ToolServer:
    from pegboard_mcp.serving.server import ToolServer, senseless_alone  # loads the SDK

    server = ToolServer(session.registry, **settings)
    if settings["left_out"] and (names := senseless_alone(session.registry.tools())):
        write_note(
            f"not served, as they need a turn of a host or another tool: {', '.join(sorted(names))} (--all serves them)"
        )
    gc.freeze()  # with many sessions, scanning the loaded modules took a third of the time of a call
    gc.set_threshold(*_COLLECT)
    gc.enable()
    return server
