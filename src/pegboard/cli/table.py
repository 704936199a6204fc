"""Tables and indented JSON as plain text.

Used by the warm command, so it loads nothing that a bare Python hasn't loaded.
"""

from __future__ import annotations

import os
from itertools import accumulate

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GAP = "  "
CUT = "…"
_NARROWEST = 8
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, colour: bool = False) -> str:
    """Rows in aligned columns, each line cut to the width.

    Args:
        head: The columns' names.
        rows: Cells without line ends and escape sequences; as many a row as there are names.
        width: In terminal cells.
        colour: Whether the names stand out.

    Returns:
        Lines, each with its line end.
    """
    widths = [max(map(cells, column)) for column in zip(head, *rows, strict=True)]
    last = len(widths) - 1
    rest = max(width - sum(widths[:last]) - len(GAP) * last, _NARROWEST)
    widths[last] = min(widths[last], rest)
    first = _row(head, widths)
    return "".join(
        (f"{_BOLD}{first}{_PLAIN}\n" if colour else f"{first}\n", *(f"{_row(row, widths)}\n" for row in rows))
    )


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
    """How many terminal cells a text takes: East Asian wide characters two, combining marks none (UAX 11)."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0
        if combining(character) or character in "\u200c\u200d\ufe0e\ufe0f"
        else 1 + (east_asian_width(character) in "WF")
        for character in text
    )


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


def indented(text: str) -> str:
    """Compact JSON text, laid out as `json.dumps(..., indent=2)` does.

    Args:
        text: JSON without spaces between values.

    Returns:
        The same value on several lines, without a line end at the end.
    """
    parts: list[str] = []
    depth = position = 0
    while position < len(text):
        character = text[position]
        if character == '"':
            end = _string_end(text, position)
            parts.append(text[position:end])
            position = end
            continue
        if character in "[{":
            empty = text[position + 1] in "]}"
            depth += not empty
            parts.append(text[position : position + 2] if empty else character + _json_line(depth))
            position += empty
        elif character in "]}":
            depth -= 1
            parts.append(_json_line(depth) + character)
        else:
            parts.append({",": "," + _json_line(depth), ":": ": "}.get(character, character))
        position += 1
    return "".join(parts)


def _json_line(depth: int) -> str:
    return "\n" + "  " * depth


def _string_end(text: str, start: int) -> int:
    """Behind the quote that closes the string: the first that an even number of backslashes precedes."""
    end = start
    while True:
        end = text.index('"', end + 1)
        before = end
        while text[before - 1] == "\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
