"""How the context of one call is made, from what the host gives or from that of the calling tool."""

from __future__ import annotations

import attrs

from pegboard.dispatch.work import Surroundings, Work
from pegboard.tools.call import ToolCall
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.services import Services
from pegboard.tools.state import PendingActions


def work_for(call: ToolCall, context: ReadonlyContext | ToolContext, around: Surroundings, services: Services) -> Work:
    """One call, ready to travel. Of a host's own `ToolContext`, `values` stays the host's."""
    if isinstance(context, ToolContext):
        own = _completed(context, call, around, services.over(context.services))
    else:
        own = ToolContext(context, call.id, call.name, services=services, host=around.host)
        if around.tools is not None:
            own.offered = around.tools
    work = Work(call, own, around)
    own.frame = work
    return work


def work_inside(outer: Work, call: ToolCall) -> Work:
    """A call by a tool: of the same request, one deeper, in its caller's place in the order."""
    context = outer.context
    own = _completed(context, call, outer.around, context.services)
    own.values, own.depth = {}, context.depth + 1
    own.confirmation = None
    if context.said is not None:
        own.said = PendingActions(context.state)  # it sees what its caller has changed
    work = Work(call, own, outer.around)
    work.parent, work.index = outer.lock, outer.index
    own.frame = work
    return work


def _completed(context: ToolContext, call: ToolCall, around: Surroundings, services: object) -> ToolContext:
    return attrs.evolve(
        context,
        call_id=call.id or context.call_id,
        tool=call.name,
        services=services,
        host=around.host,
        offered=around.tools or (),
        cancelled=False,
        deadline=None,
        frame=None,
    )
