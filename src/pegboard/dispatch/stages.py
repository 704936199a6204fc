"""One way through a call: its stages by name, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import cache, partial
from inspect import iscoroutine
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import attrs

from pegboard.callbacks import Callback
from pegboard.dispatch.arguments import parse, parse_arguments, parse_inner_text, prepare, validate
from pegboard.dispatch.results import failure_result, hold_to_limits, quick_result, shape
from pegboard.dispatch.run import asking_of, attach, run_locked, start
from pegboard.dispatch.running import count_nested, enclosing_lock, lock_of, lock_request_of, pause_deadlines
from pegboard.dispatch.state import NO_ARGUMENTS, BatchPosition, CallSnapshot, CallState, Settings, needs_asking
from pegboard.errors import CallStoppedError, ToolError, log_failure
from pegboard.timeout import cancels_the_call, running_task
from pegboard.tools.call import CallError, Confirmation, PendingActions, ToolCall
from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.tool import Tool
from pegboard.typing import define

if TYPE_CHECKING:
    from pegboard.dispatch.approve import Asking
    from pegboard.dispatch.permissions.evaluation import Decision

enclosing_call: Final[ContextVar[CallState | None]] = ContextVar("pegboard_enclosing_call", default=None)
"""The call that encloses the current code, in its tool or in a callback."""


def make_state(  # noqa: PLR0913, PLR0917  as `CallState`
    name: Any,
    raw: Any,
    call_id: str,
    context: ReadonlyContext | ToolContext,
    snapshot: CallSnapshot,
    settings: Settings,
) -> CallState:
    """The state of a call that stands alone. A host's own `ToolContext` shares its `values` and `actions`."""
    if isinstance(context, ToolContext):
        shared, provided = context, snapshot.runtime.provided
        assert provided is not None
        provided = provided.over(context.services)
        context = _complete(context, name, call_id, services=provided, host=settings.host, offered=snapshot.tools)
        context.internals.pending_actions = shared.actions
    state = CallState(name, raw, call_id, context, snapshot, settings)
    if (outer := enclosing_call.get()) is not None:
        _enclose(state, outer)
    return state


def _enclose(state: CallState, outer: CallState) -> None:
    """Puts a call into another one: deeper, and with its locks."""
    state.enclosing, state.depth = outer, max(state.depth, outer.depth + 1)
    state.position = BatchPosition(parent=enclosing_lock(state))
    if state.made_context is not None:
        state.made_context.depth = state.depth


def state_in_batch(
    call: ToolCall,
    context: ReadonlyContext | ToolContext,
    snapshot: CallSnapshot,
    settings: Settings,
    position: BatchPosition,
) -> CallState:
    """The state of a call at this position of a batch."""
    state = make_state(call.name, call.arguments, call.id, context, snapshot, settings)
    state.replace(call)
    state.position = position if state.enclosing is None else attrs.evolve(position, parent=state.position.parent)
    return state


def make_nested_state(outer: CallState, name: str, raw: Mapping[str, Any] | str) -> CallState:
    """The state of a nested call: of the same request, one level deeper, with its caller's batch index."""
    context = outer.context
    call_id = f"{context.call_id}/{count_nested(outer)}"
    own = _complete(context, name, call_id, host=outer.settings.host, offered=outer.snapshot.tools)
    own.depth, own.confirmation = outer.depth + 1, None
    if context.internals.pending_actions is not None:
        own.internals.pending_actions = PendingActions(context.state)  # it sees its caller's changes
    state = CallState(name, raw, call_id, own, outer.snapshot, outer.settings)
    state.enclosing = outer
    state.position = BatchPosition(outer.position.index, parent=lock_of(outer))
    return state


def _complete(context: ToolContext, name: str, call_id: str, **facts: Any) -> ToolContext:
    """A context of a call's own."""
    facts |= {"call_id": call_id or context.call_id, "trace": dict(context.trace)}
    return attrs.evolve(context, tool=name, cancelled=False, deadline=None, **facts)


_LATE_HOOKS: Final = frozenset({"on_tool_error", "after_tool"})


