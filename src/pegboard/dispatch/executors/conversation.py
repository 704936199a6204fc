"""`Conversation`: one call in a child process, as its parent holds it."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import threading
import time
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.dispatch.executors.child_process import ChildProcess
from pegboard.dispatch.executors.executor import Talk
from pegboard.dispatch.executors.frames import FrameError
from pegboard.dispatch.executors.hearing import NonsenseError, message_of, told_in
from pegboard.dispatch.executors.luggage import Errand
from pegboard.dispatch.executors.questions import Questions
from pegboard.dispatch.executors.response import ExecutionResponse
from pegboard.typing import JsonObject

START_SECONDS: Final = 60.0
"""How long a child may take until it listens."""

MOST_UNHEARD: Final = 256
"""What a call may have told that its event loop hasn't taken yet; then its process has to wait."""


class Ending(enum.Enum):
    """How a conversation ended."""

    ANSWERED = "the child has answered"
    STALE = "the child has other code"
    HUNG_UP = "the child has hung up"
    GARBLED = "the child has said what makes no sense"
    NOT_STARTED = "the child didn't start in time"
    TIMED_OUT = "the time is over"
    STOPPED = "nobody wants the answer any more"


@frozen
class Ended:
    """How a conversation ended, and with what.

    Attributes:
        ending: How.
        response: What the child answered, or `None`.
        fatal: The text of the `FatalToolError` that the tool raised, or `None`.
        raised: What the tool was told by an answer to one of its questions, if that ended the call; or `None`.
        reason: For the operator: what didn't make sense, or isn't what it was.
    """

    ending: Ending
    response: ExecutionResponse | None = None
    fatal: str | None = None
    raised: BaseException | None = None
    reason: str | None = None


@define(eq=False)
class Conversation:
    """One call in a child process. A thread holds it; whoever waits for the call may stop it.

    Attributes:
        errand: The call.
        talk: What the tool may tell and ask.
        loop: The caller's.
        deadline: When its time is over, in seconds of `time.monotonic()`; `None` is never.
        has_begun: Whether a thread has the call.
        is_stopped: Whether nobody wants the answer any more.
    """

    errand: Errand
    talk: Talk
    loop: asyncio.AbstractEventLoop
    deadline: float | None
    has_begun: bool = field(default=False, init=False)
    is_stopped: bool = field(default=False, init=False)
    _context: contextvars.Context = field(factory=contextvars.copy_context, init=False)
    _child: ChildProcess | None = field(default=None, init=False)
    _questions: Questions | None = field(default=None, init=False)
    _unheard: threading.BoundedSemaphore | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _over: threading.Event | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def stop(self) -> None:
        """Ends the conversation soon; from any thread."""
        self.is_stopped = True
        self._ring()

    def finish(self) -> None:
        """The thread is done with it."""
        with self._lock:
            self._is_over = True
        if self._over is not None:
            self._over.set()

    def wait(self, seconds: float) -> None:
        """Waits until the thread is done with it, if it has begun."""
        with self._lock:
            if self._is_over or not self.has_begun:
                return
            self._over = self._over or threading.Event()
        self._over.wait(seconds)

    def hold(self, child: ChildProcess) -> Ended:
        """Gives the child the call, and stays with it until its end. Takes a thread."""
        self._child = child
        try:
            child.begin(self.errand)
            return self._listen(child)
        except (FrameError, NonsenseError) as error:
            return Ended(Ending.GARBLED, reason=str(error))
        except RuntimeError:  # the caller's loop is closed
            return Ended(Ending.STOPPED)
        finally:
            self._child = None
            self._end_questions()

    def _listen(self, child: ChildProcess) -> Ended:
        start_until = time.monotonic() + START_SECONDS
        while not self.is_stopped:
            until = self._until() if child.is_ready else _earlier(self._until(), start_until)
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return Ended(Ending.NOT_STARTED if until == start_until else Ending.TIMED_OUT)
            for body in child.listen(left):
                ended = self._heard(child, message_of(body))
                if ended is not None:
                    return ended
            if child.has_hung_up:
                return Ended(Ending.HUNG_UP)
            while self._questions is not None and self._questions.replies:
                child.say(self._questions.replies.popleft())
        return Ended(Ending.STOPPED)

    def _until(self) -> float | None:
        """When time is over, as things stand."""
        if self._questions is None or self.deadline is None:
            return self.deadline
        return None if self._questions.time_stands_still else self.deadline + self._questions.stood_still

    def _heard(self, child: ChildProcess, message: JsonObject) -> Ended | None:
        if "done" in message:
            return self._answered(message)
        if "ask" in message:
            self._asked(message)
        elif "tell" in message:
            self._told(told_in(message))
        elif "stale" in message:
            return Ended(Ending.STALE, reason=f"{message['stale']}")
        elif "ready" in message:
            child.is_ready = True
        else:
            raise NonsenseError("it said what isn't known here")
        return None

    def _answered(self, message: JsonObject) -> Ended:
        fatal, question = message.get("fatal"), message.get("question")
        try:
            response = ExecutionResponse.from_json(message["done"])
        except ValueError as error:
            raise NonsenseError(str(error)) from None
        raised = None if self._questions is None or type(question) is not int else self._questions.raised.get(question)
        return Ended(Ending.ANSWERED, response, fatal if isinstance(fatal, str) else None, raised)

    def _asked(self, message: JsonObject) -> None:
        if self._questions is None:
            self._questions = Questions(self.talk.answers, self.loop, self._context, self._ring)
        self._questions.take(message)

    def _ring(self) -> None:
        child = self._child
        if child is not None:
            child.ring()

    def _end_questions(self) -> None:
        if self._questions is not None:
            try:
                self._questions.end()
            except RuntimeError:  # the caller's loop is closed
                return

    def _told(self, thing: object) -> None:
        """Passes it on in the loop; where the loop is behind, the child has to wait."""
        if self.talk.tell is None:
            return
        if self._unheard is None:
            self._unheard = threading.BoundedSemaphore(MOST_UNHEARD)
        while not self._unheard.acquire(timeout=0.05):
            until = self._until()
            if self.is_stopped or (until is not None and time.monotonic() > until):
                return
        self.loop.call_soon_threadsafe(self._tell, thing, context=self._context)

    def _tell(self, thing: Any) -> None:
        assert self.talk.tell is not None
        assert self._unheard is not None
        self._unheard.release()
        self.talk.tell(thing)


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)
