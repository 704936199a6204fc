"""`registry search`: tools by what they do. No tool's code is imported for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.board import Board, open_board
from pegboard.cli.commands.look import notices, problems, tell_misses
from pegboard.cli.failure import remark
from pegboard.cli.listing import listing_json, listing_plain, listing_rows, notice_text
from pegboard.cli.options import Options, context_of, context_options, tool_options
from pegboard.cli.page import write, write_long
from pegboard.cli.screen import stdout_screen
from pegboard.cli.table import table
from pegboard.cli.warm import HEAD, SEARCH_LIMIT
from pegboard.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.cli.kept import Keeping
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
@click.option("--json", "as_json", is_flag=True, help="As JSON: what 'registry list --json' says of each, best first.")
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
    from pegboard.cli.kept import Keeping

    plain = not (where or any(context.values())) and options.is_default
    keeping = Keeping.start() if plain else None
    board = open_board(options, keeping.discovery if keeping else None)
    offered = board.resolved(where, context=context_of(**context))
    tell_misses(options.only, offered)
    found = _searched(board, offered, " ".join(words), limit, keeping)
    tools = [tool for each in found if not each.near and (tool := offered.get(each.name)) is not None]
    _write(board, offered, tools, as_json=as_json)
    if not tools:
        near = did_you_mean([each.name for each in found[:3]])
        remark(f"no tool fits {' '.join(words)[:100]!r}.{near}")
    return 0


def _searched(
    board: Board, offered: ResolvedTools, text: str, limit: int, keeping: Keeping | None
) -> tuple[Found, ...]:
    """What is found: by the kept index where every tool of the environment is looked through."""
    if keeping is None:
        from pegboard.toolsets.search import ToolIndex

        return ToolIndex(tool.spec for tool in offered).search(text, limit=limit)
    from pegboard.cli.kept_search import search_kept
    from pegboard.plugins.snapshot import open_snapshot

    snapshot = open_snapshot(keeping.place)
    if snapshot is None:
        keeping.keep(board, offered, notices(board, offered))
    else:
        snapshot.close()
    return search_kept(keeping.place, offered, text, limit)


def _write(board: Board, offered: ResolvedTools, tools: Sequence[Tool], *, as_json: bool) -> None:
    """Writes what was found as `list` writes tools, and on standard error what `list` says there."""
    if as_json:
        write(listing_json(tools, problems(board, offered)))
        return
    screen = stdout_screen()
    if tools and screen.width is not None:
        write_long(table(HEAD, listing_rows(tools), width=screen.width, colour=screen.colour), screen)
    else:
        write(listing_plain(tools))
    text = notice_text(problems(board, offered), notices(board, offered))
    if text:
        remark(text)
