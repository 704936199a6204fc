"""`Approver`: whoever puts a request before a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from pegboard.dispatch.approval.answer import Always, Answer, Later, Once, Reject
from pegboard.dispatch.approval.request import ApprovalRequest
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


def approving(approver: AnyApprover) -> ApproverFunction:
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
    return bool(getattr(approver, "one_at_a_time", False)) or is_plain(approving(approver))


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
