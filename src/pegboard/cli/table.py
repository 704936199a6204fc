"""Tables as plain text, and what a terminal can show.

Used by the warm command, so it loads nothing that a bare Python hasn't loaded.
"""

from __future__ import annotations

import os
from itertools import accumulate

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GAP = "  "
CUT = "…"
_NARROWEST = 8
HEAD = ("TOOL", "PLUGIN", "SUMMARY")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def tool_table(rows: Sequence[Sequence[str]], *, width: int, colour: bool = False) -> str:
    """Name, plugin and summary of tools as a table, and how many there are."""
    count = f"{len(rows)} tool{'s' * (len(rows) != 1)}"
    return table(HEAD, rows, width=width, colour=colour, wraps=True) + f"{count}\n"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, colour: bool = False, wraps: bool = False
) -> str:
    """Rows in aligned columns, each line cut to the width, or its last cell broken between words.

    Args:
        head: The columns' names.
        rows: Cells without line ends and escape sequences; as many a row as there are names.
        width: In terminal cells.
        colour: Whether the names stand out.
        wraps: Whether the last cell goes on in the next line where it is too wide.

    Returns:
        Lines, each with its line end.
    """
    widths = [max(map(cells, column)) for column in zip(head, *rows, strict=True)]
    last = len(widths) - 1
    widths[last] = min(widths[last], max(width - sum(widths[:last]) - len(GAP) * last, _NARROWEST))
    first = _row(head, widths)
    return "".join(
        (
            f"{_BOLD}{first}{_PLAIN}\n" if colour else f"{first}\n",
            *(f"{_row(line, widths)}\n" for row in rows for line in (_wrapped(row, widths[-1]) if wraps else (row,))),
        )
    )


def _wrapped(row: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    """The row, and rows below it with what is left of its last cell."""
    for number, part in enumerate(wrapped(row[-1], width)):
        yield (*([""] * (len(row) - 1) if number else row[:-1]), part)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    parts = [cell + " " * (wide - cells(cell)) for cell, wide in zip(row[:-1], widths[:-1], strict=True)]
    return GAP.join((*parts, fitted(row[-1], widths[-1]))).rstrip()


def fitted(text: str, width: int) -> str:
    """A text of at most so many terminal cells, its end cut off where it is longer."""
    if cells(text) <= width:
        return text
    kept = sum(used < width for used in accumulate(map(cells, text)))
    return text[:kept].rstrip() + CUT


def cells(text: str) -> int:
    """How many terminal cells a text takes: East Asian wide characters and emoji two, combining marks none."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    found = wcswidth(text)
    return len(text) if found < 0 else found  # a control character, which is no text


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


def terminal_size(fd: int, environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Columns and lines of a terminal: `COLUMNS` and `LINES` where they are set, as `shutil.get_terminal_size`."""
    try:
        real = os.get_terminal_size(fd)
    except OSError:
        real = (80, 24)
    given = (environ.get("COLUMNS", ""), environ.get("LINES", ""))
    columns, lines = (
        int(text) if text.isdecimal() and int(text) > 0 else found or usual
        for text, found, usual in zip(given, real, (80, 24), strict=True)
    )
    return columns, lines


def wants_colour(environ: Mapping[str, str] = os.environ, *, on_terminal: bool) -> bool:
    """Whether a stream gets colour: by `NO_COLOR` (no-color.org), then `FORCE_COLOR`, then the kind of terminal.

    The order is that of Python's own tracebacks.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return on_terminal and environ.get("TERM") != "dumb"
