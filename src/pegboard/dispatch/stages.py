"""The stages of one call, in order, and the loop over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import iscoroutine
from typing import Any, Final, NoReturn

import attrs
from attrs import define

from pegboard.callbacks import settle
from pegboard.dispatch.approve import (
    allows_inside,
    approve,
    ask_inside,
    confirm_inside,
    permit,
    suspend_inside,
    time_stands_still,
)
from pegboard.dispatch.arguments import parse, revalidate, validate
from pegboard.dispatch.callbacks import Ask, after, before, on_error
from pegboard.dispatch.events import emit_end, emit_pending
from pegboard.dispatch.find import find, repair
from pegboard.dispatch.results import failure_result, shape
from pegboard.dispatch.run import locks_known, run
from pegboard.dispatch.state import CallPipeline, CallServices, CallState, StageFunction
from pegboard.errors import CallStoppedError
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import CallError, Confirmation, PendingActions, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext

call_round: Final[ContextVar[CallState | None]] = ContextVar("pegboard_round", default=None)
"""The call that stands round what runs now, whether it called by its context or by a registry."""


def state_for(call: ToolCall, context: ReadonlyContext | ToolContext, services: CallServices) -> CallState:
    """The state of one call. Of a host's own `ToolContext`, `values` and `actions` stay the host's."""
    provided = services.provided
    assert provided is not None
    if isinstance(context, ToolContext):
        own = _completed(context, call, services, provided.over(context.services))
        own.internals.pending_actions = context.actions
    else:
        values = {} if context.values is None else context.values  # here it takes no call
        own = ToolContext(context, call.id, call.name, values, provided, offered=services.tools, host=services.host)
    own.internals.frame = state = CallState(call, own, services)
    if (around := call_round.get()) is not None:
        state.around, own.depth = around, max(own.depth, around.context.depth + 1)
    return state


def nested_state(outer: CallState, call: ToolCall) -> CallState:
    """A call by a tool: of the same request, one deeper, in its caller's place in the order."""
    context = outer.context
    own = _completed(context, call, outer.services, context.services)
    own.depth = context.depth + 1
    own.confirmation = None
    if context.internals.pending_actions is not None:
        own.internals.pending_actions = PendingActions(context.state)  # it sees what its caller has changed
    state = CallState(call, own, outer.services)
    state.around = outer
    state.parent, state.index = outer.lock or outer.services.locks.handle_of(outer), outer.index
    own.internals.frame = state
    return state


def _completed(context: ToolContext, call: ToolCall, services: CallServices, provided: object) -> ToolContext:
    return attrs.evolve(
        context,
        call_id=call.id or context.call_id,
        tool=call.name,
        services=provided,
        host=services.host,
        offered=services.tools,
        cancelled=False,
        deadline=None,
    )


STAGES: tuple[StageFunction, ...] = (
    find,
    parse,
    validate,
    repair,
    before,
    revalidate,
    permit,
    approve,
    run,
    shape,
    on_error,
    after,
)
"""Every stage, in order; each sees the calls that are neither answered nor failed.

But `repair` sees those that can't run as the model wrote them, an unknown name or invalid arguments: repaired, they
pass the stages before it again. `on_error` sees those that failed, and `after` and what stands behind it every call.
The `wrap` callbacks stand round `run`.
"""

_NEEDS: Final[Mapping[StageFunction, str]] = {
    before: "before_tool",
    revalidate: "before_tool",
    on_error: "on_tool_error",
    after: "after_tool",
}
"""The callbacks without which a stage has nothing to do."""


def pipeline_for(callbacks: Mapping[str, object]) -> CallPipeline:
    """The stages that have something to do with these callbacks: a hook without implementations costs nothing."""
    stages = [stage for stage in STAGES if stage not in _NEEDS or _NEEDS[stage] in callbacks]
    middle, end = stages.index(repair), stages.index(shape) + 1
    return CallPipeline(tuple(stages[:middle]), tuple(stages[middle + 1 : end]), tuple(stages[end:]))


async def run_stages(state: CallState) -> None:  # noqa: C901  in one frame: another would cost every call
    """Takes a call through all its stages; afterwards `state.result` is there, whatever happened.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    pipeline = state.services.pipeline
    try:
        try:
            for stage in pipeline.prepare:
                pending = stage(state)
                if pending is not None:
                    await pending
        except CallError as error:
            await _prepare_again(state, error)
        if state.scheduler is not None:
            assert state.tool is not None
            locks_known(state, state.tool)  # what it waits for is known now, so that later calls don't overtake it
        for stage in pipeline.execute:
            pending = stage(state)
            if pending is not None:
                await pending
            if state.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  a tool's SystemExit costs its own call only
        _fail(state, error)
    if pipeline.afterwards or state.goes_on or state.context.internals.container is not None:
        await _end(state)
    elif state.error is not None:
        _settle_error(state)
    internals = state.context.internals
    internals.frame = state.context.listener = None  # nothing more can be asked for the call
    if internals.pending_actions is not None:
        _show(state, internals.pending_actions)


def is_too_deep(state: CallState) -> bool:
    """Whether too many calls stand round this one, which then has its result: callbacks, which may call, see none."""
    most = state.services.limits.depth
    if state.context.depth <= most:
        return False
    text = f"{state.call.name} was not run: tools call tools more than {most} deep here."
    state.result = ToolResult.error("limit", text)
    return True


async def run_alone(state: CallState) -> None:
    """`run_stages` for a call that is in no batch: where it is cancelled, callbacks see that and services are closed.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    listens, outer = state.services.events is not None, call_round.get()
    call_round.set(state)
    if listens:
        emit_pending(state)
    try:
        if not (state.context.depth and is_too_deep(state)):
            await run_stages(state)
    except asyncio.CancelledError:
        state.error = CallError("aborted", f"{state.call.name} was aborted.")
        await finish(state)
        raise
    finally:
        call_round.set(outer)  # a token couldn't be given back where the coroutine is closed elsewhere
        if listens and state.result is not None:
            emit_end(state)