async def run_call(state: CallState, *, is_alone: bool = False, is_wrapped: bool = False) -> None:  # noqa: C901, PLR0912, PLR0915  in one frame: each further one costs every call
    """One way through a call: the stages by name, in order; afterwards, `state.result` is set.

    A stage is left out where a quick test says that this call doesn't need it. `on_error` and `after` are in
    `_run_last_stages`, which leaves out a call that the host has to run or that waits for an answer.

    A call that `is_alone` has no batch: on cancellation, its last callbacks run and its services are closed. Of one
    that `is_wrapped`, the wrappers (`wrap_call`) run already.
    """
    snapshot, settings, outer, emit = state.snapshot, state.settings, None, None
    callbacks = snapshot.callbacks
    if is_alone:
        outer = enclosing_call.get()
        if outer is not None and state.enclosing is None:
            _enclose(state, outer)
        enclosing_call.set(state)
        emit = settings.emit
        if emit is not None:
            from pegboard.dispatch.events import emit_pending  # loaded with the first observer

            emit_pending(state)
    try:
        if is_alone and state.depth and is_too_deep(state):
            return
        if callbacks and not is_wrapped and "wrap_call" in callbacks:
            await _run_call_wrapped(state, partial(run_call, state, is_wrapped=True))
            return
        try:
            tool, position = await _prepare_call(state), state.position
            if position.scheduler is not None:
                lock_request_of(state, tool)  # known to the scheduler before later calls ask
            if callbacks and "before_tool" in callbacks:
                state.result = await _call_before(state, tool)
            if state.result is None:
                attached, permissions = None, settings.current.permissions
                policy = None if permissions is None else permissions.policies.get(tool)
                if policy is not None:
                    runs = policy.conditions == () or policy.runs(state.arguments, state.request)
                    asks = not runs or state.runtime.awaits_grants
                else:
                    asks = tool.may_ask if permissions is None else needs_asking(state, tool)
                if asks or state.asking is not None:
                    asking = asking_of(state)
                    await asking.decide()
                    if (attached := await attach(state, tool)) is None:
                        await asking.ask("call")
                waiting = None
                if attached is not None:
                    state.value = attached
                elif (
                    tool.runs_plainly
                    and position.scheduler is position.parent is settings.slots is None
                    and (state.asking is None or state.asking.approval is None)
                    and not (callbacks and "wrap_tool" in callbacks)
                    and state.runtime.locks.enter(state)
                ):
                    state.value, waiting = start(state, tool, state.arguments, has_entered=True)
                else:
                    waiting = run_locked(state, tool)
                if waiting is not None:
                    state.value = await waiting
                state.result = quick_result(tool, state.value, settings.limits) or await shape(state, tool, state.value)
        except BaseException as error:  # noqa: BLE001  SystemExit, too, fails this call only
            _fail(state, error)
        made = state.made_context
        if (
            (callbacks and not _LATE_HOOKS.isdisjoint(callbacks))
            or (state.running is not None and state.tool is not None and state.tool.spec.long_running)
            or (made is not None and made.internals.container is not None)
        ):
            await _run_last_stages(state)
        elif state.error is not None:
            _settle_error(state)
        if made is not None or state.made_context is not None or state.asking is not None:
            _close(state)
    except asyncio.CancelledError:
        if is_alone and not state.is_seen:
            await finish(state, error=CallError("aborted", f"{state.name} was aborted."))
        raise
    finally:
        if is_alone:
            enclosing_call.set(outer)  # not by a token, as the coroutine may be closed in another context
            if emit is not None and state.result is not None:
                from pegboard.dispatch.events import emit_ended  # loaded with the first observer

                emit_ended(state)


async def _prepare_call(state: CallState) -> Tool:
    """The first stages, find, parse, prepare and validate, again after a repair, once; raises the call's error."""
    while True:
        try:
            call, name = state.made_call, state.name
            is_usual = type(name) is str and (call is None or not (call.error or call.provider_executed))
            tool = state.snapshot.named.get(name) if is_usual else None
            if tool is None or tool.handler.__class__ is not Handler:
                from pegboard.dispatch.find import find  # loaded when a call needs it

                tool = await find(state)
            state.tool = tool
            try:
                raw, limits = state.raw, state.settings.limits
                if type(raw) is str:  # the usual case
                    nodes, most_bytes = limits.argument_nodes, limits.argument_bytes
                    state.arguments = parse_arguments(raw, most_bytes=most_bytes, most_nodes=nodes)
                else:
                    state.arguments = parse(raw, limits)
            except CallError as error:
                state.arguments = parse_inner_text(state, tool, error)
            if tool.prepare_arguments is not None and not state.is_prepared:
                state.arguments = await prepare(state, tool, tool.prepare_arguments, state.arguments)
            if tool.checks is not None or not tool.validator.accepts(state.arguments):
                state.arguments = await validate(state, tool, state.arguments)
        except CallError as error:
            from pegboard.dispatch.find import repair

            await repair(state, error)
            state.tool, state.arguments = None, NO_ARGUMENTS
        else:
            return tool


