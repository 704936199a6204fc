"""Program of a child process: runs tasks, one at a time, until its parent disconnects.

Sync functions run in the main thread, where signals reach them; async ones in an event loop, which is created for the
first of them and reused.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, Final, NoReturn

from attrs import define, field

from pegboard import Tool, ToolContext
from pegboard.errors import FatalToolError
from pegboard.execution import CallerHost, ExecutionRequest, ExecutionResponse
from pegboard.typing import JsonObject
from pegboard_processes.caller import ParentCaller
from pegboard_processes.rpc import Connection, MessageTooLongError, Shutdown
from pegboard_processes.task import StaleCodeError, Task, unpack

LIMITED: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
"""The resource that a memory limit applies to.

On Linux that is data (the heap and private writable mappings), which is closer to what a tool really uses than its
address space: threads and runtimes reserve much more of that than they use. Elsewhere it is the address space, whose
limit macOS accepts but doesn't enforce.
"""


def main() -> None:
    """Serves the parent that started this process with the arguments in `sys.argv`."""
    _, link, most, *_ = sys.argv
    sys.argv[1:] = []
    signal.signal(signal.SIGTERM, _end)
    connection = Connection(socket.socket(fileno=int(link)), int(most))
    # A tool's fork must not use the socket: it would answer a second time, and leave it open.
    os.register_at_fork(after_in_child=connection.link.close)
    faulthandler.enable()  # a crash in C leaves a Python traceback in the output, which the parent reports
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        connection.send({"ready": os.getpid()})
        Server(connection).serve()
    except (Shutdown, OSError):
        return


def _end(*_: object) -> NoReturn:
    raise Shutdown


# Tasks ---------------------------------------------------------------------------------------------------------------


@define(eq=False)
class Server:
    """Server of the parent's tasks."""

    connection: Connection
    _tools: dict[int, Tool] = field(factory=dict[int, Tool], init=False)
    _runner: asyncio.Runner | None = field(default=None, init=False)
    _folder: str = field(factory=os.getcwd, init=False)

    def serve(self) -> None:
        """Runs each task, until the parent disconnects."""
        try:
            while (message := self.connection.receive()) is not None:
                if isinstance(message, Task):  # or else a reply to a call that has ended
                    self._perform(message)
        finally:
            if self._runner is not None:
                self._runner.close()  # runs the cleanup of what still runs

    def _perform(self, task: Task) -> None:
        try:
            tool = self._tool(task)
        except StaleCodeError as error:
            self.connection.send({"stale": str(error)})
            return
        except Shutdown:
            raise
        except BaseException as error:  # noqa: BLE001  (the tool's module may raise anything when it is imported)
            self._send(task.request, _unloadable(task.request, error), {})
            return
        if task.payload.tool:
            self.connection.send({"imported": task.payload.key})
        limit = task.request.memory_limit
        with _memory_limit(limit):
            response, extra, error = self._run(task, tool)
        self._tidy_up()
        self._send(task.request, response, extra)
        if limit is not None and isinstance(error, MemoryError):
            os._exit(1)

    def _tool(self, task: Task) -> Tool:
        payload = task.payload
        if payload.tool:
            self._tools[payload.key] = unpack(payload, self._refuse_reentry)
        return self._tools[payload.key]

    def _refuse_reentry(self) -> NoReturn:
        self.connection.send({"reentered": True})
        os._exit(1)

    def _run(self, task: Task, tool: Tool) -> tuple[ExecutionResponse, JsonObject, BaseException | None]:
        """Runs the tool; returns the response, further members of the message, and the exception."""
        request, caller = task.request, ParentCaller(self.connection)
        host = CallerHost(caller)
        context = request.context(
            caller.emit if task.is_watched else None,
            services=host.services,
            host=host,
            deadline=None if request.timeout is None else time.monotonic() + request.timeout,
        )
        try:
            args, kwargs = task.bind(context)
            with _trace(request.trace):
                return ExecutionResponse.of_function(tool, context, args, kwargs, self._run_async), {}, None
        except Shutdown:
            raise
        except BaseException as error:  # noqa: BLE001  (a tool's SystemExit fails only its own call)
            extra: JsonObject = {"fatal": f"{error}"} if isinstance(error, FatalToolError) else {}
            extra["raised"] = caller.raised_by(error)
            return _failure(request, tool, context, error), extra, error
        finally:
            context.listener = None

    def _run_async(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Calls and awaits in the event loop, then cancels the tasks that were left behind."""

        async def alone() -> Any:
            try:
                return await call()
            finally:
                left = asyncio.all_tasks() - {asyncio.current_task()}
                for task in left:
                    task.cancel()
                if left:
                    await asyncio.wait(left, timeout=1.0)

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(alone(), context=copy_context())  # else that of the first call

    def _tidy_up(self) -> None:
        """Flushes the output and restores the working folder for the next call."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # the tool has closed or replaced it
                continue
        with suppress(OSError):  # it was removed
            os.chdir(self._folder)

    def _send(self, request: ExecutionRequest, response: ExecutionResponse, extra: Mapping[str, Any]) -> None:
        """Sends the response, or an error if the parent would refuse it."""
        try:
            data = response.to_json()
            ExecutionResponse.from_json(data)
            self.connection.send({"response": data, **extra})
        except MessageTooLongError as error:
            text = (
                f"{request.tool} ran, but its result is too long: {error.length:,} bytes, the limit is "
                f"{self.connection.most:,}. Request less."
            )
            self.connection.send({"response": ExecutionResponse.failed("limit", text).to_json()})
        except (ValueError, RecursionError) as error:
            text = f"{request.tool} ran, but its result was refused: {error}. Calling it again may not help."
            self.connection.send({"response": ExecutionResponse.failed("invalid_output", text).to_json()})


def _failure(request: ExecutionRequest, tool: Tool, context: ToolContext, error: BaseException) -> ExecutionResponse:
    if isinstance(error, MemoryError) and request.memory_limit is not None:
        error.__traceback__ = None  # it may reference most of the memory
        mib = request.memory_limit / (1 << 20)
        text = f"{request.tool} exceeded its memory limit ({mib:,.0f} MiB) and was stopped. Request less."
        return ExecutionResponse.failed("crashed", text)
    return ExecutionResponse.of_error(tool, context, error, expose=request.expose_errors)


def _unloadable(request: ExecutionRequest, error: BaseException) -> ExecutionResponse:
    import traceback

    text = f"{request.tool} was not run: its module failed to load in its process."
    detail = "".join(traceback.format_exception(error, limit=50))[:20_000]
    return ExecutionResponse.failed("tool_failure", text, detail=detail)


@contextmanager
def _trace(trace: Mapping[str, str]) -> Generator[None, None, None]:
    """Makes the span of the call the parent of the tool's own, if the call has one and OpenTelemetry is installed."""
    if not trace:
        yield
        return
    try:
        from opentelemetry import context
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        yield
        return
    token = context.attach(W3CBaggagePropagator().extract(trace, TraceContextTextMapPropagator().extract(trace)))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def _memory_limit(limit: int | None) -> Generator[None, None, None]:
    """Limits the memory of this process to so many bytes; `None` sets no limit."""
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(LIMITED)
    resource.setrlimit(LIMITED, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(LIMITED, (soft, hard))
