"""In the child: one call after the other, from the errand to what is said of its end.

Whatever only some tools need, asyncio above all, is imported when it is needed: a child starts in half the time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from attrs import define, field

from pegboard.dispatch.executors.child_host import ChildHost
from pegboard.dispatch.executors.child_line import ChildLine, Ended, MessageTooLongError
from pegboard.dispatch.executors.child_memory import MemoryLimit
from pegboard.dispatch.executors.child_services import ChildServices
from pegboard.dispatch.executors.luggage import Errand
from pegboard.dispatch.executors.response import ExecutionResponse, response_of
from pegboard.dispatch.executors.unpacking import StaleCodeError, bound, unpacked
from pegboard.dispatch.run import exhausted, exhausted_async
from pegboard.errors import FatalToolError
from pegboard.schema.json import json_faults
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Flavour, Handler
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.dispatch.executors.child_loop import ChildLoop


@define(eq=False)
class ChildCalls:
    """Takes errands from the line and runs them."""

    line: ChildLine
    _tools: dict[int, Tool] = field(factory=dict[int, Tool], init=False)
    _kept_loop: ChildLoop | None = field(default=None, init=False)
    _home: str = field(factory=os.getcwd, init=False)
    _memory: MemoryLimit = field(factory=MemoryLimit, init=False)

    def serve(self) -> None:
        """Runs each errand, until there are no more."""
        try:
            while (message := self.line.hear()) is not None:
                if isinstance(message, tuple):  # else an answer that came too late
                    self._perform(Errand.received(message))  # pyright: ignore[reportUnknownArgumentType]
        finally:
            if self._kept_loop is not None:
                self._kept_loop.close()

    def _perform(self, errand: Errand) -> None:
        try:
            tool = self._tool(errand)
        except StaleCodeError as error:
            self.line.say({"stale": str(error)})
            return
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001  (whatever the tool's module raises when it is imported)
            self._say(errand, _unloadable(errand, error))
            return
        call = _Call(self.line, errand, tool)
        with self._memory.kept_to(errand.request.memory_limit):
            ending = call.end(self._value)
        self._tidy_up()
        self._say(errand, *ending)
        if call.ran_out_of_memory and errand.request.memory_limit is not None:
            os._exit(1)

    def _tool(self, errand: Errand) -> Tool:
        if errand.parcel is not None:
            self._tools[errand.key] = unpacked(errand.parcel)
        return self._tools[errand.key]

    def _value(self, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext) -> Any:
        handler = tool.handler
        assert isinstance(handler, Handler)
        function, flavour = handler.function, handler.flavour
        if flavour is Flavour.GENERATOR:
            return exhausted(function(*args, **kwargs), context)
        if flavour is Flavour.ASYNC_GENERATOR:
            return self._loop().run(lambda: exhausted_async(function(*args, **kwargs), context))
        if flavour is Flavour.ASYNC:
            return self._loop().run(lambda: function(*args, **kwargs))
        value = function(*args, **kwargs)
        return self._loop().run(lambda: value) if isawaitable(value) else value

    def _loop(self) -> ChildLoop:
        if self._kept_loop is None:
            from pegboard.dispatch.executors.child_loop import ChildLoop

            self._kept_loop = ChildLoop()
        return self._kept_loop

    def _tidy_up(self) -> None:
        """Takes back what one call changed for the next: the folder, and words that weren't printed yet."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # the tool has closed or replaced it
                continue
        with suppress(OSError):  # it isn't there any more
            os.chdir(self._home)

    def _say(self, errand: Errand, response: ExecutionResponse, extra: Mapping[str, Any] | None = None) -> None:
        try:
            self.line.say({"done": self._checked(response), **(extra or {})})
        except MessageTooLongError as error:
            text = (
                f"{errand.request.tool} ran, but its result is too long: {error.length:,} bytes, at most "
                f"{self.line.most:,} are taken from its process. Ask for less."
            )
            self.line.say({"done": ExecutionResponse.failed("limit", text).to_json()})
        except (ValueError, RecursionError) as error:
            text = f"{errand.request.tool} ran, but its result was refused: {error}. Calling it again may not help."
            self.line.say({"done": ExecutionResponse.failed("invalid_output", text).to_json()})

    def _checked(self, response: ExecutionResponse) -> JsonObject:
        """The response as JSON data; what the parent would refuse is refused here, before it is written.

        Raises:
            MessageTooLongError: It is longer than the parent takes.
            ValueError: It is nested too deep, or holds too many values.
        """
        if len(response.output) > self.line.most:
            raise MessageTooLongError(len(response.output))
        _refuse_faults(structured_content=response.structured_content)
        done = response.to_json()
        _refuse_faults(details=done.get("details"))
        return done


