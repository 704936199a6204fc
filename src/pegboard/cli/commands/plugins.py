"""`registry plugins`: what is installed, and how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from attrs import evolve

from pegboard.cli.board import open_board
from pegboard.cli.failure import complain, remark
from pegboard.cli.options import Options, board_options
from pegboard.cli.page import write, write_long
from pegboard.cli.render import plugins_json, plugins_table
from pegboard.cli.screen import stdout_screen

if TYPE_CHECKING:
    from pegboard.catalogue import PluginRecord
    from pegboard.registry import ToolRegistry

OURS = "pegboard"
"""The distribution whose plugins are built in."""


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--all", "with_ours", is_flag=True, help="Those that pegboard itself brings, too.")
@board_options()
@click.pass_obj
def plugins_command(options: Options, as_json: bool, with_ours: bool) -> int:
    """List the installed plugins, and how they are.

    What brings each, its hooks, how many tools it has, and why it isn't whole.
    """
    board = open_board(options, anyway=True)
    plugins = [plugin for plugin in _told(board.registry) if with_ours or plugin.distribution != OURS]
    if board.clash is not None:
        complain(str(board.clash))
    if as_json:
        write(plugins_json(plugins))
        return 0
    screen = stdout_screen()
    write_long(plugins_table(plugins, screen), screen)
    for problem in board.registry.problems():
        if problem.plugin is None:
            remark(f"{problem.distribution or 'sys.path'}: {problem.cause}")
    return 0


def _told(registry: ToolRegistry) -> list[PluginRecord]:
    """The plugins, each with what it lost to others where it is whole itself."""
    lost: dict[str | None, list[str]] = {}
    for problem in registry.problems():
        lost.setdefault(problem.plugin, []).append(problem.cause)
    return [
        evolve(plugin, cause=plugin.cause or "; ".join(dict.fromkeys(lost.get(plugin.name, ()))) or None)
        for plugin in registry.plugins()
    ]
