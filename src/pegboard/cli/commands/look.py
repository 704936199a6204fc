"""`registry list`, `search`, `show`, `schema`, `explain`, `export`: commands that list tools without importing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from attrs import evolve

from pegboard.cli.main import OWN, command_owners
from pegboard.cli.options import (
    Options,
    complete_exporter,
    complete_plugin,
    complete_tool,
    context_of,
    context_options,
    tool_options,
    where_option,
)
from pegboard.cli.output import (
    block,
    json_pretty,
    json_rows,
    one_line,
    redirect_stdout,
    rows_text,
    stdout_screen,
    tools_text,
    write,
    write_note,
)
from pegboard.cli.session import Session, merge_configuration, open_session
from pegboard.cli.tool_texts import (
    listing_json,
    listing_plain,
    notice_text,
    schema_text,
    sections_of,
    show_json,
    show_text,
)
from pegboard.cli.warm import SEARCH_LIMIT
from pegboard.config import lacks_secrets
from pegboard.errors import ExportError, UnknownToolError, did_you_mean, first_party, suggest
from pegboard.json import count_text
from pegboard.plugins.cache import Stamps, write_snapshot
from pegboard.plugins.load import NOT_STARTED
from pegboard.plugins.snapshot import MOST_SECONDS, snapshot_place
from pegboard.text import visible
from pegboard.tools.spec import Problem
from pegboard.toolsets.predicates import Matches, any_of, is_literal

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry
    from pegboard.request.model_request import Loss
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.search import ToolIndex

_MOST_NAMED: Final = 5
StoreListing: TypeAlias = "Callable[[ResolvedTools, ToolIndex | None], None]"


def open_for_listing(options: Options, *, everything: bool) -> tuple[Session, StoreListing]:
    """A session, and a function that stores the listing of everything as the snapshot that the warm command reads.

    It isn't written while settings lack a secret, or where toolsets have been queried.
    """
    place = snapshot_place() if everything and options.is_default else None  # nor if snapshots are disabled
    stamps = None if place is None else Stamps.of_environment()
    session = open_session(options, stamps=stamps)
    has_changed = stamps is not None and merge_configuration(options) != session.config  # since the stamps were taken

    def store(offered: ResolvedTools, index: ToolIndex | None) -> None:
        plugins = session.registry.plugins()
        if place is None or stamps is None or has_changed or any(map(lacks_secrets, session.config.plugins.values())):
            return
        if session.is_live or any(plugin.cause == NOT_STARTED for plugin in plugins):
            return
        for published in session.registry.contributions.catalogue.published.values():
            stamps.add_published(published)
        sections = sections_of(
            offered.tools,
            offered.unsolved(session.registry.problems()),
            commands=((name, text) for name, (_, text) in (*OWN.items(), *command_owners(session).items())),
            notices=notices(session, offered),
            index=b"" if index is None else index.dump(),
        )
        failed = any(plugin.status == "quarantined" for plugin in plugins)
        write_snapshot(place, sections, stamps, int(time.time()) + MOST_SECONDS if failed else 0)

    return session, store


@click.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_tool)
@where_option
@click.option("--plugin", metavar="NAME", shell_complete=complete_plugin, help="Only tools of this plugin.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--names", "form", flag_value="names", help="Print names only, one per line.")
@click.option("--table", "form", flag_value="table", help="Print a table, even into a pipe.")
@click.option("--input-schema", is_flag=True, help="Print each tool's input schema.")
@context_options
@tool_options
@click.pass_obj
def list_command(  # noqa: PLR0913, PLR0917  one an option, by name
    options: Options,
    names: tuple[str, ...],
    where: str | None,
    plugin: str | None,
    form: str | None,
    input_schema: bool,
    **context: Any,
) -> int:
    """List the tools that this environment offers.

    NAME may be a pattern such as 'git_*'. A terminal gets a table; a pipe gets tab-separated lines of name, plugin and
    summary.
    """
    session, store = open_for_listing(options, everything=not (names or where or plugin or any(context.values())))
    live = any(is_literal(name) and session.needs_query(name) for name in names)
    asked = context_of(**context)
    named = any_of(*(Matches("name", name) for name in names)) if names else None
    of_plugin = Matches("plugin", plugin) if plugin else None
    offered = session.processed(session.resolved(named, of_plugin, where, context=asked, live=live), asked)
    for name in names:  # patterns, and tools excluded by predicates, aren't errors
        if is_literal(name) and name not in offered.considered:
            raise UnknownToolError(name, suggest(name, offered.considered))
    known = [record.name for record in session.registry.plugins()]
    if plugin is not None and is_literal(plugin) and plugin not in known:
        raise click.ClickException(f"no plugin is called {plugin!r}.{did_you_mean(suggest(plugin, known))}")
    report_misses(session, offered)
    if not offered.tools and offered.considered:
        write_note("no tool matches; 'registry explain NAME' shows why a tool is excluded")
    _write_list(session, offered, offered.tools, form, input_schema=input_schema)
    store(offered, None)
    return 0


def report_misses(session: Session, offered: ResolvedTools) -> None:
    """Reports names in `-T` that no tool has, and suggests others."""
    plugins = {record.name for record in session.registry.plugins()}
    for name in session.options.only:
        if ":" not in name and is_literal(name) and name not in offered.considered:
            near = (f"plugin:{name}",) if name in plugins else suggest(name, offered.considered)
            write_note(f"-T: no tool is called {name!r}.{did_you_mean(near)}")


def problems(session: Session, offered: ResolvedTools) -> list[Problem]:
    """The problems of plugins and of this resolution."""
    found = (each.evolve(subject=None, cause=str(each), tool=None) for each in offered.problems)
    return [*offered.unsolved(session.registry.problems()), *found]


def notices(session: Session, offered: ResolvedTools) -> Iterator[str]:
    """Notices of `list` for standard error, besides problems."""
    yield from map(str, session.config.ignored)
    if not offered.considered:
        yield "no tools are installed: 'registry install PACKAGE' adds some, 'registry new NAME' creates a plugin"
    if names := [] if session.is_live else session.unqueried():
        yield f"toolsets of {count_text(len(names), 'plugin')} not queried ({', '.join(names)}): --live queries them"


def _notice(session: Session, offered: ResolvedTools) -> None:
    write_note(notice_text(problems(session, offered), notices(session, offered)), is_visible=True)


def _write_list(
    session: Session, offered: ResolvedTools, tools: Sequence[Tool], form: str | None, *, input_schema: bool = False
) -> None:
    """Writes some of the offered tools, and problems and notices: in JSON, or to standard error."""
    screen = stdout_screen()
    if form == "json":
        write(listing_json(tools, problems(session, offered)))
        return
    if form == "names":
        write("".join(f"{tool.name}\n" for tool in tools))
    elif input_schema:
        parts = (screen.styled(tool.name, "bold") + "\n" + block(json_pretty(tool.spec.input_schema)) for tool in tools)
        write("\n".join(parts))
    elif form == "table" or screen.is_terminal:
        write(tools_text(tools, screen))
    else:
        write(listing_plain(tools))
    _notice(session, offered)


@click.command("show")
@click.argument("name", shell_complete=complete_tool)
@click.option("--json", "as_json", is_flag=True, help="Print the full spec as JSON.")
@tool_options
@click.pass_obj
def show_command(options: Options, name: str, as_json: bool) -> int:
    """Show everything known about a tool."""
    tool = open_session(options).find(name)
    write(show_json(tool) if as_json else show_text(tool))
    return 0


@click.command("schema")
@click.argument("name", shell_complete=complete_tool)
@tool_options
@click.pass_obj
def schema_command(options: Options, name: str) -> int:
    """Print the JSON Schema of a tool's arguments."""
    write(schema_text(open_session(options).find(name)))
    return 0


