"""Approval queue: requests that wait for a person, asked through an `Approver`."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from threading import Lock, RLock
from types import MethodType
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from attrs import define, field

from pegboard.dispatch.approval.grants import session_key
from pegboard.dispatch.approval.pending import asking_failed, nobody_there, too_late
from pegboard.dispatch.approval.request import Always, Answer, ApprovalRequest, Later, Once, Reject, preview_of
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.dispatch.work import CallError, Surroundings
from pegboard.threads import off_loop
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Flavour

ANSWERS: Final = (Once, Always, Reject, Later)


@runtime_checkable
class Approver(Protocol):
    """Puts a request before a person and gives the answer.

    An approver with a true `one_at_a_time`, such as a terminal, is asked one thing after the other. So is every
    approver whose `approve` is a plain function: it runs in a thread of its own and may block.
    """

    def approve(self, request: ApprovalRequest, context: ToolContext) -> Awaitable[Answer | None] | Answer | None:
        """What the person says; `async` or plain.

        It is cancelled when the answer isn't needed any more: the call ended, another answer settled this request
        too, or the time to answer is over. A plain function can't be; what it gives then is dropped.

        Args:
            request: What is asked, and for whom.
            context: That of the call.

        Returns:
            The answer, or `None` where nobody can be asked.
        """
        ...


ApproverFunction: TypeAlias = Callable[[ApprovalRequest, ToolContext], Any]
"""The same as a function, plain or async."""

AnyApprover: TypeAlias = Approver | ApproverFunction


def approver_function(approver: AnyApprover) -> ApproverFunction:
    """The function that asks.

    Raises:
        TypeError: It can't be asked.
    """
    function: Any = getattr(approver, "approve", approver)
    if not callable(function):
        raise TypeError(f"an approver has approve(request, context), or is such a function, not {approver!r:.80}")
    return function


def is_plain(function: ApproverFunction) -> bool:
    """Whether calling it may block."""
    return Flavour.of(function) is Flavour.PLAIN


def asks_one_at_a_time(approver: AnyApprover) -> bool:
    """Whether it has to be asked one thing after the other."""
    return bool(getattr(approver, "one_at_a_time", False)) or is_plain(approver_function(approver))


def checked_answer(answer: object) -> Answer | None:
    """The answer itself.

    Raises:
        TypeError: It is none.
    """
    if answer is None or isinstance(answer, ANSWERS):
        return answer
    raise TypeError(f"an approver may answer Once(), Always(), Reject(), Later() or None, not {answer!r:.80}")


async def ask_later(_request: ApprovalRequest, _context: ToolContext) -> Later:
    """An approver for hosts in which every answer comes in another turn or process."""
    return Later()


@define(eq=False)
class LockHolders:
    """The right to go, until everybody who holds it has let go."""

    turns: KeyedLock
    key: Hashable
    holders: int = 1

    def hold(self) -> Callable[[], None]:
        """One more holds it: a thread that can't be ended goes on with it.

        Returns:
            What lets go of it, from any thread; a second time changes nothing.
        """
        with self.turns.lock:
            self.holders += 1
        once = Lock()

        def let_go() -> None:
            if once.acquire(blocking=False):
                self.release()

        return let_go

    def release(self) -> None:
        """One holder lets go; the last passes the turn on. From any thread."""
        with self.turns.lock:
            self.holders -= 1
            if self.holders == 0:
                self.turns.pass_on(self.key)


@define(eq=False)
class _Place:
    """One that waits, in its own event loop."""

    loop: asyncio.AbstractEventLoop
    woken: asyncio.Future[None]
    has_turn: bool = False

    def wake(self) -> bool:
        """Gives it the turn; false where its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(_wake, self.woken)
        except RuntimeError:
            return False
        self.has_turn = True
        return True


