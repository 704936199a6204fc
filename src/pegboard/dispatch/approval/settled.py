"""`settle`: which of the calls that wait have their answer now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard.dispatch.approval.answer import Always, Answer, Later, Once, Reject, answer_from_json
from pegboard.dispatch.approval.pending import MOST_SECONDS, PendingCall, PendingCalls
from pegboard.errors import PendingError

Answers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Answers by the pending call's id: each an `Answer`, or its JSON."""

MOST_SHOWN: Final = 80


@frozen
class Settled:
    """What came of answers. Each pending call stands in `approved`, `rejected` or `left`, in call order.

    Attributes:
        approved: The calls that a person said yes to, each with the answer.
        rejected: The calls that a person said no to, each with the answer.
        left: The calls that still wait.
        ignored: The ids of answers that changed nothing: unknown, repeated, unreadable, or too late.
    """

    approved: tuple[tuple[PendingCall, Answer], ...]
    rejected: tuple[tuple[PendingCall, Answer], ...]
    left: PendingCalls
    ignored: tuple[str, ...]


def settle(
    pending: PendingCalls, answers: Answers, *, now: float | None = None, most_seconds: float = MOST_SECONDS
) -> Settled:
    """Matches answers with the calls that wait for them. Changes nothing, so it may be asked as often as one likes.

    Answers may come in parts, in any order, and repeatedly: the first that can be read counts for its call. Whether an
    answer was used in an earlier resumption isn't known here; `Grants.consume` knows.

    Args:
        pending: What waits.
        answers: By id.
        now: Seconds since 1970; this moment by default.
        most_seconds: How long a call may have waited; an answer to an older one is ignored, and the call is left.
    """
    oldest = (time.time() if now is None else now) - most_seconds
    waiting = {call.id: call for call in pending if call.created >= oldest}
    taken: dict[str, Answer] = {}
    ignored: list[str] = []
    for name, given in _pairs(answers):
        answer = _answer(given) if isinstance(name, str) and name in waiting and name not in taken else None
        if answer is None:
            ignored.append(str(name)[:MOST_SHOWN])
        elif not isinstance(answer, Later):
            taken[name] = answer
    answered = [(call, taken[call.id]) for call in pending if call.id in taken]
    return Settled(
        tuple((call, answer) for call, answer in answered if isinstance(answer, Once | Always)),
        tuple((call, answer) for call, answer in answered if isinstance(answer, Reject)),
        PendingCalls(call for call in pending if call.id not in taken),
        tuple(ignored),
    )


def _pairs(answers: Any) -> Iterable[tuple[Any, Any]]:
    return answers.items() if isinstance(answers, Mapping) else answers  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _answer(given: Any) -> Answer | None:
    if isinstance(given, Once | Always | Reject | Later):
        return given
    try:
        return answer_from_json(given)
    except PendingError:
        return None
