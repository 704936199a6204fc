"""Approval queue: requests that wait for a person, asked through an `Approver`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from threading import Lock, RLock
from types import MethodType
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from attrs import define, field, frozen

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


ApproverFunction: TypeAlias = Callable[[ApprovalRequest, ToolContext], Any]  # an approver as a function, plain or async
OneApprover: TypeAlias = Approver | ApproverFunction
AnyApprover: TypeAlias = OneApprover | Sequence[OneApprover]
"""One approver; or several, asked in order until one has an answer."""


async def ask_later(_request: ApprovalRequest, _context: ToolContext) -> Later:
    """An approver for hosts in which every answer comes in another turn or process."""
    return Later()


def no_approver_error(request: ApprovalRequest) -> RefusedError:
    """The denial if there is no approver, or none can answer."""
    why = f" ({request.reason})" if request.reason else ""
    return RefusedError("denied", f"{request.call.name} needs approval{why}, and there is no approver. {_DENIED}")


def reduce_to_rejections(approver: ApproverFunction) -> ApproverFunction:
    """Wraps the approver of an untrusted plugin: only its rejections count."""

    async def rejection_in(given: Any) -> Reject | None:
        answer = await maybe_await(given)
        return answer if isinstance(answer, Reject) else None

    return lambda request, context: rejection_in(approver(request, context))


@frozen
class _Approver:
    """Approver as the queue asks it."""

    function: ApproverFunction  # plain or async
    blocks: bool  # whether it is plain: then it runs in a thread
    key: str | None  # of the lock by which it gets one request at a time; `None` if it takes several at once

    @classmethod
    def of(cls, given: Any) -> _Approver:
        function = getattr(given, "approve", given)
        if not callable(function):
            wanted = "an approver must have approve(request, context), or be such a function"
            raise TypeError(f"{wanted}, not {given!r:.80}")
        blocks = CallableKind.of(function) is CallableKind.PLAIN
        takes_one = blocks or getattr(given, "one_at_a_time", False)
        # A method is a new object, with another id, on each access.
        parts = (given.__self__, given.__func__) if isinstance(given, MethodType) else (given,)
        return cls(function, blocks, " ".join(str(id(each)) for each in parts) if takes_one else None)


@define(eq=False)
class _ApproverLock:
    """Lock of an approver that gets one request at a time, held until its answer is applied.

    A thread in which the approver is asked can't be ended, and holds the lock, too: the last holder releases it.
    """

    handle: LockHandle
    _holders: int = field(default=1, init=False)
    _mutex: Lock = field(factory=Lock, init=False)

    def call(self, function: ApproverFunction, request: ApprovalRequest, context: ToolContext) -> Any:
        """Calls the approver in this thread, unless the lock was released: then the answer isn't needed any more."""
        with self._mutex:
            if not self._holders:
                return None
            self._holders += 1
        try:
            return function(request, context)
        finally:
            self.release()

    def release(self) -> None:
        """Removes a holder. Thread-safe."""
        with self._mutex:
            self._holders -= 1
            if not self._holders:
                self.handle.release()


