"""Grant stores, in memory and in a file: what people have allowed for longer than one call, and used answers."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, Literal, Protocol

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.request import parsed, structured
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError
from pegboard.tools.context import ReadonlyContext

MOST_SESSIONS: Final = 10_000
MOST_GRANTS: Final = 1_000
MOST_USED: Final = 100_000
USED_SECONDS: Final = 90 * 24 * 3600.0
"""How long a used id is remembered: three times as long as a pending call may wait."""

MOST_FILE: Final = 4 * 1024 * 1024
MOST_FILE_SESSIONS: Final = 1_000
MOST_FILE_USED: Final = 20_000
LOCK_SECONDS: Final = 5.0
_LOCK_POLL_SECONDS: Final = 0.01
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_Stamp = tuple[int, int, int]


class Grants(Protocol):
    """Store of what people have allowed. Called from several threads; `add` and `consume` off the event loop."""

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now, as rules; nothing of what has expired. Must not block.

        Args:
            session: As `session_key` gives it.
        """
        ...

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good."""
        ...

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, false ever after.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """
        ...


def session_key(request: ReadonlyContext) -> str | None:
    """The key that grants and waiting requests of this context are kept under.

    The session's id. Without one each user has a session of their own, and all that is left is one nameless session,
    that of a program for one person.
    """
    if request.session is not None or request.user is None:
        return request.session
    return f"(no session, user {request.user})"


@frozen
class Grant:
    """One thing that was allowed.

    Attributes:
        permission: Its name.
        patterns: For what.
        until: When it expires, by the store's clock; `None`: never.
    """

    permission: str
    patterns: tuple[str, ...] = field(converter=tuple[str, ...])
    until: float | None = None


@frozen
class _SessionGrants:
    """What one session has been allowed.

    Attributes:
        grants: In the order in which they were given.
        until: When the first of them expires, or `None`.
        rules: The same as rules, one a pattern.
    """

    grants: tuple[Grant, ...]
    until: float | None
    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, grants: Iterable[Grant], now: float) -> _SessionGrants:
        """What is left of them now; the oldest of more than 1,000 are dropped."""
        kept = tuple(grant for grant in grants if grant.until is None or grant.until > now)[-MOST_GRANTS:]
        until = min((grant.until for grant in kept if grant.until is not None), default=None)
        rules = (Rule(grant.permission, pattern, "allow") for grant in kept for pattern in grant.patterns)
        return cls(kept, until, tuple(rules))


@define
class _Records:
    """The grants of all sessions, the one that was granted to longest ago first, and the ids of used answers."""

    sessions: dict[str | None, _SessionGrants] = field(factory=dict["str | None", _SessionGrants])
    used: dict[str, float] = field(factory=dict[str, float])

    def rules(self, session: str | None, now: float) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        held = self.sessions.get(session)
        if held is not None and held.until is not None and held.until <= now:
            held = _SessionGrants.of(held.grants, now)
        return () if held is None else held.rules

    def add(self, session: str | None, grant: Grant, now: float, most: int) -> None:
        """Adds a grant; of more than `most` sessions the one that was granted to longest ago goes."""
        held = self.sessions.pop(session, None)
        self.sessions[session] = _SessionGrants.of((*(held.grants if held else ()), grant), now)
        while len(self.sessions) > most:
            del self.sessions[next(iter(self.sessions))]

    def consume(self, pending_id: str, now: float, most: int) -> bool:
        """Adds an id to those that are used; false where it is among them. Those of long ago are dropped.

        Raises:
            PendingError: There are too many: forgetting one would let it be used again.
        """
        if pending_id in self.used:
            return False
        if len(self.used) >= most:
            for old in [one for one, when in self.used.items() if when < now - USED_SECONDS]:
                del self.used[old]
        if len(self.used) >= most:
            raise PendingError(f"{most:,} answers were used in {USED_SECONDS / 86400:g} days; no more can be recorded")
        self.used[pending_id] = now
        return True


def _grant(permission: str, patterns: Sequence[str], seconds: float | None, now: float) -> Grant:
    return Grant(permission, patterns, None if seconds is None else now + seconds)