async def _call_before(state: CallState, tool: Tool) -> ToolResult | None:
    """The result of a `before_tool` callback, if one gives it; validates the arguments that they have changed."""
    given = state.arguments
    result, demands = await _callbacks().before(state)
    if demands:
        asking_of(state, demands)
    if result is None and state.arguments is not given:
        state.arguments = await validate(state, tool, state.arguments, parsed=False)
    return result


def _close(state: CallState) -> None:
    """Ends the use of the call's context, if it has one, and adds what the call has set there to its result."""
    if state.asking is not None:
        cast("Asking", state.asking).close()
        if state.result is not None and state.result.kind == "confirmation_required":
            conclude(state, attrs.evolve(state.result, pending=state.pending))
    made = state.made_context
    if made is not None:
        made.internals.frame = made.listener = None  # the context can't be used any more
        if made.internals.pending_actions is not None:
            _add_actions(state, made.internals.pending_actions)


def is_too_deep(state: CallState) -> bool:
    """Whether a call is nested too deeply; if so, sets its result. Its callbacks don't run, as they may call again."""
    most = state.settings.limits.depth
    if state.depth <= most:
        return False
    text = f"{state.call.name} was not run: its call is nested more than {most} deep."
    state.result = ToolResult.error("limit", text)
    return True


def conclude(state: CallState, result: ToolResult) -> None:
    """Sets the result of a call that never ran, or whose result isn't the last one."""
    state.result = result


async def finish(state: CallState, result: ToolResult | None = None, error: BaseException | None = None) -> None:
    """Runs the last stages of a call that was ended from outside, with this result or error; may be cancelled again."""
    state.result, state.error = result, error
    await _run_last_stages(state)
    _close(state)


async def finish_inside(state: CallState, result: ToolResult | None = None, error: BaseException | None = None) -> None:
    """`finish` inside the call's wrappers, for a call of which no other stages run here. Raises as `finish`."""
    run = partial(finish, state, result, error)
    await (_run_call_wrapped(state, run) if "wrap_call" in state.snapshot.callbacks else run())


@cache
def _callbacks() -> ModuleType:
    """The module of callbacks, loaded with the first one; an import statement costs ten times as much each time."""
    from pegboard.dispatch import callbacks

    return callbacks


async def _run_call_wrapped(state: CallState, stages: Callable[[], Awaitable[None]]) -> None:
    """Runs a call inside its wrappers, the first outermost: its stages once, whose result no wrapper can lose.

    Raises as `finish`.
    """
    chain, call = _callbacks().chain_of(state, "wrap_call", ToolResult), _callbacks().WrappedCall(state)
    cancelled: int | None = None  # cancellations of the task when the stages began

    async def run_stages() -> ToolResult | None:
        nonlocal cancelled
        if cancelled is not None:
            raise RuntimeError("call_next() runs a call once, and was called twice; wrap_tool may run its tool again")
        cancelled = running_task().cancelling()
        await stages()
        state.mark_seen()
        return state.result

    async def run_inside(link: Callback, run: Callable[[], Awaitable[ToolResult | None]]) -> ToolResult | None:
        """Runs one wrapper around the stages, or around the wrappers further in; returns the result after it."""
        answer, failure = None, None
        try:
            answer = await chain.ask(link, call, state.request, around=run, holds_grace=True)
            if answer is not state.result:
                answer = await hold_to_limits(state, answer)
        except BaseException as error:  # SystemExit, too
            if cancels_the_call(error):
                raise
            failure = error
        if not state.is_seen:  # the wrapper failed, or answered, instead of running the call
            if cancelled is not None and running_task().cancelling() > cancelled:
                raise asyncio.CancelledError  # the wrapper has caught that
            await finish(state, answer, failure)
            state.mark_seen()
        else:
            _take_answer(state, link, answer, failure)
        return state.result

    run = run_stages
    for link in reversed(chain.links):
        run = partial(run_inside, link, run)
    await run()


