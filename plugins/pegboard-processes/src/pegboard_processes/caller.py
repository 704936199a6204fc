"""The caller of a child's running tool, which is in the parent."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from pegboard.execution import error_from_json
from pegboard.typing import JsonObject
from pegboard_processes.rpc import Connection, Reply, Shutdown


@define(eq=False)
class ParentCaller:
    """The caller of one call: sends its events and questions to the parent."""

    connection: Connection
    _numbers: Iterator[int] = field(factory=lambda: itertools.count(1), init=False)
    _waiting: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _raised: list[tuple[BaseException, int]] = field(factory=list[tuple[BaseException, int]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def emit(self, event: JsonObject) -> None:
        """Sends an event of the tool, or a notice if it can't be sent."""
        try:
            self.connection.send({"event": event})
        except ValueError as error:  # MessageTooLongError is one
            left_out = f"({event['type']} left out: {error})"
            self.connection.send({"event": {"type": "partial", "data": left_out}})

    async def answer(self, question: str, given: JsonObject) -> Any:
        """The parent's answer to a question, see `ExecutorCall.answer`.

        Raises:
            BaseException: An exception of the type that was raised in the parent.
        """
        number = next(self._numbers)
        message = {"question": number, "name": question, "arguments": given}
        reply = await self._reply(asyncio.get_running_loop(), number, message)
        if reply.error is None:
            return reply.value
        error = error_from_json(reply.error)
        self._raised.append((error, number))
        raise error

    def raised_by(self, error: BaseException) -> int | None:
        """The number of the question whose answer this error was, or `None`."""
        return next((number for raised, number in self._raised if raised is error), None)

    async def _reply(self, loop: asyncio.AbstractEventLoop, number: int, question: dict[str, Any]) -> Reply:
        """Waits for one reply. Each waiting loop reads the socket; `context.wait` of a sync function has its own."""
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting[number] = future
        loop.add_reader(self.connection.link, self._deliver)
        try:
            self.connection.send(question)
            return await future
        finally:
            del self._waiting[number]
            if not any(other.get_loop() is loop for other in self._waiting.values()):
                loop.remove_reader(self.connection.link)

    def _deliver(self) -> None:
        """Passes each reply that has arrived to the loop that waits for it."""
        with self._lock:
            replies = self.connection.receive_now()
        for reply in replies:
            if reply is None:
                raise Shutdown
            future = self._waiting.get(reply.number)
            if future is not None:
                future.get_loop().call_soon_threadsafe(_settle, future, reply)


def _settle(future: asyncio.Future[Reply], reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)
