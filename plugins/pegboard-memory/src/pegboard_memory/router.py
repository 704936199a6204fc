"""`MessageRouter`: delivers an agent's messages; in this process, or by an outbox that another program empties."""

from __future__ import annotations

import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args
from uuid import uuid4

import attrs
from attrs import define, field, frozen

from pegboard import ToolError
from pegboard.threads import off_loop
from pegboard.tools.content import writable
from pegboard_memory.database import Database

TargetType: TypeAlias = Literal["user", "agent", "group", "channel"]
TARGET_TYPES: Final[tuple[str, ...]] = get_args(TargetType)


@frozen
class Message:
    """One message.

    Attributes:
        target_type: Whom it is for: `"user"`, `"agent"`, `"group"` or `"channel"`.
        target_id: Which one.
        content: The text.
        metadata: JSON data beside it.
        user: Whose agent sends it, or `None`.
        agent: Which agent sends it, or `None`.
        session: In which conversation, or `None`.
        time: When it was sent, in seconds since 1970 (UTC).
        id: Its own.
    """

    target_type: TargetType
    target_id: str
    content: str
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    time: float = field(factory=time.time)
    id: str = field(factory=lambda: uuid4().hex)

    @property
    def target(self) -> str:
        """`"agent:planner"`, as permission rules see it."""
        return f"{self.target_type}:{self.target_id}"


class MessageRouter(Protocol):
    """Delivers messages; a host brings its own by `registry.provide(MessageRouter, ...)`."""

    async def send(self, message: Message) -> str:
        """Delivers a message, or keeps it for another to deliver; gives what has become of it, in words.

        Raises:
            ToolError: It can't be delivered.
        """
        ...


Receiver: TypeAlias = Callable[[Message], "Awaitable[object] | object"]


@define(eq=False)
class LocalRouter(MessageRouter):
    """Delivers messages to functions of this process."""

    _receivers: dict[str, tuple[Receiver, ...]] = field(factory=dict[str, tuple[Receiver, ...]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def receive(self, target_type: TargetType, target_id: str, function: Receiver) -> Callable[[], None]:
        """Has a function, plain or async, get the messages for a target; gives what ends that.

        Raises:
            ValueError: There is no such type of target.
        """
        if target_type not in TARGET_TYPES:
            raise ValueError(f"messages are for one of {', '.join(TARGET_TYPES)}, not for {target_type!r:.80}")
        target = f"{target_type}:{target_id}"

        def receiver(message: Message) -> Any:
            return function(message)

        def end() -> None:
            with self._lock:
                self._receivers[target] = tuple(each for each in self._receivers[target] if each is not receiver)

        with self._lock:
            self._receivers[target] = (*self._receivers.get(target, ()), receiver)
        return end

    async def send(self, message: Message) -> str:
        """Calls every function that receives for the target, in their order.

        Raises:
            ToolError: None does.
        """
        receivers = self._receivers.get(message.target, ())
        if not receivers:
            there = ", ".join(sorted(target for target, each in self._receivers.items() if each))
            raise ToolError(f"No one receives messages for {message.target}. Reachable: {there or 'no one'}.")
        for each in receivers:
            answer = each(message)
            if inspect.isawaitable(answer):
                await answer
        return "delivered"


_LEASE: Final = 60.0


@frozen
class OutboxRouter(MessageRouter):
    """Keeps messages in a database until a program that delivers them has taken them out, in their order.

    Attributes:
        database: Where.
    """

    database: Database

    async def send(self, message: Message) -> str:
        """Keeps a message; it is there once this has come back, whatever happens to the process."""
        await off_loop(self._put, message)
        return "put into the outbox"

    def take(self, limit: int = 100, *, seconds: float = _LEASE) -> tuple[Message, ...]:
        """Messages to deliver, the oldest first; for so long, no other program is given them.

        What isn't marked as `sent` by then is given again: each message is delivered at least once.
        """
        now = time.time()
        with self.database.work(write=True) as connection:
            query = "SELECT id, message FROM outbox WHERE taken IS NULL OR taken < ? ORDER BY id LIMIT ?"
            rows = connection.execute(query, (now, limit)).fetchall()
            connection.executemany(
                "UPDATE outbox SET taken = ? WHERE id = ?", [(now + seconds, row[0]) for row in rows]
            )
            return tuple(Message(**json.loads(row[1])) for row in rows)

    def sent(self, messages: Iterable[Message]) -> None:
        """Takes messages out that have been delivered."""
        with self.database.work(write=True) as connection:
            ids = [(message.id,) for message in messages]
            connection.executemany("DELETE FROM outbox WHERE json_extract(message, '$.id') = ?", ids)

    def _put(self, message: Message) -> None:
        text = writable(json.dumps(attrs.asdict(message)))
        with self.database.work(write=True) as connection:
            connection.execute("INSERT INTO outbox (message) VALUES (?)", (text,))
