"""The stages of one call, in order, and the loop over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import iscoroutine
from typing import Any, Final, NoReturn

import attrs
from attrs import define

from pegboard.callbacks import maybe_await
from pegboard.dispatch.approve import (
    allows_inside,
    approve,
    ask_inside,
    confirm_inside,
    paused_deadlines,
    permit,
    suspend_inside,
)
from pegboard.dispatch.arguments import parse, revalidate, validate
from pegboard.dispatch.callbacks import Ask, after, before, on_error
from pegboard.dispatch.events import emit_end, emit_pending
from pegboard.dispatch.find import find, repair
from pegboard.dispatch.results import failure_result, shape
from pegboard.dispatch.run import lock_request_of, run
from pegboard.dispatch.state import CallPipeline, CallServices, CallState, StageFunction
from pegboard.errors import CallStoppedError
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import CallError, Confirmation, PendingActions, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext

enclosing_call: Final[ContextVar[CallState | None]] = ContextVar("pegboard_enclosing_call", default=None)
"""The call that encloses the current code, in its tool or in a callback."""


def state_for(call: ToolCall, context: ReadonlyContext | ToolContext, services: CallServices) -> CallState:
    """The state of one call. A host's own `ToolContext` shares its `values` and `actions`."""
    around = enclosing_call.get()
    if isinstance(context, ToolContext):
        assert services.provided is not None
        shared, context = context, _completed(context, call, services, services.provided.over(context.services))
        context.internals.pending_actions = shared.actions
        if around is not None:
            context.depth = max(context.depth, around.depth + 1)
    state = CallState(call, context, services)
    if around is not None:
        state.around, state.depth = around, max(state.depth, around.depth + 1)
    return state


def nested_state(outer: CallState, call: ToolCall) -> CallState:
    """The state of a nested call: of the same request, one level deeper, with its caller's batch index."""
    context = outer.context
    own = _completed(context, call, outer.services, context.services)
    own.depth = outer.depth + 1
    own.confirmation = None
    if context.internals.pending_actions is not None:
        own.internals.pending_actions = PendingActions(context.state)  # it sees its caller's changes
    state = CallState(call, own, outer.services)
    state.around = outer
    state.parent, state.index = outer.lock or outer.services.locks.handle_of(outer), outer.index
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
"""All stages, in order; each runs for the calls that have neither a result nor an error.

But `repair` runs for calls with an unknown name or invalid arguments, which then pass the stages before it again;
`on_error` for calls that failed, and `after` for every call. Both leave out a call that the host has to run or
that waits for an answer, until there is its result. The `wrap` callbacks enclose `run`.
"""

_NEEDS: Final[Mapping[StageFunction, str]] = {
    before: "before_tool",
    revalidate: "before_tool",
    on_error: "on_tool_error",
    after: "after_tool",
}
"""The hook without whose callbacks a stage is left out."""


def pipeline_for(callbacks: Mapping[str, object]) -> CallPipeline:
    """The pipeline without stages that lack callbacks: a hook without implementations costs nothing."""
    stages = [stage for stage in STAGES if stage not in _NEEDS or _NEEDS[stage] in callbacks]
    middle, end = stages.index(repair), stages.index(shape) + 1
    return CallPipeline(tuple(stages[:middle]), tuple(stages[middle + 1 : end]), tuple(stages[end:]))


async def run_stages(state: CallState) -> None:  # noqa: C901  in one frame: another would cost every call
    """Runs all stages of a call; afterwards, `state.result` is set.

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
            lock_request_of(state, state.tool)  # known to the scheduler before later calls ask
        for stage in pipeline.execute:
            pending = stage(state)
            if pending is not None:
                await pending
            if state.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  SystemExit, too, fails this call only
        _fail(state, error)
    made = state.made_context
    if pipeline.afterwards or state.goes_on or (made is not None and made.internals.container is not None):
        await _end(state)
    elif state.error is not None:
        _settle_error(state)
    _close(state)


def _close(state: CallState) -> None:
    """Ends the use of the call's context, if it has one, and adds what the call has set there to its result."""
    made = state.made_context
    if made is not None:
        made.internals.frame = made.listener = None  # the context can't be used any more
        if made.internals.pending_actions is not None:
            _show(state, made.internals.pending_actions)


def is_too_deep(state: CallState) -> bool:
    """Whether a call is nested too deeply; if so, sets its result. Its callbacks don't run, as they may call again."""
    most = state.services.limits.depth
    if state.depth <= most:
        return False
    text = f"{state.call.name} was not run: its call is nested more than {most} deep."
    state.result = ToolResult.error("limit", text)
    return True


