"""Pages of text files: numbered lines, with the offset of the next page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Final

from attrs import define, field

from pegboard import ToolError
from pegboard_files.root import Deadline
from pegboard_files.text import MAX_COLUMNS, BinaryFileError, Line, Text, describe, lines_of, number_of, text_of

MAX_LINES: Final = 2_000
MAX_BYTES: Final = 50 << 10
"""Bytes of one result, its note included."""

_BLOCK: Final = 1 << 20
_COUNTED_BYTES: Final = 64 << 20
"""Bytes that are read after a page to count the lines."""

_NOTE_BYTES: Final = 512
"""Reserved for the note below a page."""


@define
class Page:
    r"""The lines of one result.

    Attributes:
        first: The number of the first line, 1-based.
        limit: The maximum number of lines.
        rows: The lines as shown, with their numbers.
        size: Bytes of `rows` in UTF-8, line ends included.
        crlf: How many lines end in `\r\n`.
        undecodable: Whether a line holds bytes that aren't UTF-8.
        cut: Whether a line was truncated.
        full: Whether there was a further line that didn't fit.
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
        """Adds whole lines as long as they fit."""
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
        """The page as text for the model.

        Args:
            encoding: As in `Text`.
            total: The number of lines of the file, or `None` if they weren't counted.
        """
        notes = self._notes(encoding, total)
        return "\n".join([*self.rows, f"[{' '.join(notes)}]"] if notes else self.rows)

    def _notes(self, encoding: str, total: int | None) -> list[str]:
        notes: list[str] = []
        if self.full:
            of = f" of {total:,}" if total is not None else ""
            notes.append(f"Lines {self.first}-{self.last}{of}. To continue, use offset={self.last + 1}.")
        elif self.first > 1:
            notes.append(f"Lines {self.first}-{self.last}. End of file.")
        if self.crlf:
            which = "All lines" if self.crlf == len(self.rows) else "Some lines"
            notes.append(f"{which} end in CRLF.")
        if encoding != "utf-8":
            notes.append(f"The file is encoded in {encoding.upper()}.")
        if self.undecodable:
            notes.append("The file isn't valid UTF-8: invalid bytes are shown as \ufffd.")
        if self.cut:
            notes.append(f"Lines are cut after {MAX_COLUMNS:,} characters. grep searches whole lines.")
        return notes


def read_text(file: BinaryIO, name: str, offset: int, limit: int, deadline: Deadline) -> str:
    """One page of a text file.

    Args:
        file: The file, just opened.
        name: Its path, as the model knows it.
        offset: The number of the first line, 1-based.
        limit: The maximum number of lines.
        deadline: When to give up.

    Raises:
        ToolError: It isn't text, or ends before `offset`.
    """
    try:
        text = text_of(file)
    except BinaryFileError:
        what = describe(file, name)
        raise ToolError(f"{name!r} is a binary file ({what}) and can't be shown.") from None
    return page_of(text, name, offset, limit, deadline)


def page_of(text: Text, name: str, offset: int, limit: int, deadline: Deadline, *, counted: bool = True) -> str:  # noqa: PLR0913
    """One page of a text; see `read_text`. Without `counted`, its note leaves out the number of lines."""
    skipped = _skip(text.file, offset - 1, deadline)
    page = Page(offset, min(limit, MAX_LINES - 1))  # the note is a line too
    page.fill(lines_of(text.file, deadline))
    if not page.rows:
        if offset == 1:
            return "[The file is empty.]"
        raise ToolError(f"{name!r} has only {number_of(skipped, 'line')}, so there is nothing at offset={offset}.")
    total = None
    if page.full and counted:
        rest = _count(text.file, deadline)
        # The line that didn't fit was already read, so it isn't in `rest`.
        total = None if rest is None else page.last + 1 + rest
    return page.text(text.encoding, total)


def _skip(file: BinaryIO, lines: int, deadline: Deadline) -> int:
    """Skips lines; gives how many there were."""
    skipped = 0
    ends_open = False
    while skipped < lines:
        at = file.tell()
        block = file.read(_BLOCK)
        if not block:
            return skipped + ends_open
        ends = block.count(b"\n")
        if skipped + ends >= lines:
            file.seek(at + len(block) - len(block.split(b"\n", lines - skipped)[-1]))
            return lines
        skipped += ends
        ends_open = not block.endswith(b"\n")
        deadline.check("Reading up to that line")
    return skipped


def _count(file: BinaryIO, deadline: Deadline) -> int | None:
    """The number of remaining lines; `None` if counting would take too long."""
    count, read, last = 0, 0, b"\n"
    while block := file.read(_BLOCK):
        count += block.count(b"\n")
        read += len(block)
        last = block[-1:]
        if read > _COUNTED_BYTES or deadline.is_over:
            return None
    return count + (last != b"\n")
