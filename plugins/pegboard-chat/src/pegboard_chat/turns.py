"""The commands `/diff` and `/undo`: what turns of the conversation have changed in files, by pegboard-files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

import click

from pegboard.cli import handle_interrupts
from pegboard.json import count_text
from pegboard.text import visible

if TYPE_CHECKING:
    from pegboard import ReadonlyContext
    from pegboard_files.root import Deadline
    from pegboard_files.turns import TurnOfSession, TurnStore

T = TypeVar("T")
SECONDS: Final = 600.0
MOST_NAMED: Final = 50  # files that are listed
_WHERE: Final = "Only the file tools' changes are known; a conversation continues with: registry chat --history FILE"


async def run_for_turn(work: Callable[[ReadonlyContext, str, Deadline], T], context: ReadonlyContext, number: str) -> T:
    """What `diff_text` or `undo_turn` returns; it runs in a thread, and stops early at Ctrl-C.

    Args:
        work: One of the two.
        context: The user and session.
        number: Which turn that has changed files: `"1"` or `""` is the last, `"2"` the one before.

    Raises:
        click.ClickException: There is no such turn, or pegboard-files isn't installed.
        ToolError: The changes can't be read.
    """
    if find_spec("pegboard_files") is None:
        raise click.ClickException("this needs the file tools of pegboard-files: pip install pegboard-files")
    from pegboard_files.root import Deadline

    deadline = Deadline(SECONDS)
    with handle_interrupts(deadline.stop):
        return await asyncio.to_thread(work, context, number, deadline)


def diff_text(context: ReadonlyContext, number: str, deadline: Deadline) -> str:
    """The net diff of a turn, and its files without one; safe to print."""
    store, turn = _find(context, number)
    from pegboard_files.turn_diff import diff_of_turn

    found = diff_of_turn(store, turn, deadline)
    noted = [f"{each.path} ({each.change}): {each.note}" for each in found.files if each.note is not None]
    lines = f"+{found.additions:,} -{found.deletions:,} lines"
    end = f"{count_text(found.changed, 'file')} changed, {lines}. {found.note}"
    return visible("\n".join([found.diff.removesuffix("\n"), *_cut(noted), end]).strip(), newlines=True)


def undo_turn(context: ReadonlyContext, number: str, deadline: Deadline) -> tuple[str, str]:
    """Undoes a turn.

    Returns:
        Which files are as they were before it, and why others aren't, safe to print; and what the model has to know.
    """
    store, turn = _find(context, number)
    undone = store.undo(turn, deadline)
    left = [f"{name} was left as it is: {why}" for name, why in undone.refused.items()]
    end = f"{count_text(len(undone.restored), 'file')} restored, {len(left):,} left as they are"
    done = [f"restored {name}" for name in undone.restored]
    return visible("\n".join([*_cut(done), *_cut(left), end]), newlines=True), undone.model_note


def _find(context: ReadonlyContext, number: str) -> tuple[TurnStore, TurnOfSession]:
    from pegboard_files.turns import TurnStore

    if number and not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise click.UsageError(f"{number!r:.40} isn't the number of a turn: 1 is the last, 2 the one before")
    store, place = TurnStore(), int(number or 1)
    turns = store.turns(context)
    if not turns:
        raise click.ClickException(f"no turn of this conversation has changed files. {_WHERE}")
    if place > len(turns):
        raise click.ClickException(f"only {count_text(len(turns), 'turn')} of this conversation changed files")
    return store, turns[place - 1]


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_NAMED
    return lines if more <= 0 else [*lines[:MOST_NAMED], f"and {more:,} more"]
