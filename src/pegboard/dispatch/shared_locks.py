"""Locks that several processes share: acquired by a `LockBackend`, after those of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

from pegboard.dispatch.locks import LockBackend, LockClaim, LockHandle, LockRequest
from pegboard.dispatch.state import CallState
from pegboard.errors import ToolError, detail_of
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import CallError
from pegboard.tools.context import ToolContext

_CALLS: Final = "calls"  # the lock that exclusive calls write and all others read


async def acquire_shared(state: CallState, request: LockRequest, acquiring: Awaitable[LockHandle]) -> LockHandle:
    """Acquires the locks of a call in this process, then in all that share a backend; or raises `not_executed`."""
    handle = await acquiring
    try:
        provided = state.runtime.provided
        if provided is not None and LockBackend in provided:  # a plugin that may provide one perhaps doesn't
            await _acquire(state, await provided.use(LockBackend, ToolContext()), request, handle)
    except BaseException as error:
        handle.release()
        if isinstance(error, CallError) or cancels_the_call(error):
            raise
        text = f"{state.name} was not run: the locks that it shares with other processes can't be acquired."
        advice = (error.text, error.hint) if isinstance(error, ToolError) else ("Try again later.",)
        raise CallError("not_executed", " ".join(filter(None, (text, *advice))), detail=detail_of(error)) from error
    return handle


async def run_held(state: CallState, handle: LockHandle, call: Awaitable[Any]) -> Any:
    """Runs a call that holds shared locks; ends it as `unknown_outcome` if one was lost while it ran."""
    try:
        value = await call
    except BaseException as error:
        if handle.lost is None or cancels_the_call(error):
            raise
        raise loss_error(state, handle.lost) from error
    if handle.lost is not None:
        raise loss_error(state, handle.lost)
    return value


def loss_error(state: CallState, reason: str) -> CallError:
    """The error of a call whose locks were lost."""
    if state.started_at is None:
        return CallError("not_executed", f"{state.name} was not run: it has lost its locks. Try again.", detail=reason)
    text = (
        f"{state.name} was ended: it has lost its locks while it ran, so that another call may have come between. "
        "Find out what it has done before calling it again."
    )
    return CallError("unknown_outcome", text, detail=reason)


async def _acquire(state: CallState, backend: LockBackend, request: LockRequest, handle: LockHandle) -> None:
    """Acquires what the enclosing calls don't hold already, and puts the token into the call's context.

    Enclosing shared calls lose the lock of all calls to an exclusive one, as two processes would wait for each other.
    """
    if request.exclusive:
        _leave_calls(handle)
    loop = asyncio.get_running_loop()

    def lost(reason: str) -> None:
        handle.lost = handle.lost or reason
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_end, state)

    for claims in _claims_of(request, handle):
        within = [locks for each in (*reversed([*handle.callers()]), handle) for _, locks in each.held]
        locks = await backend.acquire(claims, within=within, lost=lost)
        handle.held = (*handle.held, (claims, locks))
        state.context.fencing_token = locks.token


def _claims_of(request: LockRequest, handle: LockHandle) -> list[list[LockClaim]]:
    """What has to be acquired, together; a shared call's slot is held apart, as it may lose the lock of all calls."""
    claims = [LockClaim(_CALLS, 1 if request.exclusive else None)]
    if request.key is not None:
        claims.append(LockClaim(f"key {request.key}", 1 if request.writes else None))
    if request.slots is not None:
        claims.append(LockClaim(f"tool {request.slots[0]}", request.slots[1]))
    known = [each for outer in handle.callers() for own, _ in outer.held for each in own]
    needed = [claim for claim in claims if not any(_covers(each, claim) for each in known)]
    if handle.is_shared:
        return [[claim] for claim in needed]
    return [needed] if needed else []


def _covers(held: LockClaim, claim: LockClaim) -> bool:
    """Whether a call that holds one lock needs no other for a nested call."""
    return held.name == claim.name and (claim.most is None or (held.most is not None and held.most <= claim.most))


def _leave_calls(handle: LockHandle) -> None:
    for caller in handle.callers():
        if caller.is_shared:
            for claims, locks in caller.held:
                if claims[0].name == _CALLS:
                    locks.release()
            caller.held = tuple(each for each in caller.held if each[0][0].name != _CALLS)


def _end(state: CallState) -> None:
    """Ends a call that has lost its locks, if it runs now; otherwise it ends before it starts."""
    deadline = None if state.running is None else state.running.deadline
    if deadline is not None:
        deadline.end()
