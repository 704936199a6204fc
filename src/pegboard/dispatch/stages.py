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
from pegboard.dispatch.find import find, repair
from pegboard.dispatch.results import failure_result, shape
from pegboard.dispatch.run import locks_known, run
from pegboard.dispatch.state import Callbacks, CallPipeline, CallServices, CallState, StageFunction
from pegboard.dispatch.timeout import cancels_the_call
from pegboard.tools.call import CallError, ToolCall
from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.context import PendingActions, ReadonlyContext, ToolContext


def state_for(call: ToolCall, context: ReadonlyContext | ToolContext, services: CallServices) -> CallState:
    """The state of one call. Of a host's own `ToolContext`, `values` and `actions` stay the host's."""
    provided = services.provided
    assert provided is not None
    if isinstance(context, ToolContext):
        own = _completed(context, call, services, provided.over(context.services))
        own.internals.pending_actions = context.actions
    else:
        own = ToolContext(context, call.id, call.name, services=provided, host=services.host)
        if services.tools is not None:
            own.offered = services.tools
    own.internals.frame = state = CallState(call, own, services)
    return state


def nested_state(outer: CallState, call: ToolCall) -> CallState:
    """A call by a tool: of the same request, one deeper, in its caller's place in the order."""
    context = outer.context
    own = _completed(context, call, outer.services, context.services)
    own.values, own.depth = {}, context.depth + 1
    own.confirmation = None
    if context.internals.pending_actions is not None:
        own.internals.pending_actions = PendingActions(context.state)  # it sees what its caller has changed
    state = CallState(call, own, outer.services)
    state.parent, state.index = outer.lock, outer.index
    own.internals.frame = state
    return state


def _completed(context: ToolContext, call: ToolCall, services: CallServices, provided: object) -> ToolContext:
    return attrs.evolve(
        context,
        call_id=call.id or context.call_id,
        tool=call.name,
        services=provided,
        host=services.host,
        offered=services.tools or (),
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
        function: Fills in its part of the state, or raises; gives an awaitable where it isn't done yet.
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


async def run_stages(state: CallState, way: CallPipeline) -> None:  # noqa: C901  in one frame: another would cost every call
    """Takes a call all the way; afterwards `state.result` is there, whatever happened.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    try:
        try:
            for function in way.prepare:
                pending = function(state)
                if pending is not None:
                    await pending
        except CallError as error:
            await _mended(state, way, error)
        if state.scheduler is not None:
            assert state.tool is not None
            locks_known(state, state.tool)  # what it waits for is known now, so that later calls don't overtake it
        for function in way.execute:
            pending = function(state)
            if pending is not None:
                await pending
            if state.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  a tool's SystemExit costs its own call only
        _fail(state, error)
    if way.afterwards or state.goes_on or state.context.internals.container is not None:
        await _end(state, way)
    elif state.error is not None:
        _settle_error(state)
    state.context.internals.frame = state.context.listener = None
    if state.context.internals.pending_actions is not None:
        _show(state, state.context.internals.pending_actions)


async def run_alone(state: CallState) -> None:
    """`run_stages` for a call that is in no batch: where it is cancelled, callbacks see that and services are closed.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    way, listens = state.services.pipeline, state.services.events is not None
    if listens:
        emit_pending(state)
    try:
        await run_stages(state, way)
    except asyncio.CancelledError:
        state.error = CallError("aborted", f"{state.call.name} was aborted.")
        await finish(state, way)
        raise
    finally:
        if listens and state.result is not None:
            emit_end(state)


async def finish(state: CallState, way: CallPipeline) -> None:
    """The rest of the way for a call that was ended from outside: `state.error` is why.

    Raises:
        asyncio.CancelledError: The caller was cancelled once more.
    """
    state.result = None
    await _end(state, way)
    state.context.internals.frame = state.context.listener = None
    if state.context.internals.pending_actions is not None:
        _show(state, state.context.internals.pending_actions)


async def _end(state: CallState, way: CallPipeline) -> None:
    operations = state.services.operations
    if state.goes_on and operations is not None and state.result is not None and not state.result.is_error:
        operations.begin(state)  # the result of a long-running tool becomes a pending one
    failure = state.error
    await _travel_on(state, way.afterwards)
    _settle_error(state)
    if state.context.internals.container is not None:
        await state.context.close_services(failure)


async def _mended(state: CallState, way: CallPipeline, error: CallError) -> None:
    """Takes a call that can't run as it is through `repair`, and the stages before it once more."""
    if error.kind not in UNFIT_KINDS:
        raise error
    await _mend(state, way, error)
    try:
        for function in way.prepare:
            pending = function(state)
            if pending is not None:
                await pending
    except CallError as still:  # `repair` has done what it can: it raises this one, with the first in its detail
        await _mend(state, way, still)


async def _mend(state: CallState, way: CallPipeline, error: CallError) -> None:
    state.error = error
    try:
        pending = way.repair(state)
        if pending is not None:
            await pending
    finally:
        state.error = None


async def _travel_on(state: CallState, stages: Iterable[tuple[StageFunction, bool]]) -> None:
    for function, sees_every_call in stages:
        if sees_every_call:
            _settle_error(state)
        elif state.error is None:
            continue
        try:
            pending = function(state)
            if pending is not None:
                await pending
        except BaseException as error:  # noqa: BLE001  so does a callback's
            _fail(state, error)


def _show(state: CallState, said: PendingActions) -> None:
    """The result has what the call has set for people to see."""
    result = state.result
    if result is None:
        return
    if said.state.faults and not result.is_error:
        text = f"{state.call.name} ran, but left something in the state that isn't JSON; that was dropped."
        result = state.result = ToolResult.error("tool_failure", text, detail="\n".join(said.state.faults))
    if said.title is not None or said.facts:
        title = said.title if result.title is None else result.title
        state.result = attrs.evolve(result, title=title, metadata={**said.facts, **result.metadata})


def _fail(state: CallState, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    state.error = error


def _settle_error(state: CallState) -> None:
    """Turns an error that no callback recovered into the result."""
    if state.error is not None:
        state.result, state.error = failure_result(state, state.error), None


__all__ = ["STAGES", "finish", "pipeline_for", "run_alone", "run_stages"]
