"""`ChildProcesses`: tools run in child Pythons that can be killed, one call at a time each.

Each call that runs has a thread of the pool, which does everything by plain blocking calls: it starts the child, hears
it, ends it and waits for its end. So a pool belongs to no event loop: calls may come from several, and a loop that is
busy or gone delays no other. (asyncio's own subprocesses belong to the loop that started them.)
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import Factory, define, field
from attrs.validators import ge, gt, instance_of, optional

from pegboard.dispatch.arguments import refusal
from pegboard.dispatch.executors.child_process import ChildProcess
from pegboard.dispatch.executors.conversation import Conversation, Ended, Ending
from pegboard.dispatch.executors.executor import SILENCE, AnswerError, Talk
from pegboard.dispatch.executors.luggage import UnsendableError, errand_for
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse
from pegboard.dispatch.executors.verdict import response_for, with_printed
from pegboard.errors import FatalToolError
from pegboard.threads import WorkerPool
from pegboard.tools.collection import as_tools
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.injection import opened
from pegboard.tools.origin import LEAST_MEMORY
from pegboard.tools.tool import Tool

DEFAULT_MOST: Final = 4
DEFAULT_GRACE: Final = 0.5
DEFAULT_MESSAGE_BYTES: Final = 8 << 20
_COUNT: Final = (instance_of(int), ge(1))


def _by_name(tools: Iterable[Any]) -> Mapping[str, Tool]:
    return {tool.name: tool for given in tools for tool in as_tools(given)}


def _no_tools() -> Mapping[str, Tool]:
    return {}


@define(eq=False, kw_only=True)
class ChildProcesses:
    """Runs tools in child Pythons, which are started when they are needed, kept, and used again.

    A tool that crashes, hangs or takes too much memory costs its own call; the next one gets another child. A child
    is ended with its whole process group: what a tool has started there ends with it. It ends with its parent, too,
    however that ends. A process that has left the group (`setsid`) is out of reach.

    A child imports the tool's module for itself: the function has to stand at the top level of a module or a file.
    It is sent the arguments, and answers in JSON, of bounded length; what it prints is kept for the operator. Module
    variables that the program has set at run time aren't there.

    Works on POSIX systems; elsewhere a call gives `not_executed`.

    Attributes:
        tools: What `execute` finds by name: tools, functions, whatever `registry.register` takes for tools.
        most: How many children may run at once; further calls wait their turn. A call from inside a tool doesn't.
        memory: Bytes that a call may use, all of its process counted; at least 64 MiB. `None` is no limit. Kept by
            Linux (as `RLIMIT_DATA`) and the BSDs (as `RLIMIT_AS`), not by macOS.
        grace: Seconds between the signal to end (`SIGTERM`) and the end.
        calls: After how many calls a child is replaced; `None` is never. 1 lets no call see what another left behind.
        message_bytes: How long one message of a child may be: a result, above all.
        name: What it is called.
    """

    tools: Mapping[str, Tool] = field(factory=_no_tools, converter=_by_name)
    most: int = field(default=DEFAULT_MOST, validator=_COUNT)
    memory: int | None = field(default=None, validator=optional((instance_of(int), ge(LEAST_MEMORY))))
    grace: float = field(default=DEFAULT_GRACE, validator=(instance_of((int, float)), ge(0)))
    calls: int | None = field(default=None, validator=optional(_COUNT))
    message_bytes: int = field(default=DEFAULT_MESSAGE_BYTES, validator=(instance_of(int), gt(1000)))
    name: str = "process"
    _threads: WorkerPool = field(default=Factory(lambda self: WorkerPool(self.most), takes_self=True), init=False)
    _others: WorkerPool = field(factory=WorkerPool, init=False)
    _idle: list[ChildProcess] = field(factory=list[ChildProcess], init=False)
    _held: set[Conversation] = field(factory=set[Conversation], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _owner: int = field(factory=os.getpid, init=False)

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        """Runs a call of one of `tools`.

        Raises:
            FatalToolError: The tool ends the turn.
        """
        tool = self.tools.get(request.tool)
        if tool is None:
            listed = ", ".join(sorted(self.tools)) or "none"
            return ExecutionResponse.failed(
                "unknown_tool", f"No tool is called {request.tool!r:.80}. Available: {listed}."
            )
        problems = tool.check(request.arguments)
        if problems:
            error = refusal(tool, problems)
            return ExecutionResponse.failed(error.kind, error.text, detail=error.detail)
        return await self.execute_tool(tool, request, request.context(), SILENCE)

    async def execute_tool(
        self, tool: Tool, request: ExecutionRequest, context: ToolContext, talk: Talk
    ) -> ExecutionResponse:
        """Runs a call of any tool whose function a child can find: see `ToolExecutor`."""
        if os.name != "posix" or not isinstance(tool.handler, Handler):
            reason = "has no handler here" if os.name == "posix" else "needs a POSIX system to run in a process"
            return ExecutionResponse.failed("not_executed", f"{tool.name} {reason}; the host has to run it.")
        if os.getpid() != self._owner:
            self._start_anew()
        if request.memory_limit is None and self.memory is not None:
            request = request.evolve(memory_limit=self.memory)
        if tool.handler.injects:
            await opened(tool.handler.injects, context)
        try:
            errand = errand_for(tool, request, context, listens=talk.tell is not None)
        except UnsendableError as error:
            text = f"{tool.name} can't be run in a child process; the host has to change that."
            return ExecutionResponse.failed("not_executed", text, detail=str(error))
        deadline = None if request.timeout is None else time.monotonic() + request.timeout
        conversation = Conversation(errand, talk, asyncio.get_running_loop(), deadline)
        self._held.add(conversation)
        try:
            return await self._response(conversation, request)
        finally:
            self._held.discard(conversation)

    async def aclose(self) -> None:
        """Ends all children; calls that run answer `aborted`. A later call starts new ones."""
        held = list(self._held)
        for conversation in held:
            conversation.stop()
        with self._lock:
            idle, self._idle = self._idle, []
        await asyncio.gather(
            *(self._others.run(child.end, self.grace) for child in idle),
            *(self._until_over(conversation) for conversation in held),
        )
        self._threads.close()
        self._others.close()

    # How it does it ----------------------------------------------------------------------------------------------

    async def _response(self, conversation: Conversation, request: ExecutionRequest) -> ExecutionResponse:
        threads = self._others if request.depth else self._threads  # a caller from inside holds a child already
        try:
            async with asyncio.timeout(None) as waiting:
                timer = _give_up_later(conversation, request, waiting)
                try:
                    ended, response = await threads.run(self._hold, conversation, request)
                finally:
                    if timer is not None:
                        timer.cancel()
        except TimeoutError:
            conversation.stop()
            text = (
                f"{request.tool} was not run: every child process was busy for {request.timeout:g} s. Try again later."
            )
            return ExecutionResponse.failed("timeout", text)
        except asyncio.CancelledError:
            conversation.stop()
            await self._until_over(conversation)
            raise
        if ended.raised is not None:
            raise AnswerError(ended.raised) from ended.raised
        if ended.fatal is not None:
            raise FatalToolError(ended.fatal)
        return response

    async def _until_over(self, conversation: Conversation) -> None:
        """Waits until the child of a conversation that was stopped is gone."""
        if conversation.has_begun:
            await self._others.run(conversation.wait, self.grace + 10)

    def _hold(self, conversation: Conversation, request: ExecutionRequest) -> tuple[Ended, ExecutionResponse]:
        """One call from its child's start to its end; in a thread."""
        conversation.has_begun = True
        try:
            child = self._taken()
            ended = conversation.hold(child)
            if ended.ending is Ending.STALE and child.calls > 1:
                child.end(self.grace)  # it may have imported the module before it was changed
                child = ChildProcess.start(self.message_bytes)
                ended = conversation.hold(child)
            return ended, self._settled(child, ended, request)
        except OSError as error:
            text = f"{request.tool} was not run: its process could not be started."
            return Ended(Ending.NOT_STARTED), ExecutionResponse.failed("crashed", text, detail=str(error))
        finally:
            conversation.finish()

    def _settled(self, child: ChildProcess, ended: Ended, request: ExecutionRequest) -> ExecutionResponse:
        if ended.response is not None:
            is_used_up = child.calls == self.calls or ended.response.kind == "crashed"
            printed = child.printed
            if is_used_up:
                child.end(self.grace)
            else:
                with self._lock:
                    self._idle.append(child)
            return with_printed(ended.response, request.tool, printed)
        has_time = ended.ending in (Ending.TIMED_OUT, Ending.STOPPED)
        code = child.bury() if ended.ending is Ending.HUNG_UP else child.end(self.grace if has_time else 0.0)
        return response_for(ended, request, code, child.printed)

    def _taken(self) -> ChildProcess:
        """A child that waits, the one that worked last; a new one where there is none."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return ChildProcess.start(self.message_bytes)
            if child.is_well:
                return child
            child.end(0.0)

    def _start_anew(self) -> None:
        """In a fork of the parent: its children are the parent's, and its threads aren't there."""
        self._threads, self._others, self._lock = WorkerPool(self.most), WorkerPool(), threading.Lock()
        self._idle, self._held, self._owner = [], set(), os.getpid()


def _give_up_later(
    conversation: Conversation, request: ExecutionRequest, waiting: asyncio.Timeout
) -> asyncio.TimerHandle | None:
    """A call that has a child is ended by whoever holds that; one that still waits for its turn gives up."""
    if request.timeout is None:
        return None

    def give_up() -> None:
        if not conversation.has_begun:
            waiting.reschedule(conversation.loop.time())

    return conversation.loop.call_later(request.timeout, give_up)


__all__ = ["ChildProcesses"]
