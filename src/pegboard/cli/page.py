"""Output: whole texts to standard output; a list longer than the terminal through a pager."""

from __future__ import annotations

import os
import sys

import click

from pegboard.cli.screen import Screen


def write(text: str) -> None:
    """Writes a text, which carries its line ends and whatever colours it is to have, as it is."""
    sys.stdout.write(text)


def write_long(text: str, screen: Screen) -> None:
    """Writes a text; one that is longer than the terminal goes through the pager (`PAGER`, else `less`).

    Nothing is paged where standard output or input is no terminal, or a dumb one.
    """
    if screen.height is None or text.count("\n") < screen.height:
        write(text)
        return
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(text.removesuffix("\n"), color=screen.colour)
