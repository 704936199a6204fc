"""`resumed_call`: how a call goes on once its answer is there."""

from __future__ import annotations

from collections.abc import Sequence

from pegboard.dispatch.approval.answer import Answer, Later, Once, Reject
from pegboard.dispatch.approval.approval import Approval
from pegboard.dispatch.approval.pending import PendingCall
from pegboard.dispatch.approval.refusal import RejectedError, SuspendedError
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.tools.call import ToolCall
from pegboard.tools.confirmation import Confirmation


def resumed_call(pending: PendingCall, answer: Answer) -> tuple[ToolCall, Approval | None, Confirmation | None]:
    """The call to run, with what a person said to it.

    A question that the tool asked is answered by a no as well as by a yes: the tool runs again from its start, and
    reads the answer. Anything else that was rejected doesn't run.

    The approval is bound to the tool as it was when the person was asked, and to the arguments; it can be used once.
    That one pending call isn't resumed twice is for whoever resumes to see to (`Grants.consume(pending.id)`).

    Returns:
        The call with its judged arguments; the approval of the call, or `None` where nobody approved the call itself;
        the answer for `context.confirmation`, or `None` where the tool has nothing to learn from it.

    Raises:
        CallError: `rejected`; or `confirmation_required`, where the answer is `Later`.
    """
    if isinstance(answer, Later):
        raise SuspendedError(pending)
    if isinstance(answer, Reject) and pending.subject != "question":
        raise RejectedError(pending.call.name, answer)
    approved = pending.approved or pending.subject == "call"
    approval = Approval.of_text(pending.spec_digest, pending.arguments_text, pending.id) if approved else None
    return pending.call, approval, confirmation_of(pending, answer, pending.earlier)


def confirmation_of(
    asked: ApprovalRequest | PendingCall, answer: Answer, earlier: Sequence[Confirmation] = ()
) -> Confirmation | None:
    """The answer as the tool reads it; `None` where it has nothing to learn from a yes to the call itself."""
    payload = answer.payload if isinstance(answer, Once) else None
    if asked.subject == "call" and payload is None:
        return None
    confirmed, feedback = (False, answer.feedback) if isinstance(answer, Reject) else (True, None)
    if asked.subject == "question":
        given = asked.payload if payload is None else payload
        return Confirmation(asked.hint, confirmed, given, feedback).after(earlier)
    if asked.subject == "permission":
        return Confirmation("", confirmed, payload, feedback, asked.permission, asked.patterns).after(earlier)
    return Confirmation("", confirmed, payload, feedback).after(earlier)