async def run_alone(state: CallState) -> None:
    """`run_stages` for a call without a batch: on cancellation, the last callbacks run and services are closed.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    listens, outer = state.services.events is not None, enclosing_call.get()
    enclosing_call.set(state)
    if listens:
        emit_pending(state)
    try:
        if not (state.depth and is_too_deep(state)):
            await run_stages(state)
    except asyncio.CancelledError:
        state.error = CallError("aborted", f"{state.call.name} was aborted.")
        await finish(state)
        raise
    finally:
        enclosing_call.set(outer)  # not by a token, as the coroutine may be closed in another context
        if listens and state.result is not None:
            emit_end(state)


async def finish(state: CallState, result: ToolResult | None = None) -> None:
    """Runs the last stages of a call that was ended from outside: with this result, or the reason in `state.error`.

    Raises:
        asyncio.CancelledError: The caller was cancelled again.
    """
    state.result = result
    await _end(state)
    _close(state)


async def _prepare_again(state: CallState, error: CallError) -> None:
    """Repairs a call, and runs the first stages again."""
    await _repair(state, error)
    try:
        for stage in state.services.pipeline.prepare:
            await maybe_await(stage(state))
    except CallError as still:  # raised again by `repair`, with the repair in its detail
        await _repair(state, still)


async def _repair(state: CallState, error: CallError) -> None:
    state.error = error
    try:
        await maybe_await(repair(state))
    finally:
        state.error = None


async def _end(state: CallState) -> None:
    begin_operation = state.services.begin_operation
    if state.goes_on and begin_operation is not None and state.result is not None and not state.result.is_error:
        begin_operation(state)  # the result of a long-running tool becomes a pending one
    failure = state.error
    # The callbacks have seen the result, or get the one after the host has run the call, or a person has answered.
    waits = isinstance(failure, CallError) and failure.kind == "confirmation_required" and state.pending is not None
    for stage in () if state.is_seen or state.for_host or waits else state.services.pipeline.afterwards:
        if stage is not on_error:
            _settle_error(state)
        else:
            gave_error = state.since is not None and state.result is not None and state.result.is_error
            if state.call.provider_executed or not (state.error is not None or gave_error):
                continue
        try:
            await maybe_await(stage(state))
        except BaseException as error:  # noqa: BLE001  of a callback, as above
            _fail(state, error)
    _settle_error(state)
    if (made := state.made_context) is not None:
        await made.internals.close_services(failure)


def _show(state: CallState, pending: PendingActions) -> None:
    """Adds the title and metadata that the call has set to its result."""
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
    """Converts an error that no callback recovered to the result."""
    if state.error is not None:
        state.result, state.error = failure_result(state, state.error), None


# The host of running calls --------------------------------------------------------------------------------------------


def _state_of(context: ToolContext) -> CallState:
    """The call that this context belongs to.

    Raises:
        CallStoppedError: The call has ended: this is an abandoned thread, or work after its end.
    """
    if not isinstance(context.internals.frame, CallState):
        raise CallStoppedError("the call has ended; its context can't be used any more")
    return context.internals.frame


@define(eq=False)
class DispatchHost:
    """Implementation of `CallHost`, by which the contexts of calls reach dispatch.

    Attributes:
        go_on: Starts background work of a call and returns the operation's id; `None` if that isn't possible.
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
        """Returns if the rules or the user allow it."""
        await ask_inside(_state_of(context), Ask(permission, patterns, always, metadata))

    def allows(self, context: ToolContext, permission: str, subject: str) -> bool:
        """Whether the rules let the call access this."""
        return allows_inside(_state_of(context), permission, subject)

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """The user's answer to a question of the tool."""
        return await confirm_inside(_state_of(context), hint, payload)

    def suspend(self, context: ToolContext, hint: str, payload: Any, kept: Any, request: str | None) -> NoReturn:
        """Suspends the call until a question is answered."""
        suspend_inside(_state_of(context), hint, payload, kept, request)

    def inherited(self, context: ToolContext) -> Mapping[str, Any]:
        """The batch options that apply the call's own restrictions to calls that its tool makes."""
        services = _state_of(context).services
        own_rules = services.current.permissions if services.current.are_own else None
        given = {"approver": services.approver, "permissions": own_rules, "timeout": services.longest}
        return {name: value for name, value in given.items() if value is not None}

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs a nested call, by the rules of any call, of the same request, user and session.

        It has its caller's locks and its own time limit. Its actions are added to its caller's.

        Raises:
            FatalToolError: The inner tool ends the turn.
            TurnAbortedError: A callback ends the turn.
        """
        outer = _state_of(context)
        outer.calls += 1
        inner = nested_state(outer, ToolCall(name, arguments, f"{context.call_id}/{outer.calls}"))
        with paused_deadlines(outer):  # the inner call has its own limit, and may wait for the user
            await run_alone(inner)
        if inner.fatal is not None:
            raise inner.fatal
        outer.ends = outer.ends or inner.ends
        if (asked := inner.context.internals.pending_actions) is not None:
            context.actions.add(asked.actions, asked.state)
        assert inner.result is not None
        if inner.pending is not None:
            text = f"{name} was not run: its approval comes later, and a nested call can't wait for that."
            return ToolResult.error("denied", text)
        return inner.result

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Starts background work, which continues after the call's first result, and returns the operation's id.

        Raises:
            LookupError: Background work isn't possible here.
        """
        if self.go_on is None:
            if iscoroutine(work):
                work.close()
            raise LookupError(f"{context.tool} can't run in the background here: only its result is sent back")
        return self.go_on(_state_of(context), work)
