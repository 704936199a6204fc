"""Output of a command: a bounded buffer, and the conversion to readable text."""

from __future__ import annotations

import codecs
import re
from typing import Final

from attrs import Factory, define, field, frozen

MOST_SHOWN: Final = 1 << 20
"""Bytes of the output that are emitted as it comes; after that only its length is reported."""

_SLACK: Final = 1 << 20
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences, which move the cursor or set colours of a terminal."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")

_BLOCK: Final = 1 << 18
"""Characters that are replaced at once: no other thread, so no event loop, runs meanwhile."""


@frozen
class Output:
    """Output of a command.

    Attributes:
        text: The text, with U+FFFD for bytes that aren't text.
        size: How many bytes were written.
        lost: How many of them, in the middle, were dropped.
        odd: How many characters are U+FFFD.
    """

    text: str
    size: int
    lost: int
    odd: int


@define(eq=False)
class OutputBuffer:
    """Buffer of the beginning and the end of what is written to it; the owner locks it.

    Attributes:
        most: How many bytes it stores.
        size: How many bytes were written.
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
        """Appends output."""
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
        """The text that wasn't returned by an earlier call, without splitting characters; for the user."""
        end = min(len(self._head), MOST_SHOWN)
        data = bytes(self._head[self._handed_out : end])
        self._handed_out = end
        return readable(self._decoder.decode(data))[0]

    def holds(self, text: bytes) -> bool:
        """Whether this text is in the last part of the output."""
        recent = bytes((self._tail or self._head)[-(_SLACK + len(text)) :])
        return text in recent

    def take(self) -> Output:
        """Returns the output and empties the buffer."""
        del self._tail[: -self._half]
        lost = self.size - len(self._head) - len(self._tail)
        if lost:
            head, tail = bytes(self._head), bytes(self._tail)
            # Whole lines if there are any.
            head = head[: head.rfind(b"\n") + 1] or head
            tail = tail[tail.find(b"\n") + 1 :] or tail
            lost = self.size - len(head) - len(tail)
            parts = [head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")]
        else:
            parts = [(self._head + self._tail).decode("utf-8", "replace")]
        made = [readable(part) for part in parts]
        between = f"\n[{lost:,} bytes were dropped here.]\n"
        output = Output(between.join(text for text, _ in made), self.size, lost, sum(odd for _, odd in made))
        self.size = self._handed_out = 0
        self._head.clear()
        self._tail.clear()
        return output


def readable(text: str) -> tuple[str, int]:
    """A text as a terminal would show it, and the number of U+FFFD in it.

    Escape sequences are removed, control characters are U+FFFD, and of a line that was overwritten by carriage returns
    (a progress bar) only the last state is left.
    """
    if not text.isprintable():
        text = _ESCAPES.sub(lambda _: "", text) if "\x1b" in text else text  # a function lets other threads run
        if "\r" in text:
            text = "\n".join(map(_last_state, text.split("\n")))
        blocks = (text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK))
        text = "".join(_CONTROL.sub("\ufffd", block) for block in blocks)
    return text, text.count("\ufffd")


def _last_state(line: str) -> str:
    """The part of a line after its last carriage return, except for those at its end."""
    shown = line.rstrip("\r")
    return line[shown.rfind("\r") + 1 :]
