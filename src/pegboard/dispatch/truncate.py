"""Truncation of long results, the store of their full texts, and the tool that reads these."""

from __future__ import annotations

import io
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, BinaryIO, Final, Protocol

import attrs
from attrs import field

from pegboard.errors import ToolError, log_failure
from pegboard.files import write_private
from pegboard.json import count_text, size_text
from pegboard.tools.content import Content, FileContent, LinkContent, TextContent, ToolResult, text_of_file
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.limits import BYTES_A_TOKEN, DEFAULT_RESULT_LIMITS, ResultLimits
from pegboard.tools.tool import Tool
from pegboard.typing import define, frozen

MOST_ITEMS: Final = 1_000  # content items in one result
READER: Final = "read_result"  # the usual name of the tool that reads stored results
_AT_ONCE: Final = 200_000  # characters that may be processed on the event loop
_MOST_TRIES: Final = 8
_MOST_BYTES_A_TOKEN: Final = 64


def reader_of(context: ReadonlyContext | ToolContext) -> str | None:
    """Key of the readers of a call's stored result: its session, and its user if there is one."""
    return context.session if context.user is None else repr((context.user, context.session))


def is_within(result: ToolResult, limits: ResultLimits) -> bool:
    """Cheap check whether a result surely needs no truncation."""
    if "truncated" in result.metadata:
        return True
    content, moved = _divide(result.content, limits)
    texts = [text for _, text in content if text is not None]
    length = sum(map(len, texts)) + len(texts)
    if moved or length <= limits.small:
        return not moved
    return length <= _AT_ONCE and limits.count_tokens is None and cut("\n".join(texts), limits) is None


def truncate(
    result: ToolResult,
    limits: ResultLimits,
    store: ResultStore | None = None,
    session: str | None = None,
    reader: str | None = None,
) -> ToolResult:
    """Truncates a result, unless its `metadata` has `truncated`. Blocks, as it writes the full text into a file.

    All texts are joined and truncated as one, in place of the first. Pictures, sounds and files beyond their limit
    become attachments, and so do truncated text files that have bytes. Structured content stays: it is for the host,
    the text is for the model.

    `session` is the key of those who may read the stored text, from `reader_of`; `reader` the name of the tool by which
    the model can.
    """
    if "truncated" in result.metadata:
        return result
    parts, moved = _divide(result.content, limits)
    whole = "\n".join(text for _, text in parts if text is not None)
    done = cut(whole, limits) if whole else None
    if done is None and not moved:
        return result
    content, attachments = [item for item, _ in parts], [*result.attachments, *moved]
    facts: dict[str, object] = {"truncated": True}
    if done is not None:
        stored = None if store is None else store.keep(whole, session=session)
        first = next(place for place, (_, text) in enumerate(parts) if text is not None)
        content[first:] = [item for item, text in parts[first:] if text is None]
        content.insert(first, TextContent(_text_with_note(done, stored, reader)))
        files = [item for item, text in parts if text is not None and isinstance(item, FileContent)]
        attachments += [file for file in files if not isinstance(file.data, str)]
        facts |= {"lines": done.whole.lines, "bytes": done.whole.bytes}
        if stored is not None:
            facts["kept"] = stored.id
            if stored.path is not None:
                facts["file"] = stored.path
    if moved:
        count = f"{count_text(len(moved), 'file')} ({size_text(sum(map(_weight, moved)))})"
        most = "" if limits.media_bytes is None else f" of at most {size_text(limits.media_bytes)}"
        content.append(TextContent(f"[Not shown: {count}. A result can contain {MOST_ITEMS} items{most}.]"))
    return attrs.evolve(result, content=content, metadata={**result.metadata, **facts}, attachments=attachments)


def cut_short(text: str, limits: ResultLimits) -> str:
    """Truncates an error's text, without storing the rest. Fast for texts of any length."""
    if len(text) <= limits.small:
        return text
    most = limits.bytes or _AT_ONCE
    done = cut(TextContent(text[: most + 1]).text, attrs.evolve(limits, keep="head", count_tokens=None))
    return text if done is None else f"{done.head}{_line_end(done.head)}[The rest is omitted.]"