@define(eq=False)
class _Entry:
    """Request in the queue; its futures belong to the event loop of its call."""

    request: ApprovalRequest  # with its preview once that is made
    context: ToolContext
    grants: Grants
    covered: Callable[[], bool | Awaitable[bool]]
    keys: frozenset[str] = field(default=frozenset(), init=False)  # the locks of its approvers
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    settled: asyncio.Future[None] = field(factory=asyncio.Future[None], init=False)  # done once the outcome is applied
    end: asyncio.Future[None] = field(factory=asyncio.Future[None], init=False)  # cancelled once the call waits no more
    since: float = field(factory=time.monotonic, init=False)  # start of its time to answer
    outcome: Answer | CallError | None = field(default=None, init=False)  # the first counts

    @property
    def session(self) -> str | None:
        """The session that it belongs to, with those of the agents that are called in it."""
        return session_key(self.context.request)

    def denial_by(self, error: BaseException) -> CallError:
        """The denial if asking failed; logs the error, unless the approver has refused in its own words."""
        if isinstance(error, RefusedError):
            return error
        if not cancels_the_call(error):  # as when the event loop ends
            log_failure("approver", error)
        text = f"{self.request.call.name} needs approval and asking for it failed. {_DENIED}"
        return RefusedError("denied", text, detail=f"the approver failed\n{detail_of(error)}")

    async def is_covered(self) -> bool:
        """Whether the rules allow it now; if they fail, a person is asked."""
        try:
            return await maybe_await(self.covered())
        except Exception as error:  # noqa: BLE001  rules may come from a host's store
            log_failure("the permission rules", error)
            return False

    async def wait(self, seconds: float | None) -> Answer | CallError:
        """Waits for the outcome, until the time to answer is over."""
        while not self.settled.done():
            remaining = None if seconds is None else self.since + seconds - time.monotonic()
            if remaining is not None and remaining <= 0:
                name = self.request.call.name
                text = f"{name} needs approval, and no answer came within {seconds:g} s. {_DENIED}"
                return self.outcome or RefusedError("denied", text)
            await asyncio.wait([self.settled], timeout=remaining)
        assert self.outcome is not None
        return self.outcome


