"""Approval queue: requests that wait for a person, asked through an `Approver`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Lock, RLock
from types import MethodType
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from attrs import define, field

from pegboard.callbacks import CallableKind, maybe_await
from pegboard.dispatch.approval.grants import Grants, session_key, tool_key
from pegboard.dispatch.approval.pending import RefusedError, rules_of
from pegboard.dispatch.approval.request import Always, Answer, ApprovalRequest, Later, Once, Reject, preview_of
from pegboard.dispatch.locks import LockHandle, LockManager, LockRequest
from pegboard.errors import detail_of, log_failure
from pegboard.threads import run_in_thread, settle_from_thread
from pegboard.timeout import GRACE_SECONDS, cancels_the_call
from pegboard.tools.call import CallError
from pegboard.tools.context import ToolContext

_DENIED: Final = "It was denied. Continue without it."


@runtime_checkable
class Approver(Protocol):
    """Asks a person to approve a request.

    An approver with a true `one_at_a_time`, such as a terminal, gets one request at a time. So does every approver
    whose `approve` is a plain function: it runs in a thread of its own and may block.
    """

    def approve(self, request: ApprovalRequest, context: ToolContext) -> Awaitable[Answer | None] | Answer | None:
        """The person's answer; `async` or plain.

        It is cancelled when the answer isn't needed any more: the call ended, another answer settled this request
        too, or the time to answer is over. A plain function can't be cancelled; its answer is dropped then.

        Args:
            request: What is asked.
            context: That of the call.

        Returns:
            The answer, or `None` if no person can be asked.
        """
        ...


ApproverFunction: TypeAlias = Callable[[ApprovalRequest, ToolContext], Any]
"""An approver as a function, plain or async."""

OneApprover: TypeAlias = Approver | ApproverFunction
AnyApprover: TypeAlias = OneApprover | Sequence[OneApprover]
"""One approver; or several, asked in order until one has an answer."""


async def ask_later(_request: ApprovalRequest, _context: ToolContext) -> Later:
    """An approver for hosts in which every answer comes in another turn or process."""
    return Later()


def unanswerable(request: ApprovalRequest) -> RefusedError:
    """The denial if there is no approver, or none that can answer."""
    why = f" ({request.reason})" if request.reason else ""
    return RefusedError("denied", f"{request.call.name} needs approval{why}, and there is no approver. {_DENIED}")


@define(eq=False)
class _Turn:
    """Shared lock of an approver that gets one request at a time, held until its answer is applied.

    A thread in which it is asked can't be ended, and holds the lock too: the last holder releases it.
    """

    handle: LockHandle
    _holders: int = field(default=1, init=False)
    _mutex: Lock = field(factory=Lock, init=False)

    def share(self) -> bool:
        """Adds a holder; false if the lock was released already. Thread-safe."""
        with self._mutex:
            self._holders += self._holders > 0
            return self._holders > 0

    def release(self) -> None:
        """Removes a holder. Thread-safe."""
        with self._mutex:
            self._holders -= 1
            if not self._holders:
                self.handle.release()


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@define(eq=False)
class _Entry:
    """Request in the queue, in its own event loop.

    Attributes:
        request: With its preview once that is made.
        context: That of the call.
        approvers: Asked in order until one has an answer.
        grants: Gets the rules of an "always" answer.
        covered: Whether the rules allow it now.
        session: As `session_key` gives it.
        lock_keys: Of each approver that gets one request at a time; else `None`.
        settled: Done once the outcome is applied.
        left: Done once the call doesn't wait any more.
        since: Start of its time to answer, by `time.monotonic()`.
        outcome: The answer, or why there is none; the first counts.
    """

    request: ApprovalRequest
    context: ToolContext
    approvers: Sequence[OneApprover]
    grants: Grants
    covered: Callable[[], bool]
    session: str | None = field(init=False)
    lock_keys: tuple[str | None, ...] = field(default=(), init=False)
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    settled: asyncio.Future[None] = field(factory=_future, init=False)
    left: asyncio.Future[None] = field(factory=_future, init=False)
    since: float = field(factory=time.monotonic, init=False)
    outcome: Answer | CallError | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.session = session_key(self.context.request)

    def failed(self, error: BaseException) -> CallError:
        """The denial if asking failed; logs the error."""
        log_failure("approver", error)
        text = f"{self.request.call.name} needs approval and asking for it failed. {_DENIED}"
        return RefusedError("denied", text, detail=f"the approver failed\n{detail_of(error)}")

    def is_covered(self) -> bool:
        """Whether the rules allow it now; if they fail, a person is asked."""
        try:
            return self.covered()
        except Exception as error:  # noqa: BLE001  rules may come from a host's store
            log_failure("the permission rules", error)
            return False

    async def wait(self, asking: asyncio.Task[None], seconds: float | None) -> Answer | CallError:
        """Waits for the outcome, until the time to answer is over or the asking task has ended without one."""
        while not self.settled.done():
            remaining = None if seconds is None else self.since + seconds - time.monotonic()
            if remaining is not None and remaining <= 0:
                name = self.request.call.name
                text = f"{name} needs approval, and no answer came within {seconds:g} s. {_DENIED}"
                return self.outcome or RefusedError("denied", text)
            if asking.done() and self.outcome is None:  # the approver has ended the task itself
                error = None if asking.cancelled() else asking.exception()
                return self.failed(error or asyncio.CancelledError("asking was cancelled"))
            awaited = [self.settled] if asking.done() else [self.settled, asking]
            await asyncio.wait(awaited, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
        assert self.outcome is not None
        return self.outcome


@define(eq=False)
class ApprovalQueue:
    """Queue of requests that wait for a person. One serves all calls of a registry, over all event loops."""

    _entries: dict[_Entry, None] = field(factory=dict[_Entry, None], init=False)
    _approvers: LockManager = field(factory=LockManager, init=False)
    # Reentrant: the end of a closed loop's task may come inside a change, when it is collected as garbage.
    _mutex: AbstractContextManager[Any] = field(factory=RLock, init=False)

    def waiting(self) -> tuple[ApprovalRequest, ...]:
        """The waiting requests, in order of arrival."""
        with self._mutex:
            return tuple(entry.request for entry in self._entries)

    async def ask(  # noqa: PLR0913  what a call's services have, without importing them
        self,
        request: ApprovalRequest,
        context: ToolContext,
        approvers: Sequence[OneApprover],
        *,
        covered: Callable[[], bool],
        grants: Grants,
        seconds: float | None,
    ) -> tuple[Answer, ApprovalRequest]:
        """Asks a person about a request.

        `Always` is granted to the session, and settles what else waits in it and is now covered; `Reject` rejects what
        else waits in it.

        Args:
            request: What is asked; its preview is made right before the approver is asked.
            context: That of the call.
            approvers: Asked in order until one has an answer.
            covered: Whether the rules allow the request now. Called from any thread.
            grants: Gets the rules of an "always" answer.
            seconds: How long a person may take: from when the request arrives, or from the last answer of an approver
                that gets one request at a time.

        Returns:
            The answer, and the request as the person saw it.

        Raises:
            CallError: `denied`: there is no approver, no answer in time, or the approver failed.
        """
        entry = _Entry(request, context, approvers, grants, covered)
        try:
            entry.lock_keys = tuple(map(_lock_key, approvers))
        except Exception as error:  # not an approver
            raise entry.failed(error) from error
        with self._mutex:
            self._entries[entry] = None
        asking: asyncio.Task[None] | None = None
        try:
            if entry.is_covered():
                return Once(), request
            asking = entry.loop.create_task(self._ask_all(entry))
            outcome = await entry.wait(asking, seconds)
        finally:
            with self._mutex:  # any later answer is too late
                del self._entries[entry]
                entry.outcome = entry.outcome or unanswerable(entry.request)
            try:
                if asking is not None and not entry.loop.is_closed():
                    asking.cancel()  # one that doesn't end is abandoned
                    await asyncio.wait([asking], timeout=GRACE_SECONDS)
            finally:
                entry.left.cancel()
        if isinstance(outcome, CallError):
            raise outcome
        return outcome, entry.request

    async def _ask_all(self, entry: _Entry) -> None:
        """Asks each approver until one has an answer."""
        for approver, key in zip(entry.approvers, entry.lock_keys, strict=True):
            if entry.outcome is None:
                await self._ask_in_turn(entry, approver, key)
        if self._settle(entry, unanswerable(entry.request)):
            settle_from_thread(entry.settled)

    async def _ask_in_turn(self, entry: _Entry, approver: OneApprover, key: str | None) -> None:
        """Asks under the approver's lock, held until the answer is applied: it may settle the next request."""
        turn = None if key is None else _Turn(await self._approvers.acquire(LockRequest(key=key)))
        try:
            outcome = None if entry.outcome is not None else await _ask_approver(entry, approver, turn)
            # It may come too late: an approver can ignore its cancellation.
            if outcome is not None and self._settle(entry, outcome):
                await self._apply(entry, outcome)
                settle_from_thread(entry.settled)
        finally:
            if turn is not None:
                turn.release()

    def _settle(self, entry: _Entry, outcome: Answer | CallError) -> bool:
        """Sets the outcome; false if there is one already."""
        with self._mutex:
            if entry.outcome is not None:
                return False
            entry.outcome, entry.since = outcome, time.monotonic()
            return True

    async def _apply(self, entry: _Entry, outcome: Answer | CallError) -> None:
        """Applies the answer to others: restarts the time of those with the same approver, and settles some."""
        with self._mutex:
            for other in self._entries:
                if {*entry.lock_keys} & {*other.lock_keys} - {None}:
                    other.since = time.monotonic()
            others = [other for other in self._entries if other is not entry and other.session == entry.session]
        if isinstance(outcome, Always):
            await _add_grant(entry, outcome)
            self._settle_all((other for other in others if other.is_covered()), Once())
        elif isinstance(outcome, Reject):
            rejected = self._settle_all(others, Reject(outcome.feedback, rejected_with=entry.request.call.name))
            # The turn may end with this rejection: the others are rejected first, rather than skipped.
            here = [other.left for other in rejected if other.loop is entry.loop]
            if here:
                await asyncio.wait(here, timeout=GRACE_SECONDS)

    def _settle_all(self, others: Iterable[_Entry], outcome: Answer) -> list[_Entry]:
        """Settles those without an outcome; returns them."""
        settled = [other for other in others if self._settle(other, outcome)]
        for other in settled:
            settle_from_thread(other.settled)
        return settled


