"""Journal files: append-only JSON lines, each with the SHA-256 of the one before.

    {"n":7,"at":"2025-03-01T09:30:00.125000Z","kind":"call",...,"prev":"<hash of record 6>","hash":"<its own>"}

The hash is the hexadecimal SHA-256 of the line as it is without its last member, `hash`, and without its line end. A
line is ASCII; `jq -ca 'del(.hash)'` gives the bytes that were hashed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from pegboard.files import read_private, write_atomic
from pegboard_guard.log import warn

Facts: TypeAlias = Mapping[str, Any]
"""A record's data, without its number, its time and its hashes; JSON data, `"kind"` among it."""

FORMAT: Final = 1
START: Final = "0" * 64
"""The previous hash in the very first record."""

TORN: Final = b"#torn\n"
"""Mark that is written after bytes left by a crash, right before the record that reports them.

No change of one byte turns the end of a record into it, and a crash while it is written leaves no line end: so torn
bytes can be distinguished from changed ones.
"""

MOST_LINE: Final = 256 * 1024
"""Bytes of a line; a longer one isn't a record."""

_TAIL: Final = re.compile(rb',"hash":"([0-9a-f]{64})"}\Z')
_write: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


@frozen
class Record:
    """Record that was read, and whose hash is correct.

    Attributes:
        number: Its number in the journal, from 1, continued over all files of the journal.
        previous: The hash of the record before, as stored in it.
        hash: Its own.
        facts: All its data, the above included.
    """

    number: int
    previous: str
    hash: str
    facts: Facts

    @property
    def kind(self) -> str:
        """Its kind: `journal` (a file's first), `call`, `start`, `mended` or `lost`."""
        return str(self.facts.get("kind"))


def time_text(seconds: float) -> str:
    """Seconds since 1970 as text: `2025-03-01T09:30:00.125000Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode(number: int, at: str, facts: Facts, previous: str = START) -> tuple[bytes, str]:
    """The line of a record, with its line end, and its hash; `at` as `time_text` writes it."""
    body = _write({"n": number, "at": at, **facts, "prev": previous}).encode("ascii")
    digest = sha256(body).hexdigest()
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest.encode()), digest


class NoRecordError(ValueError):
    """A line isn't a record, or was changed; the message says how that shows."""


def decode(line: bytes) -> Record:
    """Reads a line, without its line end.

    Raises:
        NoRecordError: It isn't one, or its content doesn't match its hash.
    """
    tail = _TAIL.search(line[-80:])
    if tail is None:
        raise NoRecordError("it doesn't end with a hash")
    body, given = line[: -len(tail.group())] + b"}", tail.group(1).decode()
    if sha256(body).hexdigest() != given:
        raise NoRecordError("its content doesn't match its hash")
    try:
        facts = json.loads(body)
        number, previous = facts["n"], facts["prev"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoRecordError("it isn't a JSON object with n and prev") from None
    if type(number) is not int or not isinstance(previous, str):
        raise NoRecordError("its n isn't a whole number, or its prev isn't a string")
    return Record(number, previous, given, {**facts, "hash": given})


def decode_or_none(line: bytes) -> Record | None:
    """Reads a line, with or without its line end; `None` if it isn't a record."""
    try:
        return decode(line.removesuffix(b"\n"))
    except NoRecordError:
        return None


def parts_of(path: Path) -> list[Path]:
    """The rotated files, the oldest first."""
    return [path.with_name(f"{path.name}.{number}") for number in _numbers(path)]


def next_part(path: Path) -> Path:
    """The next name for a rotated file."""
    return path.with_name(f"{path.name}.{max(_numbers(path), default=0) + 1}")


def _numbers(path: Path) -> list[int]:
    pattern = re.compile(re.escape(path.name) + r"\.([1-9][0-9]{0,8})")
    try:
        matches = [pattern.fullmatch(other.name) for other in path.parent.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match.group(1)) for match in matches if match is not None)


_FIRST: Final = b'{"n":'
_MOST_BEGINNING: Final = 4096
MOST_TAIL: Final = 4 * 1024 * 1024
"""How many bytes at the end of a file are searched for a record; a longer file without one isn't a journal."""


class JournalError(Exception):
    """The journal can't be written; the message gives the reason and what to do."""


