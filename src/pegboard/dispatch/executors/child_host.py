"""In the child: what a running tool may ask of its host, carried to the parent and back.

Whatever only some tools need, asyncio above all, is imported when it is needed: a child starts in half the time.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from attrs import define, field

from pegboard.dispatch.executors.child_line import ChildLine, Ended
from pegboard.tools.content import ToolResult

if TYPE_CHECKING:
    import asyncio

    from pegboard.dispatch.executors.answering import AnswerMessage
    from pegboard.tools.call import Confirmation
    from pegboard.tools.context import ToolContext


@define(eq=False)
class ChildHost:
    """The host as the tool sees it, for one call."""

    line: ChildLine
    _numbers: Iterator[int] = field(factory=lambda: itertools.count(1), init=False)
    _waiting: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _raised: list[tuple[BaseException, int]] = field(factory=list[tuple[BaseException, int]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the call may go on; raises where it may not."""
        wanted = {"permission": permission, "patterns": list(patterns), "always": list(always)}
        await self._put_to_a_person(context, "ask", **wanted, metadata=dict(metadata))

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """What a person says to `hint`."""
        said = await self._put_to_a_person(context, "request_confirmation", hint=hint, payload=payload)
        from pegboard.dispatch.executors.confirming import confirmation_from_json

        return confirmation_from_json(said)

    async def call(self, _context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool inside this call, in the parent."""
        given = arguments if isinstance(arguments, str) else dict(arguments)
        return ToolResult.from_data(await self.question("call", name=name, arguments=given))

    def background(self, _context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Refused: the process is needed for other calls once this one has its result.

        Raises:
            LookupError: Always.
        """
        if iscoroutine(work):
            work.close()
        raise LookupError("a tool in a child process can't go on in the background; run it with executor='thread'")

    async def question(self, what: str, **facts: Any) -> Any:
        """Asks the parent something, and gives what it answers.

        Raises:
            BaseException: What was raised there, as an exception of the same kind.
        """
        import asyncio

        from pegboard.dispatch.executors.answering import raised_again

        number = next(self._numbers)
        answer = await self._answered(asyncio.get_running_loop(), number, {"what": what, "facts": facts})
        if answer.error is None:
            return answer.value
        error = raised_again(answer.error)
        self._raised.append((error, number))
        raise error

    async def _put_to_a_person(self, context: ToolContext, what: str, **facts: Any) -> Any:
        """The tool's time stands still while a person is asked."""
        asked = time.monotonic()
        try:
            return await self.question(what, **facts)
        finally:
            if context.deadline is not None:
                context.deadline += time.monotonic() - asked

    def asked_by(self, error: BaseException) -> int | None:
        """The number of the question whose answer this error was, or `None`."""
        return next((number for raised, number in self._raised if raised is error), None)

    async def _answered(self, loop: asyncio.AbstractEventLoop, number: int, question: Mapping[str, Any]) -> Any:
        """Waits for one answer. Each loop that waits reads the line; a plain function's `context.wait` has its own."""
        future: asyncio.Future[AnswerMessage] = loop.create_future()
        self._waiting[number] = future
        loop.add_reader(self.line.link, self._deliver)
        try:
            self.line.say({"ask": number, **question})
            return await future
        finally:
            del self._waiting[number]
            if not any(other.get_loop() is loop for other in self._waiting.values()):
                loop.remove_reader(self.line.link)

    def _deliver(self) -> None:
        """Hands out what has come; whichever loop reads it, it reaches the loop that waits for it."""
        with self._lock:
            messages = self.line.heard_now()
        for message in messages:
            if message is None:
                raise Ended
            future = self._waiting.get(message.number)
            if future is not None:
                future.get_loop().call_soon_threadsafe(_settle, future, message)


def _settle(future: asyncio.Future[AnswerMessage], answer: AnswerMessage) -> None:
    if not future.done():
        future.set_result(answer)
