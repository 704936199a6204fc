"""`verify`: whether a journal is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from attrs import asdict, define, field, frozen

from pegboard_guard.journal.parts import parts_of
from pegboard_guard.journal.record import FORMAT, MOST_LINE, START, TORN, Facts, NoRecordError, Record, decode


@frozen
class Broken:
    """The first place where a journal isn't as it was written.

    Attributes:
        record: The number of the record that should stand there.
        line: Of the file, from 1.
        offset: Of the file, in bytes.
        reason: What is wrong.
    """

    record: int
    line: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"record {self.record} (line {self.line}, byte {self.offset}): {self.reason}"


@frozen
class Report:
    """What `verify` found in one file.

    Attributes:
        file: Its path.
        id: Of the journal, the same in all its files; `None` where the first record is broken.
        part: Which of the journal's files it is, from 1.
        created: When the file was begun.
        records: How many are whole, up to the first broken one.
        number: Of the last whole record; numbers go on from file to file.
        head: The hash of the last whole record. Kept elsewhere, it shows later that nothing was cut off.
        mended: How many times a crash had left a torn record, which a later one tells of.
        lost: How many records could not be written, as later ones tell.
        broken: The first broken record, or `None`.
        has_head: Whether the record that was asked for is among them; `None` where none was.
    """

    file: str
    id: str | None = None
    part: int | None = None
    created: str | None = None
    records: int = 0
    number: int = 0
    head: str = START
    mended: int = 0
    lost: int = 0
    broken: Broken | None = None
    has_head: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return self.broken is None

    def to_json(self) -> dict[str, Any]:
        """All facts by name."""
        return {**asdict(self), "ok": self.ok}


def verify(path: str | Path, *, head: str | None = None, previous: Report | None = None) -> Report:
    """Reads a file from its first byte to its last.

    Any changed, added or removed byte is found, except that whole records may be missing at the end: that only the
    hash of a later record shows, `head`. Whoever can write the file can also write a new, sound one: keep a head
    where they can't.

    Args:
        path: The file.
        head: The hash of a record that has to be there.
        previous: The report of the file before, of which this one has to be the continuation.

    Raises:
        OSError: The file can't be read.
    """
    with Path(path).open("rb") as file:
        return _Check(str(path), head, previous).run(file)


def verify_all(path: str | Path, *, head: str | None = None) -> tuple[Report, ...]:
    """The reports of all files of a journal, those that were put aside first: each has to continue the one before.

    Raises:
        OSError: One can't be read.
    """
    reports: list[Report] = []
    for part in (*parts_of(Path(path)), Path(path)):
        reports.append(verify(part, head=head, previous=reports[-1] if reports else None))
    return tuple(reports)


@define
class _Region:
    """Bytes that are no record, from the end of the last one on; their hash is kept without their last few bytes."""

    offset: int
    line: int
    reason: str
    size: int = 0  # without what is in `last`
    last: bytes = b""
    hasher: Any = field(factory=sha256)

    def add(self, data: bytes) -> None:
        data = self.last + data
        self.hasher.update(data[: -len(TORN)])
        self.last = data[-len(TORN) :]
        self.size += len(data) - len(self.last)

    @property
    def last_reason(self) -> str:
        """What is wrong, where no record comes behind it."""
        is_torn = not self.last.endswith(b"\n")
        return f"{self.reason}; it is the last one: torn by a crash, or changed" if is_torn else self.reason

    def is_told_of_by(self, record: Record) -> bool:
        """Whether it is what this record says a crash has left, and the mark that was put behind it."""
        told = {"bytes": self.size, "sha256": self.hasher.hexdigest()}
        return self.last == TORN and record.facts.get("torn") == told


@define
class _Check:
    """The reading of one file."""

    file: str
    head: str | None
    before: Report | None
    records: int = 0
    last: Record | None = None
    first: Record | None = None
    mended: int = 0
    lost: int = 0
    region: _Region | None = None
    seen: bool = False

    def run(self, file: IO[bytes]) -> Report:
        offset = 0
        for number, line in enumerate(_lines(file), 1):
            broken = self._take(line, offset, number)
            if broken is not None:
                return self._report(broken)
            offset += len(line)
        if self.region is not None:
            return self._report(self._broken(self.region.offset, self.region.line, self.region.last_reason))
        if self.last is None:
            return self._report(self._broken(0, 1, "the file is empty"))
        return self._report(None)

    def _take(self, line: bytes, offset: int, number: int) -> Broken | None:
        """Reads one line; what is broken, as soon as that is sure."""
        try:
            record = decode(line.removesuffix(b"\n"))
        except NoRecordError as error:
            if self.region is None:
                self.region = _Region(offset, number, str(error))
            self.region.add(line)
            return None
        region, self.region = self.region, None
        if region is not None:
            if not region.is_told_of_by(record):
                return self._broken(region.offset, region.line, region.reason)
            self.mended += 1
        elif "torn" in record.facts:
            return self._broken(offset, number, "what it says a crash has left isn't there")
        reason = self._misplaced(record)
        if reason is not None:
            return self._broken(offset, number, reason)
        self._note(record)
        return None

    def _misplaced(self, record: Record) -> str | None:
        """Why this record can't stand here."""
        if self.last is None:
            return self._no_beginning(record)
        if record.kind == "journal":
            return "another file begins here"
        if record.previous != self.last.hash or record.number != self.last.number + 1:
            return "it doesn't follow the record before: one was taken out, put in or moved"
        return None

    def _no_beginning(self, record: Record) -> str | None:
        facts, before = record.facts, self.before
        if record.kind != "journal" or facts.get("format") != FORMAT or type(facts.get("part")) is not int:
            return "a journal begins with another record"
        if before is not None and (record.previous, facts.get("id")) != (before.head, before.id):
            return f"it doesn't continue {Path(before.file).name}"
        is_first = facts["part"] == 1 or "after_damaged" in facts
        if is_first and (record.previous, record.number) != (START, 1):
            return "it isn't the journal's first record, though it says so"
        return None

    def _note(self, record: Record) -> None:
        self.first = self.first or record
        self.last = record
        self.records += 1
        self.seen = self.seen or record.hash == self.head
        if record.kind == "lost" and type(record.facts.get("records")) is int:
            self.lost += record.facts["records"]

    def _broken(self, offset: int, line: int, reason: str) -> Broken:
        if self.last is not None:
            expected = self.last.number + 1
        else:
            expected = 1 if self.before is None else self.before.number + 1
        return Broken(expected, line, offset, reason)

    def _report(self, broken: Broken | None) -> Report:
        facts: Facts = {} if self.first is None else self.first.facts
        number, head = (0, START) if self.last is None else (self.last.number, self.last.hash)
        return Report(
            self.file,
            facts.get("id"),
            facts.get("part"),
            facts.get("at"),
            self.records,
            number,
            head,
            self.mended,
            self.lost,
            broken,
            None if self.head is None else self.seen,
        )


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines with their ends, in pieces where they are too long to be records."""
    while line := file.readline(MOST_LINE):
        yield line