def _text_of(item: Content) -> str | None:
    if isinstance(item, TextContent):
        return item.text
    if not isinstance(item, FileContent) or (text := text_of_file(item)) is None:
        return None
    return f"{item.uri}:\n{text}"


def _weight(item: Content) -> int:
    """The size in bytes of content other than text."""
    if isinstance(item, LinkContent):
        return len(item.uri) + len(item.name)
    return 0 if isinstance(item, TextContent) else len(item.data)


def _divide(content: Iterable[Content], limits: ResultLimits) -> tuple[list[tuple[Content, str | None]], list[Content]]:
    """Divides content into what is within the limits, with its text if it counts as text, and the rest."""
    most = math.inf if limits.media_bytes is None else limits.media_bytes
    stays: list[tuple[Content, str | None]] = []
    moved: list[Content] = []
    for item in content:
        text = _text_of(item)
        weight = 0 if text is not None else _weight(item)
        if text is not None or (weight <= most and len(stays) < MOST_ITEMS):
            most -= weight
            stays.append((item, text))
        else:
            moved.append(item)
    return stays, moved


def _text_with_note(done: Cut, stored: StoredResult | None, reader: str | None) -> str:
    """The truncated text, with a note on what was omitted and how to read it."""
    head = f"{done.head}{_line_end(done.head)}" if done.head else ""
    tail = f"\n{done.tail}" if done.tail else ""
    return f"{head}[{_left_out(done)} {_how_to_read(done.gap, stored, reader)}]{tail}"


def _left_out(done: Cut) -> str:
    shown, whole = done.shown, done.whole
    sizes = f"{size_text(shown.bytes)} of {size_text(whole.bytes)}"
    is_inside = done.gap.byte or done.end.byte  # of a line
    if done.head and done.tail:
        lines = f"Lines {done.gap.line} to {done.end.line - 1} of {whole.lines} are"
        gone = f"A part of {count_text(whole.lines, 'line')} is" if is_inside else lines
        return f"{gone} omitted here; {sizes} are shown."
    part, edge = ("beginning", "first") if done.head else ("end", "last")
    if is_inside or not shown.lines:
        return f"Only the {part} is shown: {sizes}, {count_text(whole.lines, 'line')} in total."
    lines = f"of {whole.lines} lines is" if shown.lines == 1 else f"{shown.lines} of {whole.lines} lines are"
    return f"Only the {edge} {lines} shown ({sizes})."


def _how_to_read(gap: TextPosition, stored: StoredResult | None, reader: str | None) -> str:
    if stored is None:
        return "The rest is not stored. Request less at once."
    if reader is None and stored.path is None:
        return f"The full text is stored as {stored.id}, but no tool can read it. Request less at once."
    if reader is None:
        place = f"line {gap.line}, byte {gap.byte}" if gap.byte else f"line {gap.line}"
        return f"The full text is in {stored.path}; the omitted part begins at {place}."
    byte = f", byte={gap.byte}" if gap.byte else ""
    return f'Read the rest with {reader}(id="{stored.id}", line={gap.line}{byte}).'


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


@frozen
class TextPosition:
    """Position in a text: a line, from 1, and a byte in it, from 0."""

    line: int
    byte: int = 0


@frozen
class Size:
    """Size of a text: its lines (a final line end starts no further one), and its bytes in UTF-8."""

    lines: int
    bytes: int


@frozen
class Cut:
    """Truncated text: a head and a tail, with a gap between."""

    head: str  # the beginning of the text, or `""`
    tail: str  # the end of the text, or `""`
    whole: Size  # the size of the whole text
    gap: TextPosition  # start of the gap
    end: TextPosition  # end of the gap

    @property
    def shown(self) -> Size:
        """The size of head and tail."""
        head, tail = size_of(self.head), size_of(self.tail)
        return Size(head.lines + tail.lines, head.bytes + tail.bytes)


