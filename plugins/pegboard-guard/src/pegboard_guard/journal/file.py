"""`JournalFile`: appends records to a file that other threads and processes append to as well."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from pegboard_guard.journal.head import Head, JournalError, read_head
from pegboard_guard.journal.parts import next_part, parts_of
from pegboard_guard.journal.record import FORMAT, TORN, Facts, NoRecordError, decode, encode, time_text
from pegboard_guard.operator_log import warn

LOCK_SECONDS: Final = 5.0
"""How long another process may hold the file before a record is given up."""
_PAUSE: Final = 0.002


@define(eq=False)
class JournalFile:
    """One journal's file, opened at the first record.

    Each `append` takes the file's lock (`flock`), looks whether somebody else has written since, writes all of its
    lines at once, and gives the lock back: so several processes may write one journal. One instance is for one
    thread at a time.

    Attributes:
        path: The file; its folder is made where it isn't there.
        sync: Whether `append` comes back only when the records are on the disk.
        rotate_bytes: From which size on the file is put aside and a new one begun; 0: never.
        keep: How many files that were put aside are kept; 0: all.
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
    _has_told: bool = field(default=False, init=False)

    def append(self, records: Sequence[Facts]) -> None:
        """Writes records behind all that is there, mending what a crash has left.

        Raises:
            OSError: The file can't be opened, locked or written. What was written in part is mended the next time.
            JournalError: It is no file, no journal, or locked for too long.
        """
        with self._locked() as fd:
            head = self._looked_at(fd)
            if not (self.rotate_bytes and head.number and head.size >= self.rotate_bytes and self._put_aside()):
                self._write(fd, head, records)
                return
        self.append(records)

    def close(self) -> None:
        """Closes the file; the next `append` opens it again."""
        fd, self._fd, self._head = self._fd, None, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    # The lock ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Generator[int]:
        """The open file, locked; sure to be the one that the path names now."""
        import fcntl

        until = time.monotonic() + LOCK_SECONDS
        while True:
            fd = self._opened()
            _lock(fd, until, self.path)
            if _is_at(fd, self.path):
                break
            self.close()  # it was put aside, or removed; closing it gives the lock back
        try:
            yield fd
        finally:
            if self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _opened(self) -> int:
        if self._process != os.getpid():
            self.close()  # a forked child shares its parent's lock: it needs a file of its own
            self._process = os.getpid()
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Not to wait for a reader, should it be a pipe.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            fd = os.open(self.path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise JournalError(f"{self.path} is no ordinary file; name another")
            self._fd = fd
        return self._fd

    # Writing -----------------------------------------------------------------------------------------------------

    def _looked_at(self, fd: int) -> Head:
        """The head, read anew where somebody else has written since, or where it isn't known."""
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
        _write_all(fd, data)
        if self.sync:
            os.fsync(fd)
            if is_new:
                _sync_folder(self.path.parent)
        self._head = Head(head.size + len(data), number, digest)

    def _first(self, head: Head) -> tuple[Facts, int, str]:
        """What a new file begins with; it goes on from the last one that was put aside."""
        import uuid

        first: dict[str, Any] = {"kind": "journal", "format": FORMAT, "id": uuid.uuid4().hex, "part": 1}
        if head.torn is not None:
            first["torn"] = head.torn.to_json()
        parts = parts_of(self.path)
        if not parts:
            return first, 0, head.hash
        last, began = _ends_of(parts[-1])
        if last is None or began is None:
            return {**first, "part": len(parts) + 1, "after_damaged": parts[-1].name}, 0, head.hash
        return {**first, "id": began["id"], "part": began["part"] + 1}, last.number, last.hash

    def _put_aside(self) -> bool:
        """Gives the file its number, and takes away those that are too many; whether that could be done."""
        try:
            self.path.rename(next_part(self.path))
        except OSError as error:  # the file grows on: better than no record
            if not self._has_told:
                self._has_told = True
                warn(f"the journal {self.path} can't be put aside, and grows on: {error.strerror}")
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


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    """Makes sure that the new file's name is on the disk too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ends_of(path: Path) -> tuple[Head | None, Facts | None]:
    """The head of a file that was put aside, and its first record; `None` for what can't be read."""
    try:
        with path.open("rb") as file:
            began = decode(file.readline(4096).removesuffix(b"\n")).facts
            head = read_head(file.fileno(), os.fstat(file.fileno()).st_size, path.name)
    except (OSError, NoRecordError, JournalError):
        return None, None
    is_ours = began.get("kind") == "journal" and type(began.get("part")) is int and isinstance(began.get("id"), str)
    return (head, began) if is_ours and head.torn is None else (None, None)
