"""`ask_person`: one request of a call is put before a person, and the answer is written into the call's work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import attrs

from pegboard.dispatch.approval.answer import Answer, Later, Reject
from pegboard.dispatch.approval.digest import digest_of_parts
from pegboard.dispatch.approval.grants import session_key
from pegboard.dispatch.approval.pending import PendingCall
from pegboard.dispatch.approval.refusal import RejectedError, SuspendedError, nobody_there
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.dispatch.approval.resuming import confirmation_of
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.rules import Decision
from pegboard.dispatch.work import Work
from pegboard.schema.json import json_text
from pegboard.tools.confirmation import Confirmation
from pegboard.tools.tool import Tool

Decide = Callable[[tuple[Rule, ...]], Decision]
"""What the rules say, with what has been granted to the session."""


def tool_of(work: Work) -> Tool:
    """The tool, which every call has that asks."""
    assert work.tool is not None
    return work.tool


def granted_to(work: Work) -> tuple[Rule, ...]:
    """What people have allowed in this call's session."""
    grants = work.around.grants
    return () if grants is None else grants.rules(session_key(work.context.request))


def request_of(work: Work, **facts: Any) -> ApprovalRequest:
    """What a person is asked about this call; its arguments are written down, so that nobody can change them.

    Args:
        work: The call.
        facts: The other attributes of the request, `permission` at least.
    """
    tool, context = tool_of(work), work.context
    text = str(json_text(dict(work.arguments)))
    return ApprovalRequest(
        attrs.evolve(work.call, name=tool.name, arguments=text),
        digest_of_parts(tool.spec.digest, json.loads(text)),
        tool=tool,
        user=context.user,
        session=context.session,
        **facts,
    )


async def ask_person(work: Work, request: ApprovalRequest, decide: Decide) -> Answer:
    """Asks, and fills in `work.pending` and `work.ends`, and `work.context.confirmation`.

    Args:
        work: The call.
        request: What is asked.
        decide: Says whether the rules allow it, once more has been granted.

    Returns:
        `Once`, `Always`; for a question also `Reject`.

    Raises:
        CallError: `rejected`; `denied`, where nobody can be asked or answers; `confirmation_required`, where the answer
            comes later.
    """
    asking, limits = work.around.asking, work.around.limits
    if asking is None:
        raise nobody_there(request)
    answer, shown = await asking.ask(request, work.context, work.around, _covered(work, decide))
    if isinstance(answer, Later):
        work.pending = _pending(work, shown)
        raise SuspendedError(work.pending)
    if isinstance(answer, Reject) and request.subject != "question":
        if limits.rejection_ends_turn and not answer.feedback and answer.along_with is None:
            work.ends = "rejected"
        raise RejectedError(request.call.name, answer)
    work.context.confirmation = confirmation_of(shown, answer, _history(work)) or work.context.confirmation
    return answer


def _covered(work: Work, decide: Decide) -> Callable[[], bool]:
    """Whether the rules allow by now what they didn't when the request was made."""
    before = granted_to(work)

    def covered() -> bool:
        granted = granted_to(work)
        return granted != before and decide(granted).action == "allow"

    return covered


def _pending(work: Work, request: ApprovalRequest) -> PendingCall:
    return PendingCall.of(
        request,
        tool_of(work).spec.digest,
        created=time.time(),
        approved=work.approval is not None,
        earlier=_history(work),
    )


def _history(work: Work) -> tuple[Confirmation, ...]:
    """What was answered to this call so far, the latest first."""
    return () if work.context.confirmation is None else work.context.confirmation.history()
