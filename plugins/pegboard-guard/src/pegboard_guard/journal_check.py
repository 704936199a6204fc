"""Verification of journal files: where one was changed first, and what its records report."""

from __future__ import annotations

import stat
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from attrs import define, field, frozen

from pegboard.schema.converter import JsonRecord
from pegboard_guard.journal_file import FORMAT, MOST_LINE, START, TORN, Facts, NoRecordError, Record, decode, parts_of

_AFTER_DAMAGED: Final = ("afterDamaged", "after_damaged")  # the last: journals of 0.1


@frozen
class Broken(JsonRecord):
    """First place where a journal was changed.

    Attributes:
        record: The number of the record that should be there.
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
class Report(JsonRecord):
    """Report of `verify` on one file.

    Attributes:
        file: Its path.
        id: Of the journal, the same in all its files; `None` if the first record is broken.
        part: Number of the file within the journal, from 1.
        created: When the file was created.
        records: How many are valid, up to the first broken one.
        number: Of the last valid record; numbers continue from file to file.
        head: The hash of the last valid record. Stored elsewhere, it later shows whether anything was cut off.
        mended: How many torn records a crash has left, as later ones report.
        lost: How many records could not be written, as later ones report.
        broken: The first broken record, or `None`.
        has_head: Whether the requested record is among them; `None` if none was requested.
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
        """All attributes by name, with `ok`."""
        return {**super().to_json(), "ok": self.ok}


def verify(path: str | Path, *, head: str | None = None, previous: Report | None = None) -> Report:
    """Verifies a file from its first byte to its last.

    Any changed, added or removed byte is found, except whole records missing at the end: only the hash of a later
    record, `head`, shows those. A process that can write the file can also write a new, valid one: store a head where
    it can't.

    Args:
        path: The file.
        head: The hash of a record that must be there.
        previous: The report of the file before, which this one must continue.

    Raises:
        OSError: The file can't be read.
    """
    if not stat.S_ISREG(Path(path).stat().st_mode):  # to open a pipe would wait for its writer
        raise OSError(f"{path} isn't a regular file")
    with Path(path).open("rb") as file:
        return _Check(str(path), head, previous).run(file)


def verify_all(path: str | Path, *, head: str | None = None) -> tuple[Report, ...]:
    """The reports of all files of a journal, rotated ones first: each must continue the one before.

    Raises:
        OSError: One can't be read.
    """
    reports: list[Report] = []
    for part in (*parts_of(Path(path)), Path(path)):
        reports.append(verify(part, head=head, previous=reports[-1] if reports else None))
    return tuple(reports)


@define
class _Region:
    """Bytes after the last record that are not a record themselves; `hasher` lags behind by the last few bytes."""

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
        """The reason if no record follows."""
        is_torn = not self.last.endswith(b"\n")
        return f"{self.reason}; it is the last one: torn by a crash, or changed" if is_torn else self.reason

    def is_reported_by(self, record: Record) -> bool:
        """Whether this record reports it as torn by a crash, and it ends with the mark."""
        torn = {"bytes": self.size, "sha256": self.hasher.hexdigest()}
        return self.last == TORN and record.facts.get("torn") == torn


@define
class _Check:
    """Verifier of one file."""

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
        for number, line in enumerate(iter(partial(file.readline, MOST_LINE), b""), 1):
            broken = self._take(line, offset, number)
            if broken is not None:
                return self._report(broken)
            offset += len(line)
        if self.region is not None:
            return self._report(self._break_at(self.region.offset, self.region.line, self.region.last_reason))
        if self.last is None:
            return self._report(self._break_at(0, 1, "the file is empty"))
        return self._report(None)

    def _take(self, line: bytes, offset: int, number: int) -> Broken | None:
        """Reads one line; returns what is broken, once that is sure."""
        try:
            record = decode(line.removesuffix(b"\n"))
        except NoRecordError as error:
            if self.region is None:
                self.region = _Region(offset, number, str(error))
            self.region.add(line)
            return None
        region, self.region = self.region, None
        if region is not None and not region.is_reported_by(record):
            return self._break_at(region.offset, region.line, region.reason)
        self.mended += region is not None
        is_unfounded = region is None and "torn" in record.facts
        reason = "the torn bytes that it reports aren't there" if is_unfounded else self._check_place(record)
        if reason is not None:
            return self._break_at(offset, number, reason)
        self._count(record)
        return None

    def _check_place(self, record: Record) -> str | None:
        """Why this record can't be here, or `None`."""
        if self.last is None:
            return self._check_first(record)
        if record.kind == "journal":
            return "another file begins here"
        if (record.previous, record.number) != (self.last.hash, self.last.number + 1):
            return "it doesn't follow the record before: one was removed, inserted or moved"
        return None

    def _check_first(self, record: Record) -> str | None:
        facts, before = record.facts, self.before
        if record.kind != "journal" or facts.get("format") != FORMAT or type(facts.get("part")) is not int:
            return "a journal begins with another record"
        if before is not None and (record.previous, facts.get("id")) != (before.head, before.id):
            return f"it doesn't continue {Path(before.file).name}"
        is_first = facts["part"] == 1 or not facts.keys().isdisjoint(_AFTER_DAMAGED)
        if is_first and (record.previous, record.number) != (START, 1):
            return "it isn't the journal's first record, although marked as such"
        return None

    def _count(self, record: Record) -> None:
        self.first = self.first or record
        self.last = record
        self.records += 1
        self.seen = self.seen or record.hash == self.head
        if record.kind == "lost" and type(record.facts.get("records")) is int:
            self.lost += record.facts["records"]

    def _break_at(self, offset: int, line: int, reason: str) -> Broken:
        before = self.last or self.before
        return Broken(1 if before is None else before.number + 1, line, offset, reason)

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