def _take_answer(state: CallState, link: Callback, answer: ToolResult | None, failure: BaseException | None) -> None:
    """Replaces the result by the answer of a wrapper, unless it failed, which is logged, or the call waits."""
    if answer is not None and not _waits(state, state.result and state.result.kind):
        state.result = answer
    elif answer is not state.result:
        failure = failure or ValueError("a call that waits keeps its result")
        if not isinstance(failure, CallError) or failure.kind != "callback_failure":  # that is logged already
            log_failure(_callbacks().title_of(link), failure)


async def _run_last_stages(state: CallState) -> None:
    """Runs `on_error` and `after`, unless the call waits, and sets its result; a long-running one becomes pending."""
    running, result, tool = state.running, state.result, state.tool
    has_run = running is not None and running.lock is not None and result is not None and not result.is_error
    is_long = has_run and tool is not None and tool.spec.long_running
    if is_long and (operations := state.runtime.operations) is not None:  # its result becomes a pending one
        mark = operations.mark_pending
        await state.runtime.threads.run(mark, state) if operations.is_stored else mark(state)
    failure = state.error
    # The callbacks have seen the result, or get the one after the host has run the call, or a person has answered.
    waits = _waits(state, failure.kind if isinstance(failure, CallError) else None)
    callbacks = () if state.is_seen or waits else state.snapshot.callbacks
    gave_error = state.started_at is not None and state.result is not None and state.result.is_error
    has_failed = (failure is not None or gave_error) and not state.call.provider_executed
    try:
        if has_failed and "on_tool_error" in callbacks and (result := await _callbacks().on_error(state)) is not None:
            state.result, state.error = result, None
    except BaseException as error:  # noqa: BLE001  of a callback, as above
        _fail(state, error)
    try:
        if "after_tool" in callbacks:
            _settle_error(state)
            state.result = await _callbacks().after(state)
    except BaseException as error:  # noqa: BLE001  likewise
        _fail(state, error)
    _settle_error(state)
    if (made := state.made_context) is not None:
        await made.internals.close_services(failure)


def _waits(state: CallState, kind: ErrorKind | None) -> bool:
    """Whether a call with an error of this kind waits for a person's answer, or for its host."""
    is_suspended = kind == "confirmation_required" and state.pending is not None
    return is_suspended or (state.running is not None and state.running.runs_on_host)


def _add_actions(state: CallState, actions: PendingActions) -> None:
    """Adds the title and metadata that the call has set to its result; an error replaces it if its state isn't JSON."""
    result = state.result
    if result is None:
        return
    if actions.state.faults and not result.is_error:
        text = f"{state.call.name} ran, but left something in the state that isn't JSON; that was dropped."
        detail = "\n".join(actions.state.faults)
        result = state.result = ToolResult.error("tool_failure", text, detail=detail)
    if actions.title is not None or actions.facts:
        title = actions.title if result.title is None else result.title
        state.result = attrs.evolve(result, title=title, metadata={**actions.facts, **result.metadata})


