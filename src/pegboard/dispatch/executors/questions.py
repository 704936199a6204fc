"""`Questions`: what a tool in a child process has asked, answered in the caller's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from attrs import define, field

from pegboard.dispatch.executors.answering import AnswerMessage, described
from pegboard.dispatch.executors.executor import Answer
from pegboard.dispatch.executors.hearing import NonsenseError
from pegboard.dispatch.limits import cancels_the_call
from pegboard.schema.json import is_object
from pegboard.typing import JsonObject

MOST_WAITING: Final = 64
"""Questions of one call that may wait for their answers at once."""

_PUT_TO_PEOPLE: Final = ("ask", "request_confirmation")


@define(eq=False)
class Questions:
    """The questions of one call. A thread takes them in and hands out the answers; the loop works them out.

    Attributes:
        answers: Who answers what.
        loop: Where.
        context: The context variables that the answers see.
        on_reply: Called in the loop when there is a reply to send.
    """

    answers: Mapping[str, Answer]
    loop: asyncio.AbstractEventLoop
    context: contextvars.Context
    on_reply: Callable[[], None]
    replies: deque[AnswerMessage] = field(factory=deque[AnswerMessage], init=False)
    raised: dict[int, BaseException] = field(factory=dict[int, BaseException], init=False)
    stood_still: float = field(default=0.0, init=False)
    is_over: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)
    _people: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set["asyncio.Task[None]"], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def time_stands_still(self) -> bool:
        """Whether a person is asked: what people take isn't the tool's time."""
        return self._people > 0

    def take(self, message: JsonObject) -> None:
        """Takes in one question; in the thread.

        Raises:
            NonsenseError: It is none.
            RuntimeError: The loop is closed.
        """
        number, what, facts = message["ask"], message.get("what"), message.get("facts")
        if type(number) is not int or not isinstance(what, str) or not is_object(facts):
            raise NonsenseError("it asked what is no question")
        answer = self.answers.get(what)
        if answer is None or self._waiting >= MOST_WAITING:
            reason = f"nobody answers {what!r:.40} here" if answer is None else "too many questions at once"
            self.replies.append(AnswerMessage(number, error=described(LookupError(reason))))
            return
        self._begin(what)
        self.loop.call_soon_threadsafe(self._start, number, what, answer, facts, context=self.context)

    def end(self) -> None:
        """Nobody wants the answers any more; in the thread.

        Raises:
            RuntimeError: The loop is closed.
        """
        self.is_over = True
        if self._waiting:
            self.loop.call_soon_threadsafe(self._cancel)

    def _start(self, number: int, what: str, answer: Answer, facts: JsonObject) -> None:
        if not self.is_over:
            task = self.loop.create_task(self._answer(number, what, answer, facts), context=self.context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, what: str, answer: Answer, facts: JsonObject) -> None:
        try:
            reply = AnswerMessage(number, await answer(facts))
        except BaseException as error:  # the tool gets it, whatever it is
            if cancels_the_call(error):
                raise
            self.raised[number] = error
            reply = AnswerMessage(number, error=described(error))
        finally:
            self._end(what)
        self.replies.append(reply)
        self.on_reply()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _begin(self, what: str) -> None:
        with self._lock:
            self._waiting += 1
            if what in _PUT_TO_PEOPLE:
                self._people += 1
                if self._people == 1:
                    self._since = time.monotonic()

    def _end(self, what: str) -> None:
        with self._lock:
            self._waiting -= 1
            if what in _PUT_TO_PEOPLE:
                self._people -= 1
                if not self._people:
                    self.stood_still += time.monotonic() - self._since
