"""`read_text`: one page of a text file, with line numbers and the way to the next page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Final

from attrs import define, field

from pegboard import ToolError
from pegboard_files.root import Deadline
from pegboard_files.text import MAX_COLUMNS, BinaryFileError, Line, Text, described, lines_of, text_of

MAX_LINES: Final = 2_000
MAX_BYTES: Final = 50 << 10
"""What one result may hold, its note included."""

_BLOCK: Final = 1 << 20
_COUNTED_BYTES: Final = 64 << 20
"""How much is read on behind a page, only to say how many lines there are."""

_NOTE_BYTES: Final = 512
"""Kept free for the note below a page."""


@define
class Page:
    r"""The lines that one call shows.

    Attributes:
        first: The number of the first line, 1-based.
        limit: How many lines it may hold.
        rows: The lines as they are shown, with their numbers.
        size: Bytes of `rows` in UTF-8, line ends included.
        crlf: How many lines end in `\r\n`.
        undecodable: Whether a line holds bytes that aren't UTF-8.
        cut: Whether a line was too long to be shown whole.
        full: Whether there was one more line that had no place.
    """

    first: int
    limit: int
    rows: list[str] = field(factory=list[str])
    size: int = 0
    crlf: int = 0
    undecodable: bool = False
    cut: bool = False
    full: bool = False

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + len(self.rows) - 1

    def fill(self, lines: Iterable[Line]) -> None:
        """Takes lines as long as there is place, whole ones only."""
        for line in lines:
            row = f"{self.first + len(self.rows)}\t{line.text}"
            size = len(row.encode()) + 1
            if len(self.rows) == self.limit or self.size + size > MAX_BYTES - _NOTE_BYTES:
                self.full = True
                return
            self.rows.append(row)
            self.size += size
            self.crlf += line.crlf
            self.undecodable = self.undecodable or not line.is_utf8
            self.cut = self.cut or line.is_cut

    def text(self, encoding: str, total: int | None) -> str:
        """What the model reads.

        Args:
            encoding: As in `Text`.
            total: How many lines the file has, or `None` where they weren't counted.
        """
        notes = self._notes(encoding, total)
        return "\n".join([*self.rows, f"[{' '.join(notes)}]"] if notes else self.rows)

    def _notes(self, encoding: str, total: int | None) -> list[str]:
        notes: list[str] = []
        if self.full:
            of = f" of {total:,}" if total is not None else ""
            notes.append(f"Lines {self.first}-{self.last}{of}. Read on with offset={self.last + 1}.")
        elif self.first > 1:
            notes.append(f"Lines {self.first}-{self.last}; the file ends here.")
        if self.crlf:
            which = "Lines" if self.crlf == len(self.rows) else "Some lines"
            notes.append(f"{which} end in CRLF.")
        if encoding != "utf-8":
            notes.append(f"Decoded from {encoding.upper()}.")
        if self.undecodable:
            notes.append("Not valid UTF-8: each byte that can't be decoded is shown as \ufffd.")
        if self.cut:
            notes.append(f"Lines longer than {MAX_COLUMNS:,} characters are cut; grep finds text in all of them.")
        return notes


def read_text(file: BinaryIO, name: str, offset: int, limit: int, deadline: Deadline) -> str:
    """One page of a text file.

    Args:
        file: The file, just opened.
        name: Its path, as the model knows it.
        offset: The number of the first line, 1-based.
        limit: How many lines at most.
        deadline: When to give up.

    Raises:
        ToolError: It is no text, or ends before `offset`.
    """
    try:
        text = text_of(file)
    except BinaryFileError:
        what = described(file, name)
        raise ToolError(f"{name!r} is not a text file ({what}): it can't be shown.") from None
    return page_of(text, name, offset, limit, deadline)


def page_of(text: Text, name: str, offset: int, limit: int, deadline: Deadline, *, counted: bool = True) -> str:  # noqa: PLR0913
    """One page of a text; see `read_text`. `counted` says how many lines there are, where that is known."""
    skipped = _skip(text.file, offset - 1, deadline)
    page = Page(offset, min(limit, MAX_LINES - 1))  # the note is a line too
    page.fill(lines_of(text.file, deadline))
    if not page.rows:
        if offset == 1:
            return "[The file is empty.]"
        raise ToolError(f"{name!r} has {skipped:,} lines: nothing stands at offset={offset}.")
    total = None
    if page.full and counted:
        rest = _count(text.file, deadline)
        # The line that had no place was read, and isn't among the rest.
        total = None if rest is None else page.last + 1 + rest
    return page.text(text.encoding, total)


def _skip(file: BinaryIO, lines: int, deadline: Deadline) -> int:
    """Goes over so many lines; the number of those that were there."""
    skipped = 0
    ends_open = False
    while skipped < lines:
        at = file.tell()
        block = file.read(_BLOCK)
        if not block:
            return skipped + ends_open
        ends = block.count(b"\n")
        if skipped + ends >= lines:
            file.seek(at + _after(block, lines - skipped))
            return lines
        skipped += ends
        ends_open = not block.endswith(b"\n")
        deadline.check("Reading up to that line")
    return skipped


def _after(block: bytes, lines: int) -> int:
    """The place in a block that is behind so many line ends."""
    place = 0
    for _ in range(lines):
        place = block.index(b"\n", place) + 1
    return place


def _count(file: BinaryIO, deadline: Deadline) -> int | None:
    """How many lines follow; `None` where that would take too long to find out."""
    count, read, last = 0, 0, b"\n"
    while block := file.read(_BLOCK):
        count += block.count(b"\n")
        read += len(block)
        last = block[-1:]
        if read > _COUNTED_BYTES or deadline.passed:
            return None
    return count + (last != b"\n")
