"""The command `registry mcp`: list, accept, log in to and test the configured servers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import click
from attrs import evolve

from pegboard.cli import (
    FILE_PATH,
    Options,
    Session,
    json_line,
    json_rows,
    one_line,
    open_session,
    registry_options,
    rows_text,
    stdout_screen,
    write,
    write_note,
)
from pegboard.config import with_secrets
from pegboard.errors import ConfigError, ToolsetError, cause_of, did_you_mean, suggest
from pegboard.json import count_text
from pegboard.tools import EMPTY_CONTEXT
from pegboard.typing import JsonObject
from pegboard_mcp.definitions import Accepted, Definitions
from pegboard_mcp.lock import write_to_lock
from pegboard_mcp.settings import ServerError, Servers, ServerSettings, servers_from
from pegboard_mcp.toolset import McpToolset

F = TypeVar("F", bound=Callable[..., Any])

LOGIN_SECONDS: Final = 330.0
SERVERS_KEYS: Final = ("", "plugins", "plugins.mcp")
"""Keys of a configuration that contain servers: if it isn't trusted and one is ignored, so are its servers."""


def config_option(function: F) -> F:
    """`--mcp-config`: sets `mcp_config` of `[plugins.mcp]` for this run."""
    text = "Add the servers of this JSON file ('mcpServers') for this run."
    return click.option("--mcp-config", type=FILE_PATH, metavar="FILE", help=text)(function)


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")


def with_servers(options: Options, mcp_config: str | None) -> Options:
    """The options of a run, with the file of `--mcp-config`."""
    if mcp_config is not None:
        options.settings += (f"mcp.mcp_config={os.path.abspath(mcp_config)}",)  # noqa: PTH100  a text is wanted
    return options


@click.group("mcp", invoke_without_command=True)
@json_option
@config_option
@registry_options()
@click.pass_context
def mcp_command(context: click.Context, *, as_json: bool, mcp_config: str | None) -> Any:
    """List the configured MCP servers, and accept, test or log in to them."""
    with_servers(context.ensure_object(Options), mcp_config)
    if as_json and context.invoked_subcommand is not None:
        raise click.UsageError("--json comes after the subcommand", context)
    return context.invoke(list_command, as_json=as_json) if context.invoked_subcommand is None else None


@mcp_command.command("list")
@json_option
@config_option
@registry_options()
@click.pass_obj
def list_command(options: Options, *, as_json: bool, mcp_config: str | None) -> int:
    """List the configured servers, and the number of accepted tools of each.

    A server of which nothing was accepted yet is started once for its list, as by every command that lists tools.
    """
    servers = read_servers(open_session(with_servers(options, mcp_config)))
    rows: list[tuple[str, str, str]] = []
    data: list[JsonObject] = []
    hints: dict[str, str] = {}
    for name, settings in sorted(servers.settings.items()):
        accepted = Accepted.of(name, settings).read()
        state, hint = _state(settings, accepted)
        if hint is not None:
            hints.setdefault(hint, hint.replace("{0}", name))
        rows.append((name, state, one_line(str(settings))))
        tools = [] if accepted is None else sorted(accepted.tools)
        data.append({"name": name, "accepted": state, "tools": tools, "reachedBy": str(settings)})
    if as_json:
        write(json_rows("servers", data))
    elif rows:
        write(rows_text(("SERVER", "ACCEPTED", "REACHED BY"), rows, stdout_screen()))
    if not rows:
        write_note("no servers are configured: [plugins.mcp.servers.NAME] in pegboard.toml, with a command or a url")
    for hint in hints.values():
        write_note(hint)
    return 1 if servers.faults else 0


def _state(settings: ServerSettings, accepted: Definitions | None) -> tuple[str, str | None]:
    """What is accepted of a server, and a hint for the user with `{0}` for its name."""
    if settings.accept == "always":
        return "all that it lists", None
    if accepted is None:
        return (
            "nothing accepted yet",
            "{0} has listed no tools yet: 'registry mcp accept {0}' waits until it has started",
        )
    state = f"{count_text(len(accepted.tools), 'tool')} accepted"
    if accepted.problems:
        return "held back", f"{{0}}: {accepted.problems[0][1]}: run 'registry mcp accept {{0}}'"
    if accepted.is_unseen:
        return f"{state} on first use", "review what was accepted on first use: run 'registry mcp accept {0}'"
    return state, None


