"""The stages of one call, in order, and the loop over them."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs
from attrs import frozen

from pegboard.dispatch.approve import approve, permit
from pegboard.dispatch.arguments import parse, revalidate, validate
from pegboard.dispatch.callbacks import after, before, on_error
from pegboard.dispatch.events import emit_end, emit_pending
from pegboard.dispatch.find import find
from pegboard.dispatch.limits import CallError, cancels_the_call
from pegboard.dispatch.repair import repair
from pegboard.dispatch.results import failure_result, shape
from pegboard.dispatch.run import locks_known, run
from pegboard.dispatch.state import Callbacks, CallPipeline, CallServices, CallState, StageFunction
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.context import PendingActions, ReadonlyContext, ToolContext


def work_for(call: ToolCall, context: ReadonlyContext | ToolContext, around: CallServices) -> CallState:
    """The state of one call. Of a host's own `ToolContext`, `values` and `actions` stay the host's."""
    services = around.services
    assert services is not None
    if isinstance(context, ToolContext):
        own = _completed(context, call, around, services.over(context.services))
        own.internals.pending_actions = context.actions
    else:
        own = ToolContext(context, call.id, call.name, services=services, host=around.host)
        if around.tools is not None:
            own.offered = around.tools
    own.internals.frame = work = CallState(call, own, around)
    return work


def work_inside(outer: CallState, call: ToolCall) -> CallState:
    """A call by a tool: of the same request, one deeper, in its caller's place in the order."""
    context = outer.context
    own = _completed(context, call, outer.around, context.services)
    own.values, own.depth = {}, context.depth + 1
    own.confirmation = None
    if context.internals.pending_actions is not None:
        own.internals.pending_actions = PendingActions(context.state)  # it sees what its caller has changed
    work = CallState(call, own, outer.around)
    work.parent, work.index = outer.lock, outer.index
    own.internals.frame = work
    return work


def _completed(context: ToolContext, call: ToolCall, around: CallServices, services: object) -> ToolContext:
    return attrs.evolve(
        context,
        call_id=call.id or context.call_id,
        tool=call.name,
        services=services,
        host=around.host,
        offered=around.tools or (),
        cancelled=False,
        deadline=None,
    )


class _When(enum.Enum):
    """The calls that a stage sees."""

    OPEN = "neither answered nor failed"
    UNFIT = "can't run as the model wrote it: an unknown name, or invalid arguments"
    FAILED = "failed"
    ALWAYS = "every call"


_OPEN, _UNFIT, _FAILED, _ALWAYS = _When.OPEN, _When.UNFIT, _When.FAILED, _When.ALWAYS
UNFIT_KINDS: Final[tuple[ErrorKind, ...]] = ("unknown_tool", "invalid_arguments")


@frozen
class _Stage:
    """One step of a call.

    Attributes:
        function: Fills in its part of the work, or raises; gives an awaitable where it isn't done yet.
        when: The calls that it sees.
        needs: The chain without which it has nothing to do, or `None`.
    """

    function: Callable[[CallState], Awaitable[None] | None]
    when: _When = _OPEN
    needs: str | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__


STAGES: Final = (
    _Stage(find),
    _Stage(parse),
    _Stage(validate),
    _Stage(repair, _UNFIT),
    _Stage(before, needs="before"),
    _Stage(revalidate, needs="before"),
    _Stage(permit),
    _Stage(approve),
    _Stage(run),
    _Stage(shape),
    _Stage(on_error, _FAILED, needs="on_error"),
    _Stage(after, _ALWAYS, needs="after"),
)
"""Every stage, in order. Those before `repair` are passed once more by a call that it mended; the `wrap` callbacks
stand round `run`."""


def pipeline_for(callbacks: Callbacks) -> CallPipeline:
    """The stages that have something to do with these callbacks: a hook without implementations costs nothing."""
    return pipeline_of(stage for stage in STAGES if stage.needs is None or getattr(callbacks, stage.needs))


def pipeline_of(stages: Iterable[_Stage]) -> CallPipeline:
    """The pipeline of these stages, one of which repairs calls that can't run as they are."""
    stages = tuple(stages)
    middle = next(place for place, stage in enumerate(stages) if stage.when is _UNFIT)
    return CallPipeline(
        tuple(stage.function for stage in stages[:middle]),
        stages[middle].function,
        tuple(stage.function for stage in stages[middle:] if stage.when is _OPEN),
        tuple((stage.function, stage.when is _ALWAYS) for stage in stages if stage.when in (_FAILED, _ALWAYS)),
    )


