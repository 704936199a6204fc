"""`tool_requests`: tools that process requests themselves do so."""

from __future__ import annotations

from typing import Final

from pegboard.callbacks import Callback, ChainError, by_name
from pegboard.request.model_request import ModelRequest
from pegboard.request.problem import ProcessorProblem
from pegboard.request.runner import Runner
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import described

NAME: Final = "tool_requests"
TAKES: Final = ("request", "context")


async def tool_requests(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Lets the tools process the request that do so, in their order, those that no model is offered among them.

    A deferred tool does so once it was found. What a tool does wrong costs only its own part.
    """
    for tool in () if request.tools is None else request.tools.tools:
        if tool.process_request is None or (tool.spec.deferred and not request.loads_deferred):
            continue
        if request.tools is not None and tool.name in request.tools:  # no earlier one has taken it out
            request = await _processed(tool, request, context, runner)
    return request


async def _processed(tool: Tool, request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    assert tool.process_request is not None
    try:
        link = Callback(by_name(tool.process_request, TAKES), str(tool.origin))
        answer = await runner.ask(link, request, context)
    except TypeError as error:
        return _failed(tool, request, error)
    except ChainError as failed:
        return _failed(tool, request, failed.__cause__ or failed)
    if answer is None:
        return request
    if not isinstance(answer, ModelRequest):
        error = TypeError(f"process_request gave {type(answer).__name__}; it may give a ModelRequest or None")
        return _failed(tool, request, error)
    return answer.keeping_problems(request)


def _failed(tool: Tool, request: ModelRequest, error: BaseException) -> ModelRequest:
    return request.with_problems(ProcessorProblem(NAME, described(error), tool.origin, tool.name, error))


__all__ = ["tool_requests"]
