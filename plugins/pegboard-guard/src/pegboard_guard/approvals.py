"""`FileApprovals`: what people have allowed for longer than one call, and used answers, in one private file."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

import attrs
from attrs import define, field, frozen

from pegboard import MemoryGrants, PendingError, ReadonlyContext, Rule
from pegboard.dispatch.approval.grants import Grant, Records, grants_of, session_key
from pegboard.dispatch.approval.request import parsed
from pegboard.errors import log_failure
from pegboard.files import read_private, write_whole
from pegboard.schema.structure import strict_structurer

MOST_FILE: Final = 4 * 1024 * 1024
MOST_FILE_SESSIONS: Final = 1_000
MOST_FILE_USED: Final = 20_000
LOCK_SECONDS: Final = 5.0
_LOCK_POLL_SECONDS: Final = 0.01
_CLOCK_STEP: Final = 1.0
"""Seconds by which a clock is put back when it is only set right."""

_Stamp = tuple[int, int, int]


@define(eq=False)
class FileApprovals:
    """Grants in one private JSON file: written whole, under a file lock, and only by the user who owns it.

    Calls without session and user have no owner beyond this process: what they are granted stays in memory.

    Where the file can't be read, nothing is granted (a person is asked again, the log has the reason), and nothing can
    be consumed. Where the clock was put back, whatever was allowed for some time has expired.

    Attributes:
        path: Of the file; it and its folder are made at the first write.
        clock: Seconds since 1970.
        lock_seconds: How long a change waits for another process.
    """

    path: Path = field(converter=Path)
    clock: Callable[[], float] = time.time
    lock_seconds: float = LOCK_SECONDS
    _memory: MemoryGrants = field(factory=MemoryGrants, init=False)
    _seen: float = field(default=0.0, init=False)
    _cached: tuple[_Stamp | None, Records] = field(factory=lambda: (None, Records()), init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now."""
        if session is None:
            return self._memory.rules(None, tool)
        records = self._current()
        now = self._now(records)
        if any(grant.until is not None and grant.until <= now for grant in records.sessions.get(session, ())):
            records.expire(now)  # for good, whatever the clock does later: in the file too, where that is possible
            with suppress(OSError, PendingError), self._changed(0):
                pass
        return records.rules(session, tool, now)

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._memory.add(None, tool, rules, seconds)
            return
        with self._changed() as records:
            records.add(session, grants_of(tool, rules, seconds, records.seen), MOST_FILE_SESSIONS)

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, in whatever process.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self._changed() as records:
            return records.consume(pending_id, self.clock(), MOST_FILE_USED)

    def forget(self, context: ReadonlyContext) -> None:
        """Takes back all that was allowed to this user in this session, as when it ends.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        session = session_key(context)
        if session is None:
            self._memory.forget(context)
            return
        with self._changed() as records:
            records.sessions.pop(session, None)

    def _now(self, records: Records) -> float:
        """The time that grants expire by; later than all where the clock is behind what was seen."""
        now, seen = self.clock(), max(self._seen, records.seen)
        self._seen = max(now, seen)
        return now if now >= seen - _CLOCK_STEP else inf

    @contextmanager
    def _changed(self, seconds: float | None = None) -> Generator[Records]:
        """What the file holds, to be changed, and written then; other threads and processes wait so many seconds."""
        with self._locked(self.lock_seconds if seconds is None else seconds):
            records = self._read()
            now = self._now(records)
            records.expire(now)
            records.seen = self._seen = self.clock() if now == inf else self._seen
            yield records
            self._write(records)

    @contextmanager
    def _locked(self, seconds: float) -> Generator[None]:
        """Keeps other threads and processes from changing the file; a crash releases the lock."""
        from filelock import FileLock, Timeout  # only a change of the file needs it

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(f"{self.path}.lock", seconds, mode=0o600)
        try:
            lock.acquire(poll_interval=_LOCK_POLL_SECONDS)
        except Timeout:
            text = f"{self.path} is locked by another process for more than {seconds:g} s"
            raise PendingError(text) from None
        try:
            yield
        finally:
            lock.release()

    def _current(self) -> Records:
        """What the file holds, read only where it has changed; nothing where it can't be read."""
        stamp = None
        try:
            stamp = _stamp(self.path)
            cached, records = self._cached
            if stamp == cached:
                return records
            records = self._read()
        except (OSError, PendingError) as error:
            log_failure(f"reading {self.path}", error)
            records = Records()  # kept: a file that can't be read is logged once
        self._cached = (stamp, records)
        return records

    def _read(self) -> Records:
        try:
            return _from_json(read_private(str(self.path), MOST_FILE))
        except FileNotFoundError:
            return Records()
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.path} can't be read: {error}. Correct it, or move it away.") from error

    def _write(self, records: Records) -> None:
        """Writes the file; where it would be too large, the grants of the sessions longest ago go."""
        records.sessions = {session: grants for session, grants in records.sessions.items() if grants}
        while len(data := _to_json(records)) > MOST_FILE and records.sessions:
            for session in list(records.sessions)[: len(records.sessions) // 2 + 1]:
                del records.sessions[session]
        if len(data) > MOST_FILE:
            raise OSError(errno.EFBIG, f"would be larger than {MOST_FILE:,} bytes", str(self.path))
        write_whole(str(self.path), data, mode=0o600, sync=True)


@frozen
class _FileJson:
    """The file's JSON."""

    version: Literal[2]
    seen: float
    sessions: dict[str, list[Grant]]
    used: dict[str, float]


def _from_json(data: bytes) -> Records:
    """What a file holds. One of version 1 granted to anyone who knew a session's id: only its used answers count."""
    what = "a file of approvals"
    value: dict[str, Any] = parsed(data, MOST_FILE, what)
    if isinstance(value, dict) and value.get("version") == 1:  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        value = {**value, "version": 2, "seen": 0.0, "sessions": {}}
    try:
        read: _FileJson = strict_structurer(_FileJson)(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise PendingError(f"not {what}: {error}") from None
    records = Records({**read.sessions}, read.used, read.seen)
    for grants in read.sessions.values():
        for grant in grants:
            _ = grant.rule  # raises where it is none
    return records


def _to_json(records: Records) -> bytes:
    sessions = {session: [attrs.asdict(grant) for grant in grants] for session, grants in records.sessions.items()}
    written = {"version": 2, "seen": records.seen, "sessions": sessions, "used": records.used}
    return json.dumps(written, separators=(",", ":")).encode()


def _stamp(path: Path) -> _Stamp | None:
    """What changes with each write; `None` where there is no file."""
    try:
        facts = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