@click.command("explain")
@click.argument("name", shell_complete=complete_tool)
@where_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@context_options
@tool_options
@click.pass_obj
def explain_command(options: Options, name: str, where: str | None, as_json: bool, **context: Any) -> int:
    """Show why a tool is or isn't offered."""
    session, asked = open_session(options), context_of(**context)
    live = session.has_checks or session.needs_query(name)
    offered = session.processed(session.resolved(where, context=asked, live=live), asked)
    report_misses(session, offered)
    explained = offered.explain(name)
    if not explained.reasons:
        of_tool = (str(problem) for problem in offered.problems if problem.tool == name)
        explained = evolve(explained, notes=(*session.unavailable(name), *of_tool))
        if not explained.notes:
            raise UnknownToolError(name, explained.near)
    if as_json:
        write(f"{json_pretty(explained.to_json())}\n")
        return 0
    screen = stdout_screen()
    head, style = ("offered", "green") if explained.offered else ("not offered", "yellow")
    write(f"{one_line(explained.name)}: {screen.styled(head, style)}\n")
    for reason in explained.reasons:
        text = f"{reason}".replace(" where: ", " --where: ", reason.step == "where")
        write(block(text, screen, indent="  ", style="" if reason.verdict == "in" else "yellow"))
    for note in explained.notes:
        text = visible(f"note: {note}", newlines=True, again=True)
        write(block(text, screen, indent="  ", is_visible=True))
    return 0


