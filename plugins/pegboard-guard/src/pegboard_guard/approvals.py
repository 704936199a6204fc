"""`FileApprovals`: file store of grants for longer than one call, and of used answers."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

import attrs
from attrs import define, field, frozen

from pegboard import ReadonlyContext, Rule
from pegboard.approval import Grant, MemoryGrants, parse_untrusted, session_key
from pegboard.errors import PendingError, log_failure, with_name
from pegboard.files import read_private, write_atomic
from pegboard.schema.structure import strict_structurer

MOST_FILE: Final = 4 * 1024 * 1024
MOST_FILE_SESSIONS: Final = 1_000
MOST_FILE_USED: Final = 20_000
LOCK_SECONDS: Final = 5.0
_LOCK_POLL_SECONDS: Final = 0.01
_CLOCK_STEP: Final = 1.0
"""Seconds by which a clock may go back in an ordinary correction."""

_Stamp = tuple[int, int, int]


@define(eq=False)
class FileApprovals:
    """Store of grants in one private JSON file: written whole, under a file lock, and only by its owner.

    Grants of calls without session and user stay in memory, as they belong to this process only.

    If the file can't be read, nothing is granted (a person is asked again, the log has the reason), and no answer can
    be used. If the clock was put back, all grants with a time limit have expired.

    Attributes:
        path: Of the file; it and its folder are created by the first write.
        clock: Seconds since 1970.
        lock_seconds: How long a change waits for another process.
    """

    path: Path = field(converter=with_name("path", Path))
    clock: Callable[[], float] = time.time
    lock_seconds: float = LOCK_SECONDS
    _memory: MemoryGrants = field(factory=MemoryGrants, init=False)
    _seen: float = field(default=0.0, init=False)
    _cached: tuple[_Stamp | None, MemoryGrants] = field(factory=lambda: (None, MemoryGrants()), init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """The grants of a tool in this session that haven't expired, as rules."""
        if session is None:
            return self._memory.rules(None, tool)
        grants = self._current()
        now = grants.clock()
        if not all(grant.lasts(now) for grant in grants.sessions.get(session, ())):
            grants.expire()  # permanently, even if the clock goes back; in the file too, if possible
            with suppress(OSError, PendingError), self._change_grants(0):
                pass
        return grants.rules(session, tool)

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Grants a tool what these rules allow, in this session, for some seconds or without a time limit.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._memory.add(None, tool, rules, seconds)
            return
        with self._change_grants() as grants:
            grants.add(session, tool, rules, seconds)

    def consume(self, pending_id: str) -> bool:
        """Records that the answer to this pending call is used; true only the first time, over all processes.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self._change_grants() as grants:
            return grants.consume(pending_id)

    def forget(self, context: ReadonlyContext) -> None:
        """Revokes all grants of this user in this session, for example when it ends.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        session = session_key(context)
        if session is None:
            self._memory.forget(context)
            return
        with self._change_grants() as grants:
            grants.forget(context)

    def _grants(self, seen: float, **facts: Any) -> MemoryGrants:
        """The content of a file; its clock takes the time at which the file was written into account, see `_now`."""
        return MemoryGrants(
            partial(self._now, seen), most_sessions=MOST_FILE_SESSIONS, most_used=MOST_FILE_USED, **facts
        )

    def _now(self, seen: float) -> float:
        """The time for expiry; infinite if the clock is behind the latest time seen."""
        now, seen = self.clock(), max(self._seen, seen)
        self._seen = max(now, seen)
        return now if now >= seen - _CLOCK_STEP else inf

    @contextmanager
    def _change_grants(self, seconds: float | None = None) -> Generator[MemoryGrants]:
        """Yields the content of the file to be changed, then writes it; waits at most `seconds` for the lock."""
        with self._lock_file(self.lock_seconds if seconds is None else seconds):
            grants = self._read()
            grants.expire()
            self._seen = seen = self.clock() if grants.clock() == inf else self._seen
            grants.clock = lambda: seen
            yield grants
            self._write(grants, seen)

    @contextmanager
    def _lock_file(self, seconds: float) -> Generator[None]:
        """Locks the file against other threads and processes; a crash releases the lock."""
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

    def _current(self) -> MemoryGrants:
        """The content of the file, read only if it has changed; empty if it can't be read."""
        stamp = None
        try:
            stamp = _stamp(self.path)
            cached, grants = self._cached
            if stamp == cached:
                return grants
            grants = self._read()
        except (OSError, PendingError) as error:
            log_failure(f"reading {self.path}", error)
            grants = MemoryGrants()  # cached: a file that can't be read is logged once
        self._cached = (stamp, grants)
        return grants

    def _read(self) -> MemoryGrants:
        try:
            read = _from_json(read_private(str(self.path), MOST_FILE))
        except FileNotFoundError:
            return self._grants(0.0)
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.path} can't be read: {error}; correct it, or move it away") from error
        return self._grants(read.seen, sessions={**read.sessions}, used=read.used)

    def _write(self, grants: MemoryGrants, seen: float) -> None:
        """Writes the file; if it would be too large, drops the grants of the oldest sessions."""
        while len(data := _to_json(grants, seen)) > MOST_FILE and grants.sessions:
            for session in list(grants.sessions)[: len(grants.sessions) // 2 + 1]:
                del grants.sessions[session]
        if len(data) > MOST_FILE:
            raise OSError(errno.EFBIG, f"would be larger than {MOST_FILE:,} bytes", str(self.path))
        write_atomic(str(self.path), data, mode=0o600, sync=True)


@frozen
class _FileJson:
    """The file's JSON."""

    version: Literal[2]
    seen: float
    sessions: dict[str, list[Grant]]
    used: dict[str, float]


def _from_json(data: bytes) -> _FileJson:
    """Parses a file. Version 1 granted to anyone who knew a session's id: only its used answers are read."""
    what = "a file of approvals"
    value: dict[str, Any] = parse_untrusted(data, MOST_FILE, what)
    if isinstance(value, dict) and value.get("version") == 1:  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        value = {**value, "version": 2, "seen": 0.0, "sessions": {}}
    try:
        read: _FileJson = strict_structurer(_FileJson)(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise PendingError(f"not {what}: {error}") from None
    for grants in read.sessions.values():
        for grant in grants:
            _ = grant.rule  # raises if it is invalid
    return read


def _to_json(store: MemoryGrants, seen: float) -> bytes:
    sessions = {session: [attrs.asdict(grant) for grant in grants] for session, grants in store.sessions.items()}
    written = {"version": 2, "seen": seen, "sessions": sessions, "used": store.used}
    return json.dumps(written, separators=(",", ":")).encode()


def _stamp(path: Path) -> _Stamp | None:
    """Identifies one version of the file; `None` if there is no file."""
    try:
        facts = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