def size_of(text: str) -> Size:
    """The size of a text."""
    return Size(text.count("\n") + (text[-1:] not in ("", "\n")), len(text) if text.isascii() else len(text.encode()))


def cut(text: str, limits: ResultLimits) -> Cut | None:
    """Truncates a text without lone surrogates; `None` if it is within the limits.

    Only a line that alone exceeds the limit is cut inside.
    """
    whole, most = size_of(text), _most_bytes(limits)
    is_long = (limits.lines is not None and whole.lines > limits.lines) or (most is not None and whole.bytes > most)
    if not is_long and _excess(text, limits) <= 1:
        return None
    for _ in range(_MOST_TRIES):
        done = _cut(text, whole, limits, most)
        excess = _excess(done.head + done.tail, limits)
        if excess <= 1:
            return done
        most = max(1, int(done.shown.bytes / excess * 0.95))
    return _cut(text, whole, limits, limits.tokens)


def _most_bytes(limits: ResultLimits) -> int | None:
    """The limit in bytes, by the limits in bytes and tokens; if tokens are counted, only an upper bound."""
    if limits.tokens is None:
        return limits.bytes
    by_tokens = limits.tokens * (BYTES_A_TOKEN if limits.count_tokens is None else _MOST_BYTES_A_TOKEN)
    return by_tokens if limits.bytes is None else min(limits.bytes, by_tokens)


def _excess(text: str, limits: ResultLimits) -> float:
    """The tokens that the host counts, or an estimate if it fails, by their limit; 0 if it doesn't count."""
    if limits.tokens is None or limits.count_tokens is None:
        return 0.0
    try:
        tokens = max(0, int(limits.count_tokens(text)))
    except Exception:  # noqa: BLE001  the host's counter
        tokens = size_of(text).bytes / BYTES_A_TOKEN
    return tokens / limits.tokens


