"""The audit journal: a guard that records every call, in a thread of its own, with secrets left out."""

from __future__ import annotations

import asyncio
import atexit
import hmac
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args
from weakref import WeakSet

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.counters import is_provided
from pegboard_guard.journal_file import Facts, JournalError, JournalFile
from pegboard_guard.log import of_call, warn
from pegboard_guard.redact import Redactor
from pegboard_guard.rules import digest_or_none
from pegboard_guard.settings import NOT_A_SETTING, as_texts, flag, kind_of, one_of, seconds, texts, whole

MOST_WAITING: Final = 10_000
MOST_AT_ONCE: Final = 500
LINGER_SECONDS: Final = 5.0
"""How long the thread waits for another record before it ends."""

EXIT_SECONDS: Final = 5.0
"""How long the program waits at its end, at most, for records to be written."""

_Waiting: TypeAlias = tuple[Facts, Callable[[], None] | None]
"""A record, and a callback for when it is written."""


@define(eq=False)
class Writer:
    """Background writer: passes records to `append` in a thread of its own, in order. Never raises.

    The thread starts with the first record, ends after a while without any, and doesn't keep the program from ending.
    Records that can't be written are counted, and the journal itself records their number as soon as it can be written
    again. The operator is warned when that begins, and when it ends.

    Attributes:
        append: Writes some records, or raises.
        name: Of the journal, for the operator.
        most: How many records may wait; any more are lost.
    """

    append: Callable[[Sequence[Facts]], None]
    name: str
    most: int = MOST_WAITING
    _waiting: deque[_Waiting] = field(factory=deque[_Waiting], init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _has_thread: bool = field(default=False, init=False)
    _is_busy: bool = field(default=False, init=False)
    _process: int = field(factory=os.getpid, init=False)
    _lost: int = field(default=0, init=False)
    _is_failing: bool = field(default=False, init=False)

    def put(self, facts: Facts, done: Callable[[], None] | None = None) -> bool:
        """Queues a record.

        Args:
            facts: Its data.
            done: Called in the thread once the record has been written, or couldn't be.

        Returns:
            Whether it was queued; if not, `done` isn't called.
        """
        if self._process != os.getpid():
            self._reset()
        with self._changed:
            cause = self._refusal()
            if cause is None:
                self._waiting.append((facts, done))
                self._changed.notify_all()
            else:
                self._lost += 1
        if cause is not None:
            self._note_failure(cause)
        return cause is None

    def flush(self, seconds: float) -> bool:
        """Waits until everything is written, with a time limit; returns whether it is."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._waiting or self._is_busy:
                if not self._changed.wait(until - time.monotonic()):
                    return False
        return True

    # The thread --------------------------------------------------------------------------------------------------

    def _refusal(self) -> str | None:
        """Starts the thread if there is none; returns why a record can't be queued, or `None`."""
        if len(self._waiting) >= self.most:
            return f"{self.most} records wait to be written"
        if not self._has_thread:
            try:
                threading.Thread(target=self._work, name="pegboard-guard-journal", daemon=True).start()
            except RuntimeError as error:  # no more threads, or the program is ending
                return str(error)
            self._has_thread = True
            _flush_at_exit(self)
        return None

    def _work(self) -> None:
        while batch := self._next():
            self._write(batch)

    def _next(self) -> list[_Waiting]:
        """Waits for the next records to write; nothing if the thread should end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting, LINGER_SECONDS)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            self._is_busy = self._has_thread = bool(batch)
            return batch

    def _write(self, batch: list[_Waiting]) -> None:
        lost = self._lost
        gap: list[Facts] = [{"kind": "lost", "records": lost}] if lost else []
        try:
            self.append([*gap, *(facts for facts, _ in batch)])
        except Exception as error:  # noqa: BLE001  a journal that fails must not affect a call
            with self._changed:
                self._lost += len(batch)
            self._note_failure(f"{type(error).__name__}: {error}")
        else:
            with self._changed:
                self._lost -= lost
            if self._is_failing:
                self._is_failing = False
                warn(f"the journal {self.name} is written again; {lost} records were lost")
        for _, done in batch:
            if done is not None:
                done()

    def _note_failure(self, cause: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            warn(f"the journal {self.name} isn't written: {cause}. Calls go on without it; lost records are counted")

    def _reset(self) -> None:
        """In a forked child: the waiting records are written by its parent, and there is no thread."""
        self._process = os.getpid()
        self._waiting, self._changed = deque(), threading.Condition()
        self._has_thread = self._is_busy = False
        self._lost = 0


_writers: Final[WeakSet[Writer]] = WeakSet()


def _flush_at_exit(writer: Writer) -> None:
    if not _writers:
        atexit.unregister(_flush_all)
        atexit.register(_flush_all)
    _writers.add(writer)


def _flush_all() -> None:
    until = time.monotonic() + EXIT_SECONDS
    for writer in list(_writers):
        writer.flush(max(0.0, until - time.monotonic()))


Fsync: TypeAlias = Literal["each", "never"]
FSYNC: Final[tuple[Fsync, ...]] = get_args(Fsync)
MOST_ARGUMENTS: Final = 2000
"""Characters of arguments in one record, as JSON."""

CLOSE_SECONDS: Final = 5.0
_UNREAD: Final = ("unknown_tool", "not_offered", "invalid_arguments", "cut_off", "skipped", "not_executed")
"""Kinds of results of calls whose arguments may never have been read, and so aren't known."""


def _as_path(value: Any) -> Any:
    """An absolute path, which doesn't depend on a later change of the working folder."""
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) and str(value) else value


