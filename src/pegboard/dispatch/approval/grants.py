"""Grant stores, in memory and in a file: what people have allowed for longer than one call, and used answers."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
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

LOCK_SECONDS: Final = 5.0
_LOOK_AGAIN: Final = 0.01
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class PrivateFile:
    """A file that only its user can read or write.

    Attributes:
        path: Where it is; its folder is made at the first write.
        most: How many bytes it may have.
    """

    path: Path
    most: int

    def stamp(self) -> tuple[int, int, int] | None:
        """What changes with each write; `None` where there is no file."""
        try:
            facts = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def read(self) -> bytes | None:
        """Its bytes, or `None` where there is no file.

        Raises:
            OSError: It can't be read, is too large, is a link or no file, or isn't private to this user.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            _check_private(os.fstat(fd), str(self.path))
            data = file.read(self.most + 1)
        if len(data) > self.most:
            raise OSError(errno.EFBIG, f"larger than {self.most:,} bytes", str(self.path))
        return data

    def write(self, data: bytes) -> None:
        """Puts the file in place at once: after a crash there is the old one or the new one.

        Raises:
            OSError: It can't be written, or would be too large; the old one stands.
        """
        if len(data) > self.most:
            raise OSError(errno.EFBIG, f"would be larger than {self.most:,} bytes", str(self.path))
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(self.path.parent)

    @contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Generator[None]:
        """Keeps all others, threads and processes, from changing the file meanwhile; a crash lets go.

        Raises:
            PendingError: Another holds it for longer than `seconds`.
            OSError: It can't be locked.
        """
        import fcntl

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
        try:
            end = time.monotonic() + seconds
            while not _lock(fd):
                if time.monotonic() > end:
                    raise PendingError(f"{self.path} is locked by another process for more than {seconds:g} s")
                time.sleep(_LOOK_AGAIN)
            yield
            fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_private(facts: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "not private: another's, or others have rights on it (chmod 600)", path)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; some file systems don't take it, and lose nothing by it."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)


MOST_SESSIONS: Final = 10_000
MOST_GRANTS: Final = 1_000
MOST_USED: Final = 100_000
USED_SECONDS: Final = 90 * 24 * 3600.0
"""How long a used id is remembered: three times as long as a pending call may wait."""


class Grants(Protocol):
    """Keeps what people have allowed. Called from several threads; `add` and `consume` off the event loop."""

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
    """What grants and waiting requests of this context are kept under.

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
        until: When it expires, by the clock of whoever keeps it; `None`: never.
    """

    permission: str
    patterns: tuple[str, ...] = field(converter=tuple[str, ...])
    until: float | None = None

    def rules(self) -> Iterable[Rule]:
        """One rule a pattern."""
        return (Rule(self.permission, pattern, "allow") for pattern in self.patterns)


@frozen
class SessionGrants:
    """What one session has been allowed.

    Attributes:
        grants: In the order in which they were given.
        until: When the first of them expires, or `None`.
        rules: The same as rules, ready to be asked for.
    """

    grants: tuple[Grant, ...]
    until: float | None
    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, grants: Iterable[Grant], now: float) -> SessionGrants:
        """What is left of them now; the oldest of more than 1,000 are dropped."""
        kept = tuple(grant for grant in grants if grant.until is None or grant.until > now)[-MOST_GRANTS:]
        until = min((grant.until for grant in kept if grant.until is not None), default=None)
        return cls(kept, until, tuple(rule for grant in kept for rule in grant.rules()))

    def at(self, now: float) -> SessionGrants:
        """What is left of them now."""
        return self if self.until is None or now < self.until else SessionGrants.of(self.grants, now)


def note_used(used: dict[str, float], pending_id: str, now: float, most: int) -> bool:
    """Adds an id to those that are used; false where it is among them. Those of long ago are dropped.

    Raises:
        PendingError: There are too many: forgetting one would let it be used again.
    """
    if pending_id in used:
        return False
    if len(used) >= most:
        for old in [one for one, when in used.items() if when < now - USED_SECONDS]:
            del used[old]
    if len(used) >= most:
        raise PendingError(f"{most:,} answers were used in {USED_SECONDS / 86400:g} days; no more can be recorded")
    used[pending_id] = now
    return True


