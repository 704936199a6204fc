"""`MessageRouter`: delivers an agent's messages; in this process, or through an outbox for another program."""

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
from pegboard.threads import run_in_thread
from pegboard.tools import encodable_text
from pegboard_memory.database import Database

TargetType: TypeAlias = Literal["user", "agent", "group", "channel"]
TARGET_TYPES: Final[tuple[str, ...]] = get_args(TargetType)


@frozen
class Message:
    """One message of an agent.

    Attributes:
        target_type: The type of its recipient: `"user"`, `"agent"`, `"group"` or `"channel"`.
        target_id: The recipient's id.
        content: The text.
        metadata: JSON data sent with it.
        user: The user of the agent that sends it, or `None`.
        agent: The agent that sends it, or `None`.
        session: The conversation, or `None`.
        time: When it was sent, in seconds since 1970 (UTC).
        id: The message's id.
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
        """Its recipient for permission rules: `"agent:planner"`."""
        return f"{self.target_type}:{self.target_id}"


class MessageRouter(Protocol):
    """Delivers messages; a host provides its own by `registry.provide(MessageRouter, ...)`."""

    async def send(self, message: Message) -> str:
        """Delivers a message, or stores it for another program to deliver; returns its state, in words.

        Raises:
            ToolError: It can't be delivered.
        """
        ...


Receiver: TypeAlias = Callable[[Message], "Awaitable[object] | object"]


@define(eq=False)
class LocalRouter(MessageRouter):
    """Router of messages to functions of this process."""

    _receivers: dict[str, tuple[Receiver, ...]] = field(factory=dict[str, tuple[Receiver, ...]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def receive(self, target_type: TargetType, target_id: str, function: Receiver) -> Callable[[], None]:
        """Subscribes a function, plain or async, to the messages for a target; returns a function that ends that.

        Raises:
            ValueError: There is no such type of target.
        """
        if target_type not in TARGET_TYPES:
            raise ValueError(f"messages are for one of {', '.join(TARGET_TYPES)}, not for {target_type!r:.80}")
        target = f"{target_type}:{target_id}"

        def receiver(message: Message) -> Any:  # its own object, as a function may be subscribed twice
            return function(message)

        def end() -> None:
            with self._lock:
                self._receivers[target] = tuple(each for each in self._receivers[target] if each is not receiver)

        with self._lock:
            self._receivers[target] = (*self._receivers.get(target, ()), receiver)
        return end

    async def send(self, message: Message) -> str:
        """Calls every function subscribed to the target, in the order of subscription.

        Raises:
            ToolError: There is none.
        """
        receivers = self._receivers.get(message.target, ())
        if not receivers:
            reachable = ", ".join(sorted(target for target, each in self._receivers.items() if each))
            raise ToolError(f"{message.target} can't be reached. Reachable: {reachable or 'none'}.")
        for each in receivers:
            answer = each(message)
            if inspect.isawaitable(answer):
                await answer
        return "delivered"


_LEASE: Final = 60.0  # seconds


@frozen
class OutboxRouter(MessageRouter):
    """Queue of messages in a database; another program takes them, the oldest first, and delivers them.

    Attributes:
        database: Where they are stored.
    """

    database: Database

    async def send(self, message: Message) -> str:
        """Stores a message durably before it returns."""
        await run_in_thread(self._store, message)
        return "queued for delivery"

    def take(self, limit: int = 100, *, seconds: float = _LEASE) -> tuple[Message, ...]:
        """Leases messages for delivery, the oldest first: no other program gets them for that many seconds.

        After that, messages not passed to `sent` are leased again: each message is delivered at least once.
        """
        now = time.time()  # the column `taken` has the end of the lease
        with self.database.work(write=True) as connection:
            query = "SELECT id, message FROM outbox WHERE taken IS NULL OR taken < ? ORDER BY id LIMIT ?"
            rows = connection.execute(query, (now, limit)).fetchall()
            connection.executemany(
                "UPDATE outbox SET taken = ? WHERE id = ?", [(now + seconds, row[0]) for row in rows]
            )
            return tuple(self.database.read(lambda text: Message(**json.loads(text)), row[1]) for row in rows)

    def sent(self, messages: Iterable[Message]) -> None:
        """Deletes messages once they are delivered."""
        with self.database.work(write=True) as connection:
            ids = [(message.id,) for message in messages]
            connection.executemany("DELETE FROM outbox WHERE json_extract(message, '$.id') = ?", ids)

    def _store(self, message: Message) -> None:
        text = encodable_text(json.dumps(attrs.asdict(message)))
        with self.database.work(write=True) as connection:
            connection.execute("INSERT INTO outbox (message) VALUES (?)", (text,))
