"""What a search finds: `Match`, a line with the lines round it, and `FileCount`."""

from __future__ import annotations

from typing import BinaryIO, Final

from attrs import evolve, field, frozen

from pegboard_files.deadline import Deadline
from pegboard_files.lines import lines_of

MAX_TEXT: Final = 400
"""Characters shown of one line."""


@frozen
class Match:
    """One line that matches.

    Attributes:
        path: The file, relative to the root.
        line: The line's number, 1-based.
        text: The line; of a long one the part round the match.
        before: The lines of context right before it that belong to no earlier match.
        after: The lines of context right after it, up to the next match.
    """

    path: str
    line: int
    text: str
    before: list[str] = field(factory=list[str])
    after: list[str] = field(factory=list[str])


@frozen
class FileCount:
    """One file that has lines that match.

    Attributes:
        path: The file, relative to the root.
        count: How many of its lines match; null where only the files were asked for.
    """

    path: str
    count: int | None = None


def with_context(matches: list[Match], file: BinaryIO, context: int, deadline: Deadline) -> list[Match]:
    """The matches of one file, at least one, with the lines round them; no line is given twice.

    Args:
        matches: In the order of their lines.
        file: The file, standing at its first line.
        context: How many lines before and after each.
        deadline: When to stop looking for them.
    """
    near = _lines_near({match.line for match in matches}, file, context, deadline)
    complete: list[Match] = []
    for match in matches:
        after = _taken(near, match.line, 1, context)
        before = _taken(near, match.line, -1, context)
        complete.append(evolve(match, before=before, after=after))
    return complete


def _lines_near(hits: set[int], file: BinaryIO, context: int, deadline: Deadline) -> dict[int, str]:
    wanted = {hit + away for hit in hits for away in range(-context, context + 1)} - hits
    last = max(hits) + context
    near: dict[int, str] = {}
    for number, line in enumerate(lines_of(file, deadline), 1):
        if number in wanted:
            near[number] = _shortened(line.text)
        if number >= last or deadline.passed:
            break
    return near


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _taken(near: dict[int, str], line: int, step: int, most: int) -> list[str]:
    """Takes the lines out of `near` that follow each other from `line` on, in reading order."""
    taken: list[str] = []
    number = line + step
    while len(taken) < most and number in near:
        taken.append(near.pop(number))
        number += step
    return taken[::step]