@mcp_command.command("accept")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Accept without asking.")
@config_option
@registry_options()
@click.pass_obj
def accept_command(options: Options, name: str, *, yes: bool, mcp_config: str | None) -> int:
    """Start a server, show what has changed since it was accepted, and accept it.

    Tools that were accepted on first use are all shown; if you answer no, none of them is offered any more.
    """
    session = open_session(with_servers(options, mcp_config))
    toolset = _toolset(read_servers(session), name)
    before, now = _run(session, toolset, toolset.pending)
    count, lines = len(now.tools), [*before.diff(now)]
    for _, cause in before.problems:
        write_note(f"{name}: {cause}")
    if before.is_unseen:
        write_note(f"{name}: accepted on first use, and {'changed' if lines else 'unchanged'} since:")
        lines = [*lines, *([f"All that {name} lists now:"] if lines else []), *now.lines()]
    elif not before.tools:
        lines = [*now.lines()]
    elif not lines:
        write_note(f"{name}: nothing has changed; accepted: {count_text(count, 'tool')}")
        _lock(session, toolset)
        return 0
    write("".join(f"{line}\n" for line in lines))
    if not yes and not click.confirm(f"Accept {count_text(count, 'tool')} of {name}?", err=True):
        if before.is_unseen:
            toolset.accept(Definitions())
        write_note(f"{name}: {'none of its tools is' if before.is_unseen else 'nothing was'} accepted")
        return 1
    toolset.accept(now)
    write_note(f"{name}: accepted: {count_text(count, 'tool')}")
    _lock(session, toolset)
    return 0


def _lock(session: Session, toolset: McpToolset) -> None:
    """Writes what is accepted to the lock in effect, if there is one."""
    file = write_to_lock(session.config, toolset, toolset.accepted_tools())
    if file is not None:
        write_note(f"{toolset.name}: locked in {file}")


@mcp_command.command("login")
@click.argument("name")
@config_option
@registry_options()
@click.pass_obj
def login_command(options: Options, name: str, *, mcp_config: str | None) -> int:
    """Log in to a server by OAuth, in the browser. It needs `oauth = true` in its settings."""
    session = open_session(with_servers(options, mcp_config))
    servers = read_servers(session)
    settings = servers.settings.get(name)
    if settings is not None and (settings.url is None or not settings.oauth):
        raise click.UsageError(f"the server {name!r} has no url with oauth = true")
    toolset = _toolset(servers, name)
    toolset.settings = evolve(toolset.settings, start_timeout=LOGIN_SECONDS)
    toolset.show_login = lambda address: write_note(f"log in at {address}")
    _run(session, toolset, toolset.start)
    write_note(f"{name}: logged in")
    return 0


@mcp_command.command("test")
@click.argument("names", nargs=-1)
@json_option
@config_option
@registry_options()
@click.pass_obj
def test_command(options: Options, names: tuple[str, ...], *, as_json: bool, mcp_config: str | None) -> int:
    """Start servers, all by default, and show whether they answer and what is wrong with their tools."""
    session = open_session(with_servers(options, mcp_config))
    servers = read_servers(session)
    code = 1 if servers.faults else 0
    for name in names or sorted(servers.settings):
        toolset, started = _toolset(servers, name), time.monotonic()
        data: JsonObject = {"name": name}
        try:
            offer = session.run(lambda toolset=toolset: _closing(toolset, lambda: _test(toolset)))
        except Exception as error:  # noqa: BLE001  the other servers are tested too
            data |= {"problems": [cause_of(error)]}
            lines = [f"{name}: {one_line(cause_of(error))}"]
        else:
            seconds, causes = round(time.monotonic() - started, 1), [problem.cause for problem in offer.problems]
            data |= {"tools": sorted(tool.name for tool in offer), "seconds": seconds, "problems": causes}
            lines = [
                f"{name}: {count_text(len(offer), 'tool')} in {seconds} s",
                *(f"  {one_line(each)}" for each in causes),
            ]
        write(json_line(data) if as_json else "".join(f"{line}\n" for line in lines))
        code = 1 if data["problems"] else code
    return code


def _run(session: Session, toolset: McpToolset, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine function of a toolset, and closes the toolset.

    Raises:
        ToolsetError: The server can't be reached.
    """
    try:
        return session.run(lambda: _closing(toolset, work))
    except ServerError as error:
        raise ToolsetError(toolset.name, str(error)) from error


async def _test(toolset: McpToolset) -> Any:
    await toolset.start()
    return await toolset.tools(EMPTY_CONTEXT)


async def _closing(toolset: McpToolset, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    try:
        return await work()
    finally:
        await toolset.close()


def read_servers(session: Session) -> Servers:
    """The configured servers, with their secrets filled in; faults are written to standard error.

    Raises:
        ConfigError: There is an unknown setting, or `servers` isn't a table.
    """
    given = {key: each for key, each in session.config.settings("mcp", "pegboard-mcp").items() if key != "serve"}
    missing = [str(ignored) for ignored in session.config.ignored if ignored.key in SERVERS_KEYS]
    try:
        servers = servers_from(with_secrets(given, missing, []))
    except ValueError as error:
        raise ConfigError(str(error), file="pegboard.toml") from error
    for fault in (*missing, *servers.faults):
        write_note(fault)
    return servers


def _toolset(servers: Servers, name: str) -> McpToolset:
    """The toolset of a configured server.

    Raises:
        click.UsageError: There is no server of this name.
    """
    settings = servers.settings.get(name)
    if settings is None:
        near = did_you_mean(suggest(name, servers.settings))
        raise click.UsageError(f"no server is called {name!r}.{near}")
    return McpToolset(name, settings, Accepted.of(name, settings))
