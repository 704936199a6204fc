"""The stage `repair`: a call with an unknown name or invalid arguments gets one second chance.

Callbacks are asked first, in order, then the built-in repair of names; the first answer counts. What comes of it is
found, parsed and validated as any call, and permitted and approved after that: a repair allows nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs
from attrs import frozen

from pegboard.callbacks import Callback, ChainError
from pegboard.dispatch.events import note
from pegboard.dispatch.find import UnknownNameError
from pegboard.dispatch.state import NO_ARGUMENTS, CallState
from pegboard.dispatch.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.errors import detail_of
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.tools.tool import Tool

REPAIRED_KINDS: Final = ("unknown_tool", "invalid_arguments")


@frozen
class RepairRequest:
    """What a repairer gets to know.

    Attributes:
        call: As the model made it.
        tools: Those that the call may use.
        schema: The JSON Schema of the named tool's arguments; `None` where no tool has the name.
        instructions: The request's instructions (its system prompt), or `None`.
        messages: The conversation so far, as the host keeps it.
        error: Why the call can't run.
        context: For whom the call runs.
    """

    call: ToolCall
    tools: Sequence[Tool]
    schema: JsonSchema | None
    instructions: str | None
    messages: Sequence[Any]
    error: CallFault
    context: ReadonlyContext = NOBODY


Repaired: TypeAlias = "ToolCall | Mapping[str, Any] | None"
"""Another call, other arguments for the same tool, or nothing."""

Repairer: TypeAlias = "Callable[[RepairRequest], Repaired | Awaitable[Repaired]]"
"""Plain ones run off the loop."""


def repair(state: CallState) -> Awaitable[None] | None:
    """Puts the repaired call into `state.call`, ready to be found, parsed and validated; else raises the error again.

    Args:
        state: `state.error` is why the call can't run. With `state.repaired` set, the one chance is used up.

    Raises:
        CallError: The first error, where no repairer answers; with both in its detail where one failed; and what is
            wrong with the repaired call.
    """
    error = state.error
    assert error is not None
    if not isinstance(error, CallError) or error.kind not in REPAIRED_KINDS:
        raise error
    if state.repaired is not None:
        raise _again(error, f"{error.detail or error.text}\nBefore that, the call was repaired: {state.repaired}")
    if state.services.callbacks.repair:
        return _ask(state, error)
    _mend_name(state, error)
    return None


async def _ask(state: CallState, error: CallError) -> None:
    """Asks each callback; the first that answers has repaired the call."""
    request = _request(state, error)
    for link in state.services.callbacks.repair:
        try:
            answer = await _answer(link, request, state)
            call = None if answer is None else _call_of(answer, state.call)
        except BaseException as failed:  # a repairer's SystemExit costs this call only
            if cancels_the_call(failed):
                raise
            raise _failure(state, error, link, failed) from failed
        if call is not None:
            _take(state, call, f"by {link.owner}: {_changes(state.call, call)}")
            return
    _mend_name(state, error)


def _request(state: CallState, error: CallError) -> RepairRequest:
    services, asker = state.services, state.context.request
    schema = None if state.tool is None else state.tool.spec.input_schema
    tools = cast("Sequence[Tool]", state.context.offered) if services.tools is None else services.tools
    fault = CallFault(error.kind, error.text, error.problems)
    return RepairRequest(state.call, tools, schema, services.instructions, asker.messages, fault, asker)


async def _answer(link: Callback, request: RepairRequest, state: CallState) -> object:
    """What a repairer answers, within the time that a callback has; a plain one is called in a thread."""
    limits = state.services.limits
    try:
        if link.blocking:
            running = state.services.threads.run(link.function, request)
            answer = await within(limits.callback_timeout, running, grace=limits.grace)
        else:
            answer = link.function(request)
        return await within(limits.callback_timeout, answer, grace=limits.grace) if isawaitable(answer) else answer
    except LimitExpiredError:
        raise TimeoutError(f"it gave no answer within {limits.callback_timeout:g} s") from None


def _call_of(answer: object, call: ToolCall) -> ToolCall:
    """The call that an answer makes of this one: its id, and what the provider wants back, stay."""
    if isinstance(answer, ToolCall):
        return attrs.evolve(call, name=answer.name, arguments=answer.arguments, title=answer.title, error=None)
    if isinstance(answer, Mapping):
        return attrs.evolve(call, arguments=answer, error=None)
    raise TypeError(f"answered {type(answer).__name__}; it may answer ToolCall, a mapping of arguments, or None")


def _mend_name(state: CallState, error: CallError) -> None:
    """The built-in repair: the one tool that a wrong name can only be a slip for, where running it does no harm."""
    call = state.call
    name = _meant(state, error) if state.services.limits.repair and error.kind == "unknown_tool" else None
    if name is None:
        raise error
    _take(state, attrs.evolve(call, name=name, error=None), f"the name {call.name!r} was taken for {name!r}")


def _meant(state: CallState, error: CallError) -> str | None:
    from pegboard.dispatch.find import meant_name

    services = state.services
    if not isinstance(state.call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        return None
    if isinstance(error, UnknownNameError):
        names = error.available
    else:
        names = [tool.name for tool in (state.context.offered if services.tools is None else services.tools)]
    name = meant_name(state.call.name, names)
    return None if name is None or _is_delicate(services.find(name)) else name


def _is_delicate(tool: Tool) -> bool:
    """Whether a guess mustn't run it: it may destroy something, or a person has to be asked."""
    spec = tool.spec
    asks = spec.requires_confirmation or tool.confirms is not None or spec.permission is not None
    return asks or spec.annotations.destructive_hint is True


def _take(state: CallState, call: ToolCall, done: str) -> None:
    """Starts anew with another call, and emits a note."""
    note(state, "repaired", (done,))
    state.call, state.repaired, state.error = call, done, None
    state.tool, state.arguments, state.parsed, state.coercions = None, NO_ARGUMENTS, False, ()
    state.context.tool = call.name


def _changes(old: ToolCall, new: ToolCall) -> str:
    if old.name == new.name:
        return "other arguments"
    return f"{new.name!r:.80} for {old.name!r:.80}"


def _failure(state: CallState, error: CallError, link: Callback, failed: BaseException) -> CallError:
    """The model learns what was wrong with its call; the operator, that the repair failed too, and how."""
    if state.services.observe is not None:
        state.services.observe(f"repairer of {link.owner}", failed)
    told = f"{ChainError(link, failed)}\n{detail_of(failed)}"
    return _again(error, f"The repair failed: {told}\nIt was to mend: {error.detail or error.text}")


def _again(error: CallError, detail: str) -> CallError:
    return CallError(error.kind, error.text, detail=detail, problems=error.problems)


__all__ = ["REPAIRED_KINDS", "RepairRequest", "Repaired", "Repairer", "repair"]