@click.command("search")
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1_000),
    default=SEARCH_LIMIT,
    show_default=True,
    help="Maximum number of tools.",
)
@where_option
@click.option("--json", "form", flag_value="json", help="Print JSON as 'registry list --json' does, best first.")
@context_options
@tool_options
@click.pass_obj
def search_command(
    options: Options, words: tuple[str, ...], limit: int, where: str | None, form: str | None, **context: Any
) -> int:
    """Find tools by what they do.

    Searches names, parameters and descriptions for WORDS. A word also matches as a prefix. Tools that match more words
    come first. A terminal gets a table; a pipe gets tab-separated lines of name, plugin and summary.
    """
    from pegboard.toolsets.search import ToolIndex

    session, store = open_for_listing(options, everything=not (where or any(context.values())))
    offered = session.resolved(where, context=context_of(**context))
    report_misses(session, offered)
    index = ToolIndex(tool.spec for tool in offered)
    found = index.search(" ".join(words), limit=limit)
    store(offered, index)
    tools = [tool for each in found if not each.near and (tool := offered.get(each.name)) is not None]
    _write_list(session, offered, tools, form or (None if tools else "names"))  # no head without a row
    if not tools:
        write_note(f"no tool matches {' '.join(words)[:100]!r}.{did_you_mean([each.name for each in found[:3]])}")
    return 0


@click.command("export")
@click.option(
    "--to", "name", metavar="NAME", shell_complete=complete_exporter, help="The exporter: 'openai'; see --list."
)
@click.option("--list", "as_list", is_flag=True, help="List the exporters, and packages to install for others.")
@click.option("--strict", is_flag=True, help="Request strict schemas where the provider has them.")
@where_option
@click.option("--check", is_flag=True, help="Show what is lost; exit with 1 if a tool can't be exported.")
@click.option("--json", "as_json", is_flag=True, help="Print one tool per line, even in a terminal.")
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
    """Print the tools in a provider's format.

    Prints JSON. Imports no plugin except the one of the exporter; where a lock applies, toolsets are queried for it.
    """
    session = open_session(options)
    if as_list:
        if name is not None or where is not None or check or strict:
            raise click.UsageError("--list can't be combined with '--to', '--where', '--check' or '--strict'")
        _write_exporters(session.registry, as_json=as_json)
        return 0
    if not name:
        raise click.UsageError("Missing option '--to'; --list lists the exporters")
    try:
        with redirect_stdout():  # plugins may print
            exporter = session.registry.exporter(name)
    except ExportError as error:
        raise click.ClickException(str(error)) from error
    offered = session.resolved(where, context=context_of(**context), live=session.has_checks)
    report_misses(session, offered)
    _notice(session, offered)
    try:
        with redirect_stdout():
            exported = exporter.tools([tool.spec for tool in offered.tools], strict=strict or None)
    except ExportError:
        raise
    except Exception as error:  # exporters of plugins may raise anything
        raise ExportError(f"failed: {type(error).__name__}: {error}", exporter=name) from error
    if check:
        _write_losses(exported.losses, as_json=as_json)
        return 1 if exported.refused else 0
    screen = stdout_screen()
    if screen.is_terminal and not as_json:
        write(json_pretty({"tools": exported.entries}) + "\n")
    else:
        write(json_rows("tools", exported.entries))
    if refused := sorted(exported.refused):
        more = f" and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
        named = ", ".join(refused[:_MOST_NAMED]) + more
        write_note(f"left out: {named}; 'registry export --to {name} --check' shows why")
    return 0


def _write_exporters(registry: ToolRegistry, *, as_json: bool) -> None:
    """Lists installed exporters, and those of first-party packages that aren't installed."""
    screen, catalogue = stdout_screen(), registry.contributions.catalogue
    packages: dict[str, str | None] = dict(first_party()["exporters"])
    for name, plugin in catalogue.offered("exporters").items():
        packages[name] = catalogue.plugins[plugin].distribution
    for name in catalogue.extras.get("exporters", {}):
        packages[name] = catalogue.owners[f"exporters:{name}"].distribution
    installed = registry.contributions.names("exporters")
    names = sorted({*installed, *packages})
    if as_json or not screen.is_terminal:
        of_packages = {name: {"package": package} for name, package in packages.items() if package is not None}
        rows = ({"name": name, "installed": name in installed, **of_packages.get(name, {})} for name in names)
        write(json_rows("exporters", rows))
    else:
        shown = [(name, "installed" if name in installed else f"pip install {packages[name]}") for name in names]
        write(rows_text(("NAME", "STATUS"), shown, screen))


def _write_losses(losses: Sequence[Loss], *, as_json: bool) -> None:
    screen = stdout_screen()
    if as_json or not screen.is_terminal:
        write(json_rows("losses", (loss.to_json() for loss in losses)))
    elif losses:
        rows = [(loss.tool, loss.path, loss.keyword, f"{'refused: ' * loss.refused}{loss.what}") for loss in losses]
        write(rows_text(("TOOL", "PATH", "KEYWORD", "WHAT"), rows, screen))
    else:
        write_note("nothing is lost")