async def _add_grant(entry: _Entry, answer: Always) -> None:
    """Adds to the session's grants; if that fails, the answer counts for this call only."""
    rules, tool = rules_of(entry.request, answer), entry.request.tool
    if tool is None or not rules:
        return
    try:
        await run_in_thread(entry.grants.add, entry.session, tool_key(tool), rules, answer.seconds)
    except Exception as error:  # noqa: BLE001  a host's store
        log_failure("storing a grant", error)


# The approver, which may be plain or async, slow, or broken ---------------------------------------------------------


def _function_of(approver: Any) -> ApproverFunction:
    function = getattr(approver, "approve", approver)
    if not callable(function):
        raise TypeError(f"an approver must have approve(request, context), or be such a function, not {approver!r:.80}")
    return function


def only_rejecting(approver: ApproverFunction) -> ApproverFunction:
    """Wraps the approver of an untrusted plugin: only its rejections count."""

    async def rejection(given: Any) -> Reject | None:
        answer = await maybe_await(given)
        return answer if isinstance(answer, Reject) else None

    return lambda request, context: rejection(approver(request, context))


def _may_block(function: ApproverFunction) -> bool:
    return CallableKind.of(function) is CallableKind.PLAIN


def _lock_key(approver: Any) -> str | None:
    """The key of this approver's lock; `None` if it takes several requests at once.

    Raises:
        TypeError: It isn't an approver.
    """
    if not (getattr(approver, "one_at_a_time", False) or _may_block(_function_of(approver))):
        return None
    if isinstance(approver, MethodType):  # a new object on each access
        return f"{id(approver.__self__)} {id(approver.__func__)}"
    return str(id(approver))


