"""Whole texts of results that were cut, in a private folder, and the tool by which a model reads on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Annotated, Any, BinaryIO, Final

from attrs import define, field, frozen

from pegboard.dispatch.truncate import Size, TextPosition, cut, size_of
from pegboard.errors import ToolError, log_failure
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.spec import DEFAULT_RESULT_LIMITS, ResultLimits
from pegboard.tools.tool import Tool

MOST_KEPT: Final = 200
MOST_BYTES: Final = 536_870_912
_STEP: Final = 1 << 20
_NAME_BYTES: Final = 8
_LONGEST_CHARACTER: Final = 4


@frozen
class StoredResult:
    """One text that is kept.

    Attributes:
        id: By which it is read.
        path: Its file.
        size: How long it is.
        session: Who may read it.
    """

    id: str
    path: str
    size: Size
    session: str | None


@frozen
class _Page:
    """A part of a text that is kept.

    Attributes:
        text: The part.
        start: Where it begins.
        next: Where the rest begins, or `None` at the end.
        whole: The size of the whole text.
    """

    text: str
    start: TextPosition
    next: TextPosition | None
    whole: Size


@define(eq=False)
class ResultStore:
    """Keeps the full texts of results that were cut, each in a file that only this user may read.

    The folder is made when the first text is kept, and removed by `close`, with this object, or at the end of the
    program; a program that is killed leaves it to the system's own cleaning of its temporary folder. Any thread may
    use it.

    Attributes:
        most: How many texts are kept; the oldest goes first.
        most_bytes: How many bytes they may have in all; a longer text isn't kept at all.
        parent: The folder to make the folder in; the system's temporary folder by default.
        reader: The name of the tool by which the model reads on, or `None`; set by `kept_result_tool`.
        observe: Gets what only the operator should see, such as a disk that is full.
    """

    most: int = MOST_KEPT
    most_bytes: int = MOST_BYTES
    parent: str | None = None
    reader: str | None = None
    observe: Callable[[str, BaseException], None] = log_failure
    _kept: dict[str, StoredResult] = field(factory=dict[str, StoredResult], init=False)
    _folder: str | None = field(default=None, init=False)
    _remove: Callable[[], Any] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, text: str, *, session: str | None = None) -> StoredResult | None:
        """Keeps a text. Blocks while it is written; never raises.

        Args:
            text: Without lone surrogates.
            session: Who may read it.

        Returns:
            What it is found by; `None` where it is too long, or can't be written.
        """
        size = size_of(text)
        if size.bytes > self.most_bytes or self.most < 1:
            return None
        try:
            kept = self._write(text, size, session)
        except OSError as error:
            self.observe("keeping a result", error)
            return None
        self._add(kept)
        return kept

    def read(
        self, key: str, *, line: int = 1, byte: int = 0, session: str | None = None, limits: ResultLimits | None = None
    ) -> _Page:
        """A part of a text, whole lines where they aren't too long by themselves. Blocks while it is read.

        Args:
            key: The id that `keep` gave it.
            line: The first line, from 1.
            byte: Where in that line to begin, from 0; inside a character, the next one is the first.
            session: Who reads; only what was kept for the same session can be read.
            limits: How much to read; as `ResultLimits()` has it by default. Always the head.

        Raises:
            LookupError: Nothing of this id is kept for this session, or nothing stands at this place.
        """
        kept = self._kept.get(key)
        if kept is None or kept.session != session:
            raise LookupError(f"no result {key[:40]!r} is kept")
        limits = ResultLimits() if limits is None else limits
        try:
            with open(kept.path, "rb") as file:  # noqa: PTH123  half the price of a Path
                return _page(file, kept.size, TextPosition(line, byte), limits)
        except OSError as error:
            raise LookupError(f"the result {key!r} can't be read any more ({type(error).__name__})") from error

    def close(self) -> None:
        """Removes everything; what is kept later makes a new folder."""
        with self._lock:
            self._kept.clear()
            remove, self._remove, self._folder = self._remove, None, None
        if remove is not None:
            remove()

    # How it does it ----------------------------------------------------------------------------------------------

    def _write(self, text: str, size: Size, session: str | None) -> StoredResult:
        import secrets

        name = secrets.token_hex(_NAME_BYTES)
        try:
            path = self._write_file(name, text)
        except FileNotFoundError:  # the temporary folder was cleaned
            with self._lock:
                self._folder = None
            path = self._write_file(name, text)
        return StoredResult(name, path, size, session)

    def _write_file(self, name: str, text: str) -> str:
        path = f"{self._made_folder()}{os.sep}{name}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
        except OSError:
            _remove_file(path)  # half a text is none
            raise
        return path

    def _made_folder(self) -> str:
        with self._lock:
            if self._folder is None:
                import tempfile
                import weakref

                self._folder = folder = tempfile.mkdtemp(prefix="pegboard-", dir=self.parent)
                self._remove = weakref.finalize(self, _remove_folder, folder, os.getpid())
            return self._folder

    def _add(self, kept: StoredResult) -> None:
        with self._lock:
            self._kept[kept.id] = kept
            gone: list[StoredResult] = []
            total = sum(each.size.bytes for each in self._kept.values())
            while len(self._kept) > self.most or total > self.most_bytes:
                oldest = self._kept.pop(next(iter(self._kept)))
                total -= oldest.size.bytes
                gone.append(oldest)
        for each in gone:
            _remove_file(each.path)


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108  it is text
    except OSError:
        return  # it is gone already, or goes with its folder


def _remove_folder(folder: str, owner: int) -> None:
    """A child process that was forked has its parent's folder, not one of its own."""
    import shutil

    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _page(file: BinaryIO, whole: Size, start: TextPosition, limits: ResultLimits) -> _Page:
    if not 1 <= start.line <= max(whole.lines, 1) or start.byte < 0:
        raise LookupError(f"there are lines 1 to {whole.lines}, and bytes from 0; nothing stands at line {start.line}")
    _skip_lines(file, start.line - 1)
    _skip_bytes(file, start)
    most = max(limits.bytes or _STEP, _LONGEST_CHARACTER)  # so that each page has something
    limits = ResultLimits(limits.lines, most, limits.tokens, "head", limits.count_tokens)
    data = file.read(2 * most + 8)  # as much again shows whether the line that is cut is too long by itself
    first = next((place for place, each in enumerate(data[:4]) if each & 0xC0 != 0x80), 0)
    text = data[first:].decode(errors="ignore")
    start = TextPosition(start.line, start.byte + first)
    done = cut(text, limits)
    if done is None:
        return _Page(text, start, None, whole)
    gap = done.gap
    behind = (
        TextPosition(start.line, start.byte + gap.byte)
        if gap.line == 1
        else TextPosition(start.line + gap.line - 1, gap.byte)
    )
    return _Page(done.head, start, behind, whole)