def _cut(text: str, whole: Size, limits: ResultLimits, most: int | None) -> Cut:
    data = text.encode()
    ahead = behind = [limits.lines, most]
    if limits.keep == "middle":
        ahead, behind = ([None if each is None else (each + more) // 2 for each in ahead] for more in (1, 0))
    head = b"" if limits.keep == "tail" else data[: _bytes_of(io.BytesIO(data), *ahead)]
    tail = b"" if limits.keep == "head" else data[len(data) - _bytes_of(_from_last(data), *behind) :]
    start, end = head.decode(errors="ignore"), tail.decode(errors="ignore")
    gap, rest = _place(data, whole, len(start.encode())), _place(data, whole, len(data) - len(end.encode()))
    return Cut(start, end, whole, gap, rest)


def _from_last(data: bytes) -> Iterator[bytes]:
    """The lines from the last to the first; lazily, as there may be millions."""
    end = len(data)
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        yield data[start:end]
        end = start


def _bytes_of(lines: Iterable[bytes], count: int | None, most: int | None) -> int:
    """The bytes of these lines within the limits: of whole lines, or of part of the first if it is too long."""
    size = 0
    for line in islice(lines, count):
        if most is not None and size + len(line) > most:
            return most if len(line) > most else size
        size += len(line)
    return size


def _place(data: bytes, whole: Size, position: int) -> TextPosition:
    """The line and byte of an offset."""
    if position and position == len(data):
        return TextPosition(whole.lines + 1)
    start = data.rfind(b"\n", 0, position) + 1
    return TextPosition(data.count(b"\n", 0, start) + 1, position - start)


@frozen
class StoredResult:
    """Stored text of a result."""

    id: str
    path: str | None  # its file; `None` if it is in `ResultTexts`
    size: Size
    session: str | None  # key of its readers


class ResultTexts(Protocol):
    """Persistent store for full texts of results; from `registry.provide` or a plugin.

    Called in several threads; may block, and raise anything: a text that it can't store goes into a file.
    """

    def keep(self, key: str, text: str, *, session: str | None) -> None:
        """Stores a text under a unique key."""

    def load(self, key: str, *, session: str | None) -> str | None:
        """The text, if it was stored for this session and still exists; else `None`."""
        ...


@frozen
class _Page:
    """Page of a stored text, the start of the next page, if there is one, and the size of the whole text."""

    text: str
    next: TextPosition | None
    whole: Size


@define(eq=False)
class ResultStore:
    """Store for the full texts of truncated results, in files that only this user can read. Thread-safe.

    If `ResultTexts` are provided, texts are stored there instead, for other processes, too. The folder is created with
    the first text, and removed by `close`, with this object, or at exit; a killed program leaves it to the system's
    cleaning of temporary files.
    """

    most: int = 200  # maximum number of texts; the oldest are removed
    most_bytes: int = 512 << 20  # maximum size of all texts together; a longer text isn't stored
    parent: str | None = None  # the parent of the folder; by default the system's temporary folder
    reader: str | None = None  # the name of the tool by which the model reads, or `None`; set by `read_result_tool`
    # returns the provided `ResultTexts`, or `None`
    texts: Callable[[], ResultTexts | None] = field(default=lambda: None, kw_only=True)
    _kept: dict[str, StoredResult] = field(factory=dict[str, StoredResult], init=False)
    _folder: str | None = field(default=None, init=False)
    _remove: Callable[[], Any] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, text: str, *, session: str | None = None) -> StoredResult | None:
        """Stores a text without lone surrogates. Blocks while it is written; never raises.

        `None` if it is too long or can't be written. `session` is the key of its readers.
        """
        import secrets

        size, name = size_of(text), secrets.token_hex(8)
        if size.bytes > self.most_bytes or self.most < 1:
            return None
        try:
            if (texts := self.texts()) is not None:
                texts.keep(name, text, session=session)
                return StoredResult(name, None, size, session)
        except Exception as error:  # noqa: BLE001  a plugin's store; use a file
            log_failure("storing a result", error)
        try:
            path = f"{self._make_folder()}{os.sep}{name}.txt"
            write_private(path, text.encode())
        except OSError as error:
            log_failure("storing a result", error)
            return None
        with self._lock:
            kept = self._kept[name] = StoredResult(name, path, size, session)
            total = sum(each.size.bytes for each in self._kept.values())
            while len(self._kept) > self.most or total > self.most_bytes:
                oldest = self._kept.pop(next(iter(self._kept)))
                total -= oldest.size.bytes
                with suppress(OSError):  # it is gone, or is removed with its folder
                    os.unlink(oldest.path or "")  # noqa: PTH108  a string
        return kept

    def read(
        self, key: str, *, line: int = 1, byte: int = 0, session: str | None = None, limits: ResultLimits | None = None
    ) -> _Page:
        """Reads a page of a text, in whole lines unless one is too long. Blocks.

        It starts at a line, from 1, and a byte in it, from 0; inside a character, at the next one. `session` has to be
        that of the stored text. The limits of the page are `ResultLimits()` by default; it is always the head. Raises
        `LookupError` where this session has no such text, or the text no such position.
        """
        kept, whole, file = self._kept.get(key), Size(0, 0), None
        try:
            if kept is None:
                texts = self.texts()
                if texts is not None and (text := texts.load(key, session=session)) is not None:
                    whole, file = size_of(text), io.BytesIO(text.encode())
            elif kept.session == session:
                whole, file = kept.size, open(kept.path or "", "rb")  # noqa: PTH123, SIM115  half the price of a Path
        except Exception as error:
            log_failure("reading a result", error)
            raise LookupError(f"the result {key[:40]!r} can't be read now ({type(error).__name__})") from error
        if file is None:
            raise LookupError(f"there is no stored result {key[:40]!r}")
        with file:
            return _page(file, whole, TextPosition(line, byte), ResultLimits() if limits is None else limits)

    def close(self) -> None:
        """Removes all texts; a text that is stored later creates a new folder."""
        with self._lock:
            self._kept.clear()
            remove, self._remove, self._folder = self._remove, None, None
        if remove is not None:
            remove()

    def _make_folder(self) -> str:
        with self._lock:
            if self._folder is None:
                import tempfile

                self._folder = folder = tempfile.mkdtemp(prefix="pegboard-", dir=self.parent)
                self._remove = weakref.finalize(self, _remove_folder, folder, os.getpid())
            return self._folder


def _remove_folder(folder: str, owner: int) -> None:
    """Removes the folder, except in a forked child process, which shares its parent's."""
    import shutil

    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _page(file: BinaryIO, whole: Size, start: TextPosition, limits: ResultLimits) -> _Page:
    if not 1 <= start.line <= max(whole.lines, 1) or start.byte < 0:
        raise LookupError(
            f"there are lines 1 to {whole.lines}, and bytes from 0; got line {start.line}, byte {start.byte}"
        )
    for _ in range(start.line - 1):
        file.readline()
    skipped = file.read(start.byte)
    if len(skipped) < start.byte or b"\n" in skipped:
        raise LookupError(f"line {start.line} has fewer than {start.byte} bytes")
    most = max(limits.bytes or 1 << 20, 4)  # so that each page has at least one character
    data = file.read(2 * most + 8)  # twice as much, to see whether the cut line alone is too long
    first = next((place for place, each in enumerate(data[:4]) if each & 0xC0 != 0x80), 0)
    text = data[first:].decode(errors="ignore")
    done = cut(text, attrs.evolve(limits, bytes=most, keep="head", media_bytes=None))
    if done is None:
        return _Page(text, None, whole)
    byte = done.gap.byte if done.gap.line > 1 else start.byte + first + done.gap.byte
    return _Page(done.head, TextPosition(start.line + done.gap.line - 1, byte), whole)


def read_result_tool(
    results: ResultStore | Callable[[ToolContext], ResultStore],
    *,
    name: str = READER,
    limits: ResultLimits = DEFAULT_RESULT_LIMITS,
) -> Tool:
    """A tool that reads the omitted rest of results; truncated results name it from now on.

    Each session can read its own results only.

    Args:
        results: The store, or a function that returns it for a call.
        name: The tool's name.
        limits: Limits of one page.
    """

    def read_result(
        context: ToolContext,
        id: str,  # noqa: A002  the word that the model reads
        line: Annotated[int, {"minimum": 1}] = 1,
        byte: Annotated[int, {"minimum": 0}] = 0,
        lines: Annotated[int, {"minimum": 1}] = 2_000,
    ) -> ToolResult:
        """Read more of an earlier result that was truncated.

        Returns the text from that position, then a [note] that tells how to continue, or that it is the end.

        Args:
            context: Whose results.
            id: The id of the result, from the note in the truncated result.
            line: First line to read, from 1.
            byte: First byte to read in that line, from 0. Only needed in the middle of a very long line.
            lines: Maximum number of lines to read.
        """
        page_limits = attrs.evolve(limits, lines=lines if limits.lines is None else min(lines, limits.lines))
        store = results if isinstance(results, ResultStore) else results(context)
        try:
            page = store.read(id, line=line, byte=byte, session=reader_of(context), limits=page_limits)
        except LookupError as error:
            hint = "Use the id, line and byte of a note, or call the original tool again and request less at once."
            raise ToolError(f"Nothing was read: {error}.", hint=hint) from None
        rest = "End of the result."
        if page.next is not None:
            asked = f'id="{id}", line={page.next.line}' + (f", byte={page.next.byte}" if page.next.byte else "")
            rest = f"The result has {page.whole.lines} lines. Read more with {name}({asked})."
        text = f"{page.text}{_line_end(page.text)}[{rest}]"
        return ToolResult(TextContent(text), metadata={"truncated": page.next is not None})

    if isinstance(results, ResultStore):
        results.reader = name
    options: Any = {"read_only": True, "idempotent": True, "tags": ("needs-turn",)}
    return Tool.from_function(read_result, name=name, title="Read on", **options)