async def _ask_approver(entry: _Entry, approver: OneApprover, turn: _Turn | None) -> Answer | CallError | None:
    """The approver's answer, or the denial if it fails; sets the preview of the request first."""
    try:
        request = entry.request
        if request.tool is not None and request.tool.preview is not None and request.preview is None:
            context = entry.context.request
            preview = await preview_of(request.tool, request.arguments_text, context)
            request = entry.request = request.evolve(preview=preview)
        function: Any = _function_of(approver)
        if turn is not None and _may_block(function):
            answer = await _in_thread(function, request, entry.context, turn)
        else:
            answer = function(request, entry.context)
        given = await maybe_await(answer)
        if given is None or isinstance(given, Once | Always | Reject | Later):
            return given
        raise TypeError(f"an approver may answer Once(), Always(), Reject(), Later() or None, not {given!r:.80}")  # noqa: TRY301  as what it raises
    except RefusedError as refused:  # in the approver's own words
        return refused
    except BaseException as error:  # an approver's SystemExit costs only its request
        if cancels_the_call(error) or (isinstance(error, GeneratorExit) and entry.loop.is_closed()):
            raise
        return entry.failed(error)


async def _in_thread(function: ApproverFunction, request: ApprovalRequest, context: ToolContext, turn: _Turn) -> Any:
    """Asks in a thread of its own, which can't be ended, and so holds the lock until it returns."""

    def ask() -> Any:
        if not turn.share():  # the answer isn't needed any more
            return None
        try:
            return function(request, context)
        finally:
            turn.release()

    return await run_in_thread(ask)
