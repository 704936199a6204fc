"""Output of a command, as readable text."""

from __future__ import annotations

import codecs
import re
from typing import Final, TypeAlias

from attrs import define, field, frozen

from pegboard.programs import OutputBuffer, RunningProgram

MOST_SHOWN: Final = 1 << 20
"""Bytes of the output that are emitted as it comes; after that only its length is reported."""

_RECENT: Final = 1 << 20  # bytes at the end in which `until` is searched
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences, which move the cursor or set colours of a terminal."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")

_BLOCK: Final = 1 << 18
"""Characters of one replacement, during which no other thread runs, so no event loop either."""


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
class TextBuffer(OutputBuffer):
    """Buffer of a command's output, for the user while it runs and for the model later."""

    _handed_out: int = field(default=0, init=False)
    _decoder: codecs.IncrementalDecoder = field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _recent: bytearray = field(factory=bytearray, init=False)  # the end of all output, also of what was taken

    def add(self, data: bytes) -> None:
        """Appends output."""
        with self.lock:
            super().add(data)
            self._recent += data
            del self._recent[:-_RECENT]

    def new_text(self) -> str:
        """The text that wasn't returned by an earlier call, without splitting characters; for the user."""
        with self.lock:
            data = bytes(self.head[self._handed_out : MOST_SHOWN])
            self._handed_out += len(data)
            return readable(self._decoder.decode(data))[0]

    def holds(self, text: bytes) -> bool:
        """Whether this text is in the last part of what was written, and ends after the last `take`."""
        with self.lock:
            return self.size > 0 and text in self._recent[-(self.size + len(text) - 1) :]

    def take(self) -> Output:
        """Returns the output and empties the buffer."""
        with self.lock:
            size, (head, lost, tail) = self.size, self.parts()
            self.clear()
            self._handed_out = 0
        if lost:
            # Whole lines if there are any.
            head = head[: head.rfind(b"\n") + 1] or head
            tail = tail[tail.find(b"\n") + 1 :] or tail
            lost = size - len(head) - len(tail)
        parts = (head, tail) if lost else (head + tail,)  # joined before it is decoded, as a character may be split
        texts = [readable(part.decode("utf-8", "replace")) for part in parts]
        between = f"\n[{lost:,} bytes were dropped here.]\n"
        return Output(between.join(text for text, _ in texts), size, lost, sum(odd for _, odd in texts))


RunningCommand: TypeAlias = RunningProgram[TextBuffer]


def readable(text: str) -> tuple[str, int]:
    """A text as a terminal would show it, and the number of U+FFFD in it.

    Escape sequences are removed, control characters are U+FFFD, and of a line that was overwritten by carriage returns
    (a progress bar) only the last state is left.
    """
    if not text.isprintable():
        text = _ESCAPES.sub(lambda _: "", text) if "\x1b" in text else text  # calling a function lets other threads run
        if "\r" in text:
            text = "\n".join(map(_last_state, text.split("\n")))
        blocks = (text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK))
        text = "".join(_CONTROL.sub("\ufffd", block) for block in blocks)
    return text, text.count("\ufffd")


def _last_state(line: str) -> str:
    """The part of a line after its last carriage return, except for those at its end."""
    shown = line.rstrip("\r")
    return line[shown.rfind("\r") + 1 :]