async def run_stages(work: CallState, way: CallPipeline) -> None:  # noqa: C901  in one frame: another would cost every call
    """Takes the work all the way; afterwards `work.result` is there, whatever happened.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    try:
        try:
            for function in way.prepare:
                pending = function(work)
                if pending is not None:
                    await pending
        except CallError as error:
            await _mended(work, way, error)
        if work.scheduler is not None:
            assert work.tool is not None
            locks_known(work, work.tool)  # what it waits for is known now, so that later calls don't overtake it
        for function in way.execute:
            pending = function(work)
            if pending is not None:
                await pending
            if work.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  a tool's SystemExit costs its own call only
        _fail(work, error)
    if way.afterwards or work.goes_on or work.context.internals.container is not None:
        await _end(work, way)
    elif work.error is not None:
        _settle_error(work)
    work.context.internals.frame = work.context.listener = None
    if work.context.internals.pending_actions is not None:
        _show(work, work.context.internals.pending_actions)


async def run_alone(work: CallState) -> None:
    """`run_stages` for a call that is in no batch: where it is cancelled, callbacks see that and services are closed.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    way, listens = work.around.pipeline, work.around.events is not None
    if listens:
        emit_pending(work)
    try:
        await run_stages(work, way)
    except asyncio.CancelledError:
        work.error = CallError("aborted", f"{work.call.name} was aborted.")
        await finish(work, way)
        raise
    finally:
        if listens and work.result is not None:
            emit_end(work)


async def finish(work: CallState, way: CallPipeline) -> None:
    """The rest of the way for a call that was ended from outside: `work.error` is why.

    Raises:
        asyncio.CancelledError: The caller was cancelled once more.
    """
    work.result = None
    await _end(work, way)
    work.context.internals.frame = work.context.listener = None
    if work.context.internals.pending_actions is not None:
        _show(work, work.context.internals.pending_actions)


async def _end(work: CallState, way: CallPipeline) -> None:
    operations = work.around.operations
    if work.goes_on and operations is not None and work.result is not None and not work.result.is_error:
        operations.begin(work)  # the result of a long-running tool becomes a pending one
    failure = work.error
    await _travel_on(work, way.afterwards)
    _settle_error(work)
    if work.context.internals.container is not None:
        await work.context.close_services(failure)


async def _mended(work: CallState, way: CallPipeline, error: CallError) -> None:
    """Takes a call that can't run as it is through `repair`, and the stages before it once more."""
    if error.kind not in UNFIT_KINDS:
        raise error
    await _mend(work, way, error)
    try:
        for function in way.prepare:
            pending = function(work)
            if pending is not None:
                await pending
    except CallError as still:  # `repair` has done what it can: it raises this one, with the first in its detail
        await _mend(work, way, still)


async def _mend(work: CallState, way: CallPipeline, error: CallError) -> None:
    work.error = error
    try:
        pending = way.repair(work)
        if pending is not None:
            await pending
    finally:
        work.error = None


async def _travel_on(work: CallState, stages: Iterable[tuple[StageFunction, bool]]) -> None:
    for function, sees_every_call in stages:
        if sees_every_call:
            _settle_error(work)
        elif work.error is None:
            continue
        try:
            pending = function(work)
            if pending is not None:
                await pending
        except BaseException as error:  # noqa: BLE001  so does a callback's
            _fail(work, error)


def _show(work: CallState, said: PendingActions) -> None:
    """The result has what the call has set for people to see."""
    result = work.result
    if result is None:
        return
    if said.state.faults and not result.is_error:
        text = f"{work.call.name} ran, but left something in the state that isn't JSON; that was dropped."
        result = work.result = ToolResult.error("tool_failure", text, detail="\n".join(said.state.faults))
    if said.title is not None or said.facts:
        title = said.title if result.title is None else result.title
        work.result = attrs.evolve(result, title=title, metadata={**said.facts, **result.metadata})


def _fail(work: CallState, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    work.error = error


def _settle_error(work: CallState) -> None:
    """Turns an error that no callback recovered into the result."""
    if work.error is not None:
        work.result, work.error = failure_result(work, work.error), None


__all__ = ["STAGES", "finish", "pipeline_for", "run_alone", "run_stages"]
