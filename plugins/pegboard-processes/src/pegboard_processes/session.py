"""Session: one call in a child process, in its caller's event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
from functools import partial
from typing import Any, Final

from attrs import Factory, define, field, frozen

from pegboard.execution import ExecutionResponse, ExecutorCall, error_to_json
from pegboard.json import is_object, strict_json
from pegboard.typing import JsonObject
from pegboard_processes.process import ChildProcess
from pegboard_processes.rpc import ProtocolError, Reply
from pegboard_processes.task import Task

START_SECONDS: Final = 60.0
"""How long a child may take until it is ready."""

QUIET_SECONDS: Final = 0.01
"""After which time a call's output is read as it comes. The pipe buffers the output of a short call, and watching
another file would make such a call a tenth slower."""

MOST_WAITING: Final = 64
"""Questions of one call that may wait for their answers at once."""

_SLOW_QUESTIONS: Final = ("ask", "request_confirmation", "call")
"""Those for whose answers the user or another tool takes time, which the call's limit doesn't count."""


class Ending(enum.Enum):
    """Reason for the end of a session."""

    ANSWERED = "the child has answered"
    STALE = "the child has other code"
    REENTERED = "the child would run the parent's program again"
    DISCONNECTED = "the child has closed its connection"
    GARBLED = "the child broke the protocol"
    NOT_STARTED = "the child didn't start in time"
    TIMED_OUT = "the time limit was exceeded"
    NOT_IMPORTED = "importing the tool's module took too long"
    STOPPED = "the pool is closed"


@frozen
class Ended:
    """Outcome of a session.

    Attributes:
        ending: The reason for its end.
        response: The child's response, or `None`.
        fatal: The text of the `FatalToolError` that the tool raised, or `None`.
        raised: The error of an answer to one of the tool's questions, if that ended the call; or `None`.
        reason: For the operator: what violated the protocol, or which code has changed.
    """

    ending: Ending
    response: ExecutionResponse | None = None
    fatal: str | None = None
    raised: BaseException | None = None
    reason: str | None = None


@define(eq=False)
class Session:
    """One call in a child process. All methods but `stop` run in the caller's event loop.

    Attributes:
        call: The call, which answers the tool's questions.
        task: The message to the child.
        import_timeout: Seconds for importing the tool's module, which the call's own limit doesn't count.
        loop: The caller's event loop.
        is_stopped: Whether the pool was closed.
        over: Set by a pool that waits for the session's end, perhaps in another thread; or `None`.
    """

    call: ExecutorCall
    task: Task
    import_timeout: float
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop)
    is_stopped: bool = field(default=False, init=False)
    over: concurrent.futures.Future[None] | None = field(default=None, init=False)
    _left: float | None = field(default=Factory(lambda self: self.task.request.timeout, takes_self=True), init=False)
    _since: float = field(default=0.0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _sends_later: bool = field(default=False, init=False)
    _reads_output: bool = field(default=False, init=False)
    _asking: int = field(default=0, init=False)
    _child: ChildProcess | None = field(default=None, init=False)
    _ended: asyncio.Future[Ended] | None = field(default=None, init=False)
    _answers: set[asyncio.Task[None]] = field(factory=set["asyncio.Task[None]"], init=False)
    _raised: dict[int, BaseException] = field(factory=dict[int, BaseException], init=False)

    def stop(self) -> bool:
        """Ends the session soon, from any thread; returns false if its loop is closed, so that it can't end."""
        self.is_stopped = True
        try:
            self.loop.call_soon_threadsafe(self._end, Ended(Ending.STOPPED))
        except RuntimeError:
            if self._child is not None:
                self._child.kill()
            return False
        return True

    async def run(self, child: ChildProcess) -> Ended:
        """Runs the call in the child, until the session ends."""
        if self.is_stopped:
            return Ended(Ending.STOPPED)
        loop, self._child, self._since = self.loop, child, self.loop.time()
        ended = self._ended = loop.create_future()
        timers = [loop.call_later(QUIET_SECONDS, self._read_output)]
        if not child.is_ready:
            timers.append(loop.call_later(START_SECONDS, self._check_start))
        try:
            child.begin(self.task)
            if child.is_importing:
                timers.append(loop.call_later(self.import_timeout, self._check_import))
            else:
                self._start_timer()
            loop.add_reader(child.link, self._receive)
            self._flush()
            return await ended
        finally:
            for timer in timers:
                timer.cancel()
            self._stop_timer()
            for task in self._answers:
                task.cancel()
            self._child = None
            if not loop.is_closed():
                self._unwatch(child)

    def _unwatch(self, child: ChildProcess) -> None:
        self.loop.remove_reader(child.link)
        if self._sends_later:
            self.loop.remove_writer(child.link)
        if self._reads_output:
            self.loop.remove_reader(child.output)
        self._sends_later = self._reads_output = False

    def _end(self, ended: Ended) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(ended)

    # Time ------------------------------------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        """Starts the timer for the rest of the call's time."""
        if self._left is not None:
            self._timer = self.loop.call_at(self._since + self._left, self._end, Ended(Ending.TIMED_OUT))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _pause_timer(self) -> None:
        """Stops the timer while the user is asked, or another tool runs."""
        self._asking += 1
        if self._asking == 1:
            self._stop_timer()
            if self._left is not None:
                self._left -= self.loop.time() - self._since

    def _resume_timer(self) -> None:
        self._asking -= 1
        if not self._asking and self._child is not None:
            self._since = self.loop.time()
            self._start_timer()

    def _check_start(self) -> None:
        if self._child is not None and not self._child.is_ready:
            self._end(Ended(Ending.NOT_STARTED))

    def _begin_time(self, child: ChildProcess) -> None:
        """Starts the call's time after the import; a child can't do that twice."""
        if child.is_importing:
            child.is_importing, self._since = False, self.loop.time()
            self._start_timer()

    def _check_import(self) -> None:
        if self._child is not None and self._child.is_importing:
            self._end(Ended(Ending.NOT_IMPORTED))

    # Messages and output ---------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Sends as much as possible now, and the rest once the child can take it."""
        child = self._child
        if child is None:
            return
        is_left = child.flush()
        if is_left and not self._sends_later:
            self.loop.add_writer(child.link, self._flush)
        elif self._sends_later and not is_left:
            self.loop.remove_writer(child.link)
        self._sends_later = is_left

    def _read_output(self) -> None:
        """Reads the child's output, and watches for more."""
        child = self._child
        if child is None:
            return
        prints = child.read_output()
        if prints and not self._reads_output:
            self.loop.add_reader(child.output, self._read_output)
        elif self._reads_output and not prints:
            self.loop.remove_reader(child.output)
        self._reads_output = prints

    def _receive(self) -> None:
        child = self._child
        if child is None or self._ended is None or self._ended.done():
            return
        try:
            for body in child.receive():
                self._handle(child, _decode(body))
        except (ProtocolError, ValueError) as error:
            self._end(Ended(Ending.GARBLED, reason=str(error)))
        if child.is_disconnected:
            self._end(Ended(Ending.DISCONNECTED))

    def _handle(self, child: ChildProcess, message: JsonObject) -> None:
        if "response" in message:
            child.read_output()
            self._end(self._read_answer(message))
        elif "question" in message:
            self._handle_question(message)
        elif "event" in message:
            if not is_object(event := message["event"]):
                raise ProtocolError("it sent an event that is not an object")
            if self.call.is_watched:
                self.call.emit(event)
        elif "stale" in message:
            self._end(Ended(Ending.STALE, reason=f"{message['stale']}"))
        elif "imported" in message:
            self._begin_time(child)
        elif "reentered" in message:
            self._end(Ended(Ending.REENTERED))
        elif "ready" in message:
            child.is_ready = True
        else:
            raise ProtocolError("it sent an unknown message")

    def _read_answer(self, message: JsonObject) -> Ended:
        fatal, number = message.get("fatal"), message.get("raised")
        response = ExecutionResponse.from_json(message["response"])
        raised = self._raised.get(number) if type(number) is int else None
        return Ended(Ending.ANSWERED, response, fatal if isinstance(fatal, str) else None, raised)

    # Questions -------------------------------------------------------------------------------------------------------

    def _handle_question(self, message: JsonObject) -> None:
        number, name, arguments = message["question"], message.get("name"), message.get("arguments")
        if type(number) is not int or not isinstance(name, str) or not is_object(arguments):
            raise ProtocolError("it sent an invalid question")
        if len(self._answers) >= MOST_WAITING:
            self._reply(Reply(number, error=error_to_json(LookupError("too many questions at once"))))
            return
        pauses = name in _SLOW_QUESTIONS
        if pauses:
            self._pause_timer()
        task = self.loop.create_task(self._answer(number, name, arguments))
        self._answers.add(task)
        task.add_done_callback(partial(self._forget, pauses))

    def _forget(self, pauses: bool, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if pauses:
            self._resume_timer()

    async def _answer(self, number: int, name: str, arguments: JsonObject) -> None:
        try:
            reply = Reply(number, await self.call.answer(name, arguments))
        except BaseException as error:  # it is raised in the tool
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            self._raised[number] = error
            reply = Reply(number, error=error_to_json(error))
        self._reply(reply)

    def _reply(self, reply: Reply) -> None:
        if self._child is not None:
            self._child.send(reply)
            self._flush()


def _decode(body: bytes) -> JsonObject:
    """Parses a message of the child, which isn't trusted.

    Raises:
        ValueError: It is not JSON.
        ProtocolError: It is not an object.
    """
    message: Any = strict_json(body)
    if not is_object(message):
        raise ProtocolError("it sent a message that is not an object")
    return message