def _fail(state: CallState, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    state.error = error


def _settle_error(state: CallState) -> None:
    """Converts an error that no callback recovered to the result."""
    if state.error is not None:
        state.result, state.error = failure_result(state, state.error), None


async def decide(state: CallState, unmarked: Sequence[Callback]) -> Decision:
    """The decision on a call without running its tool, by its rules and those callbacks that are marked as `read_only`.

    The unmarked `before_tool` callbacks may decide otherwise.
    """
    from pegboard.dispatch.permissions.evaluation import Decision

    try:
        decision = await _decide_by_rules(state)
        link = next((link for link in unmarked if _callbacks().applies(state, link)), None)
    except BaseException as error:  # noqa: BLE001  as in `run_call`
        _fail(state, error)
        is_worded = isinstance(error, CallError | ToolError)
        return Decision("deny", reason=error.text if is_worded else failure_result(state, error).text)
    finally:
        made = state.made_context
        if made is not None:
            await made.internals.close_services()
        _close(state)
    if decision.action == "allow" and link is not None:
        return Decision("ask", reason=f"a before_tool callback of {link.owner} may decide otherwise")
    return decision


async def _decide_by_rules(state: CallState) -> Decision:
    """`decide` by the marked callbacks and the rules; raises the call's error."""
    from pegboard.dispatch.approval.request import Always, Later, Once, Reject
    from pegboard.dispatch.permissions.evaluation import Decision

    tool = await _prepare_call(state)
    if (result := await _call_before(state, tool)) is not None:
        is_over = result.kind == "aborted"
        return Decision("deny" if is_over else "allow", reason=result.text if is_over else "a callback answers it")
    asking = asking_of(state)
    await asking.decide()
    if (request := asking.request) is None:
        return Decision("allow", reason="nothing asks")
    chain = _callbacks().chain_of(state, "approve_call", Once, Always, Reject, Later)
    answer = await chain.first_answer(request, state.context)
    if isinstance(answer, Reject):
        return Decision("deny", reason=answer.feedback or "a callback rejects it")
    if isinstance(answer, Once | Always):
        return Decision("allow", reason="a callback approves it")
    return Decision("ask", reason=request.reason)


def _call_of(context: ToolContext) -> CallState:
    """The call that this context belongs to; `CallStoppedError` in an abandoned thread, or in work after its end."""
    if not isinstance(context.internals.frame, CallState):
        raise CallStoppedError("the call has ended; its context can't be used any more")
    return context.internals.frame


@define(eq=False)
class DispatchHost:
    """The host of the contexts of calls, by which they reach dispatch."""

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Returns if the rules or the user allow it."""
        from pegboard.dispatch.callbacks import Ask

        await asking_of(_call_of(context)).ask("permission", Ask(permission, patterns, always, metadata))

    def allows(self, context: ToolContext, permission: str, subject: str | None) -> bool:
        """Whether the rules let the call access this."""
        return asking_of(_call_of(context)).access.allows(permission, subject)

    def allowed_names(
        self, context: ToolContext, permission: str, folder: str, names: Sequence[str]
    ) -> tuple[str, ...]:
        """The names in a folder that the rules let the call access."""
        return asking_of(_call_of(context)).access.allowed_names(permission, folder, names)

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """The user's answer to a question of the tool."""
        return await asking_of(_call_of(context)).confirm(hint, payload)

    def suspend(self, context: ToolContext, hint: str, payload: Any, stored: Any, request: str | None) -> NoReturn:
        """Suspends the call until a question is answered."""
        asking_of(_call_of(context)).suspend(hint, payload, stored, request)

    def inherited(self, context: ToolContext) -> Mapping[str, Any]:
        """The batch options that apply the call's own restrictions to calls that its tool makes."""
        settings = _call_of(context).settings
        own_rules = settings.current.permissions if settings.current.are_own else None
        given = {"approver": settings.approver, "ask_until": settings.ask_until}
        given |= {"permissions": own_rules, "timeout": settings.longest}
        return {name: value for name, value in given.items() if value is not None}

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs a nested call, by the rules of any call, of the same request, user and session.

        It has its caller's locks and its own time limit. Its actions are added to its caller's. Raises what ends the
        turn: the tool's `FatalToolError`, or a callback's `TurnAbortedError`.
        """
        outer = _call_of(context)
        inner = make_nested_state(outer, name, arguments)
        with pause_deadlines(outer):  # the inner call has its own limit, and may wait for the user
            await run_call(inner, is_alone=True)
        if inner.fatal is not None:
            raise inner.fatal
        outer.end_turn(outer.end_reason or inner.end_reason)
        if (asked := inner.context.internals.pending_actions) is not None:
            context.actions.add(asked.actions, asked.state)
        assert inner.result is not None
        if inner.pending is not None:
            text = f"{name} was not run: its approval comes later, and a nested call can't wait for that."
            return ToolResult.error("denied", text)
        return inner.result

    def unlocked(self, context: ToolContext) -> AbstractContextManager[None]:
        """A context in which the call doesn't keep exclusive calls from running."""
        state = _call_of(context)
        lock = lock_of(state)
        return nullcontext() if lock is None else state.runtime.locks.lend(lock)

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Starts background work, which continues after the call's first result, and returns the operation's id."""
        state = _call_of(context)
        if state.runtime.operations is None:
            if iscoroutine(work):
                work.close()
            raise LookupError(f"{context.tool} can't run in the background here: only its result is sent back")
        return state.runtime.operations.start_background(state, work)
