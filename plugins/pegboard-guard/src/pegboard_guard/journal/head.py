"""`Head`: where a journal's file ends, which is where the next record goes."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any, Final

from attrs import frozen

from pegboard_guard.journal.record import START, TORN, NoRecordError, Record, decode

_FIRST: Final = b'{"n":'
_MOST_BEGINNING: Final = 4096
MOST_TAIL: Final = 4 * 1024 * 1024
"""How many bytes at a file's end may be no records before it is held to be no journal."""


class JournalError(Exception):
    """The journal can't be written; the text says why and what to do."""


@frozen
class Torn:
    """Bytes at a file's end that are no record: what a crash left of one that was being written.

    Attributes:
        bytes: How many.
        sha256: Of them.
        lacks_mark: Whether `TORN` has still to be put behind them. Not where it is there already, as a crash came
            before the record that tells of them; nor where they end with a line end, which no crash leaves: then they
            were changed, and are left as they are.
    """

    bytes: int
    sha256: str
    lacks_mark: bool

    @classmethod
    def of(cls, data: bytes) -> Torn:
        """What stands for these bytes."""
        torn = data.removesuffix(TORN)
        return cls(len(torn), sha256(torn).hexdigest(), not data.endswith(b"\n"))

    def to_json(self) -> dict[str, Any]:
        """As the record that mends them holds it."""
        return {"bytes": self.bytes, "sha256": self.sha256}


@frozen
class Head:
    """The end of a file.

    Attributes:
        size: Of the file, in bytes.
        number: Of the last record; 0 where there is none.
        hash: Of the last record; zeros where there is none.
        torn: What stands behind the last record, or `None`.
        lacks_line_end: Whether the last record is whole but for its line end.
    """

    size: int
    number: int = 0
    hash: str = START
    torn: Torn | None = None
    lacks_line_end: bool = False


def read_head(fd: int, size: int, name: str) -> Head:
    """Looks for the last record of an open file.

    Raises:
        JournalError: There is none among its last bytes, and it isn't the beginning of a first one either.
    """
    start = max(0, size - MOST_TAIL)
    data = os.pread(fd, size - start, start)
    end = len(data)
    while end:
        line_start = data.rfind(b"\n", 0, end - 1) + 1  # that of the last byte itself is the line's own
        if (start == 0 or line_start) and (record := _record(data[line_start:end])) is not None:
            rest = data[end:]
            return Head(size, record.number, record.hash, Torn.of(rest) if rest else None, data[end - 1 : end] != b"\n")
        end = line_start
    if start or not _is_beginning(data):
        raise JournalError(f"{name} is no journal: it ends with something else; name another file, or move it away")
    return Head(size, torn=Torn.of(data) if data else None)


def _record(line: bytes) -> Record | None:
    try:
        return decode(line.removesuffix(b"\n"))
    except NoRecordError:
        return None


def _is_beginning(data: bytes) -> bool:
    """Whether a file without any record may be what crashes have left of its first one."""
    if len(data) > _MOST_BEGINNING or (data.endswith(b"\n") and not data.endswith(TORN)):
        return False
    pieces = [piece.partition(TORN[:1])[0] for piece in data.split(TORN)]  # the mark may be torn in its turn
    return all(piece[: len(_FIRST)] == _FIRST[: len(piece)] or not piece.strip(b"\x00") for piece in pieces)
