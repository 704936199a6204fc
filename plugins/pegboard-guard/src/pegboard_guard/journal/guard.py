"""`Journal`: the guard that writes down every call."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.check import as_texts, flag, one_of, seconds, texts, whole
from pegboard_guard.digest import arguments_digest
from pegboard_guard.journal.file import JournalFile
from pegboard_guard.journal.record import Facts
from pegboard_guard.journal.redact import Redactor
from pegboard_guard.journal.writer import Writer
from pegboard_guard.operator_log import warn
from pegboard_guard.table import NOT_A_SETTING

Fsync: TypeAlias = Literal["each", "never"]
FSYNC: Final[tuple[Fsync, ...]] = get_args(Fsync)
MOST_ARGUMENTS: Final = 2000
"""Characters of arguments in one record, as JSON."""
CLOSE_SECONDS: Final = 5.0
_UNREAD: Final = ("unknown_tool", "not_offered", "invalid_arguments", "cut_off", "skipped", "not_executed")
"""Kinds of results of calls whose arguments may never have been read: no arguments are known of them."""


def _as_path(value: Any) -> Any:
    """An absolute path: where the program goes later makes no difference."""
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) and str(value) else value


def _check_file(_journal: Any, _attribute: Any, value: Any) -> None:
    if not isinstance(value, Path):
        raise TypeError(f"file must be the path of a file, got {value!r:.100}")


@define(eq=False)
class Journal:
    """Appends a record of each call to a file: who called what when, and how it went.

    Nothing is opened before the first call. A journal that can't be written disturbs no call: the operator is told
    once, and what is missing is counted in the journal itself as soon as it can be written again.

    Attributes:
        file: The file. Several processes may write it. `~` is the home folder; a relative path starts from where the
            program is when this object is made.
        fsync: `"each"`: a record is on the disk before the call's result is given back; `"never"`: it is written soon
            after, and what the system hasn't put on the disk is lost when the machine stops.
        starts: Whether a record is written before the tool runs as well, so that a call that never ended is known.
        arguments: Whether the arguments are in it, without secrets and cut at 2,000 characters; their digest always
            is.
        redact: Further patterns of keys whose values are secrets, such as `*ssn*`.
        redact_values: Further regular expressions; what they match in a text is taken out.
        rotate_bytes: From which size on the file is put aside as `FILE.1`, `FILE.2`, ...; 0: never.
        keep: How many files that were put aside are kept; 0: all.
        wait_seconds: How long a call waits for its record at most; then it goes on, and the operator is told.
        now: Seconds since 1970.
    """

    file: Path = field(converter=_as_path, validator=_check_file)
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
    _target: JournalFile = field(init=False)
    _is_slow: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._key = f"pegboard_guard.journal.{id(self)}"
        self._redactor = Redactor(self.redact, self.redact_values)
        self._target = JournalFile(self.file, self.fsync == "each", self.rotate_bytes, self.keep, self.now)
        self._writer = Writer(self._target.append, str(self.file))

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Starts the clock; writes down that the call is about to run, where that is asked for."""
        context.values[self._key] = time.monotonic()
        if self.starts:
            await self._put({"kind": "start", **self._facts(context, tool.name, arguments)})

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Writes down how the call went."""
        started = context.values.pop(self._key, None)
        facts = {"kind": "call", **self._facts(context, context.tool, arguments)}
        if not arguments and result.kind in _UNREAD:
            facts["digest"] = None
        facts["outcome"] = (result.kind or "error") if result.is_error else "ok"
        if started is not None:
            facts["seconds"] = round(time.monotonic() - started, 6)
        approved_by = result.metadata.get("approved_by", context.values.get("approved_by"))
        if approved_by is not None:
            facts["approved_by"] = self._redactor.text(str(approved_by))
        await self._put(facts)

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Waits until everything is written, and closes the file; a later call opens it again.

        Returns:
            Whether everything is written.
        """
        is_written = self._writer.flush(seconds)
        if is_written:
            self._target.close()
        return is_written

    def _facts(self, context: ToolContext, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        request = context.request
        said = {
            "tool": tool,
            "call": context.call_id or None,
            "session": request.session,
            "turn": request.invocation,
            "user": request.user,
            "agent": request.agent,
        }
        facts: dict[str, Any] = {
            key: self._redactor.text(str(value)) for key, value in said.items() if value is not None
        }
        facts["digest"] = arguments_digest(arguments)
        if self.arguments:
            facts["arguments"] = self._shown(arguments)
        return facts

    def _shown(self, arguments: Mapping[str, Any]) -> Any:
        """The arguments without secrets: as JSON data, or, where that is long, as the beginning of its text."""
        data, is_cut = self._redactor.data(arguments, MOST_ARGUMENTS)
        return json.dumps(data)[:MOST_ARGUMENTS] if is_cut else data

    async def _put(self, facts: Facts) -> None:
        if self.fsync == "never":
            self._writer.put(facts)
            return
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()  # cancelled by nobody: `wait` leaves it as it is

        def done() -> None:
            self._is_slow = False
            try:
                loop.call_soon_threadsafe(written.set_result, None)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        if self._writer.put(facts, done) and not self._is_slow:
            await asyncio.wait([written], timeout=self.wait_seconds)
            if not written.done():
                self._is_slow = True
                warn(f"the journal {self.file} takes longer than {self.wait_seconds:g} s: calls no longer wait for it")
