"""What the SDK needs of a session over HTTP: its stored events for a replay, and the ids of its open requests."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, RequestId, jsonrpc_message_adapter
from pydantic_core import from_json

MOST_EVENTS: Final = 200
MOST_EVENT_BYTES: Final = 1_000_000
"""Limits of a session's events that are stored for a replay; of more, the oldest are dropped."""


class _Event(NamedTuple):
    """A sent message as JSON, as a model takes several times the memory. An empty text opens a stream."""

    id: int
    stream: str
    text: str


class Events:
    """The stored events of one session, for replays.

    Args:
        client: The client whose limit the session counts for, or `None`.

    Attributes:
        unanswered: The ids of requests that aren't answered yet.
        streams: By the ids of requests whose streams are open: set when they are closed.
    """

    def __init__(self, client: str | None = None) -> None:
        self.client = client
        self.unanswered: set[str] = set()
        self.streams: dict[str, asyncio.Event] = {}
        self._events: deque[_Event] = deque()
        self._size = 0
        self._last = 0

    def add(self, stream: str, message: JSONRPCMessage | None) -> str:
        """Stores a message; gives its id."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self.unanswered.discard(stream)
        self._last += 1
        text = "" if message is None else message.model_dump_json(by_alias=True, exclude_unset=True)
        self._events.append(_Event(self._last, stream, text))
        self._size += len(text)
        while len(self._events) > MOST_EVENTS or self._size > MOST_EVENT_BYTES:
            self._size -= len(self._events.popleft().text)
        return str(self._last)

    def after(self, id_: str) -> list[_Event]:
        """The event of this id and the later ones of its stream; empty if it isn't stored any more."""
        first = next((event for event in self._events if str(event.id) == id_), None)
        if first is None:
            return []
        return [event for event in self._events if event.stream == first.stream and event.id >= first.id]


EVENTS: Final[ContextVar[Events]] = ContextVar("events")
"""The events of the session of a request, or of an SDK task that a request has started."""


class SessionEvents(EventStore):
    """Event store for the SDK, whose stream ids are only unique in one session."""

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Stores a message of the session."""
        return EVENTS.get().add(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Replays the missed messages; gives the stream if more may come on it."""
        events = EVENTS.get().after(last_event_id)
        answered = False
        for number, event in enumerate(events):
            message = jsonrpc_message_adapter.validate_json(event.text) if event.text else None
            answered = answered or isinstance(message, JSONRPCResponse | JSONRPCError)
            if number and message is not None:
                await send_callback(EventMessage(message, str(event.id)))
        return None if answered or not events else events[0].stream


class TakenIdError(Exception):
    """A request has the id of an unanswered one of its session."""

    def __init__(self, id_: RequestId) -> None:
        self.id = id_
        super().__init__(f"Request id {id_!r:.80} is in use: an earlier request of the session isn't answered yet")


class ReservedId:
    """Reservation of a request's id in its session until it is answered: the SDK mixes up requests with the same id.

    Args:
        events: The session's events.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._key: str | None = None
        self._ended = asyncio.Event()

    async def take(self, body: bytes) -> None:
        """Reserves the id in a request's body; waits until the stream of an earlier one with this id is closed.

        Raises:
            TakenIdError: The earlier one isn't answered yet.
        """
        try:
            message: Any = from_json(body)
        except ValueError:
            return  # the SDK refuses it
        id_: Any = cast("dict[str, Any]", message).get("id") if isinstance(message, dict) else None
        if not isinstance(id_, int | str) or "method" not in message:
            return
        key, events = str(id_), self._events
        while key in events.unanswered or key in events.streams:
            if key in events.unanswered:
                raise TakenIdError(id_)
            await events.streams[key].wait()
        events.unanswered.add(key)
        events.streams[key] = self._ended
        self._key = key

    def end(self, *, is_refused: bool) -> None:
        """Ends the request's stream; unless it was refused, its answer may still be replayed."""
        if self._key is not None:
            self._ended.set()
            del self._events.streams[self._key]
            if is_refused:
                self._events.unanswered.discard(self._key)
