"""Events of calls and turns, which observers and listeners get, and the arguments of a call while it is streamed."""

from __future__ import annotations

from pegboard.dispatch.arguments import (
    ArgumentsSoFar as ArgumentsSoFar,
    Partial as Partial,
    parse_partial as parse_partial,
)
from pegboard.dispatch.callbacks import WrappedCall as WrappedCall
from pegboard.dispatch.events import (
    AnyCallEvent as AnyCallEvent,
    ApprovalAnswered as ApprovalAnswered,
    ApprovalRequested as ApprovalRequested,
    CallAborted as CallAborted,
    CallCompleted as CallCompleted,
    CallEnded as CallEnded,
    CallEvent as CallEvent,
    CallFailed as CallFailed,
    CallPending as CallPending,
    CallRefused as CallRefused,
    CallRunning as CallRunning,
    CallSkipped as CallSkipped,
    CallSuspended as CallSuspended,
    CallUpdated as CallUpdated,
    event_from_json as event_from_json,
)
from pegboard.turn.events import (
    AnswerDelta as AnswerDelta,
    Answered as Answered,
    MessageAdded as MessageAdded,
    ModelRetried as ModelRetried,
    RoundStarted as RoundStarted,
    TurnEnded as TurnEnded,
    TurnEvent as TurnEvent,
    TurnReported as TurnReported,
)
