"""Truncation of long results: the part that the model gets, and the words that say how to read on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Protocol

import attrs
from attrs import frozen

from pegboard.schema.json import counted
from pegboard.tools.content import Content, FileContent, LinkContent, TextContent, ToolResult
from pegboard.tools.spec import BYTES_A_TOKEN, ResultLimits

MOST_ITEMS: Final = 1_000
"""Pieces of content in one result."""

_AT_ONCE: Final = 200_000
"""Characters that may be looked at on the event loop."""

_MOST_TRIES: Final = 8
_MOST_BYTES_A_TOKEN: Final = 64


class StoredText(Protocol):
    """A text that a store has taken.

    Attributes:
        id: By which it is read.
        path: Its file.
    """

    @property
    def id(self) -> str: ...  # noqa: D102

    @property
    def path(self) -> str: ...  # noqa: D102


class TextStore(Protocol):
    """Where full texts go.

    Attributes:
        reader: The name of the tool by which the model reads on, or `None`.
    """

    reader: str | None

    def keep(self, text: str, *, session: str | None = None) -> StoredText | None:
        """Keeps a text; `None` where it can't."""
        ...


@frozen
class Keeper:
    """Where the full text of a result goes.

    Attributes:
        kept: Keeps it; `None` keeps none.
        session: Who may read it.
        reader: The name of the tool that reads it, where the model has one.
    """

    kept: TextStore | None = None
    session: str | None = None
    reader: str | None = None


def is_within(result: ToolResult, limits: ResultLimits) -> bool:
    """Whether a result surely stays as it is; a look that is cheap and bounded."""
    content = result.content
    if len(content) == 1 and type(content[0]) is TextContent and len(content[0].text) <= limits.small:
        return True
    return "truncated" in result.metadata or _does_content_fit(content, limits)


def _does_content_fit(content: tuple[Content, ...], limits: ResultLimits) -> bool:
    if len(content) > MOST_ITEMS:
        return False
    texts = [text for item in content if (text := _text_of(item)) is not None]
    if not _do_texts_fit(texts, limits):
        return False
    return limits.media_bytes is None or sum(map(_weight, content)) <= limits.media_bytes


def _do_texts_fit(texts: list[str], limits: ResultLimits) -> bool:
    length = sum(map(len, texts)) + len(texts)
    if length <= limits.small:
        return True
    if length > _AT_ONCE or limits.count_tokens is not None:
        return False
    return cut(_joined(texts), limits) is None


def truncated(result: ToolResult, limits: ResultLimits, keeper: Keeper) -> ToolResult:
    """What stays of a result. Blocks, as it writes the full text into a file.

    All texts are cut as one text, which then stands where the first of them stood. Pictures, sounds and files beyond
    their limit become attachments. Structured content stays as it is: it is for the host, the text is for the model.

    Args:
        result: Left as it is where its `metadata` has `truncated`.
        limits: What may stay.
        keeper: Where the full text goes.
    """
    if "truncated" in result.metadata:
        return result
    content, moved = _sorted_out(result.content, limits)
    texts = [text for item in content if (text := _text_of(item)) is not None]
    whole = _joined(texts)
    done = cut(whole, limits)
    if done is None and not moved:
        return result
    facts: dict[str, object] = {"truncated": True}
    if done is not None:
        where = None if keeper.kept is None else keeper.kept.keep(whole, session=keeper.session)
        content = _with_text(content, _told(done, where, keeper.reader))
        facts |= {"lines": done.whole.lines, "bytes": done.whole.bytes}
        if where is not None:
            facts |= {"kept": where.id, "file": where.path}
    return attrs.evolve(
        result,
        content=(*content, *_apology(moved, limits)),
        metadata={**result.metadata, **facts},
        attachments=(*result.attachments, *moved),
    )


def cut_short(text: str, limits: ResultLimits) -> str:
    """An error's text within the limits; the rest is not kept. Quick for texts of any length."""
    if len(text) <= limits.small:
        return text
    most = limits.bytes or _AT_ONCE
    done = cut(TextContent(text[: most + 1]).text, attrs.evolve(limits, keep="head", count_tokens=None))
    return text if done is None else f"{done.head}{_line_end(done.head)}[The rest is left out.]"


@frozen
class TextPosition:
    """A place in a text.

    Attributes:
        line: From 1.
        byte: In that line, from 0.
    """

    line: int
    byte: int = 0


@frozen
class Size:
    """How long a text is.

    Attributes:
        lines: A line end at the very end begins no further line.
        bytes: In UTF-8.
    """

    lines: int
    bytes: int