@frozen
class Torn:
    """Torn bytes at the end of a file: the part of a record that was written before a crash.

    Attributes:
        bytes: How many.
        sha256: Of them.
        lacks_mark: Whether `TORN` still has to be written after them. Not if it is there already, as a crash came
            before the record that reports them; nor if they end with a line end, which no crash leaves: then they
            were changed, and stay as they are.
    """

    bytes: int
    sha256: str
    lacks_mark: bool

    @classmethod
    def of(cls, data: bytes) -> Torn:
        """Describes these bytes."""
        torn = data.removesuffix(TORN)
        return cls(len(torn), sha256(torn).hexdigest(), not data.endswith(b"\n"))

    def to_json(self) -> dict[str, Any]:
        """As in the record that reports them."""
        return {"bytes": self.bytes, "sha256": self.sha256}


@frozen
class Head:
    """The end of a file.

    Attributes:
        size: Of the file, in bytes.
        number: Of the last record; 0 if there is none.
        hash: Of the last record; zeros if there is none.
        torn: What follows the last record, or `None`.
        lacks_line_end: Whether the last record lacks only its line end.
    """

    size: int
    number: int = 0
    hash: str = START
    torn: Torn | None = None
    lacks_line_end: bool = False


def read_head(fd: int, size: int, name: str) -> Head:
    """Finds the last record of an open file.

    Raises:
        JournalError: There is none in its last bytes, and it isn't the beginning of a first one either.
    """
    start = max(0, size - MOST_TAIL)
    data = os.pread(fd, size - start, start)
    end = len(data)
    while end:
        line_start = data.rfind(b"\n", 0, end - 1) + 1  # the last byte may be the line's own end
        if (start == 0 or line_start) and (record := decode_or_none(data[line_start:end])) is not None:
            rest = data[end:]
            return Head(size, record.number, record.hash, Torn.of(rest) if rest else None, data[end - 1 : end] != b"\n")
        end = line_start
    if start or not _is_beginning(data):
        raise JournalError(f"{name} isn't a journal: it ends with something else; name another file, or move it away")
    return Head(size, torn=Torn.of(data) if data else None)


def _is_beginning(data: bytes) -> bool:
    """Whether a file without any record may be the rest of its first one after crashes."""
    if len(data) > _MOST_BEGINNING or (data.endswith(b"\n") and not data.endswith(TORN)):
        return False
    pieces = [piece.partition(TORN[:1])[0] for piece in data.split(TORN)]  # the mark may be torn too
    return all(piece[: len(_FIRST)] == _FIRST[: len(piece)] or not piece.strip(b"\x00") for piece in pieces)


LOCK_SECONDS: Final = 5.0
"""How long to wait for another process to release the file."""

_PAUSE: Final = 0.002


_KEY_BYTES: Final = 32


def _key_in(path: Path) -> bytes:
    """The key in a file, which is created atomically, so that several processes get the same.

    Raises:
        OSError: It can't be created or read, or isn't private.
    """
    if not os.path.lexists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        write_atomic(str(new), secrets.token_bytes(_KEY_BYTES), mode=0o600)
        with suppress(FileExistsError):  # another process was faster
            os.link(new, path)
        new.unlink()
    key = read_private(str(path), _KEY_BYTES)
    if len(key) < _KEY_BYTES:
        raise OSError(f"{path} has no key in it")
    return key


