"""Proxies in a child process for the running call's host, memory and artifacts, which are in the parent."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutine
from typing import Any, NoReturn

from attrs import define, field, frozen

from pegboard import Artifacts, Confirmation, Memory, MemoryEntry, ToolContext, ToolResult
from pegboard_processes.rpc import Connection, Reply, Shutdown, error_from_json


@define(eq=False)
class RemoteHost:
    """Proxy of one call's host, which forwards requests to the parent."""

    connection: Connection
    _numbers: Iterator[int] = field(factory=lambda: itertools.count(1), init=False)
    _waiting: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _raised: list[tuple[BaseException, int]] = field(factory=list[tuple[BaseException, int]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def services(self) -> Mapping[type, Any]:
        """Proxies of the services that stay in the parent, by type."""
        return {Memory: RemoteMemory(self), Artifacts: RemoteArtifacts(self)}

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Returns if the call may go on; raises if it may not."""
        wanted = {"permission": permission, "patterns": list(patterns), "always": list(always)}
        await self._ask_user(context, "ask", **wanted, metadata=dict(metadata))

    def allows(self, context: ToolContext, permission: str, subject: str | None) -> bool:
        """Whether the rules let the call access this.

        Raises:
            RunningLoopError: This is the event loop: only plain functions can ask.
        """
        return context.wait(self.question("allows", permission=permission, subject=subject)) is True

    def allowed_names(
        self, context: ToolContext, permission: str, folder: str, names: Sequence[str]
    ) -> tuple[str, ...]:
        """The names in a folder that the rules let the call access.

        Raises:
            RunningLoopError: See `allows`.
        """
        question = self.question("allowed_names", permission=permission, folder=folder, names=list(names))
        return tuple(context.wait(question))

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """The user's answer to `hint`."""
        answer = await self._ask_user(context, "request_confirmation", hint=hint, payload=payload)
        return Confirmation.from_data(answer)

    def suspend(self, _context: ToolContext, hint: str, _payload: Any, _stored: Any, _request: str | None) -> NoReturn:
        """Refuses: the process is needed for other calls.

        Raises:
            LookupError: Always.
        """
        raise LookupError(f"a tool in a child process can't wait for an answer ({hint}); run it with executor='thread'")

    def inherited(self, _context: ToolContext) -> Mapping[str, Any]:
        """Refuses: a child process has no registry that could run turns by the parent's rules.

        Raises:
            LookupError: Always.
        """
        raise LookupError("a tool in a child process can't run turns of the parent; run it with executor='thread'")

    async def call(self, _context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool inside this call, in the parent."""
        given = arguments if isinstance(arguments, str) else dict(arguments)
        return ToolResult.from_data(await self.question("call", name=name, arguments=given))

    def background(self, _context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Refuses: the process is needed for other calls once this one has its result.

        Raises:
            LookupError: Always.
        """
        if iscoroutine(work):
            work.close()
        raise LookupError("a tool in a child process can't run background work; run it with executor='thread'")

    async def question(self, name: str, /, **arguments: Any) -> Any:
        """The parent's answer to a question, see `ExecutorCall.answer`.

        Raises:
            BaseException: An exception of the type that was raised in the parent.
        """
        number = next(self._numbers)
        question = {"question": number, "name": name, "arguments": arguments}
        reply = await self._reply(asyncio.get_running_loop(), number, question)
        if reply.error is None:
            return reply.value
        error = error_from_json(reply.error)
        self._raised.append((error, number))
        raise error

    def raised_by(self, error: BaseException) -> int | None:
        """The number of the question whose answer this error was, or `None`."""
        return next((number for raised, number in self._raised if raised is error), None)

    async def _ask_user(self, context: ToolContext, name: str, /, **arguments: Any) -> Any:
        """Asks a question, and extends the deadline by the time that the user takes."""
        asked = time.monotonic()
        try:
            return await self.question(name, **arguments)
        finally:
            if context.deadline is not None:
                context.deadline += time.monotonic() - asked

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


# Services ------------------------------------------------------------------------------------------------------------
# Their parameters `user` and `session` are ignored: the parent knows whose call it is.


@frozen(eq=False)
class RemoteMemory(Memory):
    """Proxy of the memory of the call's user."""

    host: RemoteHost

    async def search(
        self, query: str, *, user: str | None = None, session: str | None = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """The entries that match a query, the best first."""
        del user
        found = await self.host.question("memory.search", query=query, session_only=session is not None, limit=limit)
        return tuple(MemoryEntry(**entry) for entry in found)

    async def add(
        self,
        text: str,
        *,
        user: str | None = None,
        session: str | None = None,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Adds an entry."""
        del user, session
        entry = await self.host.question("memory.add", text=text, author=author, metadata=dict(metadata or {}))
        return MemoryEntry(**entry)


@frozen(eq=False)
class RemoteArtifacts(Artifacts):
    """Proxy of the artifacts of the call's conversation and user."""

    host: RemoteHost

    async def save(self, name: str, content: Any, *, user: str | None = None, session: str | None = None) -> int:
        """Saves a new version, and returns its number."""
        del user, session
        return await self.host.question("artifacts.save", name=name, content=content.to_json())

    async def load(
        self, name: str, version: int | None = None, *, user: str | None = None, session: str | None = None
    ) -> Any:
        """One version, the latest by default."""
        del user, session
        content = await self.host.question("artifacts.load", name=name, version=version)
        return ToolResult.from_json({"content": [content]}).content[0]

    async def list(self, *, user: str | None = None, session: str | None = None) -> tuple[str, ...]:
        """The names of all artifacts of the conversation and of the user, sorted."""
        del user, session
        return tuple(await self.host.question("artifacts.list"))

    async def delete(self, name: str, *, user: str | None = None, session: str | None = None) -> None:
        """Deletes all versions."""
        del user, session
        await self.host.question("artifacts.delete", name=name)
