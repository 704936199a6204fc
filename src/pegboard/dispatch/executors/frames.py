"""Messages over a stream of bytes: each has its length before it, and none is longer than was agreed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from attrs import define, field

_LENGTH: Final = struct.Struct(">I")


class FrameError(ValueError):
    """The other side announced a message that is too long."""


def framed(body: bytes) -> bytes:
    """A message with its length (four bytes, the highest first) before it."""
    return _LENGTH.pack(len(body)) + body


@define(eq=False)
class Frames:
    """Puts messages together from the pieces in which a stream hands them out.

    Attributes:
        most: How many bytes one message may have.
    """

    most: int
    _bytes: bytearray = field(factory=bytearray, init=False)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that this piece completes.

        Raises:
            FrameError: One is announced as longer than `most`.
        """
        self._bytes += piece
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self.most:
                raise FrameError(f"a message of {length:,} bytes was announced; at most {self.most:,} are taken")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield body
