"""`registry search`: tools by what they do. No tool's code is imported for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.commands.look import SnapshotWriter, notices, problems, report_misses
from pegboard.cli.options import Options, context_of, context_options, tool_options
from pegboard.cli.output import remark
from pegboard.cli.session import Session, open_session
from pegboard.cli.table import table
from pegboard.cli.terminal import stdout_screen, write, write_long
from pegboard.cli.tool_texts import listing_json, listing_plain, listing_rows, notice_text
from pegboard.cli.warm import HEAD, SEARCH_LIMIT, search_cached
from pegboard.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.search import Found

_MOST: Final = 1_000


@click.command("search")
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1, _MOST), default=SEARCH_LIMIT, show_default=True, help="At most so many."
)
@click.option("--where", metavar="PREDICATE", help="Only among tools of which this is so, as in 'registry list'.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: as in 'registry list --json', best first.")
@context_options
@tool_options
@click.pass_obj
def search_command(
    options: Options, words: tuple[str, ...], limit: int, where: str | None, as_json: bool, **context: Any
) -> int:
    """Find tools by what they do.

    WORDS are looked for in names, parameters and descriptions. A word finds what begins with it; the more words are
    found, the better, and the best tools come first. A terminal gets a table; a pipe gets lines of name, plugin and
    summary with tabs between.
    """
    plain = not (where or any(context.values())) and options.is_default
    writer = SnapshotWriter.start() if plain else None
    session = open_session(options, writer.discovery if writer else None)
    offered = session.resolved(where, context=context_of(**context))
    report_misses(options.only, offered)
    found = _searched(session, offered, " ".join(words), limit, writer)
    tools = [tool for each in found if not each.near and (tool := offered.get(each.name)) is not None]
    _write(session, offered, tools, as_json=as_json)
    if not tools:
        near = did_you_mean([each.name for each in found[:3]])
        remark(f"no tool fits {' '.join(words)[:100]!r}.{near}")
    return 0


def _searched(
    session: Session, offered: ResolvedTools, text: str, limit: int, writer: SnapshotWriter | None
) -> tuple[Found, ...]:
    """What is found: by the kept index where every tool of the environment is looked through."""
    if writer is None:
        from pegboard.toolsets.search import ToolIndex

        return ToolIndex(tool.spec for tool in offered).search(text, limit=limit)
    from pegboard.plugins.snapshot import open_snapshot

    snapshot = open_snapshot(writer.place)
    if snapshot is None:
        writer.keep(session, offered, notices(session, offered))
    else:
        snapshot.close()
    return search_cached(writer.place, offered, text, limit)


def _write(session: Session, offered: ResolvedTools, tools: Sequence[Tool], *, as_json: bool) -> None:
    """Writes what was found as `list` writes tools, and on standard error what `list` writes there."""
    if as_json:
        write(listing_json(tools, problems(session, offered)))
        return
    screen = stdout_screen()
    if tools and screen.width is not None:
        write_long(table(HEAD, listing_rows(tools), width=screen.width, colour=screen.colour), screen)
    else:
        write(listing_plain(tools))
    text = notice_text(problems(session, offered), notices(session, offered))
    if text:
        remark(text)
