"""Session: one call in a child process, in its caller's event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
from functools import partial
from typing import Any, Final, cast

from attrs import Factory, define, field, frozen

from pegboard import ExecutionResponse, ExecutorCall
from pegboard.schema.json import strict_json
from pegboard.typing import JsonObject
from pegboard_processes.process import ChildProcess
from pegboard_processes.rpc import ProtocolError, Reply, error_to_json
from pegboard_processes.task import Task

START_SECONDS: Final = 60.0
"""How long a child may take until it listens."""

QUIET_SECONDS: Final = 0.01
"""From when on a call's output is read as it comes. A pipe holds what a short call prints, and watching another file
would cost a tenth of such a call."""

MOST_WAITING: Final = 64
"""Questions of one call that may wait for their answers at once."""

_FOR_PEOPLE: Final = ("ask", "request_confirmation")


class Ending(enum.Enum):
    """Way in which a session ended."""

    ANSWERED = "the child has answered"
    STALE = "the child has other code"
    REENTERED = "the child was to run the parent's program again"
    DISCONNECTED = "the child has closed its connection"
    GARBLED = "the child broke the protocol"
    NOT_STARTED = "the child didn't start in time"
    TIMED_OUT = "the time is over"
    STOPPED = "the pool is closed"


@frozen
class Ended:
    """End of a session, with what it gave.

    Attributes:
        ending: How.
        response: What the child answered, or `None`.
        fatal: The text of the `FatalToolError` that the tool raised, or `None`.
        raised: The error of an answer to one of the tool's questions, if that ended the call; or `None`.
        reason: For the operator: what broke the protocol, or isn't what it was.
    """

    ending: Ending
    response: ExecutionResponse | None = None
    fatal: str | None = None
    raised: BaseException | None = None
    reason: str | None = None


@define(eq=False)
class Session:
    """One call in a child process. All of it happens in the caller's event loop, but for `stop`.

    Attributes:
        call: The call, and what answers the tool's questions.
        task: The call as the child gets it.
        loop: The caller's.
        is_stopped: Whether the pool was closed meanwhile.
        over: Where the pool waits for its end, from another thread perhaps; or `None`.
    """

    call: ExecutorCall
    task: Task
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop)
    is_stopped: bool = field(default=False, init=False)
    over: concurrent.futures.Future[None] | None = field(default=None, init=False)
    _left: float | None = field(default=Factory(lambda self: self.task.request.timeout, takes_self=True), init=False)
    _since: float = field(default=Factory(lambda self: self.loop.time(), takes_self=True), init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _sends_later: bool = field(default=False, init=False)
    _reads_output: bool = field(default=False, init=False)
    _people: int = field(default=0, init=False)
    _child: ChildProcess | None = field(default=None, init=False)
    _ended: asyncio.Future[Ended] | None = field(default=None, init=False)
    _answers: set[asyncio.Task[None]] = field(factory=set["asyncio.Task[None]"], init=False)
    _raised: dict[int, BaseException] = field(factory=dict[int, BaseException], init=False)

    def stop(self) -> bool:
        """Ends the session soon, from any thread; false where its loop is closed, and nothing will ever end there."""
        self.is_stopped = True
        try:
            self.loop.call_soon_threadsafe(self._end, Ended(Ending.STOPPED))
        except RuntimeError:
            if self._child is not None:
                self._child.kill()
            return False
        return True

    async def run(self, child: ChildProcess) -> Ended:
        """Gives the child the call, and stays with it until the end."""
        if self.is_stopped:
            return Ended(Ending.STOPPED)
        loop, self._child = self.loop, child
        ended = self._ended = loop.create_future()
        timers = [loop.call_later(QUIET_SECONDS, self._read_output)]
        if not child.is_ready:
            timers.append(loop.call_later(START_SECONDS, self._check_start))
        self._run_clock()
        try:
            child.begin(self.task)
            loop.add_reader(child.link, self._receive)
            self._flush()
            return await ended
        finally:
            for timer in timers:
                timer.cancel()
            self._stop_clock()
            for task in self._answers:
                task.cancel()
            self._child = None
            if not loop.is_closed():
                self._let_go(child)

    def _let_go(self, child: ChildProcess) -> None:
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

    def _run_clock(self) -> None:
        """Sets the timer to what is left of the call's time: from its start, and from where it stood still."""
        if self._left is not None:
            self._timer = self.loop.call_at(self._since + self._left, self._end, Ended(Ending.TIMED_OUT))

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait_for_people(self) -> None:
        """Stops the clock: the time that people take isn't the tool's."""
        self._people += 1
        if self._people == 1:
            self._stop_clock()
            if self._left is not None:
                self._left -= self.loop.time() - self._since

    def _go_on(self) -> None:
        self._people -= 1
        if not self._people and self._child is not None:
            self._since = self.loop.time()
            self._run_clock()

    def _check_start(self) -> None:
        if self._child is not None and not self._child.is_ready:
            self._end(Ended(Ending.NOT_STARTED))

    # To and fro ------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Sends what the child takes now, and the rest when it takes more."""
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
        """Reads what the child has printed, and goes on with it as it prints more."""
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
                self._take(child, _decoded(body))
        except (ProtocolError, ValueError) as error:
            self._end(Ended(Ending.GARBLED, reason=str(error)))
        if child.is_disconnected:
            self._end(Ended(Ending.DISCONNECTED))

    def _take(self, child: ChildProcess, message: JsonObject) -> None:
        if "response" in message:
            child.read_output()
            self._end(self._answered(message))
        elif "question" in message:
            self._take_question(message)
        elif "event" in message:
            if not isinstance(message["event"], dict):
                raise ProtocolError("it emitted what is no object")
            if self.call.is_watched:
                self.call.emit(cast("JsonObject", message["event"]))
        elif "stale" in message:
            self._end(Ended(Ending.STALE, reason=f"{message['stale']}"))
        elif "imported" in message:
            child.is_importing = False
        elif "reentered" in message:
            self._end(Ended(Ending.REENTERED))
        elif "ready" in message:
            child.is_ready = True
        else:
            raise ProtocolError("it sent what isn't known here")

    def _answered(self, message: JsonObject) -> Ended:
        fatal, number = message.get("fatal"), message.get("raised")
        response = ExecutionResponse.from_json(message["response"])
        raised = self._raised.get(number) if type(number) is int else None
        return Ended(Ending.ANSWERED, response, fatal if isinstance(fatal, str) else None, raised)

    # Questions -------------------------------------------------------------------------------------------------------

    def _take_question(self, message: JsonObject) -> None:
        number, name, arguments = message["question"], message.get("name"), message.get("arguments")
        if type(number) is not int or not isinstance(name, str) or not isinstance(arguments, dict):
            raise ProtocolError("it asked what is no question")
        if len(self._answers) >= MOST_WAITING:
            self._reply(Reply(number, error=error_to_json(LookupError("too many questions at once"))))
            return
        is_for_people = name in _FOR_PEOPLE
        if is_for_people:
            self._wait_for_people()
        task = self.loop.create_task(self._answer(number, name, cast("JsonObject", arguments)))
        self._answers.add(task)
        task.add_done_callback(partial(self._forget, is_for_people))

    def _forget(self, is_for_people: bool, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if is_for_people:
            self._go_on()

    async def _answer(self, number: int, name: str, arguments: JsonObject) -> None:
        try:
            reply = Reply(number, await self.call.answer(name, arguments))
        except BaseException as error:  # the tool gets it, whatever it is
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


def _decoded(body: bytes) -> JsonObject:
    """A message of the child's, which isn't trusted.

    Raises:
        ValueError: It is no JSON.
        ProtocolError: It is no object.
    """
    message: Any = strict_json(body)
    if not isinstance(message, dict):
        raise ProtocolError("it sent what is no object")
    return cast("JsonObject", message)
