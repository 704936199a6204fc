"""`consult`: one request is put before an approver, which may be plain or async, slow, or broken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any

from pegboard.dispatch.approval.answer import Answer
from pegboard.dispatch.approval.approver import approving, asks_one_at_a_time, checked_answer, is_plain
from pegboard.dispatch.approval.previewing import preview_of
from pegboard.dispatch.approval.refusal import asking_failed, nobody_there
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.dispatch.approval.turns import Turn
from pegboard.dispatch.approval.waiting import Waiting
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.dispatch.work import CallError, Surroundings
from pegboard.threads import off_loop
from pegboard.tools.context import ToolContext


def line_of(approver: Any) -> Hashable:
    """What asks of this approver stand in line for; `None` where it takes several at once.

    Raises:
        TypeError: It is no approver.
    """
    if not asks_one_at_a_time(approver):
        return None
    return approver if isinstance(approver, MethodType) else id(approver)  # a bound method is made anew each time


async def consult(
    waiting: Waiting, context: ToolContext, around: Surroundings, turn: Turn | None
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
        answer = await _answer(approving(approver), waiting.request, context, turn)
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
    function: Callable[..., Any], request: ApprovalRequest, context: ToolContext, turn: Turn | None
) -> Any:
    if turn is not None and is_plain(function):
        answer = await _in_thread(function, request, context, turn)
    else:
        answer = function(request, context)
    return (await answer) if inspect.isawaitable(answer) else answer


async def _in_thread(function: Callable[..., Any], request: ApprovalRequest, context: ToolContext, turn: Turn) -> Any:
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
