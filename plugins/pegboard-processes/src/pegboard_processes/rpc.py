"""RPC between a program and its child process: length-prefixed messages over a socket.

Messages of the child are JSON and aren't trusted; those of the parent are pickled. Messages of the child:

| | |
|---|---|
| `{"ready": pid}` | it takes tasks |
| `{"event": {...}}` | an event of the tool, see `ExecutorCall.emit` |
| `{"question": number, "name": ..., "arguments": {...}}` | a question of the tool, see `ExecutorCall.answer` |
| `{"response": {...}, "fatal": text, "raised": number}` | the end; `raised` is a question whose error ended the call |
| `{"stale": reason}` | the tool's code isn't the parent's |
| `{"imported": key}` | the tool's module is imported; only the first call of a tool sends it |
| `{"reentered": true}` | importing the tool's module has run a tool in a child process; this child exits |

The parent sends a `Task` for each call, and a `Reply` to each question.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.typing import JsonObject

PIECE: Final = 65_536
"""How many bytes are read at once."""

_LENGTH: Final = struct.Struct(">I")
_ANY_LENGTH: Final = 2**32 - 1


class ProtocolError(Exception):
    """The other side violated the protocol."""


class Shutdown(SystemExit):
    """The parent is gone, or ends the child. A `SystemExit`, as event loops let no other exception out of callbacks."""


class MessageTooLongError(ValueError):
    """A message is longer than the parent accepts.

    Attributes:
        length: In bytes.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        super().__init__(f"{length:,} bytes")


# Frames --------------------------------------------------------------------------------------------------------------


def frame(body: bytes) -> bytes:
    """A message with its length prepended (four bytes, big-endian)."""
    return _LENGTH.pack(len(body)) + body


@define(eq=False)
class Frames:
    """Incremental decoder of length-prefixed messages.

    Attributes:
        most: How many bytes one message may have.
    """

    most: int
    _bytes: bytearray = field(factory=bytearray, init=False)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that this piece completes.

        Raises:
            ProtocolError: A message is longer than `most`.
        """
        self._bytes += piece
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self.most:
                raise ProtocolError(f"a message of {length:,} bytes was announced; at most {self.most:,} are taken")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield body


# Replies -------------------------------------------------------------------------------------------------------------


@frozen
class Reply:
    """The parent's answer to one question.

    Attributes:
        number: The question's number.
        value: The answer, JSON data.
        error: The exception instead of an answer, see `pegboard.execution.error_to_json`; or `None`.
    """

    number: int
    value: Any = None
    error: Mapping[str, Any] | None = None


# The child's end -----------------------------------------------------------------------------------------------------


def _as_text(value: object) -> str:
    return repr(value)[:1000]


_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_as_text).encode


@define(eq=False)
class Connection:
    """The child's end of the socket. Any thread may send; one at a time may receive.

    Attributes:
        link: The socket.
        most: How many bytes one message to the parent may have.
    """

    link: socket.socket
    most: int
    _frames: Frames = field(factory=lambda: Frames(_ANY_LENGTH), init=False)
    _received: deque[bytes] = field(factory=deque[bytes], init=False)
    _sending: threading.Lock = field(factory=threading.Lock, init=False)

    def send(self, message: JsonObject) -> None:
        """Sends one message; objects that aren't JSON are written as text.

        Raises:
            MessageTooLongError: It is longer than the parent accepts.
            ValueError: NaN, an infinity or a cycle.
            OSError: The parent is gone.
        """
        body = _write(message).encode("utf-8", "replace")
        if len(body) > self.most:
            raise MessageTooLongError(len(body))
        with self._sending:
            self.link.sendall(frame(body))

    def receive(self) -> Any:
        """Waits for the next message of the parent; `None` once it is gone."""
        while not self._received:
            piece = self.link.recv(PIECE)
            if not piece:
                return None
            self._received.extend(self._frames.feed(piece))
        return _loads(self._received.popleft())

    def receive_now(self) -> list[Any]:
        """The messages that have arrived; `[None]` if the parent is gone."""
        try:
            piece = self.link.recv(PIECE, socket.MSG_DONTWAIT)
        except BlockingIOError:  # another thread has read them
            return []
        return [_loads(body) for body in self._frames.feed(piece)] if piece else [None]


def _loads(body: bytes) -> Any:
    return pickle.loads(body)  # noqa: S301  (the parent's own)
