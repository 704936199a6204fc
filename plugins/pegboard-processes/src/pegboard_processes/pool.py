"""Pool of child processes that run tools, one call at a time each, and can be killed.

Each call is served by its caller's event loop, so a pool isn't bound to a loop: calls may come from several, in several
threads. Children are started and ended in threads, as both block.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Final, TypeVar

from attrs import Factory, define, field

from pegboard.errors import FatalToolError, at_least, instance_of
from pegboard.execution import ExecutionRequest, ExecutionResponse, ExecutorCall
from pegboard_processes.process import ChildProcess, exit_status
from pegboard_processes.session import START_SECONDS, Ended, Ending, Session
from pegboard_processes.task import UnsendableError, check_reentry, task_for

T = TypeVar("T")
LEAST_MEMORY: Final = 64 << 20
"""Bytes that a child needs for Python itself and what a tool imports."""

_COUNT: Final = (instance_of(int), at_least(1))


@define(eq=False, kw_only=True)
class ChildProcesses:
    """Executor that runs tools in a pool of child Pythons, which are started on demand and reused.

    A tool that crashes, never ends or takes too much memory fails only its own call; the next one gets another child.
    A child is ended with its whole process group, and so with what a tool has started in it. It ends with its parent,
    too, however that ends. A process that has left the group (`setsid`) is out of reach.

    A child imports the tool's module itself: the function has to be at the top level of a module or a file. The child
    receives the arguments and answers in JSON of bounded length; its output is reported to the operator. It doesn't
    have the module variables that the program has set at run time.

    Works on POSIX systems; elsewhere a call's result is `not_executed`.

    Attributes:
        most: How many children may run at once; further calls wait in a queue, except calls from inside a tool.
        memory: Bytes that a call's whole process may use; at least 64 MiB. `None` is no limit. Enforced by Linux (as
            `RLIMIT_DATA`) and the BSDs (as `RLIMIT_AS`), not by macOS.
        grace: Seconds between `SIGTERM` and `SIGKILL`.
        calls: After how many calls a child is replaced; `None` is never. With 1, no call sees what another left behind.
        message_bytes: The most bytes of one message of a child, such as a result.
        import_timeout: Seconds for importing a tool's module, at the first call in each child. The time limit of a call
            begins after that.
        name: The executor's name.
    """

    most: int = field(default=4, validator=_COUNT)
    memory: int | None = field(
        default=None, validator=(instance_of(int, type(None)), at_least(LEAST_MEMORY, or_none=True))
    )
    grace: float = field(default=0.5, validator=(instance_of(int, float), at_least(0)))
    calls: int | None = field(default=None, validator=(instance_of(int, type(None)), at_least(1, or_none=True)))
    message_bytes: int = field(default=8 << 20, validator=(instance_of(int), at_least(1_000, exclusive=True)))
    import_timeout: float = field(default=60.0, validator=(instance_of(int, float), at_least(0, exclusive=True)))
    name: str = "process"
    sends_all: ClassVar[bool] = True  # a child is on this machine, and keeps nothing
    _places: _Semaphore = field(default=Factory(lambda self: _Semaphore(self.most), takes_self=True), init=False)
    _idle: list[ChildProcess] = field(factory=list[ChildProcess], init=False)
    _sessions: set[Session] = field(factory=set[Session], init=False)
    _threads: ThreadPoolExecutor | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _owner: int = field(factory=os.getpid, init=False)

    @property
    def start_seconds(self) -> float:
        """How long a child may take to start and to import the tool's module, before the call's time limit counts."""
        return START_SECONDS + self.import_timeout

    async def execute_tool(self, call: ExecutorCall) -> ExecutionResponse:
        """Runs a call of any tool whose function a child can find.

        Raises:
            FatalToolError: The tool ends the turn.
            BaseException: `call.bind()`, or an answer to one of the tool's questions that ended the call, raised it.
        """
        check_reentry()
        tool, request = call.tool, call.request
        if os.name != "posix" or call.handler is None:
            reason = "has no handler here" if os.name == "posix" else "needs a POSIX system to run in a process"
            return ExecutionResponse.failed("not_executed", f"{tool.name} was not run: it {reason}.")
        if os.getpid() != self._owner:
            self._start_anew()
        if request.memory_limit is None and self.memory is not None:
            request = request.evolve(memory_limit=self.memory)
        args, kwargs = await call.bind()
        try:
            task = task_for(call, request, args, kwargs)
        except UnsendableError as error:
            text = f"{tool.name} was not run: it can't run in a child process. Continue without it."
            return ExecutionResponse.failed("not_executed", text, detail=str(error))
        session = Session(call, task, self.import_timeout)
        self._sessions.add(session)
        try:
            return await self._in_turn(session, request)
        finally:
            with self._lock:
                self._sessions.discard(session)
                over = session.over
            if over is not None:
                over.set_result(None)

    async def aclose(self) -> None:
        """Ends all children; the result of running calls is `aborted`. A later call starts new children."""
        over: list[Future[None]] = []
        with self._lock:
            for session in self._sessions:
                if session.stop():
                    session.over = session.over or Future()
                    over.append(session.over)
        if over:
            await asyncio.wait([asyncio.wrap_future(each) for each in over], timeout=self.grace + 10)
        with self._lock:  # only now: a call that had just ended has put its child back
            idle, self._idle = self._idle, []
        await asyncio.gather(*(self._in_thread(child.end, self.grace) for child in idle))
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def _in_turn(self, session: Session, request: ExecutionRequest) -> ExecutionResponse:
        if request.depth:  # a call from inside a tool, which has a child already
            return await self._in_child(session, request)
        try:
            async with asyncio.timeout(request.timeout):
                await self._places.acquire()
        except TimeoutError:
            text = (
                f"{request.tool} was not run: every child process was busy for {request.timeout:g} s. Try again later."
            )
            return ExecutionResponse.failed("timeout", text)
        try:
            return await self._in_child(session, request)
        finally:
            self._places.release()

    async def _in_child(self, session: Session, request: ExecutionRequest) -> ExecutionResponse:
        """Runs one call in an idle or new child."""
        try:
            child = await self._free_child()
        except OSError as error:
            text = f"{request.tool} was not run: its process could not be started."
            return ExecutionResponse.failed("crashed", text, detail=str(error))
        try:
            ended = await self._run(session, child)
            if ended.ending is Ending.STALE and child.calls > 1:  # it may have imported an older version
                await self._in_thread(child.end, self.grace)
                child = await self._start()
                ended = await self._run(session, child)
            response = await self._finish(child, ended, request)
        except asyncio.CancelledError:
            await self._in_thread(child.end, self.grace)
            raise
        except GeneratorExit:  # the loop was closed in the middle of the call
            child.kill()
            raise
        if ended.raised is not None:
            raise ended.raised
        if ended.fatal is not None:
            raise FatalToolError(ended.fatal)
        return response

    async def _run(self, session: Session, child: ChildProcess) -> Ended:
        try:
            await session.call.decide_again()
        except Exception:  # the child wasn't used, and can serve another call
            with self._lock:
                self._idle.append(child)
            raise
        return await session.run(child)

    async def _finish(self, child: ChildProcess, ended: Ended, request: ExecutionRequest) -> ExecutionResponse:
        response = ended.response
        if response is None:
            has_time = ended.ending in (Ending.TIMED_OUT, Ending.NOT_IMPORTED, Ending.STOPPED)
            code = await self._in_thread(child.end, self.grace if has_time else 0.0)
            return _no_answer(ended, request, code, child, self.import_timeout)
        printed = child.output_tail
        if child.calls == self.calls or response.kind == "crashed":
            await self._in_thread(child.end, self.grace)
        else:
            with self._lock:
                self._idle.append(child)
        return _with_output(response, request.tool, printed)

    async def _free_child(self) -> ChildProcess:
        """The idle child that was used last; a new one if none is idle."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return await self._start()
            if child.is_idle:
                return child
            await self._in_thread(child.end, 0.0)

    async def _start(self) -> ChildProcess:
        return await self._in_thread(ChildProcess.start, self.message_bytes)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking function in the thread pool; cancelling the caller doesn't stop it."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(2 * self.most, "pegboard-process")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)

    def _start_anew(self) -> None:
        """Resets the pool in a fork: the children belong to the parent, and the threads aren't there."""
        self._places, self._lock, self._threads = _Semaphore(self.most), threading.Lock(), None
        self._idle, self._sessions, self._owner = [], set(), os.getpid()


