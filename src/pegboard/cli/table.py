"""Plain-text tables, and the width and colour of terminals.

Used by the warm command, so it imports nothing beyond what Python's startup loads.
"""

from __future__ import annotations

import os
from itertools import accumulate, chain

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GAP = "  "
CUT = "…"
LEAST_WIDTH = 16  # of wrapped text
_MOST_SUMMARY = 160
_NARROWEST = 8
HEAD = ("TOOL", "PLUGIN", "SUMMARY")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def tool_table(rows: Sequence[Sequence[str]], *, width: int, colour: bool = False) -> str:
    """A table of tools (name, plugin, summary) with their number; long summaries are cut."""
    rows = [(*row[:-1], fit(row[-1], _MOST_SUMMARY)) for row in rows]
    count = f"{len(rows)} tool{'s' * (len(rows) != 1)}"
    return table(HEAD, rows, width=width, colour=colour) + f"{count}\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, colour: bool = False) -> str:
    """Rows in aligned columns; the last column is wrapped, and with `colour` the head is bold.

    If the columns don't fit, each row's first cell is above the others.
    """
    widths = [max(map(cells, column)) for column in zip(head, *rows, strict=True)]
    last = len(widths) - 1
    room = width - sum(widths[:last]) - len(GAP) * last
    fits = room >= min(widths[last], _NARROWEST)
    widths[last] = min(widths[last], room)
    first, *lines = (_row(row, widths) if fits else _stack(row, width) for row in (head, *rows))
    return "".join([f"{_BOLD}{first[:-1]}{_PLAIN}\n" if colour else first, *lines])


def _stack(row: Sequence[str], width: int) -> str:
    """A row for a narrow screen: its first cell, and the others on indented lines below."""
    lines = _wrap(GAP.join(filter(None, row[1:])), max(width - len(GAP), _NARROWEST), cuts=True)
    return "\n".join([*_wrap(row[0], width, cuts=True), *(f"{GAP}{line}" for line in lines if line), ""])


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    """A row's lines: more than one if its last cell is wrapped."""
    parts = [cell + " " * (wide - cells(cell)) for cell, wide in zip(row[:-1], widths, strict=False)]
    first, *lines = _wrap(row[-1], widths[-1], cuts=True)
    below = " " * (sum(widths[:-1]) + len(GAP) * len(parts))
    return "\n".join([GAP.join((*parts, first)).rstrip(), *(f"{below}{line}" for line in lines), ""])


def fit(text: str, width: int) -> str:
    """Truncates a text to a number of terminal cells."""
    if cells(text) <= width:
        return text
    length = sum(used < width for used in accumulate(map(cells, text)))
    return text[:length].rstrip() + CUT


def cells(text: str) -> int:
    """Width of a text in terminal cells: East Asian wide characters and emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    found = wcswidth(text)
    return len(text) if found < 0 else found  # negative for control characters


def wrap_text(text: str, width: int | None) -> list[str]:
    """The lines of a text, wrapped between words, indentation repeated; unchanged without a width."""
    lines = text.split("\n")
    return lines if width is None else [part for line in lines for part in _wrap(line, width)]


def _wrap(line: str, width: int, *, cuts: bool = False) -> list[str]:
    """Wraps a line; `cuts`: also within words that are too long, such as Chinese or Japanese text."""
    if cells(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    parts: list[str] = []
    here = ""
    words = line.split()
    for word in chain.from_iterable(_pieces(each, width) for each in words) if cuts else words:
        longer = f"{here} {word}" if here else word
        if here and cells(indent + longer) > width:
            parts.append(indent + here)
            here = word
        else:
            here = longer
    return [*parts, indent + here]


def _pieces(word: str, width: int) -> Iterator[str]:
    start = 0
    for place in range(1, len(word)):
        if cells(word[start : place + 1]) > width:
            yield word[start:place]
            start = place
    yield word[start:]


def terminal_width(fd: int, environ: Mapping[str, str] = os.environ) -> int:
    """Columns of a terminal; `COLUMNS` overrides them, as in `shutil.get_terminal_size`."""
    given = environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def wants_colour(environ: Mapping[str, str] = os.environ, *, on_terminal: bool) -> bool:
    """Whether a stream gets colour: by `NO_COLOR` (no-color.org), then `FORCE_COLOR`, then the terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return on_terminal and environ.get("TERM") != "dumb"