def _check_file(_journal: Any, _attribute: Any, value: Any) -> None:
    if value is not None and not isinstance(value, Path):
        raise TypeError(f"file must be the path of a file, got {kind_of(value)}")


class JournalSink(Protocol):
    """Where a journal without a file appends its records, from `registry.provide` or a plugin.

    Called in a thread of the journal's; may block. What it raises is logged, and the records count as lost.
    """

    def append(self, records: Sequence[Facts], /) -> None:
        """Stores records durably, in this order. `encode` makes a record a line that follows the one before."""

    def key(self) -> bytes:
        """The secret key of the digests of arguments, the same for all processes."""
        ...

    def close(self) -> None:
        """Releases what is open; a later `append` opens it again."""


@define(eq=False)
class Journal:
    """Audit journal: appends a record of each call to a file, with its user, tool, time and outcome.

    The file is opened by the first call. A journal that can't be written affects no call: the operator is warned once,
    and the number of missing records is recorded in the journal itself as soon as it can be written again.

    Attributes:
        file: The file. Several processes may write it. `~` is the home folder; a relative path starts in the working
            folder at the time when this object is made. `None`: the `JournalSink` that the host provides.
        fsync: `"each"`: a record is on the disk before the call's result is returned; `"never"`: it is written soon
            after, and what the system hasn't put on the disk is lost when the machine stops.
        starts: Whether a record is also written before the tool runs, so that a call that never ended is known.
        arguments: Whether the arguments are in it, without secrets and cut at 2,000 characters; their digest always
            is, keyed by `FILE.key` next to the file.
        redact: Further patterns of keys whose values are secrets, such as `*ssn*`.
        redact_values: Further regular expressions; what they match in a text is redacted.
        rotate_bytes: The size from which the file is rotated to `FILE.1`, `FILE.2`, ...; 0: never.
        keep: How many rotated files to keep; 0: all.
        wait_seconds: How long a call waits for its record at most; then it goes on, and the operator is warned.
        now: Seconds since 1970.
    """

    file: Path | None = field(default=None, converter=_as_path, validator=_check_file)
    fsync: Fsync = field(default="each", validator=one_of(FSYNC))
    starts: bool = field(default=False, validator=flag)
    arguments: bool = field(default=False, validator=flag)
    redact: tuple[str, ...] = field(default=(), converter=as_texts, validator=texts(least=0))
    redact_values: tuple[str, ...] = field(default=(), converter=as_texts, validator=texts(least=0))
    rotate_bytes: int = field(default=50_000_000, validator=whole())
    keep: int = field(default=0, validator=whole())
    wait_seconds: float = field(default=5.0, validator=seconds(least=0.1))
    now: Callable[[], float] = field(default=time.time, kw_only=True, metadata=NOT_A_SETTING)
    _key: str = field(init=False)
    _redactor: Redactor = field(init=False)
    _writer: Writer = field(init=False)
    _target: JournalSink | None = field(default=None, init=False)
    _is_slow: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self.file is not None and os.name != "posix":
            raise ValueError("a journal works on Linux and macOS, but not on Windows")
        self._key = f"pegboard_guard.journal.{id(self)}"
        self._redactor = Redactor(self.redact, self.redact_values)
        if self.file is not None:
            self._target = JournalFile(self.file, self.fsync == "each", self.rotate_bytes, self.keep, self.now)
        self._writer = Writer(self._append, "of the host" if self.file is None else str(self.file))

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Starts the clock; with `starts`, records that the call is about to run."""
        context.values[of_call(self._key, context)] = time.monotonic()
        if self.starts:
            await self._put(context, {"kind": "start", **self._facts(context, tool.name, arguments)})

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Records the result of the call."""
        started = context.values.pop(of_call(self._key, context), None)
        facts = {"kind": "call", **self._facts(context, context.tool, arguments)}
        if not arguments and result.kind in _UNREAD:
            facts["digest"] = None
        facts["outcome"] = (result.kind or "error") if result.is_error else "ok"
        if started is not None:
            facts["seconds"] = round(time.monotonic() - started, 6)
        approved_by = context.values.get(f"approved_by:{context.call_id}")
        if approved_by is not None:
            facts["approvedBy"] = self._redactor.text(str(approved_by))
        await self._put(context, facts)

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Waits until everything is written, and closes the file; a later call opens it again.

        Returns:
            Whether everything is written; if not, the file stays open.
        """
        is_written = self._writer.flush(seconds)
        if is_written and self._target is not None:
            self._target.close()
        return is_written

    def _append(self, records: Sequence[Facts]) -> None:
        """In the writer's thread. Digests are keyed, or short secrets could be guessed from them."""
        if (target := self._target) is None:
            raise JournalError("it has no file, and the host provides no JournalSink")
        target.append([{**facts, **_digest_of(facts, target)} for facts in records])

    def _facts(self, context: ToolContext, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        request = context.request
        known = {
            "tool": tool,
            "call": context.call_id or None,
            "session": request.session,
            "turn": request.invocation,
            "user": request.user,
            "agent": request.agent,
        }
        facts: dict[str, Any] = {
            key: self._redactor.text(str(value)) for key, value in known.items() if value is not None
        }
        facts["digest"] = digest_or_none(dict(arguments))
        if self.arguments:
            data, is_cut = self._redactor.data(arguments, MOST_ARGUMENTS)
            facts["arguments"] = json.dumps(data)[:MOST_ARGUMENTS] if is_cut else data
        return facts

    async def _put(self, context: ToolContext, facts: Facts) -> None:
        if self._target is None and is_provided(context, JournalSink):
            self._target = await context.use(JournalSink)
        if self.fsync == "never":
            self._writer.put(facts)
            return
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()  # `wait` doesn't cancel it

        def done() -> None:
            self._is_slow = False
            try:
                loop.call_soon_threadsafe(written.set_result, None)
            except RuntimeError:
                return  # the loop is closed, and no call waits

        if self._writer.put(facts, done) and not self._is_slow:
            await asyncio.wait([written], timeout=self.wait_seconds)
            if not written.done():
                self._is_slow = True
                slow = f"{self._writer.name} takes longer than {self.wait_seconds:g} s"
                warn(f"the journal {slow}: calls no longer wait for it")


def _digest_of(facts: Facts, target: JournalSink) -> dict[str, str]:
    digest = facts.get("digest")
    if digest is None:
        return {}
    return {"digest": f"hmac-sha256:{hmac.digest(target.key(), digest.encode(), 'sha256').hex()}"}
