"""`Screen`: what a stream can show."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import IO, Any, Final

from attrs import frozen

from pegboard.cli.table import cells, terminal_size

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@frozen
class Screen:
    """What a stream can show.

    Attributes:
        width: Columns, or `None` where it is no terminal and nothing is cut or broken.
        height: Lines, or `None` likewise.
        colour: Whether it takes colours.
    """

    width: int | None = None
    height: int | None = None
    colour: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self.width is not None

    def styled(self, text: str, style: str) -> str:
        """The text in a style: `bold`, `dim`, `red`, `green`, `yellow`, or `""` for none."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text


PLAIN: Final = Screen()


def stdout_screen() -> Screen:
    """What standard output can show."""
    return screen_of(sys.stdout)


def stderr_screen() -> Screen:
    """What standard error can show."""
    return screen_of(sys.stderr)


def screen_of(stream: IO[Any], environ: Mapping[str, str] = os.environ) -> Screen:
    """What this stream can show.

    Colour follows `NO_COLOR` (no-color.org), then `FORCE_COLOR`, then `TERM=dumb`, then whether it is a terminal, in
    the order of Python's own tracebacks. Width and height follow `COLUMNS` and `LINES`, then the terminal.
    """
    on_terminal = _is_terminal(stream)
    colour = _takes_colour(environ, on_terminal=on_terminal)
    if not on_terminal:
        return Screen(colour=colour)
    width, height = terminal_size(stream.fileno(), environ)
    return Screen(width, height, colour)


def _is_terminal(stream: IO[Any] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False


def _takes_colour(environ: Mapping[str, str], *, on_terminal: bool) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return on_terminal and environ.get("TERM") != "dumb"


def wrapped(text: str, width: int | None) -> list[str]:
    """The lines of a text, each broken between words so that it fits; without a width, as they are.

    A line keeps what it is indented by. A word that is too long stands alone, uncut.
    """
    lines = text.split("\n")
    return lines if width is None else [part for line in lines for part in _broken(line, width)]


def _broken(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    parts: list[str] = []
    here = ""
    for word in line.split():
        if here and cells(f"{indent}{here} {word}") > width:
            parts.append(indent + here)
            here = word
        else:
            here = f"{here} {word}" if here else word
    return [*parts, indent + here]


__all__ = ["PLAIN", "Screen", "screen_of", "stderr_screen", "stdout_screen", "wrapped"]