SETTINGS: Final = ("most", "memory", "grace", "calls", "message_bytes", "import_timeout")
"""The settings of `[plugins.processes]`."""


@define(eq=False)
class _Semaphore:
    """Fair semaphore whose waiters may be in different event loops.

    Attributes:
        free: How many more may acquire it.
    """

    free: int
    _waiting: deque[Future[None]] = field(factory=deque[Future[None]], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def acquire(self) -> None:
        """Acquires it, in the order of the callers."""
        with self._lock:
            if self.free:
                self.free -= 1
                return
            waiting = Future[None]()
            self._waiting.append(waiting)
        try:
            await asyncio.wrap_future(waiting)
        except BaseException:
            if not waiting.cancel():  # it was acquired just before
                self.release()
            raise

    def release(self) -> None:
        """Wakes the next waiter; from any thread."""
        with self._lock:
            while self._waiting:
                waiting = self._waiting.popleft()
                if waiting.set_running_or_notify_cancel():
                    break
            else:
                self.free += 1
                return
        waiting.set_result(None)


# Responses -----------------------------------------------------------------------------------------------------------
_GUARD: Final = 'put the code that starts the program below `if __name__ == "__main__":`'


def _no_answer(
    ended: Ended, request: ExecutionRequest, code: int | None, child: ChildProcess, import_timeout: float
) -> ExecutionResponse:
    """The response for a call whose child did not answer.

    Args:
        ended: The end of the session.
        request: The call.
        code: The child's exit code, below 0 the number of a signal; `None` if it had to be killed.
        child: The child.
        import_timeout: How long it could import the tool's module, in seconds.
    """
    name, output = request.tool, f"\nIts last output:\n{child.output_tail}" if child.output_tail else ""
    if ended.ending in (Ending.TIMED_OUT, Ending.NOT_IMPORTED):
        text = f"{name} gave no result within {request.timeout:g} s. Its process was ended."
        if ended.ending is Ending.NOT_IMPORTED:
            text = f"{name} was not run: importing its module took longer than {import_timeout:g} s."
            text += f" Ask the user to raise import_timeout of the executor 'process', or to {_GUARD}."
        return ExecutionResponse.failed("timeout", text, detail=f"the child process was ended at the limit.{output}")
    if ended.ending is Ending.STOPPED:
        return ExecutionResponse.failed("aborted", f"{name} was aborted. Its process was ended.")
    if ended.ending is Ending.NOT_STARTED:
        text = f"{name} was not run: its process could not be started."
        return ExecutionResponse.failed("crashed", text, detail=f"the child process {exit_status(code)}.{output}")
    if ended.ending is Ending.STALE:
        return ExecutionResponse.other_definition(request, f"{ended.reason}; start the program again.")
    if ended.ending is Ending.REENTERED:
        text = f"{name} was not run: its process would have run the whole program again. Ask the user to {_GUARD}."
        return ExecutionResponse.failed("not_executed", text)
    text = f"{name} crashed. Its effects so far may remain; the same call may crash again."
    cause = f"the child process {exit_status(code)}"
    if ended.reason is not None:
        cause = f"the child process was ended: {ended.reason}"
    return ExecutionResponse.failed("crashed", text, detail=f"{cause}.{output}")


def _with_output(response: ExecutionResponse, tool: str, printed: str) -> ExecutionResponse:
    """Reports a call's output to the operator: in the detail of its error, or by the logger `pegboard` (`INFO`)."""
    if not printed:
        return response
    if response.is_error:
        return response.evolve(detail=f"{response.detail or ''}\nIts last output:\n{printed}".lstrip())
    logging.getLogger("pegboard").info("%s printed:\n%s", tool, printed)
    return response


__all__ = ["SETTINGS", "ChildProcesses"]