async def finish(state: CallState) -> None:
    """The last stages, for a call that was ended from outside: `state.error` is why.

    Raises:
        asyncio.CancelledError: The caller was cancelled once more.
    """
    state.result = None
    await _end(state)
    internals = state.context.internals
    internals.frame = state.context.listener = None
    if internals.pending_actions is not None:
        _show(state, internals.pending_actions)


async def _prepare_again(state: CallState, error: CallError) -> None:
    """Takes a call that can't run as it is through `repair`, and the stages before it once more."""
    await _repair(state, error)
    try:
        for stage in state.services.pipeline.prepare:
            await settle(stage(state))
    except CallError as still:  # `repair` has done what it can: it raises this one, with the first in its detail
        await _repair(state, still)


async def _repair(state: CallState, error: CallError) -> None:
    state.error = error
    try:
        await settle(repair(state))
    finally:
        state.error = None


async def _end(state: CallState) -> None:
    begin_operation = state.services.begin_operation
    if state.goes_on and begin_operation is not None and state.result is not None and not state.result.is_error:
        begin_operation(state)  # the result of a long-running tool becomes a pending one
    failure = state.error
    for stage in state.services.pipeline.afterwards:
        if stage is not on_error:
            _settle_error(state)
        else:
            gave_error = state.since is not None and state.result is not None and state.result.is_error
            if state.call.provider_executed or not (state.error is not None or gave_error):
                continue
        try:
            await settle(stage(state))
        except BaseException as error:  # noqa: BLE001  so does a callback's
            _fail(state, error)
    _settle_error(state)
    if state.context.internals.container is not None:
        await state.context.internals.close_services(failure)


def _show(state: CallState, pending: PendingActions) -> None:
    """The result has what the call has set for people to see."""
    result = state.result
    if result is None:
        return
    if pending.state.faults and not result.is_error:
        text = f"{state.call.name} ran, but left something in the state that isn't JSON; that was dropped."
        detail = "\n".join(pending.state.faults)
        result = state.result = ToolResult.error("tool_failure", text, detail=detail)
    if pending.title is not None or pending.facts:
        title = pending.title if result.title is None else result.title
        state.result = attrs.evolve(result, title=title, metadata={**pending.facts, **result.metadata})


def _fail(state: CallState, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    state.error = error


def _settle_error(state: CallState) -> None:
    """Turns an error that no callback recovered into the result."""
    if state.error is not None:
        state.result, state.error = failure_result(state, state.error), None


# What a running call may ask for --------------------------------------------------------------------------------------


def _state_of(context: ToolContext) -> CallState:
    """The call that this context belongs to.

    Raises:
        CallStoppedError: It has its result already: a thread that was abandoned, or work after the call's end.
    """
    if not isinstance(context.internals.frame, CallState):
        raise CallStoppedError("the call has its result already; nothing can be asked for it any more")
    return context.internals.frame


@define(eq=False)
class DispatchHost:
    """The host of calls that dispatch runs, as their contexts ask it.

    Attributes:
        go_on: Goes on with a call in the background, and gives the operation's id; `None`: nothing can.
    """

    go_on: Callable[[CallState, Awaitable[Any] | Callable[[], Any]], str] | None = None

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the rules, or a person, let the call go on."""
        await ask_inside(_state_of(context), Ask(permission, patterns, always, metadata))

    def allows(self, context: ToolContext, permission: str, subject: str) -> bool:
        """Whether the rules let the call access this."""
        return allows_inside(_state_of(context), permission, subject)

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """A person's answer to a question of the tool."""
        return await confirm_inside(_state_of(context), hint, payload)

    def suspend(self, context: ToolContext, hint: str, payload: Any, kept: Any, request: str | None) -> NoReturn:
        """Ends the call until a question is answered."""
        suspend_inside(_state_of(context), hint, payload, kept, request)

    def inherited(self, context: ToolContext) -> Mapping[str, Any]:
        """The options by which what the tool runs is bound as its own call is."""
        services = _state_of(context).services
        own_rules = services.current.permissions if services.current.are_own else None
        given = {"approver": services.approver, "permissions": own_rules, "timeout": services.longest}
        return {name: value for name, value in given.items() if value is not None}

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool by the same rules as any call: of the same request, for the same user and session.

        It holds what its caller holds, and has its own time limit. What it asks of the host is added to its caller's.

        Raises:
            FatalToolError: The inner tool ends the turn.
            TurnAbortedError: A callback ends the turn.
        """
        outer = _state_of(context)
        outer.calls += 1
        inner = nested_state(outer, ToolCall(name, arguments, f"{context.call_id}/{outer.calls}"))
        with time_stands_still(outer):  # the inner call has a limit of its own, and may wait for a person
            await run_alone(inner)
        if inner.fatal is not None:
            raise inner.fatal
        outer.ends = outer.ends or inner.ends
        if (asked := inner.context.internals.pending_actions) is not None:
            context.actions.add(asked.actions, asked.state)
        assert inner.result is not None
        if inner.result.kind == "confirmation_required":
            text = f"{name} was not run: its approval comes later, and a tool that calls it can't wait so long."
            return ToolResult.error("denied", text)
        return inner.result

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Goes on after the call's first result; what comes of it replaces that result, once.

        Raises:
            LookupError: Nothing can go on here.
        """
        if self.go_on is None:
            if iscoroutine(work):
                work.close()
            raise LookupError(f"{context.tool} can't go on in the background here: its result is all that is sent back")
        return self.go_on(_state_of(context), work)