@define(eq=False)
class ApprovalQueue:
    """Queue of requests that wait for a person. One serves all calls of a registry, over all event loops."""

    _entries: dict[_Entry, None] = field(factory=dict[_Entry, None], init=False)  # an ordered set
    _approver_locks: LockManager = field(factory=LockManager, init=False)
    # Reentrant: the end of a closed loop's task may come inside a change, when it is collected as garbage.
    _mutex: AbstractContextManager[Any] = field(factory=RLock, init=False)

    async def ask(  # noqa: PLR0913  what a call has, without importing it
        self,
        request: ApprovalRequest,
        context: ToolContext,
        approvers: Sequence[OneApprover],
        *,
        covered: Callable[[], bool | Awaitable[bool]],
        grants: Grants,
        seconds: float | None,
        until: Future[None] | None = None,
    ) -> tuple[Answer, ApprovalRequest]:
        """Asks a person about a request; returns the answer, and the request as the person saw it, with its preview.

        The approvers are asked in order until one has an answer. `Always` is granted to the session, and settles what
        else waits in it and is now covered; `Reject` rejects what else waits in it.

        `covered`, called in any event loop, says whether rules and grants allow the request by now. A person has these
        `seconds` from when the request arrives, or from the last answer of an approver that gets one request at a time.
        Once `until` is done, the answer is `Later()`, unless there is one or no approver.

        Raises a denial if there is no approver, no answer in time, or the approver failed.
        """
        entry, task = _Entry(request, context, grants, covered), None
        with self._mutex:
            self._entries[entry] = None
        try:
            if await entry.is_covered():
                return Once(), request
            if until is not None and approvers:
                until.add_done_callback(lambda _: self._settle(entry, Later()) and settle_from_thread(entry.settled))
            task = entry.loop.create_task(self._ask_all(entry, approvers))
            outcome = await entry.wait(seconds)
        finally:
            with self._mutex:  # any later answer is too late
                del self._entries[entry]
                entry.outcome = entry.outcome or no_approver_error(entry.request)
            try:
                if task is not None and not entry.loop.is_closed():
                    task.cancel()  # one that doesn't end is abandoned
                    await asyncio.wait([task], timeout=GRACE_SECONDS)
            finally:
                entry.end.cancel()
        if isinstance(outcome, CallError):
            raise outcome
        return outcome, entry.request

    async def _ask_all(self, entry: _Entry, approvers: Sequence[OneApprover]) -> None:
        """Asks each approver until one has an answer; one that fails denies."""
        try:
            in_order = [_Approver.of(each) for each in approvers]
            entry.keys = frozenset(each.key for each in in_order if each.key is not None)
            for approver in in_order:
                if entry.outcome is None:
                    await self._ask_one(entry, approver)
            self._settle(entry, no_approver_error(entry.request))
        except BaseException as error:  # an approver's SystemExit costs only its request
            if entry.loop.is_closed() and isinstance(error, GeneratorExit):  # the task is collected as garbage
                raise
            if entry.outcome is None:  # else it comes too late, such as this task's cancellation
                self._settle(entry, entry.denial_by(error))
        finally:
            settle_from_thread(entry.settled)

    async def _ask_one(self, entry: _Entry, approver: _Approver) -> None:
        """Asks under the approver's lock, held until the answer is applied: it may settle the next request."""
        lock = _ApproverLock(await self._approver_locks.acquire(LockRequest(key=approver.key)))
        try:
            answer = None if entry.outcome is not None else await _call_approver(entry, approver, lock)
            # It may come too late: an approver can ignore its cancellation.
            if answer is not None and self._settle(entry, answer):
                await self._apply(entry, answer)
        finally:
            lock.release()

    def _settle(self, entry: _Entry, outcome: Answer | CallError) -> bool:
        """Sets the outcome; false if there is one already."""
        with self._mutex:
            if entry.outcome is not None:
                return False
            entry.outcome, entry.since = outcome, time.monotonic()
            return True

    async def _apply(self, entry: _Entry, answer: Answer) -> None:
        """Applies the answer to others: restarts the time of those with the same approver, settles those it covers."""
        with self._mutex:
            for other in self._entries:
                if entry.keys & other.keys:
                    other.since = time.monotonic()
            waiting = [other for other in self._entries if other is not entry and other.outcome is None]
            others = [other for other in waiting if other.session == entry.session]
        if isinstance(answer, Always):
            await _add_grant(entry, answer)
            settled = [other for other in others if await other.is_covered() and self._settle(other, Once())]
        elif isinstance(answer, Reject):
            rejection = Reject(answer.feedback, rejected_with=entry.request.call.name)
            own = entry.context.session  # calls of agents that are called in this session have others
            settled = [each for each in others if each.context.session == own and self._settle(each, rejection)]
        else:
            return
        for other in settled:
            settle_from_thread(other.settled)
        # The turn may end with this rejection: the others are rejected first, rather than skipped.
        ends = [other.end for other in settled if isinstance(answer, Reject) and other.loop is entry.loop]
        if ends:
            await asyncio.wait(ends, timeout=GRACE_SECONDS)


async def _add_grant(entry: _Entry, answer: Always) -> None:
    """Adds to the session's grants; if that fails, the answer counts for this call only."""
    rules, tool = rules_of(entry.request, answer), entry.request.tool
    if tool is None or not rules:
        return
    try:
        await maybe_await(await run_in_thread(entry.grants.add, entry.session, tool_key(tool), rules, answer.seconds))
    except Exception as error:  # noqa: BLE001  a host's store
        log_failure("storing a grant", error)


async def _call_approver(entry: _Entry, approver: _Approver, lock: _ApproverLock) -> Answer | None:
    """The approver's answer; sets the preview of the request first."""
    request, context = entry.request, entry.context
    if request.tool is not None and request.tool.preview is not None and request.preview is None:
        preview = await preview_of(request.tool, request.arguments_text, context.request)
        request = entry.request = request.evolve(preview=preview)
    if approver.blocks:
        answer = await run_in_thread(lock.call, approver.function, request, context)
    else:
        answer = approver.function(request, context)
    answer = await maybe_await(answer)
    if answer is None or isinstance(answer, Once | Always | Reject | Later):
        return answer
    raise TypeError(f"an approver may answer Once(), Always(), Reject(), Later() or None, not {answer!r:.80}")
