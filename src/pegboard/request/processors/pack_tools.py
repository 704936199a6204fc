"""`pack_tools`: the tools as they are sent, one entry each."""

from __future__ import annotations

from pegboard.callbacks import quick
from pegboard.request.model_request import ModelRequest
from pegboard.request.problem import ProcessorProblem
from pegboard.request.tool_choice import NamedTool
from pegboard.toolsets.resolve import ResolvedTools
from pegboard.toolsets.search import SEARCHES

UNOFFERED = "it only processes requests; no model is offered it"
SEARCHED = "the provider searches the deferred tools itself"
DEFERRED = "it is deferred: offered once a search has found it"


@quick
def pack_tools(request: ModelRequest) -> ModelRequest:
    """Leaves in what is sent: each name once, no deferred tool unless the provider loads it, none that isn't offered.

    Of two tools of one name the first is sent, and a problem of the resolved tools names the other. A tool choice that
    can't be met is loosened to `"auto"`, as providers refuse it; a problem says so.
    """
    if request.tools is None:
        return request
    packed = _packed(request.tools.distinct(), request)
    request = request if packed is request.tools else request.evolve(tools=packed)
    return _with_possible_choice(request, packed)


def _packed(tools: ResolvedTools, request: ModelRequest) -> ResolvedTools:
    unoffered = {tool.name: UNOFFERED for tool in tools if not tool.offered}
    tools = tools.without("pack", unoffered)
    deferred = tuple(tool for tool in tools if tool.spec.deferred)
    if request.loads_deferred:
        searching = (tool for tool in tools if deferred and SEARCHES in tool.spec.meta)
        return tools.without("pack", {tool.name: SEARCHED for tool in searching})
    return tools.without("pack", {tool.name: DEFERRED for tool in deferred}).finding(deferred)


def _with_possible_choice(request: ModelRequest, packed: ResolvedTools) -> ModelRequest:
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in packed:
        cause = f"tool {choice.name!r} had to be called and isn't offered; the model is left to decide"
    elif choice == "required" and not packed.tools:
        cause = "a tool had to be called and none is offered; the model is left to decide"
    else:
        return request
    return request.evolve(tool_choice="auto").with_problems(ProcessorProblem("pack_tools", cause))


__all__ = ["pack_tools"]
