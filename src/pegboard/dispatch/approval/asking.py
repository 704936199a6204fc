"""`Asking`: keeps what waits for a person, and carries out what the person says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, Final

from attrs import define, field

from pegboard.dispatch.approval.answer import Always, Answer, Once, Reject
from pegboard.dispatch.approval.consulting import consult, failed, line_of
from pegboard.dispatch.approval.grants import session_key
from pegboard.dispatch.approval.refusal import nobody_there, too_late
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.dispatch.approval.turns import Turns
from pegboard.dispatch.approval.waiting import Waiting
from pegboard.dispatch.work import CallError, Surroundings
from pegboard.threads import off_loop
from pegboard.tools.context import ToolContext

GRACE_SECONDS: Final = 1.0
"""How long an approver may take to end once its answer isn't needed any more."""


def _never() -> bool:
    return False


@define(eq=False)
class Asking:
    """What waits for a person, by session. One serves all calls of a registry, from however many event loops."""

    _waiting: dict[Waiting, None] = field(factory=dict[Waiting, None], init=False)
    _turns: Turns = field(factory=Turns, init=False)
    _lock: AbstractContextManager[Any] = field(factory=RLock, init=False)  # as that of turns

    def waiting(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait now, in order of arrival."""
        with self._lock:
            return tuple(waiting.request for waiting in self._waiting)

    async def ask(
        self,
        request: ApprovalRequest,
        context: ToolContext,
        around: Surroundings,
        covered: Callable[[], bool] = _never,
    ) -> tuple[Answer, ApprovalRequest]:
        """Puts a request before a person.

        `Always` is granted to the session, and settles what else waits in it and is covered by now; `Reject` rejects
        what else waits in it. A person has `around.limits.approval_timeout` seconds: from when the request arrives, or
        from the last answer of an approver that is asked one thing after the other.

        Args:
            request: What is asked; its preview is made when its turn has come.
            context: That of the call.
            around: Whose approver is asked, and whose grants are added to.
            covered: Whether the rules allow the request by now. Called from any thread.

        Returns:
            The answer, and the request as the person saw it.

        Raises:
            CallError: `denied`: nobody is there, nobody answered in time, or the approver failed.
        """
        if around.approver is None:
            raise nobody_there(request)
        waiting = self._enter(request, context, around, covered)
        try:
            outcome = await self._outcome(waiting, context, around)
        finally:
            waiting.gone.cancel()
        if isinstance(outcome, CallError):
            raise outcome
        return outcome, waiting.request

    # One request -------------------------------------------------------------------------------------------------

    def _enter(
        self, request: ApprovalRequest, context: ToolContext, around: Surroundings, covered: Callable[[], bool]
    ) -> Waiting:
        try:
            line = line_of(around.approver)
        except Exception as error:  # it is no approver
            raise failed(request, error, around) from error
        waiting = Waiting(request, session_key(context.request), covered, line)
        with self._lock:
            self._waiting[waiting] = None
        return waiting

    def _leave(self, waiting: Waiting) -> None:
        """Whatever comes now comes too late."""
        with self._lock:
            del self._waiting[waiting]
            waiting.outcome = waiting.outcome or nobody_there(waiting.request)

    async def _outcome(self, waiting: Waiting, context: ToolContext, around: Surroundings) -> Answer | CallError:
        consulting: asyncio.Task[None] | None = None
        try:
            if _is_covered(waiting, around):
                return Once()
            consulting = waiting.loop.create_task(self._consult(waiting, context, around))
            return await _settled(waiting, around.limits.approval_timeout)
        finally:
            self._leave(waiting)
            if consulting is not None and not waiting.loop.is_closed():
                consulting.cancel()  # one that won't end is left to itself
                await asyncio.wait([consulting], timeout=GRACE_SECONDS)

    async def _consult(self, waiting: Waiting, context: ToolContext, around: Surroundings) -> None:
        """Asks in turn. The turn is kept until the answer is carried out, so that nobody is asked in vain."""
        turn = None if waiting.queue is None else await self._turns.take(waiting.queue)
        try:
            if waiting.outcome is None:
                outcome = await consult(waiting, context, around, turn)
                if self._decide(waiting, outcome):  # it may come too late: an approver can ignore that it was cancelled
                    await self._carry_out(waiting, outcome, around)
                    waiting.wake()
        finally:
            if turn is not None:
                turn.release()

    def _decide(self, waiting: Waiting, outcome: Answer | CallError) -> bool:
        """Notes the outcome; false where there is one already."""
        with self._lock:
            if waiting.outcome is not None:
                return False
            waiting.outcome, waiting.since = outcome, time.monotonic()
            return True

    # The others --------------------------------------------------------------------------------------------------

    async def _carry_out(self, waiting: Waiting, outcome: Answer | CallError, around: Surroundings) -> None:
        """What the answer means for others: those behind it have their time anew, some are settled with it."""
        others = self._touch(waiting)
        if isinstance(outcome, Always):
            await _grant(waiting, outcome, around)
            self._settle((other for other in others if _is_covered(other, around)), Once())
        elif isinstance(outcome, Reject):
            along = self._settle(others, Reject(outcome.feedback, along_with=waiting.request.call.name))
            # The turn may end with this rejection; they have theirs first, rather than being skipped.
            here = [other.gone for other in along if other.loop is waiting.loop]
            if here:
                await asyncio.wait(here, timeout=GRACE_SECONDS)

    def _touch(self, waiting: Waiting) -> list[Waiting]:
        """The others of the session; whoever stands in the same line has its time anew."""
        with self._lock:
            for other in self._waiting:
                if waiting.queue is not None and other.queue == waiting.queue:
                    other.since = time.monotonic()
            return [other for other in self._waiting if other is not waiting and other.session == waiting.session]

    def _settle(self, others: Iterable[Waiting], outcome: Answer) -> list[Waiting]:
        """Gives those that have no outcome this one."""
        settled = [other for other in others if self._decide(other, outcome)]
        for other in settled:
            other.wake()
        return settled


async def _settled(waiting: Waiting, seconds: float | None) -> Answer | CallError:
    """The outcome; a person has so many seconds."""
    while not waiting.settled.done():
        left = None if seconds is None else waiting.since + seconds - time.monotonic()
        if left is not None and left <= 0:
            return waiting.outcome or too_late(waiting.request, seconds)
        await asyncio.wait([waiting.settled], timeout=left)
    assert waiting.outcome is not None
    return waiting.outcome


def _is_covered(waiting: Waiting, around: Surroundings) -> bool:
    """Whether the rules allow it by now; where they can't tell, a person is asked."""
    try:
        return waiting.covered()
    except Exception as error:  # noqa: BLE001  rules may come from a host's store
        if around.observe is not None:
            around.observe("the permission rules", error)
        return False


async def _grant(waiting: Waiting, answer: Always, around: Surroundings) -> None:
    """Adds to the session's grants; where that fails, the answer counts this once."""
    patterns = answer.patterns or waiting.request.always
    if around.grants is None or not patterns:
        return
    try:
        await off_loop(around.grants.add, waiting.session, waiting.request.permission, patterns, answer.seconds)
    except Exception as error:  # noqa: BLE001  a host's store
        if around.observe is not None:
            around.observe("keeping what was allowed", error)
