"""`FileApprovals`: what people have allowed for longer than one call, and used answers, in one private file."""

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

from pegboard import MemoryGrants, PendingError, ReadonlyContext, Rule
from pegboard.dispatch.approval.grants import Grant, session_key
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
    _cached: tuple[_Stamp | None, MemoryGrants] = field(factory=lambda: (None, MemoryGrants()), init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now."""
        if session is None:
            return self._memory.rules(None, tool)
        held = self._current()
        now = held.clock()
        if not all(grant.lasts(now) for grant in held.sessions.get(session, ())):
            held.expire()  # for good, whatever the clock does later: in the file too, where that is possible
            with suppress(OSError, PendingError), self._changed(0):
                pass
        return held.rules(session, tool)

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good.

        Raises:
            PendingError: The file can't be read, or another process holds it.
            OSError: It can't be written.
        """
        if session is None:
            self._memory.add(None, tool, rules, seconds)
            return
        with self._changed() as held:
            held.add(session, tool, rules, seconds)

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, in whatever process.

        Raises:
            PendingError: The file can't be read, another process holds it, or it is full.
            OSError: It can't be written.
        """
        with self._changed() as held:
            return held.consume(pending_id)

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
        with self._changed() as held:
            held.forget(context)

    def _held(self, seen: float, **facts: Any) -> MemoryGrants:
        """What a file holds, by the time that was seen when it was written."""
        return MemoryGrants(
            partial(self._now, seen), most_sessions=MOST_FILE_SESSIONS, most_used=MOST_FILE_USED, **facts
        )

    def _now(self, seen: float) -> float:
        """The time that grants expire by; later than all where the clock is behind what was seen."""
        now, seen = self.clock(), max(self._seen, seen)
        self._seen = max(now, seen)
        return now if now >= seen - _CLOCK_STEP else inf

    @contextmanager
    def _changed(self, seconds: float | None = None) -> Generator[MemoryGrants]:
        """What the file holds, to be changed, and written then; other threads and processes wait so many seconds."""
        with self._locked(self.lock_seconds if seconds is None else seconds):
            held = self._read()
            held.expire()
            self._seen = seen = self.clock() if held.clock() == inf else self._seen
            held.clock = lambda: seen
            yield held
            self._write(held, seen)

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

    def _current(self) -> MemoryGrants:
        """What the file holds, read only where it has changed; nothing where it can't be read."""
        stamp = None
        try:
            stamp = _stamp(self.path)
            cached, held = self._cached
            if stamp == cached:
                return held
            held = self._read()
        except (OSError, PendingError) as error:
            log_failure(f"reading {self.path}", error)
            held = MemoryGrants()  # kept: a file that can't be read is logged once
        self._cached = (stamp, held)
        return held

    def _read(self) -> MemoryGrants:
        try:
            read = _from_json(read_private(str(self.path), MOST_FILE))
        except FileNotFoundError:
            return self._held(0.0)
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.path} can't be read: {error}. Correct it, or move it away.") from error
        return self._held(read.seen, sessions={**read.sessions}, used=read.used)

    def _write(self, held: MemoryGrants, seen: float) -> None:
        """Writes the file; where it would be too large, the grants of the sessions longest ago go."""
        held.sessions = {session: grants for session, grants in held.sessions.items() if grants}
        while len(data := _to_json(held, seen)) > MOST_FILE and held.sessions:
            for session in list(held.sessions)[: len(held.sessions) // 2 + 1]:
                del held.sessions[session]
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


def _from_json(data: bytes) -> _FileJson:
    """What a file holds. One of version 1 granted to anyone who knew a session's id: only its used answers count."""
    what = "a file of approvals"
    value: dict[str, Any] = parsed(data, MOST_FILE, what)
    if isinstance(value, dict) and value.get("version") == 1:  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        value = {**value, "version": 2, "seen": 0.0, "sessions": {}}
    try:
        read: _FileJson = strict_structurer(_FileJson)(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise PendingError(f"not {what}: {error}") from None
    for grants in read.sessions.values():
        for grant in grants:
            _ = grant.rule  # raises where it is none
    return read


def _to_json(held: MemoryGrants, seen: float) -> bytes:
    sessions = {session: [attrs.asdict(grant) for grant in grants] for session, grants in held.sessions.items()}
    written = {"version": 2, "seen": seen, "sessions": sessions, "used": held.used}
    return json.dumps(written, separators=(",", ":")).encode()


def _stamp(path: Path) -> _Stamp | None:
    """What changes with each write; `None` where there is no file."""
    try:
        facts = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
