"""Approval: requests to the user, answers, what is granted for longer, and calls that wait for an answer."""

from __future__ import annotations

from pegboard.dispatch.approval.grants import (
    Grant as Grant,
    Grants as Grants,
    MemoryGrants as MemoryGrants,
    session_key as session_key,
    tool_key as tool_key,
)
from pegboard.dispatch.approval.pending import (
    Answers as Answers,
    PendingCall as PendingCall,
    PendingCalls as PendingCalls,
    RefusedError as RefusedError,
    answer_from_result as answer_from_result,
    confirmation_call as confirmation_call,
    original_call_from as original_call_from,
)
from pegboard.dispatch.approval.queue import AnyApprover as AnyApprover, Approver as Approver, ask_later as ask_later
from pegboard.dispatch.approval.request import (
    MOST_DETAILS as MOST_DETAILS,
    Always as Always,
    Answer as Answer,
    ApprovalRequest as ApprovalRequest,
    Later as Later,
    Once as Once,
    Reject as Reject,
    answer_from_json as answer_from_json,
    parse_untrusted as parse_untrusted,
    preview_of as preview_of,
)