@define(eq=False)
class JournalFile:
    """Append-only journal file, opened by the first record.

    Each `append` locks the file (`flock`), checks whether another process has written since, writes all of its lines at
    once, and unlocks it: so several processes may write one journal. Not thread-safe.

    Attributes:
        path: The file; its folder is created if necessary.
        sync: Whether `append` returns only when the records are on the disk.
        rotate_bytes: The size from which the file is rotated; 0: never.
        keep: How many rotated files to keep; 0: all.
        now: Seconds since 1970.
    """

    path: Path
    sync: bool = True
    rotate_bytes: int = 0
    keep: int = 0
    now: Callable[[], float] = time.time
    _fd: int | None = field(default=None, init=False)
    _process: int = field(default=0, init=False)
    _head: Head | None = field(default=None, init=False)
    _has_warned: bool = field(default=False, init=False)
    _key: bytes | None = field(default=None, init=False, repr=False)

    def append(self, records: Sequence[Facts]) -> None:
        """Appends records, and repairs what a crash has left.

        Raises:
            OSError: The file can't be opened, locked or written. What was written in part is repaired the next time.
            JournalError: It isn't a regular file or a journal, or is locked for too long.
        """
        with self._lock() as fd:
            head = self._current_head(fd)
            if not (self.rotate_bytes and head.number and head.size >= self.rotate_bytes and self._rotate()):
                self._write(fd, head, records)
                return
        self.append(records)

    def key(self) -> bytes:
        """The secret key of the digests in this journal, stored next to it in the private file `FILE.key`.

        A random one for this process if it can't be stored there, or another user may read it.
        """
        if self._key is None:
            path = self.path.with_name(f"{self.path.name}.key")
            try:
                self._key = _key_in(path)
            except OSError:
                self._key = secrets.token_bytes(_KEY_BYTES)
        return self._key

    def close(self) -> None:
        """Closes the file; the next `append` opens it again."""
        fd, self._fd, self._head = self._fd, None, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    # The lock ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _lock(self) -> Generator[int]:
        """Opens and locks the file, and makes sure that the path still names it."""
        import fcntl

        until = time.monotonic() + LOCK_SECONDS
        while True:
            fd = self._open()
            _lock(fd, until, self.path)
            if _is_at(fd, self.path):
                break
            self.close()  # it was rotated or removed; closing it releases the lock
        try:
            yield fd
        finally:
            if self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _open(self) -> int:
        if self._process != os.getpid():
            self.close()  # a forked child shares its parent's lock: it needs its own file descriptor
            self._process = os.getpid()
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Non-blocking, so as not to wait for the reader of a pipe.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            fd = os.open(self.path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise JournalError(f"{self.path} isn't a regular file; name another")
            self._fd = fd
        return self._fd

    # Writing -----------------------------------------------------------------------------------------------------

    def _current_head(self, fd: int) -> Head:
        """The head, read again if another process has written since, or if it isn't known."""
        size = os.fstat(fd).st_size
        if self._head is None or self._head.size != size:
            self._head = read_head(fd, size, str(self.path))
        return self._head

    def _write(self, fd: int, head: Head, records: Sequence[Facts]) -> None:
        self._head = None  # not known until everything is written
        number, digest = head.number, head.hash
        lines: list[bytes] = []
        is_new = head.number == 0
        if is_new:
            first, number, digest = self._first(head)
            records = [first, *records]
        elif head.torn is not None:
            records = [{"kind": "mended", "torn": head.torn.to_json()}, *records]
        for facts in records:
            number += 1
            line, digest = encode(number, time_text(self.now()), facts, digest)
            lines.append(line)
        ending = b"\n" if head.lacks_line_end else TORN if head.torn is not None and head.torn.lacks_mark else b""
        data = ending + b"".join(lines)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if self.sync:
            os.fsync(fd)
            if is_new:
                _sync_folder(self.path.parent)
        self._head = Head(head.size + len(data), number, digest)

    def _first(self, head: Head) -> tuple[Facts, int, str]:
        """The first record of a new file, its number and the hash before, continued from the last rotated file."""
        first: dict[str, Any] = {"kind": "journal", "format": FORMAT, "id": os.urandom(16).hex(), "part": 1}
        if head.torn is not None:
            first["torn"] = head.torn.to_json()
        parts = parts_of(self.path)
        if not parts:
            return first, 0, head.hash
        last, began = _ends_of(parts[-1])
        if last is None or began is None:
            return {**first, "part": len(parts) + 1, "afterDamaged": parts[-1].name}, 0, head.hash
        return {**first, "id": began["id"], "part": began["part"] + 1}, last.number, last.hash

    def _rotate(self) -> bool:
        """Renames the file, and deletes the oldest ones beyond `keep`; returns whether it was renamed."""
        try:
            self.path.rename(next_part(self.path))
        except OSError as error:  # a file that keeps growing is better than no record
            if not self._has_warned:
                self._has_warned = True
                warn(f"the journal {self.path} can't be rotated, and keeps growing: {error.strerror}")
            return False
        self.close()
        if self.keep:
            for path in parts_of(self.path)[: -self.keep]:
                path.unlink(missing_ok=True)
        return True


def _lock(fd: int, until: float, path: Path) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise JournalError(f"{path} is locked by another process for more than {LOCK_SECONDS:g} s") from None
            time.sleep(_PAUSE)
        else:
            return


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    """Puts the name of a new file on the disk too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ends_of(path: Path) -> tuple[Head | None, Facts | None]:
    """The head and the first record of a rotated file; `None` for each if one can't be read."""
    try:
        with path.open("rb") as file:
            first = decode(file.readline(4096).removesuffix(b"\n")).facts
            head = read_head(file.fileno(), os.fstat(file.fileno()).st_size, path.name)
    except (OSError, NoRecordError, JournalError):
        return None, None
    is_valid = first.get("kind") == "journal" and type(first.get("part")) is int and isinstance(first.get("id"), str)
    return (head, first) if is_valid and head.torn is None else (None, None)
