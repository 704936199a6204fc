"""`Resumption`: the calls that go on, now that there are answers."""

from __future__ import annotations

from attrs import frozen

from pegboard.dispatch.approval.grants import Grants, session_key
from pegboard.dispatch.approval.pending import Answers, Approval, PendingCall, PendingCalls, match_answers, resumed_call
from pegboard.dispatch.approval.request import Always, Answer, Reject
from pegboard.dispatch.work import CallError
from pegboard.tools.call import ToolCall
from pegboard.tools.confirmation import Confirmation
from pegboard.tools.context import ReadonlyContext


@frozen
class ResumedCall:
    """One call with its answer.

    Attributes:
        pending: What waited.
        answer: What a person said.
        call: What runs.
    """

    pending: PendingCall
    answer: Answer
    call: ToolCall

    @property
    def ends_turn(self) -> bool:
        """Whether the answer is a no without a word of feedback."""
        return isinstance(self.answer, Reject) and not self.answer.feedback

    def opened(self, grants: Grants, context: ReadonlyContext) -> tuple[Approval | None, Confirmation | None]:
        """What lets the call run; notes that the answer is used. Off the event loop: it may write a file.

        Raises:
            CallError: `rejected`; or `denied`, where the answer was used before.
        """
        pending, answer = self.pending, self.answer
        if not grants.consume(pending.id):
            text = f"{pending.call.name} was not run: its approval has been used. Ask again."
            raise CallError("denied", text)
        _, approval, confirmation = resumed_call(pending, answer)
        if isinstance(answer, Always) and (patterns := answer.patterns or pending.always):
            grants.add(session_key(context), pending.permission, patterns, answer.seconds)
        return approval, confirmation


@frozen
class Resumption:
    """The calls that go on, those that still wait, and the answers that fit none of them.

    Attributes:
        resumed: In the order in which they were called.
        left: What still waits.
        ignored: Ids of answers that changed nothing.
    """

    resumed: tuple[ResumedCall, ...]
    left: PendingCalls
    ignored: tuple[str, ...]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """What goes on."""
        return tuple(each.call for each in self.resumed)


def resumption_of(pending: PendingCalls, answers: Answers, context: ReadonlyContext) -> Resumption:
    """Matches answers with what waits in this session, for this user; the rest is left as it is."""
    mine = PendingCalls(call for call in pending if call.is_for(context))
    settled = match_answers(mine, answers)
    answered = {call.id: (call, answer) for call, answer in (*settled.approved, *settled.rejected)}
    resumed = tuple(ResumedCall(*answered[call.id], call.call) for call in pending if call.id in answered)
    left = PendingCalls(call for call in pending if call.id not in answered)
    return Resumption(resumed, left, settled.ignored)
