"""Resuming: which pending calls have their answer now, and what lets them run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard.dispatch.approval.grants import Grants, session_key
from pegboard.dispatch.approval.pending import (
    MOST_SECONDS,
    Approval,
    PendingCall,
    PendingCalls,
    RejectedError,
    confirmation_of,
)
from pegboard.dispatch.approval.request import Always, Answer, Later, Once, Reject, answer_from_json
from pegboard.errors import PendingError
from pegboard.tools.call import CallError, Confirmation, ToolCall
from pegboard.tools.context import ReadonlyContext

Answers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Answers by the pending call's id: each an `Answer`, or its JSON."""

MOST_SHOWN: Final = 80


@frozen
class ResumedCall:
    """One pending call with its answer.

    Attributes:
        pending: What waited.
        answer: `Once`, `Always` or `Reject`.
    """

    pending: PendingCall
    answer: Answer

    @property
    def ends_turn(self) -> bool:
        """Whether the answer is a no without a word of feedback."""
        return isinstance(self.answer, Reject) and not self.answer.feedback

    def authorize(self, grants: Grants, context: ReadonlyContext) -> tuple[Approval | None, Confirmation | None]:
        """What lets the call run; notes that the answer is used. Off the event loop: it may write a file.

        A question that the tool asked is answered by a no as well as by a yes: the tool runs again from its start, and
        reads the answer. Anything else that was rejected doesn't run.

        Returns:
            The approval, bound to the tool as it was when the person was asked, or `None` where the call itself wasn't
            approved; the answer for `context.confirmation`, or `None` where the tool has nothing to learn from it.

        Raises:
            CallError: `rejected`; or `denied`, where the answer was used before.
        """
        pending, answer = self.pending, self.answer
        if not grants.consume(pending.id):
            text = f"{pending.call.name} was not run: its approval has been used. Ask again."
            raise CallError("denied", text)
        if isinstance(answer, Reject) and pending.subject != "question":
            raise RejectedError(pending.call.name, answer)
        if isinstance(answer, Always) and (patterns := answer.patterns or pending.always):
            grants.add(session_key(context), pending.permission, patterns, answer.seconds)
        approved = pending.approved or pending.subject == "call"
        approval = Approval.of_text(pending.spec_digest, pending.arguments_text, pending.id) if approved else None
        return approval, confirmation_of(pending, answer, pending.earlier)


@frozen
class Resumption:
    """The calls that go on, those that still wait, and the answers that fit none of them.

    Attributes:
        resumed: In call order.
        left: What still waits.
        ignored: Ids of answers that changed nothing: unknown, repeated, unreadable, or too late.
    """

    resumed: tuple[ResumedCall, ...]
    left: PendingCalls
    ignored: tuple[str, ...]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that go on."""
        return tuple(each.pending.call for each in self.resumed)


def match_answers(
    pending: PendingCalls,
    answers: Answers,
    context: ReadonlyContext,
    *,
    now: float | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Resumption:
    """Matches answers with the calls that wait for them in this session, for this user. Changes nothing.

    Answers may come in parts, in any order, and repeatedly: the first that can be read counts for its call. Whether an
    answer was used in an earlier resumption isn't known here; `Grants.consume` knows.

    Args:
        pending: What waits.
        answers: By id.
        context: Calls of another session or user are left.
        now: Seconds since 1970; this moment by default.
        most_seconds: How long a call may have waited; an answer to an older one is ignored, and the call is left.
    """
    oldest = (time.time() if now is None else now) - most_seconds
    waiting = {call.id for call in pending if call.is_for(context) and call.created >= oldest}
    taken: dict[str, Answer] = {}
    ignored: list[str] = []
    for name, given in _pairs(answers):
        answer = _answer(given) if isinstance(name, str) and name in waiting and name not in taken else None
        if answer is None:
            ignored.append(str(name)[:MOST_SHOWN])
        elif not isinstance(answer, Later):
            taken[name] = answer
    resumed = tuple(ResumedCall(call, taken[call.id]) for call in pending if call.id in taken)
    return Resumption(resumed, PendingCalls(call for call in pending if call.id not in taken), tuple(ignored))


def _pairs(answers: Any) -> Iterable[tuple[Any, Any]]:
    return answers.items() if isinstance(answers, Mapping) else answers  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _answer(given: Any) -> Answer | None:
    if isinstance(given, Once | Always | Reject | Later):
        return given
    try:
        return answer_from_json(given)
    except PendingError:
        return None