@define(eq=False)
class KeyedLock:
    """The queues, by what is waited for; an empty one isn't kept.

    Attributes:
        lock: Round every change of a queue. Reentrant: the end of a closed loop's task may come in the middle of one,
            when it is collected as garbage.
    """

    lock: AbstractContextManager[Any] = field(factory=RLock)
    _queues: dict[Hashable, deque[_Place]] = field(factory=dict[Hashable, deque[_Place]])

    async def take(self, key: Hashable) -> LockHolders:
        """Waits for the turn. Leaving the queue by cancellation loses nobody else's."""
        with self.lock:
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque()
                return LockHolders(self, key)
            loop = asyncio.get_running_loop()
            place = _Place(loop, loop.create_future())
            queue.append(place)
        try:
            await place.woken
        except BaseException:
            self._leave(key, place)
            raise
        return LockHolders(self, key)

    def pass_on(self, key: Hashable) -> None:
        """Gives the turn to the next; the caller has the lock."""
        queue = self._queues[key]
        while queue:
            if queue.popleft().wake():
                return
        del self._queues[key]

    def __len__(self) -> int:
        """How many turns are taken."""
        return len(self._queues)

    def _leave(self, key: Hashable, place: _Place) -> None:
        with self.lock:
            if place.has_turn:
                self.pass_on(key)
            elif (queue := self._queues.get(key)) and place in queue:
                queue.remove(place)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@define(eq=False)
class WaitingRequest:
    """One request that waits, in its own event loop.

    Attributes:
        request: With its preview once that is made.
        session: As `session_key` gives it.
        covered: Whether the rules allow it by now.
        queue: What it stands in line for, or `None`.
        loop: Where it waits.
        settled: Done once the outcome is carried out.
        gone: Done once nobody waits any more.
        since: From when on its time to answer counts, by `time.monotonic()`.
        outcome: The answer, or why there is none; the first counts.
    """

    request: ApprovalRequest
    session: str | None
    covered: Callable[[], bool]
    queue: Hashable
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    settled: asyncio.Future[None] = field(factory=_future, init=False)
    gone: asyncio.Future[None] = field(factory=_future, init=False)
    since: float = field(factory=time.monotonic, init=False)
    outcome: Answer | CallError | None = field(default=None, init=False)

    def wake(self) -> None:
        """Says in its loop that it is settled; from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.settled.set_result, None)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def lock_key(approver: Any) -> Hashable:
    """What asks of this approver stand in line for; `None` where it takes several at once.

    Raises:
        TypeError: It is no approver.
    """
    if not asks_one_at_a_time(approver):
        return None
    return approver if isinstance(approver, MethodType) else id(approver)  # a bound method is made anew each time


async def ask_approver(
    waiting: WaitingRequest, context: ToolContext, around: Surroundings, turn: LockHolders | None
) -> Answer | CallError:
    """What the approver says, whatever it does; the request gets its preview first.

    Args:
        waiting: The request.
        context: That of the call.
        around: Whose approver is asked.
        turn: Held for as long as the approver is busy, also where nobody waits for it any more.
    """
    approver: Any = around.approver
    try:
        waiting.request = await _with_preview(waiting.request, around)
        answer = await _answer(approver_function(approver), waiting.request, context, turn)
        return checked_answer(answer) or nobody_there(waiting.request)
    except BaseException as error:  # an approver's SystemExit costs only its request
        if cancels_the_call(error) or isinstance(error, GeneratorExit):
            raise
        return failed(waiting.request, error, around)


def failed(request: ApprovalRequest, error: BaseException, around: Surroundings) -> CallError:
    """The denial where asking failed; the operator is told how."""
    if around.observe is not None:
        around.observe("approver", error)
    return asking_failed(request, error)


async def _with_preview(request: ApprovalRequest, around: Surroundings) -> ApprovalRequest:
    if request.tool is None or request.tool.preview is None or request.preview is not None:
        return request
    return request.with_preview(await preview_of(request.tool, request.arguments_text, observe=around.observe))


async def _answer(
    function: Callable[..., Any], request: ApprovalRequest, context: ToolContext, turn: LockHolders | None
) -> Any:
    if turn is not None and is_plain(function):
        answer = await _in_thread(function, request, context, turn)
    else:
        answer = function(request, context)
    return (await answer) if inspect.isawaitable(answer) else answer


async def _in_thread(
    function: Callable[..., Any], request: ApprovalRequest, context: ToolContext, turn: LockHolders
) -> Any:
    """Asks in a thread of its own, which can't be ended, and so keeps the turn for as long as it takes."""
    let_go = turn.hold()

    def asked() -> Any:
        try:
            return function(request, context)
        finally:
            let_go()

    try:
        return await off_loop(asked)
    except RuntimeError:
        let_go()  # the system gives no thread; where the function itself raised it, it has let go already
        raise


