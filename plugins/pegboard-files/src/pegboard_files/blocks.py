"""A file in blocks of whole lines, small enough to stop in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import BinaryIO, Final

MAX_LINE: Final = 1 << 17
"""A longer line comes in pieces that overlap, so that nothing is cut in two unless it is longer than that."""

_OVERLAP: Final = 1 << 12

_FIRST: Final = 1 << 16
_SMALLEST: Final = 1 << 12
_LARGEST: Final = 1 << 18
_QUICK: Final = 0.05


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    r"""The rest of a file, `\r\n` as `\n`; blocks get smaller where the caller takes long over each.

    So whoever looks at a deadline between two blocks looks often, whatever a pattern costs.
    """
    size, rest = _FIRST, b""
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
    """The line in which `start` and `end` lie; of a long one the part round `start`, its ends marked by `…`.

    Args:
        block: Whole lines.
        start: Where a match starts.
        end: Where it ends, in the same line.
        most: Characters to show.
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
