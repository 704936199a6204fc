"""Output of a command: kept up to a limit while it is produced, and made readable."""

from __future__ import annotations

import codecs
import re
from typing import Final

from attrs import Factory, define, field, frozen

MOST_SHOWN: Final = 1 << 20
"""Bytes of the output that are handed out as it comes; behind that only its length is told."""

_SLACK: Final = 1 << 20
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""What moves the cursor and colours a terminal."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


@frozen
class Output:
    """What a command has written.

    Attributes:
        text: What was kept of it; what is no text stands as U+FFFD.
        size: How many bytes were written.
        lost: How many of them, in the middle, were not kept.
        odd: How many characters stand for something that is no text.
    """

    text: str
    size: int
    lost: int
    odd: int


@define(eq=False)
class OutputBuffer:
    """The beginning and the end of what is written into it; the owner locks it.

    Attributes:
        most: Bytes that are kept.
        size: Bytes that were written.
    """

    most: int
    size: int = 0
    _head: bytearray = field(factory=bytearray, init=False)
    _tail: bytearray = field(factory=bytearray, init=False)
    _handed_out: int = field(default=0, init=False)
    _decoder: codecs.IncrementalDecoder = field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _half: int = field(default=Factory(lambda self: self.most // 2, takes_self=True), init=False)

    def add(self, data: bytes) -> None:
        """Keeps some more."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > self._half + _SLACK:
                del self._tail[: -self._half]

    def new_text(self) -> str:
        """What wasn't handed out yet, for people to look at; characters stay whole."""
        end = min(len(self._head), MOST_SHOWN)
        data = bytes(self._head[self._handed_out : end])
        self._handed_out = end
        return readable(self._decoder.decode(data))[0]

    def holds(self, text: bytes) -> bool:
        """Whether this was written, and not far from the end."""
        recent = bytes((self._tail or self._head)[-(_SLACK + len(text)) :])
        return text in recent

    def taken(self) -> Output:
        """All of it; the buffer is empty then."""
        del self._tail[: -self._half]
        lost = self.size - len(self._head) - len(self._tail)
        if lost:
            head, tail = bytes(self._head), bytes(self._tail)
            # Whole lines where there are some, else whole characters.
            head = head[: head.rfind(b"\n") + 1] or head
            tail = tail[tail.find(b"\n") + 1 :] or tail
            lost = self.size - len(head) - len(tail)
            parts = [head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")]
        else:
            parts = [(self._head + self._tail).decode("utf-8", "replace")]
        made = [readable(part) for part in parts]
        between = f"\n[{lost:,} bytes were not kept here.]\n"
        output = Output(between.join(text for text, _ in made), self.size, lost, sum(odd for _, odd in made))
        self.size = self._handed_out = 0
        self._head.clear()
        self._tail.clear()
        return output


def readable(text: str) -> tuple[str, int]:
    """A text without what steers terminals, and how many characters of it stand for something that is no text."""
    if not text.isprintable():
        text = _CONTROL.sub("\ufffd", _ESCAPES.sub("", text) if "\x1b" in text else text)
    return text, text.count("\ufffd")
