"""What the model reads where a person didn't allow a call, or nobody could be asked."""

from __future__ import annotations

from pegboard.dispatch.approval.answer import Reject
from pegboard.dispatch.approval.pending import PendingCall
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.dispatch.failure import detail_of
from pegboard.dispatch.work import CallError
from pegboard.errors import ToolError

_SO = "It was denied; go on without it."


class RefusedError(CallError, ToolError):
    """A call, or something that it asked for while it ran, wasn't allowed. A tool may go on without it."""

    @classmethod
    def of(cls, error: CallError) -> RefusedError:
        """The same refusal, as tools may catch it."""
        return cls(error.kind, error.text, detail=error.detail)


class RejectedError(RefusedError):
    """A person said no.

    Attributes:
        answer: What was said.
    """

    def __init__(self, name: str, answer: Reject) -> None:
        self.answer = answer
        if answer.along_with is None:
            what = f"The user rejected this call of {name}"
        else:
            what = f"The user rejected a call of {answer.along_with}, and this call of {name} with it"
        super().__init__("rejected", f"{what}: {answer.feedback}" if answer.feedback else f"{what}.")


class SuspendedError(CallError):
    """The answer comes later. No `ToolError`: a tool that goes on without a permission would go on before the answer.

    Attributes:
        pending: What has to be kept until then.
    """

    def __init__(self, pending: PendingCall) -> None:
        self.pending = pending
        text = f"{pending.call.name} waits for a person's answer and isn't done. Don't call it again meanwhile."
        super().__init__("confirmation_required", text)


def nobody_there(request: ApprovalRequest) -> RefusedError:
    """Nobody can be asked."""
    return RefusedError("denied", f"{request.call.name} needs approval and nobody is there to ask. {_SO}")


def too_late(request: ApprovalRequest, seconds: float | None) -> RefusedError:
    """Nobody answered in time."""
    return RefusedError("denied", f"{request.call.name} needs approval and nobody answered within {seconds:g} s. {_SO}")


def asking_failed(request: ApprovalRequest, error: BaseException) -> RefusedError:
    """Whoever should ask failed; the operator reads how."""
    text = f"{request.call.name} needs approval and asking for it failed. {_SO}"
    return RefusedError("denied", text, detail=f"the approver failed\n{detail_of(error)}")
