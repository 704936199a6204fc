"""In the child: the line to its parent. What goes up is JSON; what comes down is pickled by the parent."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections import deque
from typing import Any, Final

from attrs import define, field

from pegboard.dispatch.executors.frames import Frames, framed
from pegboard.tools.content import CONTENT_TYPES
from pegboard.tools.context import Progress, Told
from pegboard.typing import JsonObject

PIECE: Final = 65_536
_ANY_LENGTH: Final = 2**32 - 1


def _as_text(value: object) -> str:
    return repr(value)[:1000]


_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_as_text).encode


class Ended(SystemExit):
    """The parent has hung up, or has said to end. An event loop lets no other exception out of its callbacks."""


class MessageTooLongError(ValueError):
    """A message is longer than the parent takes.

    Attributes:
        length: In bytes.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        super().__init__(f"{length:,} bytes")


@define(eq=False)
class ChildLine:
    """The child's end. Any thread may say something; one at a time may listen.

    Attributes:
        link: The socket.
        most: How many bytes one message to the parent may have.
    """

    link: socket.socket
    most: int
    _frames: Frames = field(factory=lambda: Frames(_ANY_LENGTH), init=False)
    _heard: deque[bytes] = field(factory=deque[bytes], init=False)
    _saying: threading.Lock = field(factory=threading.Lock, init=False)

    def say(self, message: JsonObject) -> None:
        """Sends one message; what JSON can't say is written as text.

        Raises:
            MessageTooLongError: The parent wouldn't take it.
            ValueError: NaN, an infinity or a cycle.
            OSError: The parent is gone.
        """
        body = _write(message).encode("utf-8", "replace")
        if len(body) > self.most:
            raise MessageTooLongError(len(body))
        with self._saying:
            self.link.sendall(framed(body))

    def tell(self, thing: object) -> None:
        """Passes on what a tool tells of itself on the way; never raises for what it is."""
        try:
            self.say({"tell": _told(thing)})
        except (MessageTooLongError, ValueError, RecursionError) as error:
            self.say({"tell": {"partial": f"({type(thing).__name__} left out: {error})"}})

    def hear(self) -> Any:
        """The next message from the parent; `None` once there won't be any."""
        while not self._heard:
            piece = self.link.recv(PIECE)
            if not piece:
                return None
            self._heard.extend(self._frames.feed(piece))
        return _read(self._heard.popleft())

    def heard_now(self) -> list[Any]:
        """The messages that are there already; `None` is the last one of all."""
        try:
            piece = self.link.recv(PIECE, socket.MSG_DONTWAIT)
        except BlockingIOError:  # another thread was faster
            return []
        return [_read(body) for body in self._frames.feed(piece)] if piece else [None]


def _read(body: bytes) -> Any:
    return pickle.loads(body)  # noqa: S301  (the parent's own)


def _told(thing: object) -> JsonObject:
    if isinstance(thing, Progress):
        return {"progress": [thing.progress, thing.total, thing.message]}
    if isinstance(thing, Told):
        return {"title": thing.title, "facts": dict(thing.facts)}
    if isinstance(thing, CONTENT_TYPES):
        return {"content": thing.to_json()}
    from pegboard.schema.dump import to_json_data

    try:
        return {"partial": to_json_data(thing)}
    except (TypeError, ValueError):
        return {"partial": repr(thing)[:1000]}
