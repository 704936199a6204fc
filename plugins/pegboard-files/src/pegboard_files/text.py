"""Text files: their encoding, lines of bounded length, and blocks of whole lines."""

from __future__ import annotations

import codecs
import io
import os
import time
from collections.abc import Iterator
from typing import BinaryIO, Final

from attrs import frozen

from pegboard_files.root import Deadline

SNIFFED_BYTES: Final = 8_192
"""Bytes at the start of a file in which a NUL byte makes it binary, as in git and ripgrep."""

MAX_DECODED_BYTES: Final = 16 << 20
"""Files in UTF-16 and UTF-32 are decoded as a whole; larger ones count as binary."""

_MARKS: Final = (  # UTF-32 little-endian starts with UTF-16's mark, so it comes first
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)
_MARK_BYTES: Final = tuple(mark for mark, _ in _MARKS)


def mark_of(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start of a file, or `b""`, and Python's name of the encoding."""
    return next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))


def number_of(count: int, noun: str) -> str:
    """`"1 line"`, `"1,234 lines"`; the noun in the singular."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class BinaryFileError(Exception):
    """A file isn't text."""


@frozen
class Text:
    """A text file, positioned at its first line.

    Attributes:
        file: Its bytes, as UTF-8 (invalid bytes included).
        encoding: Its own encoding: `"utf-8"`, `"utf-16"` or `"utf-32"`.
    """

    file: BinaryIO
    encoding: str = "utf-8"


def is_plain(data: bytes) -> bool:
    """Whether a file with these bytes is text in UTF-8, without a byte order mark."""
    return data.find(b"\0", 0, SNIFFED_BYTES) < 0 and not data.startswith(_MARK_BYTES)


def text_of(file: BinaryIO) -> Text:
    """The text in a file that was just opened, without its byte order mark.

    Raises:
        BinaryFileError: It has a NUL byte near its beginning, or is in UTF-16 or UTF-32 and too large.
    """
    start = file.read(SNIFFED_BYTES)
    mark, encoding = mark_of(start)
    if encoding != "utf-8":
        return _decode(file, encoding[: len("utf-16")])
    if b"\0" in start:
        raise BinaryFileError
    file.seek(len(mark))
    return Text(file)


def describe(file: BinaryIO, name: str) -> str:
    """Description of a binary file for an error: `"image/png, 1,234 bytes"`."""
    import mimetypes

    kind = mimetypes.guess_type(name)[0] or ""
    known = kind and not kind.startswith("text/")
    return f"{kind if known else 'unknown type'}, {os.fstat(file.fileno()).st_size:,} bytes"


def _decode(file: BinaryIO, encoding: str) -> Text:
    file.seek(0)
    data = file.read(MAX_DECODED_BYTES + 1)
    if len(data) > MAX_DECODED_BYTES:
        raise BinaryFileError
    text = data.decode(encoding, errors="replace")
    return Text(io.BytesIO(text.encode()), encoding)


MAX_COLUMNS: Final = 2_000
"""Characters of one line that are shown."""

KEPT_BYTES: Final = 4 * MAX_COLUMNS + 8
"""Bytes of one line that are read into memory: enough for `MAX_COLUMNS` characters and a partial one."""

_SKIPPED_BYTES: Final = 1 << 16


@frozen
class Line:
    r"""One line, without its line end; lines end at `\n` only.

    Attributes:
        data: Its bytes, at most `KEPT_BYTES`.
        dropped: The number of further bytes.
        crlf: Whether it ended in `\r\n`.
    """

    data: bytes
    dropped: int = 0
    crlf: bool = False

    @property
    def is_utf8(self) -> bool:
        """Whether its bytes can be decoded; a character cut in two at the end is accepted."""
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
        """The line as shown: bytes that aren't UTF-8 become U+FFFD, and a truncation is marked."""
        text = self.data.decode(errors="replace")
        if not self.is_cut:
            return text
        shown = text[:MAX_COLUMNS]
        more = len(self.data) + self.dropped - len(shown.encode())
        return f"{shown}… [cut: {more:,} more bytes in this line]"


def lines_of(file: BinaryIO, deadline: Deadline) -> Iterator[Line]:
    """The lines of a file from its current position.

    Raises:
        ToolError: The deadline passed inside one enormous line.
    """
    while kept := file.readline(KEPT_BYTES):
        end, dropped = kept, 0
        while not end.endswith(b"\n") and (more := file.readline(_SKIPPED_BYTES)):
            deadline.check("Reading one line")
            dropped += len(more)
            # A `\r` may be the last byte of one piece and its `\n` the only one of the next.
            end = (end + more)[-2:]
        yield _line(kept, end, dropped)


def _line(kept: bytes, end: bytes, dropped: int) -> Line:
    """A line from its first bytes, its last two bytes, and the number of dropped bytes."""
    crlf = end.endswith(b"\r\n")
    ending = 2 if crlf else int(end.endswith(b"\n"))
    whole = len(kept) + dropped - ending
    data = kept[:whole]
    return Line(data, whole - len(data), crlf)


MAX_LINE: Final = 1 << 17
"""A longer line is split into overlapping pieces, so that a match shorter than the overlap is never cut in two."""

FIRST_BLOCK: Final = 1 << 16
"""Bytes that are read first: with the costliest pattern, a deadline isn't checked sooner."""

_OVERLAP: Final = 1 << 12
_SMALLEST: Final = 1 << 12
_LARGEST: Final = 1 << 18
_QUICK: Final = 0.05


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    r"""The rest of a file, `\r\n` as `\n`, in blocks that shrink if the caller takes long over each.

    So a deadline that is checked between blocks is checked often, even with a costly pattern.
    """
    size, rest = FIRST_BLOCK, b""
    while read := file.read(size):
        data = rest + read
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) < MAX_LINE:
            rest = data
            continue
        keep = cut or len(data) - _OVERLAP
        cut = cut or len(data)
        began = time.monotonic()
        yield data[:cut].replace(b"\r\n", b"\n")
        rest = data[keep:]
        quick = time.monotonic() - began < _QUICK
        size = min(size * 2, _LARGEST) if quick else max(size // 2, _SMALLEST)
    if rest:
        yield rest


def line_at(block: bytes, start: int, end: int, most: int) -> str:
    """The line that `start` and `end` are in; of a long one the part around `start`, truncation marked by `…`.

    Args:
        block: Whole lines.
        start: The start of a match.
        end: The end of the match, in the same line.
        most: The maximum number of characters.
    """
    first = block.rfind(b"\n", 0, start) + 1
    last = block.find(b"\n", end)
    line = block[first : len(block) if last < 0 else last]
    text = line.decode(errors="replace")
    if len(text) <= most:
        return text
    place = len(line[: start - first].decode(errors="replace"))
    begin = max(0, min(place - most // 4, len(text) - most))
    tail = "…" if begin + most < len(text) else ""
    return ("…" if begin else "") + text[begin : begin + most] + tail
