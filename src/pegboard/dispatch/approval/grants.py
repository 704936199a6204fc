"""Grant stores, in memory and in a file: what people have allowed for longer than one call, and used answers."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, Protocol

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.request import parsed, structured
from pegboard.dispatch.permissions.permissions import owner_of
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError
from pegboard.files import read_private, write_whole
from pegboard.schema.json import digest_of
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool

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
_CLOCK_STEP: Final = 1.0
"""Seconds by which a clock is put back when it is only set right."""

_Stamp = tuple[int, int, int]


class Grants(Protocol):
    """Store of what people have allowed. Called from several threads; `add` and `consume` off the event loop."""

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now, as rules; nothing of what has expired. Must not block.

        Args:
            session: As `session_key` gives it.
            tool: As `tool_key` gives it.
        """
        ...

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good."""
        ...

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time, false ever after.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """
        ...

    def forget(self, context: ReadonlyContext) -> None:
        """Takes back all that was allowed to this user in this session, as when it ends."""
        ...


def session_key(request: ReadonlyContext) -> str | None:
    """The key that grants and waiting requests of this context are kept under: its user and its session, as JSON.

    Without either, all that is left is one nameless session, that of a program for one person.
    """
    if request.session is None and request.user is None:
        return None
    return json.dumps([request.user, request.session])


def tool_key(tool: Tool) -> str:
    """What grants and approvals of a tool are bound to, as a digest.

    That is its definition with its presets, who brings it, where it runs, and what rules have known it by.
    """
    former = tool.former_names, tool.former_permissions, tuple(tool.own_names.items())
    return _digest_of(tool.digest, owner_of(tool), tool.policy.executor, former)


_digest_of: Final = lru_cache(maxsize=1_024)(lambda *facts: digest_of(facts))  # asked for with each decision


@frozen
class Grant:
    """One thing that was allowed.

    Attributes:
        tool: Which tool it was, as `tool_key` gives it.
        permission: The permission's name.
        pattern: For what.
        literal: Whether the pattern is exactly what was asked.
        until: When it expires, by the store's clock; `None`: never.
    """

    tool: str
    permission: str
    pattern: str
    literal: bool
    until: float | None = None

    @cached_property
    def rule(self) -> Rule:
        """The same as a rule."""
        return Rule(self.permission, self.pattern, "allow", literal=self.literal)


@define
class _Records:
    """The grants of all sessions, the one that was granted to longest ago first, and the ids of used answers.

    Attributes:
        sessions: By key.
        used: When each was used.
        seen: The latest time that is known.
    """

    sessions: dict[str | None, list[Grant]] = field(factory=dict["str | None", "list[Grant]"])
    used: dict[str, float] = field(factory=dict[str, float])
    seen: float = 0.0

    def rules(self, session: str | None, tool: str, now: float) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now."""
        grants = self.sessions.get(session, ())
        return tuple(each.rule for each in grants if each.tool == tool and (each.until is None or each.until > now))

    def expire(self, now: float) -> None:
        """Drops what has expired."""
        for key, grants in list(self.sessions.items()):
            self.sessions[key] = [grant for grant in grants if grant.until is None or grant.until > now]

    def add(self, session: str | None, grants: Iterable[Grant], most: int) -> None:
        """Adds grants; of more than `most` sessions the one that was granted to longest ago goes."""
        self.sessions[session] = [*self.sessions.pop(session, ()), *grants][-MOST_GRANTS:]
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


def _grants(tool: str, rules: Iterable[Rule], seconds: float | None, now: float) -> list[Grant]:
    until = None if seconds is None else now + seconds
    return [Grant(tool, rule.permission, rule.pattern, rule.literal, until) for rule in rules]


@define(eq=False)
class MemoryGrants:
    """Grants that last as long as this process. Up to 10,000 sessions; the one that was granted to longest ago goes.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _records: _Records = field(factory=_Records, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """What a tool is allowed in this session now."""
        return self._records.rules(session, tool, self.clock()) if self._records.sessions else ()

    def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Allows a tool what these rules allow, in this session, for so many seconds or for good."""
        with self._lock:
            self._records.expire(self.clock())
            self._records.add(session, _grants(tool, rules, seconds, self.clock()), MOST_SESSIONS)

    def consume(self, pending_id: str) -> bool:
        """Notes that the answer to this pending call is used; true the first time.

        Raises:
            PendingError: Too many were used in the last 90 days.
        """
        with self._lock:
            return self._records.consume(pending_id, self.clock(), MOST_USED)

    def forget(self, context: ReadonlyContext) -> None:
        """Takes back all that was allowed to this user in this session, as when it ends."""
        with self._lock:
            self._records.sessions.pop(session_key(context), None)


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
    _cached: tuple[_Stamp | None, _Records] = field(factory=lambda: (None, _Records()), init=False)

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
            records.add(session, _grants(tool, rules, seconds, records.seen), MOST_FILE_SESSIONS)

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

    def _now(self, records: _Records) -> float:
        """The time that grants expire by; later than all where the clock is behind what was seen."""
        now, seen = self.clock(), max(self._seen, records.seen)
        self._seen = max(now, seen)
        return now if now >= seen - _CLOCK_STEP else inf

    @contextmanager
    def _changed(self, seconds: float | None = None) -> Generator[_Records]:
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
            return _from_json(read_private(str(self.path), MOST_FILE))
        except FileNotFoundError:
            return _Records()
        except (OSError, ValueError, PendingError) as error:
            raise PendingError(f"{self.path} can't be read: {error}. Mend it, or move it away.") from error

    def _write(self, records: _Records) -> None:
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


def _from_json(data: bytes) -> _Records:
    """What a file holds. One of version 1 granted to whoever knew a session's id: only its used answers count."""
    what = "a file of approvals"
    value: dict[str, Any] = parsed(data, MOST_FILE, what)
    if isinstance(value, dict) and value.get("version") == 1:  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        value = {**value, "version": 2, "seen": 0.0, "sessions": {}}
    read = structured(_FileJson, value, what)
    records = _Records({**read.sessions}, read.used, read.seen)
    for grants in read.sessions.values():
        for grant in grants:
            _ = grant.rule  # raises where it is none
    return records


def _to_json(records: _Records) -> bytes:
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
