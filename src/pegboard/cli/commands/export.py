"""`registry export`: the tools in a provider's words, and what is lost on the way. Imports no tool's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.commands.look import notices, report_misses
from pegboard.cli.completion import complete_exporter
from pegboard.cli.options import Options, context_of, context_options, tool_options
from pegboard.cli.output import json_pretty, json_rows, remark, rows_text
from pegboard.cli.session import open_session
from pegboard.cli.terminal import redirect_stdout, stdout_screen, write, write_long
from pegboard.cli.tool_texts import notice_text
from pegboard.errors import PACKAGES, ExportError

if TYPE_CHECKING:
    from pegboard.request.exporter import ExportedTools, Exporter, Loss
    from pegboard.tools.tool import Tool

_HEAD = ("TOOL", "PATH", "KEYWORD", "WHAT")
_MOST_NAMED = 5


@click.command("export")
@click.option(
    "--to", "name", metavar="NAME", shell_complete=complete_exporter, help="The exporter: 'openai'; see --list."
)
@click.option("--list", "as_list", is_flag=True, help="List the exporters instead, and what to install for others.")
@click.option("--strict", is_flag=True, help="Have the provider hold calls to the schemas, where it can.")
@click.option("--where", metavar="PREDICATE", help="Only tools of which this is so, as in 'registry list'.")
@click.option("--check", is_flag=True, help="Show what is lost, and which tools can't be exported; exit with 1 then.")
@click.option("--json", "as_json", is_flag=True, help="As a pipe gets it, in a terminal too.")
@context_options
@tool_options
@click.pass_obj
def export_command(  # noqa: PLR0913, PLR0917  one an option, by name
    options: Options,
    name: str | None,
    as_list: bool,
    strict: bool,
    where: str | None,
    check: bool,
    as_json: bool,
    **context: Any,
) -> int:
    """Print the tools as a provider's list has them.

    It is JSON. No plugin's code is imported, but for the exporter's own where a plugin brings it.
    """
    session = open_session(options)
    if as_list:
        _write_names(session.registry.known("exporters"), as_json=as_json)
        return 0
    if name is None:
        raise click.UsageError("Missing option '--to'; --list shows what there is.")
    try:
        with redirect_stdout():  # it may be a plugin's
            exporter = session.registry.exporter(name)
    except ExportError as error:
        raise click.ClickException(str(error)) from error
    offered = session.resolved(where, context=context_of(**context))
    report_misses(options.only, offered)
    notice = notice_text(session.registry.problems(), notices(session, offered))
    if notice:
        remark(notice)
    exported = _exported(exporter, name, offered.tools, strict=strict)
    if check:
        _write_losses(exported.losses, as_json=as_json)
        return 1 if exported.refused else 0
    _write_entries(exported, as_json=as_json)
    _report_refused(exported, name)
    return 0


def _exported(exporter: Exporter, name: str, tools: Sequence[Tool], *, strict: bool) -> ExportedTools:
    """What the exporter makes of the tools; it may be a plugin's, and raise anything."""
    try:
        with redirect_stdout():
            return exporter.tools([tool.spec for tool in tools], strict=strict or None)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"it failed: {type(error).__name__}: {error}", exporter=name) from error


def _write_names(installed: Sequence[str], *, as_json: bool) -> None:
    """Lists the exporters that can be used, and those of first-party packages that aren't installed."""
    screen, packages = stdout_screen(), PACKAGES["exporters"]
    names = sorted({"mcp", *installed, *packages})
    if as_json or not screen.is_terminal:
        rows = ({"name": name, "installed": name == "mcp" or name in installed} for name in names)
        write(json_rows({**row, "package": packages.get(str(row["name"]))} for row in rows))
        return
    there = {"mcp", *installed}
    shown = [(name, "installed" if name in there else f"pip install {packages[name]}") for name in names]
    write_long(rows_text(("NAME", "STATUS"), shown, screen), screen)


def _write_entries(exported: ExportedTools, *, as_json: bool) -> None:
    screen = stdout_screen()
    if screen.is_terminal and not as_json:
        write_long(json_pretty(list(exported.entries)) + "\n", screen)
    else:
        write(json_rows(exported.entries))


def _report_refused(exported: ExportedTools, name: str) -> None:
    refused = sorted(exported.refused)
    if refused:
        more = f" and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
        named = f"{', '.join(refused[:_MOST_NAMED])}{more}"
        remark(f"left out: {named}; 'registry export --to {name} --check' shows why")


def _write_losses(losses: Sequence[Loss], *, as_json: bool) -> None:
    screen = stdout_screen()
    if as_json or not screen.is_terminal:
        write(json_rows(loss.to_json() for loss in losses))
    elif losses:
        rows = [(loss.tool, loss.path, loss.keyword, f"{'refused: ' * loss.refused}{loss.what}") for loss in losses]
        write_long(rows_text(_HEAD, rows, screen), screen)
    else:
        remark("nothing is lost")
