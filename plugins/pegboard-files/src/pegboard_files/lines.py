"""Lines of a file, with a bound on what one line may hold in memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, Final

from attrs import frozen

from pegboard_files.deadline import Deadline

MAX_COLUMNS: Final = 2_000
"""Characters of one line that are shown."""

KEPT_BYTES: Final = 4 * MAX_COLUMNS + 8
"""Bytes of one line that are kept: enough for `MAX_COLUMNS` characters and whatever ends in the middle of one."""

_SKIPPED_BYTES: Final = 1 << 16


@frozen
class Line:
    r"""One line, without its line end; lines end at `\n` only.

    Attributes:
        data: Its bytes, at most `KEPT_BYTES`.
        dropped: How many more bytes it has.
        crlf: Whether it ended in `\r\n`.
    """

    data: bytes
    dropped: int = 0
    crlf: bool = False

    @property
    def is_utf8(self) -> bool:
        """Whether its bytes can be decoded; a character that was cut in two is no fault."""
        try:
            codecs.getincrementaldecoder("utf-8")().decode(self.data, final=not self.dropped)
        except UnicodeDecodeError:
            return False
        return True

    @property
    def is_cut(self) -> bool:
        """Whether `text` doesn't show all of it."""
        return self.dropped > 0 or len(self.data.decode(errors="replace")) > MAX_COLUMNS

    @property
    def text(self) -> str:
        """What can be shown of it; bytes that aren't UTF-8 become U+FFFD, and a cut is marked."""
        text = self.data.decode(errors="replace")
        if not self.is_cut:
            return text
        shown = text[:MAX_COLUMNS]
        more = len(self.data) + self.dropped - len(shown.encode())
        return f"{shown}… [cut: {more:,} more bytes in this line]"


def lines_of(file: BinaryIO, deadline: Deadline) -> Iterator[Line]:
    """The lines of a file from where it stands.

    Raises:
        ToolError: The deadline passed inside one enormous line.
    """
    while kept := file.readline(KEPT_BYTES):
        end, dropped = kept, 0
        while not end.endswith(b"\n") and (more := file.readline(_SKIPPED_BYTES)):
            deadline.check("Reading one line")
            dropped += len(more)
            # A `\r` may be the last byte of one piece and its `\n` the whole of the next.
            end = (end + more)[-2:]
        yield _line(kept, end, dropped)


def _line(kept: bytes, end: bytes, dropped: int) -> Line:
    """A line from its kept bytes, its last two bytes, and how many bytes weren't kept."""
    crlf = end.endswith(b"\r\n")
    ending = 2 if crlf else int(end.endswith(b"\n"))
    whole = len(kept) + dropped - ending
    data = kept[:whole]
    return Line(data, whole - len(data), crlf)