def _skip_lines(file: BinaryIO, lines: int) -> None:
    """Stands behind the end of so many lines."""
    while lines and (block := file.read(_STEP)):
        found = block.count(b"\n")
        if found >= lines:
            end = 0
            for _ in range(lines):
                end = block.index(b"\n", end) + 1
            file.seek(end - len(block), os.SEEK_CUR)
            return
        lines -= found


def _skip_bytes(file: BinaryIO, start: TextPosition) -> None:
    """Stands so many bytes further in the same line."""
    left = start.byte
    while left:
        block = file.read(min(left, _STEP))
        if not block or b"\n" in block:
            raise LookupError(f"line {start.line} has fewer than {start.byte} bytes")
        left -= len(block)


_MOST_LINES: Final = 2_000


def kept_result_tool(
    kept: ResultStore, *, name: str = "read_result", limits: ResultLimits = DEFAULT_RESULT_LIMITS
) -> Tool:
    """A tool that reads what was left out of a result; from now on, truncated results name it.

    Each session reads its own results only.

    Args:
        kept: What it reads in.
        name: The tool's name.
        limits: How much one call reads at most.
    """

    def read_result(
        context: ToolContext,
        id: str,  # noqa: A002  the word that the model reads
        line: Annotated[int, {"minimum": 1}] = 1,
        byte: Annotated[int, {"minimum": 0}] = 0,
        lines: Annotated[int, {"minimum": 1}] = _MOST_LINES,
    ) -> ToolResult:
        """Reads on in an earlier tool result of which a part was left out.

        Args:
            context: Whose results.
            id: The id that the earlier result names.
            line: The first line to read, from 1.
            byte: Where in that line to begin; only for lines that are too long to be read at once.
            lines: How many lines to read at most.
        """
        most = lines if limits.lines is None else min(lines, limits.lines)
        page_limits = ResultLimits(most, limits.bytes, limits.tokens, "head", limits.count_tokens)
        try:
            page = kept.read(id, line=line, byte=byte, session=context.session, limits=page_limits)
        except LookupError as error:
            raise ToolError(
                f"{error}.", hint="Call the tool that gave the result again, and ask it for less."
            ) from None
        return ToolResult(TextContent(_told(page, id, name)), metadata={"truncated": page.next is not None})

    kept.reader = name
    return Tool.from_function(read_result, name=name, title="Read on", read_only=True, idempotent=True)


def _told(page: _Page, key: str, reader: str) -> str:
    """The part, and how to read on."""
    if page.next is None:
        return f"{page.text}{_line_end(page.text)}[The end.]"
    asked = f'id="{key}", line={page.next.line}' + (f", byte={page.next.byte}" if page.next.byte else "")
    return f"{page.text}{_line_end(page.text)}[There are {page.whole.lines} lines. Read on with {reader}({asked}).]"


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


__all__ = ["ResultStore", "StoredResult", "kept_result_tool"]