@frozen
class Cut:
    """What stays of a text; between its two parts something is left out.

    Attributes:
        head: What stays of the beginning, or `""`.
        tail: What stays of the end, or `""`.
        whole: The size of the whole text.
        gap: Where what is left out begins.
        end: Where what is left out ends.
    """

    head: str
    tail: str
    whole: Size
    gap: TextPosition
    end: TextPosition

    @property
    def shown(self) -> Size:
        """The size of what stays."""
        head, tail = size_of(self.head), size_of(self.tail)
        return Size(head.lines + tail.lines, head.bytes + tail.bytes)


def size_of(text: str) -> Size:
    """How many lines and bytes a text has."""
    return Size(text.count("\n") + (text[-1:] not in ("", "\n")), len(text) if text.isascii() else len(text.encode()))


def cut(text: str, limits: ResultLimits) -> Cut | None:
    """What stays of a text, or `None` where all of it does.

    A line that is longer than the limit by itself is cut inside; any other stays whole or goes.

    Args:
        text: Without lone surrogates.
        limits: What may stay.
    """
    whole = size_of(text)
    if _fits(text, whole, limits):
        return None
    most = _most_bytes(limits)
    done = _cut(text, whole, limits, most)
    if limits.tokens is None or limits.count_tokens is None:
        return done
    for _ in range(_MOST_TRIES):
        excess = _tokens(done.head + done.tail, limits) / limits.tokens
        if excess <= 1:
            return done
        most = max(1, int(done.shown.bytes / excess * 0.95))
        done = _cut(text, whole, limits, most)
    return _cut(text, whole, limits, limits.tokens)


def _fits(text: str, whole: Size, limits: ResultLimits) -> bool:
    most = _most_bytes(limits)
    if (limits.lines is not None and whole.lines > limits.lines) or (most is not None and whole.bytes > most):
        return False
    return limits.tokens is None or limits.count_tokens is None or _tokens(text, limits) <= limits.tokens


def _most_bytes(limits: ResultLimits) -> int | None:
    """How many bytes may stay by the limit in bytes and, without a counter, by the one in tokens."""
    if limits.tokens is None:
        return limits.bytes
    by_tokens = limits.tokens * (BYTES_A_TOKEN if limits.count_tokens is None else _MOST_BYTES_A_TOKEN)
    return by_tokens if limits.bytes is None else min(limits.bytes, by_tokens)


def _tokens(text: str, limits: ResultLimits) -> float:
    """What the counter gives; the estimate where it fails."""
    assert limits.count_tokens is not None
    try:
        return max(0, int(limits.count_tokens(text)))
    except Exception:  # noqa: BLE001  the host's counter; a result isn't lost for it
        return size_of(text).bytes / BYTES_A_TOKEN


def _cut(text: str, whole: Size, limits: ResultLimits, most: int | None) -> Cut:
    head = tail = ""
    if limits.keep == "head":
        head = _head(text, limits.lines, most)
    elif limits.keep == "tail":
        tail = _tail(text, limits.lines, most)
    else:
        head = _head(text, _half(limits.lines, 1), _half(most, 1))
        tail = _tail(text, _half(limits.lines, 0), _half(most, 0))
    end = TextPosition(whole.lines + 1) if not tail else _place(text, whole, len(text) - len(tail))
    return Cut(head, tail, whole, _place(text, whole, len(head)), end)


def _half(limit: int | None, more: int) -> int | None:
    return None if limit is None else (limit + more) // 2


def _head(text: str, lines: int | None, most: int | None) -> str:
    """The beginning: at most so many lines and bytes."""
    end = _end_of_lines(text, lines)
    if most is None:
        return text[:end]
    head = text[: min(end, most)].encode()[:most].decode(errors="ignore")
    if len(head) == end or head.endswith("\n"):
        return head
    start = head.rfind("\n") + 1
    line_end = text.find("\n", start, start + most) + 1 or start + most + 1
    if size_of(text[start:line_end]).bytes > most:
        return head
    return head[:start]


def _end_of_lines(text: str, lines: int | None) -> int:
    """Where the first so many lines end."""
    if lines is None:
        return len(text)
    end = 0
    for _ in range(lines):
        end = text.find("\n", end) + 1
        if not end:
            return len(text)
    return end


def _tail(text: str, lines: int | None, most: int | None) -> str:
    """The end: at most so many lines and bytes."""
    start = _start_of_lines(text, lines)
    if most is None:
        return text[start:]
    tail = _last_bytes(text[max(start, len(text) - most) :], most)
    begins = len(text) - len(tail)
    if begins == start or text[begins - 1] == "\n":
        return tail
    line_end = text.find("\n", begins) + 1 or len(text)
    earliest = max(start, line_end - most - 1)
    line_start = text.rfind("\n", earliest, line_end - 1) + 1 or earliest
    if size_of(text[line_start:line_end]).bytes > most:
        return tail
    return text[line_end:]