@define(eq=False)
class MemoryGrants:
    """Grants that last as long as this process. Up to 10,000 sessions; the one that was granted to longest ago goes.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str | None, SessionGrants] = field(factory=dict["str | None", SessionGrants], init=False)
    _used: dict[str, float] = field(factory=dict[str, float], init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        held = self._sessions.get(session)
        return () if held is None else held.rules if held.until is None else held.at(self.clock()).rules

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good."""
        now = self.clock()
        grant = Grant(permission, patterns, None if seconds is None else now + seconds)
        with self._lock:
            held = self._sessions.pop(session, None)
            self._sessions[session] = SessionGrants.of((*(held.grants if held else ()), grant), now)
            while len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time.

        Raises:
            PendingError: Too many were used in the last 90 days.
        """
        with self._lock:
            return note_used(self._used, pending_id, self.clock(), MOST_USED)

    def forget(self, session: str | None) -> None:
        """Takes back all that this session was allowed, as when it ends."""
        with self._lock:
            self._sessions.pop(session, None)


MOST_FILE: Final = 4 * 1024 * 1024
MOST_FILE_USED: Final = 20_000
MOST_FILE_SESSIONS: Final = 1_000
_Stamp = tuple[int, int, int]


@frozen
class _Contents:
    """What the file says."""

    sessions: Mapping[str, SessionGrants] = field(factory=dict[str, SessionGrants])
    used: Mapping[str, float] = field(factory=dict[str, float])


_EMPTY: Final = _Contents()


def _private(path: str | Path) -> PrivateFile:
    return PrivateFile(Path(path), MOST_FILE)


@define(eq=False)
class FileApprovals:
    """Grants in one private JSON file: written whole, under a lock, and only by the user whose it is.

    Calls without session and user are nobody's for longer than this process: what they are granted stays in memory.

    Where the file can't be read, nothing is granted (a person is asked again, the operator is told), and nothing can
    be consumed.

    Args:
        path: Of the file; made at the first write.

    Attributes:
        clock: Seconds since 1970.
        lock_seconds: How long a change waits for another process.
    """

    file: PrivateFile = field(converter=_private, alias="path")
    clock: Callable[[], float] = time.time
    lock_seconds: float = LOCK_SECONDS
    _here: MemoryGrants = field(factory=MemoryGrants, init=False)
    _known: tuple[_Stamp | None, _Contents] = field(default=(None, _EMPTY), init=False)

    def rules(self, session: str | None) -> tuple[Rule, ...]:
        """What is allowed in this session now."""
        if session is None:
            return self._here.rules(None)
        held = self._current().sessions.get(session)
        return () if held is None else held.at(self.clock()).rules

    def add(self, session: str | None, permission: str, patterns: Sequence[str], seconds: float | None = None) -> None:
        """Allows these patterns of a permission in this session, for so many seconds or for good.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._here.add(None, permission, patterns, seconds)
            return
        now = self.clock()
        grant = Grant(permission, patterns, None if seconds is None else now + seconds)
        with self.file.locked(self.lock_seconds):
            contents = self._read()
            held = contents.sessions.get(session)
            others = {name: kept for name, kept in contents.sessions.items() if name != session}
            others[session] = SessionGrants.of((*(held.grants if held else ()), grant), now)
            self._write(attrs.evolve(contents, sessions=dict(list(others.items())[-MOST_FILE_SESSIONS:])))

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, in whatever process.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self.file.locked(self.lock_seconds):
            contents = self._read()
            used = dict(contents.used)
            if not note_used(used, pending_id, self.clock(), MOST_FILE_USED):
                return False
            self._write(attrs.evolve(contents, used=used))
            return True

    def forget(self, session: str | None) -> None:
        """Takes back all that this session was allowed, as when it ends.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._here.forget(None)
            return
        with self.file.locked(self.lock_seconds):
            contents = self._read()
            left = {name: kept for name, kept in contents.sessions.items() if name != session}
            self._write(attrs.evolve(contents, sessions=left))

    def _current(self) -> _Contents:
        """What the file says, read only where it has changed; nothing where it can't be read."""
        try:
            stamp = self.file.stamp()
            known, contents = self._known
            if stamp == known:
                return contents
            self._known = (stamp, _EMPTY)  # a file that can't be read is told of once
            contents = self._read()
        except (OSError, PendingError) as error:
            from pegboard.dispatch.failure import log_failure

            log_failure(f"reading {self.file.path}", error)
            return _EMPTY
        self._known = (stamp, contents)
        return contents

    def _read(self) -> _Contents:
        try:
            data = self.file.read()
            return _EMPTY if data is None else _contents(data, self.clock())
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.file.path} can't be read: {error}. Mend it, or move it away.") from error

    def _write(self, contents: _Contents) -> None:
        """Writes the file; where it would be too large, the grants of the sessions longest ago go."""
        sessions = list(contents.sessions.items())
        while len(data := _file_text(sessions, contents.used).encode()) > MOST_FILE and sessions:
            del sessions[: len(sessions) // 2 + 1]
        self.file.write(data)


@frozen
class _FileJson:
    """The file's JSON."""

    version: Literal[1]
    sessions: dict[str, list[Grant]]
    used: dict[str, float]


def _contents(data: bytes, now: float) -> _Contents:
    what = "a file of approvals"
    read = structured(_FileJson, parsed(data, MOST_FILE, what), what)
    return _Contents({session: SessionGrants.of(grants, now) for session, grants in read.sessions.items()}, read.used)


def _file_text(sessions: Sequence[tuple[str, SessionGrants]], used: Mapping[str, float]) -> str:
    written = {session: [attrs.asdict(grant) for grant in held.grants] for session, held in sessions if held.grants}
    return json.dumps({"version": 1, "sessions": written, "used": used}, separators=(",", ":"))
