"""`registry processors`: the steps by which a request is made ready, and who brought each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.board import open_board
from pegboard.cli.failure import complain, remark
from pegboard.cli.options import Options, board_options
from pegboard.cli.page import write, write_long
from pegboard.cli.render import json_rows, rows_text
from pegboard.cli.screen import stdout_screen

if TYPE_CHECKING:
    from pegboard.request.pipeline import Processor

OURS = "pegboard"
HOOK = "pegboard_register_processors"
HEAD = ("STEP", "BY", "WHAT IT DOES")


@click.command("processors")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@board_options()
@click.pass_obj
def processors_command(options: Options, as_json: bool) -> int:
    """List the steps by which requests are made ready.

    Who brought each, and what it does. Plugins that bring one are imported.
    """
    board = open_board(options, anyway=True)
    if board.clash is not None:
        complain(str(board.clash))
    steps = list(board.run(board.registry.processors))
    if as_json:
        write(json_rows(map(_facts, steps)))
        return 0
    screen = stdout_screen()
    write_long(rows_text(HEAD, [(step.name, _by(step), step.summary) for step in steps], screen), screen)
    bringing = {plugin.name for plugin in board.registry.plugins() if HOOK in plugin.hooks}
    for problem in board.registry.problems():
        if problem.plugin in bringing:
            remark(f"{problem.plugin}: {problem.cause}")
    return 0


def _by(step: Processor) -> str:
    return OURS if step.built_in else step.owner.plugin or "the host"


def _facts(step: Processor) -> dict[str, Any]:
    owner = step.owner
    return {
        "name": step.name,
        "summary": step.summary,
        "builtIn": step.built_in,
        "plugin": owner.plugin,
        "distribution": OURS if step.built_in else owner.distribution,
        "version": owner.version,
    }
