"""`cut`: the part of a text that fits its limits: whole lines, never a part of a character."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from pegboard.dispatch.grapheme import boundary_after, boundary_before
from pegboard.tools.policy import BYTES_A_TOKEN, ResultLimits

SLICE: Final = 1 << 20
"""Characters that are looked at in one step: no step holds up the other threads for long."""

_MOST_TRIES: Final = 8
_MOST_BYTES_A_TOKEN: Final = 64


@frozen
class Place:
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
    gap: Place
    end: Place

    @property
    def shown(self) -> Size:
        """The size of what stays."""
        head, tail = size_of(self.head), size_of(self.tail)
        return Size(head.lines + tail.lines, head.bytes + tail.bytes)


def slices(text: str, start: int = 0, end: int | None = None) -> Iterator[str]:
    """The text, or a part of it, in steps."""
    end = len(text) if end is None else end
    for place in range(start, end, SLICE):
        yield text[place : min(place + SLICE, end)]


def size_of(text: str, start: int = 0, end: int | None = None) -> Size:
    """How many lines and bytes a text, or a part of it, has."""
    lines = length = 0
    part = ""
    for part in slices(text, start, end):
        lines += part.count("\n")
        length += len(part) if part.isascii() else len(part.encode())
    return Size(lines + (part[-1:] not in ("", "\n")), length)


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
    """How many bytes may stay by the limit in bytes and, where nobody counts, by the one in tokens."""
    if limits.tokens is None:
        return limits.bytes
    by_tokens = limits.tokens * (BYTES_A_TOKEN if limits.count_tokens is None else _MOST_BYTES_A_TOKEN)
    return by_tokens if limits.bytes is None else min(limits.bytes, by_tokens)


def _tokens(text: str, limits: ResultLimits) -> float:
    """What the counter says; the estimate where it fails."""
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
    end = Place(whole.lines + 1) if not tail else _place(text, whole, len(text) - len(tail))
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
        return head[: boundary_before(text, len(head))] or head
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
        return text[boundary_after(text, begins) :] or tail
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


def _place(text: str, whole: Size, position: int) -> Place:
    """Where in its line a position is."""
    if not position:
        return Place(1)
    if position == len(text):
        return Place(whole.lines + 1)
    start = text.rfind("\n", 0, position) + 1
    line = sum(part.count("\n") for part in slices(text, 0, start)) + 1
    return Place(line, size_of(text, start, position).bytes)


__all__ = ["Cut", "Place", "Size", "cut", "size_of", "slices"]
