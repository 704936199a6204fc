"""`FileApprovals`: grants and used answers in a file, for programs that start anew or run as several processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.grants import Grant, MemoryGrants, SessionGrants, note_used
from pegboard.dispatch.approval.private_file import LOCK_SECONDS, PrivateFile
from pegboard.dispatch.approval.structured import parsed, structured
from pegboard.errors import PendingError

if TYPE_CHECKING:
    from pegboard.dispatch.permissions.rule import Rule

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_USED: Final = 20_000
MOST_SESSIONS: Final = 1_000
_Stamp = tuple[int, int, int]


@frozen
class _Contents:
    """What the file says."""

    sessions: Mapping[str, SessionGrants] = field(factory=dict[str, SessionGrants])
    used: Mapping[str, float] = field(factory=dict[str, float])


_EMPTY: Final = _Contents()


def _private(path: str | Path) -> PrivateFile:
    return PrivateFile(Path(path), MOST_BYTES)


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
            self._write(attrs.evolve(contents, sessions=dict(list(others.items())[-MOST_SESSIONS:])))

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, in whatever process.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self.file.locked(self.lock_seconds):
            contents = self._read()
            used = dict(contents.used)
            if not note_used(used, pending_id, self.clock(), MOST_USED):
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
        while len(data := _text(sessions, contents.used).encode()) > MOST_BYTES and sessions:
            del sessions[: len(sessions) // 2 + 1]
        self.file.write(data)


@frozen
class _Written:
    """The file's JSON."""

    version: Literal[1]
    sessions: dict[str, list[Grant]]
    used: dict[str, float]


def _contents(data: bytes, now: float) -> _Contents:
    what = "a file of approvals"
    read = structured(_Written, parsed(data, MOST_BYTES, what), what)
    return _Contents({session: SessionGrants.of(grants, now) for session, grants in read.sessions.items()}, read.used)


def _text(sessions: Sequence[tuple[str, SessionGrants]], used: Mapping[str, float]) -> str:
    written = {session: [attrs.asdict(grant) for grant in held.grants] for session, held in sessions if held.grants}
    return json.dumps({"version": 1, "sessions": written, "used": used}, separators=(",", ":"))