GRACE_SECONDS: Final = 1.0
"""How long an approver may take to end once its answer isn't needed any more."""


def _never() -> bool:
    return False


@define(eq=False)
class ApprovalQueue:
    """What waits for a person, by session. One serves all calls of a registry, from however many event loops."""

    _waiting: dict[WaitingRequest, None] = field(factory=dict[WaitingRequest, None], init=False)
    _turns: KeyedLock = field(factory=KeyedLock, init=False)
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
    ) -> WaitingRequest:
        try:
            line = lock_key(around.approver)
        except Exception as error:  # it is no approver
            raise failed(request, error, around) from error
        waiting = WaitingRequest(request, session_key(context.request), covered, line)
        with self._lock:
            self._waiting[waiting] = None
        return waiting

    def _leave(self, waiting: WaitingRequest) -> None:
        """Whatever comes now comes too late."""
        with self._lock:
            del self._waiting[waiting]
            waiting.outcome = waiting.outcome or nobody_there(waiting.request)

    async def _outcome(self, waiting: WaitingRequest, context: ToolContext, around: Surroundings) -> Answer | CallError:
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

    async def _consult(self, waiting: WaitingRequest, context: ToolContext, around: Surroundings) -> None:
        """Asks in turn. The turn is kept until the answer is carried out, so that nobody is asked in vain."""
        turn = None if waiting.queue is None else await self._turns.take(waiting.queue)
        try:
            if waiting.outcome is None:
                outcome = await ask_approver(waiting, context, around, turn)
                if self._decide(waiting, outcome):  # it may come too late: an approver can ignore that it was cancelled
                    await self._carry_out(waiting, outcome, around)
                    waiting.wake()
        finally:
            if turn is not None:
                turn.release()

    def _decide(self, waiting: WaitingRequest, outcome: Answer | CallError) -> bool:
        """Notes the outcome; false where there is one already."""
        with self._lock:
            if waiting.outcome is not None:
                return False
            waiting.outcome, waiting.since = outcome, time.monotonic()
            return True

    # The others --------------------------------------------------------------------------------------------------

    async def _carry_out(self, waiting: WaitingRequest, outcome: Answer | CallError, around: Surroundings) -> None:
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

    def _touch(self, waiting: WaitingRequest) -> list[WaitingRequest]:
        """The others of the session; whoever stands in the same line has its time anew."""
        with self._lock:
            for other in self._waiting:
                if waiting.queue is not None and other.queue == waiting.queue:
                    other.since = time.monotonic()
            return [other for other in self._waiting if other is not waiting and other.session == waiting.session]

    def _settle(self, others: Iterable[WaitingRequest], outcome: Answer) -> list[WaitingRequest]:
        """Gives those that have no outcome this one."""
        settled = [other for other in others if self._decide(other, outcome)]
        for other in settled:
            other.wake()
        return settled


async def _settled(waiting: WaitingRequest, seconds: float | None) -> Answer | CallError:
    """The outcome; a person has so many seconds."""
    while not waiting.settled.done():
        left = None if seconds is None else waiting.since + seconds - time.monotonic()
        if left is not None and left <= 0:
            return waiting.outcome or too_late(waiting.request, seconds)
        await asyncio.wait([waiting.settled], timeout=left)
    assert waiting.outcome is not None
    return waiting.outcome


def _is_covered(waiting: WaitingRequest, around: Surroundings) -> bool:
    """Whether the rules allow it by now; where they can't tell, a person is asked."""
    try:
        return waiting.covered()
    except Exception as error:  # noqa: BLE001  rules may come from a host's store
        if around.observe is not None:
            around.observe("the permission rules", error)
        return False


async def _grant(waiting: WaitingRequest, answer: Always, around: Surroundings) -> None:
    """Adds to the session's grants; where that fails, the answer counts this once."""
    patterns = answer.patterns or waiting.request.always
    if around.grants is None or not patterns:
        return
    try:
        await off_loop(around.grants.add, waiting.session, waiting.request.permission, patterns, answer.seconds)
    except Exception as error:  # noqa: BLE001  a host's store
        if around.observe is not None:
            around.observe("keeping what was allowed", error)