@define(eq=False)
class _Call:
    """One call while it runs."""

    line: ChildLine
    errand: Errand
    tool: Tool
    ran_out_of_memory: bool = False

    def end(self, run: Any) -> tuple[ExecutionResponse, JsonObject]:
        """Runs the tool; gives the response, and what the parent has to know beside it."""
        host = ChildHost(self.line)
        context = self._context(host)
        extra: JsonObject = {}
        try:
            args, kwargs = bound(self.errand.bound, context, self.errand.context_at, self.errand.context_as)
            from pegboard.dispatch.results import result_of

            result = result_of(self.tool, run(self.tool, args, kwargs, context))
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001  (a tool's SystemExit costs its own call only)
            self.ran_out_of_memory = isinstance(error, MemoryError)
            result = self._failure(error)
            if isinstance(error, FatalToolError):
                extra["fatal"] = f"{error}"
            extra["question"] = host.asked_by(error)
        context.listener = None
        return self._response(result, context), extra

    def _context(self, host: ChildHost) -> ToolContext:
        request = self.errand.request
        deadline = None if request.timeout is None else time.monotonic() + request.timeout
        listener = self.line.tell if self.errand.listens else None
        return request.context(services=ChildServices(host), listener=listener, host=host, deadline=deadline)

    def _failure(self, error: BaseException) -> ToolResult:
        request = self.errand.request
        if self.ran_out_of_memory and request.memory_limit is not None:
            error.__traceback__ = None  # what it holds may be most of the memory
            mib = request.memory_limit / (1 << 20)
            text = (
                f"{request.tool} needed more memory than it may have ({mib:,.0f} MiB) and was ended. Ask it for less."
            )
            return ToolResult.error("crashed", text)
        from pegboard.dispatch.limits import Limits
        from pegboard.dispatch.results import failure_result
        from pegboard.dispatch.state import CallServices, CallState
        from pegboard.threads import WorkerPool
        from pegboard.tools.call import ToolCall

        limits = Limits(timeout=None, expose_errors=request.expose_errors)
        around = CallServices(_nowhere, WorkerPool(), limits=limits)
        work = CallState(ToolCall(request.tool, request.arguments, request.call_id), ToolContext(), around)
        work.tool = self.tool
        return failure_result(work, error)

    def _response(self, result: ToolResult, context: ToolContext) -> ExecutionResponse:
        """The response, with what the tool has said on the way."""
        response = response_of(result)
        said = context.said
        if said is None:
            return response
        actions = said.actions
        return response.evolve(
            title=said.title if response.title is None else response.title,
            metadata={**said.facts, **response.metadata},
            actions=None if actions.is_empty else actions.to_json(),
        )


def _unloadable(errand: Errand, error: BaseException) -> ExecutionResponse:
    from pegboard.errors import detail_of

    text = f"{errand.request.tool} can't be run: what brings it failed to load in its process."
    return ExecutionResponse.failed("tool_failure", text, detail=detail_of(error))


def _nowhere(name: str) -> Tool:
    raise LookupError(name)


def _refuse_faults(**facts: Any) -> None:
    faults = json_faults(facts)
    if faults:
        raise ValueError("; ".join(faults))