@define(eq=False)
class MemoryGrants:
    """Grants that last as long as this process. Up to 10,000 sessions; the one that was granted to longest ago goes.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _records: _Records = field(factory=_Records, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        return self._records.rules(session, self.clock()) if self._records.sessions else ()

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good."""
        now = self.clock()
        with self._lock:
            self._records.add(session, _grant(permission, patterns, seconds, now), now, MOST_SESSIONS)

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time.

        Raises:
            PendingError: Too many were used in the last 90 days.
        """
        with self._lock:
            return self._records.consume(pending_id, self.clock(), MOST_USED)

    def forget(self, session: str | None) -> None:
        """Takes back all that this session was allowed, as when it ends."""
        with self._lock:
            self._records.sessions.pop(session, None)


@define(eq=False)
class FileApprovals:
    """Grants in one private JSON file: written whole, under a file lock, and only by the user who owns it.

    Calls without session and user have no owner beyond this process: what they are granted stays in memory.

    Where the file can't be read, nothing is granted (a person is asked again, the log says why), and nothing can be
    consumed.

    Attributes:
        path: Of the file; it and its folder are made at the first write.
        clock: Seconds since 1970.
        lock_seconds: How long a change waits for another process.
    """

    path: Path = field(converter=Path)
    clock: Callable[[], float] = time.time
    lock_seconds: float = LOCK_SECONDS
    _memory: MemoryGrants = field(factory=MemoryGrants, init=False)
    _cached: tuple[_Stamp | None, _Records] = field(factory=lambda: (None, _Records()), init=False)

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        return self._memory.rules(None) if session is None else self._current().rules(session, self.clock())

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._memory.add(None, permission, patterns, seconds)
            return
        now = self.clock()
        with self._locked():
            records = self._read()
            records.add(session, _grant(permission, patterns, seconds, now), now, MOST_FILE_SESSIONS)
            self._write(records)

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, in whatever process.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self._locked():
            records = self._read()
            is_first = records.consume(pending_id, self.clock(), MOST_FILE_USED)
            if is_first:
                self._write(records)
            return is_first

    def forget(self, session: str | None) -> None:
        """Takes back all that this session was allowed, as when it ends.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._memory.forget(None)
            return
        with self._locked():
            records = self._read()
            records.sessions.pop(session, None)
            self._write(records)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Keeps other threads and processes from changing the file; a crash releases the lock."""
        from filelock import FileLock, Timeout  # only a change of the file needs it

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(f"{self.path}.lock", self.lock_seconds, mode=0o600)
        try:
            lock.acquire(poll_interval=_LOCK_POLL_SECONDS)
        except Timeout:
            text = f"{self.path} is locked by another process for more than {self.lock_seconds:g} s"
            raise PendingError(text) from None
        try:
            yield
        finally:
            lock.release()

    def _current(self) -> _Records:
        """What the file holds, read only where it has changed; nothing where it can't be read."""
        stamp = None
        try:
            stamp = _stamp(self.path)
            cached, records = self._cached
            if stamp == cached:
                return records
            records = self._read()
        except (OSError, PendingError) as error:
            from pegboard.errors import log_failure

            log_failure(f"reading {self.path}", error)
            records = _Records()  # kept: a file that can't be read is logged once
        self._cached = (stamp, records)
        return records

    def _read(self) -> _Records:
        try:
            data = _read_private(self.path)
            return _Records() if data is None else _from_json(data, self.clock())
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.path} can't be read: {error}. Mend it, or move it away.") from error

    def _write(self, records: _Records) -> None:
        """Writes the file; where it would be too large, the grants of the sessions longest ago go."""
        sessions = [(session, held.grants) for session, held in records.sessions.items() if held.grants]
        while len(data := _to_json(sessions, records.used)) > MOST_FILE and sessions:
            del sessions[: len(sessions) // 2 + 1]
        if len(data) > MOST_FILE:
            raise OSError(errno.EFBIG, f"would be larger than {MOST_FILE:,} bytes", str(self.path))
        _write_whole(self.path, data)


@frozen
class _FileJson:
    """The file's JSON."""

    version: Literal[1]
    sessions: dict[str, list[Grant]]
    used: dict[str, float]


def _from_json(data: bytes, now: float) -> _Records:
    what = "a file of approvals"
    read = structured(_FileJson, parsed(data, MOST_FILE, what), what)
    return _Records({session: _SessionGrants.of(grants, now) for session, grants in read.sessions.items()}, read.used)


def _to_json(sessions: Sequence[tuple[str | None, Sequence[Grant]]], used: dict[str, float]) -> bytes:
    written = {session: [attrs.asdict(grant) for grant in grants] for session, grants in sessions}
    return json.dumps({"version": 1, "sessions": written, "used": used}, separators=(",", ":")).encode()


def _stamp(path: Path) -> _Stamp | None:
    """What changes with each write; `None` where there is no file."""
    try:
        facts = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _read_private(path: Path) -> bytes | None:
    """The file's bytes, or `None` where there is no file.

    Raises:
        OSError: It can't be read, is too large, is a link or no regular file, or isn't private to this user.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            text = "not private: another's, or others have rights on it (chmod 600)"
            raise PermissionError(errno.EPERM, text, str(path))
        data = file.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        raise OSError(errno.EFBIG, f"larger than {MOST_FILE:,} bytes", str(path))
    return data


def _write_whole(path: Path, data: bytes) -> None:
    """Replaces the file in one step: after a crash there is the old one or the new one.

    Raises:
        OSError: It can't be written; the old one stands.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError:
        return  # some file systems can't, and lose nothing by it
    finally:
        os.close(folder)