def _start_of_lines(text: str, lines: int | None) -> int:
    """Where the last so many lines begin."""
    if lines is None:
        return 0
    if not lines:
        return len(text)
    start = len(text) - text.endswith("\n")
    for _ in range(lines):
        start = text.rfind("\n", 0, start)
        if start < 0:
            return 0
    return start + 1


def _last_bytes(text: str, most: int) -> str:
    """The end of a text in at most so many bytes."""
    data = text.encode()[-most:] if most else b""
    return data.decode(errors="ignore")


def _place(text: str, whole: Size, position: int) -> TextPosition:
    """Where in its line a position is."""
    if not position:
        return TextPosition(1)
    if position == len(text):
        return TextPosition(whole.lines + 1)
    start = text.rfind("\n", 0, position) + 1
    return TextPosition(text.count("\n", 0, start) + 1, size_of(text[start:position]).bytes)


# Content that is no text ----------------------------------------------------------------------------------------------


def _text_of(item: Content) -> str | None:
    if isinstance(item, TextContent):
        return item.text
    return f"{item.uri}:\n{item.data}" if isinstance(item, FileContent) and isinstance(item.data, str) else None


def _weight(item: Content) -> int:
    """The bytes that content other than text counts for."""
    if isinstance(item, LinkContent):
        return len(item.uri) + len(item.name)
    return 0 if isinstance(item, TextContent) or isinstance(item.data, str) else len(item.data)


def _sorted_out(content: tuple[Content, ...], limits: ResultLimits) -> tuple[tuple[Content, ...], tuple[Content, ...]]:
    """What stays, and what is too much; each in its order."""
    most = math.inf if limits.media_bytes is None else limits.media_bytes
    stays: list[Content] = []
    moved: list[Content] = []
    for item in content:
        weight = _weight(item)
        if _text_of(item) is not None or (weight <= most and len(stays) < MOST_ITEMS):
            most -= weight
            stays.append(item)
        else:
            moved.append(item)
    return tuple(stays), tuple(moved)


def _apology(moved: tuple[Content, ...], limits: ResultLimits) -> Iterable[TextContent]:
    if moved:
        files = f"{counted(len(moved), 'file')} ({_bytes(sum(map(_weight, moved)))})"
        most = "" if limits.media_bytes is None else f" of at most {_bytes(limits.media_bytes)}"
        yield TextContent(f"[Left out here: {files}. A result takes {MOST_ITEMS} pieces{most}.]")


# Text -----------------------------------------------------------------------------------------------------------------


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _with_text(content: tuple[Content, ...], text: str) -> tuple[Content, ...]:
    """The text in the place of the first, and none of the others."""
    first = next(place for place, item in enumerate(content) if _text_of(item) is not None)
    others = [item for item in content[first:] if _text_of(item) is None]
    return (*content[:first], TextContent(text), *others)


def _told(done: Cut, kept: StoredText | None, reader: str | None) -> str:
    """What stays, and between its parts what was left out and how to read it."""
    head = f"{done.head}{_line_end(done.head)}" if done.head else ""
    tail = f"\n{done.tail}" if done.tail else ""
    return f"{head}[{_left_out(done)} {_how_to_read(done.gap, kept, reader)}]{tail}"


def _left_out(done: Cut) -> str:
    shown, whole = done.shown, done.whole
    sizes = f"{_bytes(shown.bytes)} of {_bytes(whole.bytes)}"
    if done.head and done.tail:
        return f"{_stretch(done)} left out here; {sizes} are shown."
    part = "beginning" if done.head else "end"
    if done.gap.byte or done.end.byte or not shown.lines:
        return f"Only the {part} is shown: {sizes}, {counted(whole.lines, 'line')} in all."
    part = "first" if done.head else "last"
    return f"Only the {part} {shown.lines} of {whole.lines} lines are shown ({sizes})."


def _stretch(done: Cut) -> str:
    if done.gap.byte or done.end.byte:
        return f"A part of {counted(done.whole.lines, 'line')} is"
    return f"Lines {done.gap.line} to {done.end.line - 1} of {done.whole.lines} are"


def _how_to_read(gap: TextPosition, kept: StoredText | None, reader: str | None) -> str:
    if kept is None:
        return "The rest was not kept; ask for less at once."
    if reader is None:
        return f"The full text is in {kept.path}; what is left out begins at {_named(gap)}."
    byte = f", byte={gap.byte}" if gap.byte else ""
    return f'Read the rest with {reader}(id="{kept.id}", line={gap.line}{byte}).'


def _named(place: TextPosition) -> str:
    return f"line {place.line}, byte {place.byte}" if place.byte else f"line {place.line}"


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


def _bytes(size: int) -> str:
    """In the unit that people would choose."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 1_000_000 else f"{size / 1024 / 1024:.1f} MiB"
