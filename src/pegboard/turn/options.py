"""`TurnOptions`: how a turn is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from pegboard.dispatch.batch import BatchOptions, check_options
from pegboard.errors import did_you_mean, suggest
from pegboard.messages.message import Message

if TYPE_CHECKING:
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.batch import Interruption
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.registry import Where
    from pegboard.tools.result_limits import ResultLimits
    from pegboard.turn.conditions import StopCondition
    from pegboard.turn.events import TurnEvent
    from pegboard.turn.limits import TurnLimits

Spoken: TypeAlias = "Sequence[Message | str] | Message | str | None"
Steering: TypeAlias = Callable[[], "Spoken | Awaitable[Spoken]"]
"""Gives what the user has said since it was last asked, or nothing. Plain or async; a plain one must not wait."""


class TurnOptions(TypedDict, total=False):
    """How a turn is run; everything may be left out.

    Attributes:
        limits: How much it may use.
        where: What the turn asks of tools, as `registry.resolve` takes it.
        active: The names of the tools that may be offered, in order.
        stop_when: Conditions that stop it, asked behind every round with calls; one or several.
        steering: Gives what the user said meanwhile; asked between calls and between rounds.
        on_steering: What becomes of calls then: `"skip"` (running ones finish, the rest is skipped; the default),
            `"abort"`, `"finish"`.
        listener: Gets each event; plain, called on the event loop.
        approver: Asks a person, instead of the registry's own.
        permissions: What may run, instead of the registry's own.
        max_concurrency: How many calls may run at once.
        sequential: Whether each call waits for the one before it.
        timeout: Seconds that no call may exceed.
        results: How long a result's text may be, for tools that say nothing else.
    """

    limits: TurnLimits
    where: Where
    active: Sequence[str] | None
    stop_when: StopCondition | Sequence[StopCondition]
    steering: Steering | None
    on_steering: Interruption
    listener: Callable[[TurnEvent], None] | None
    approver: AnyApprover | None
    permissions: Permissions | None
    max_concurrency: int | None
    sequential: bool
    timeout: float | None
    results: ResultLimits | None


FOR_BATCHES: Final = (
    "on_steering",
    "approver",
    "permissions",
    "max_concurrency",
    "sequential",
    "timeout",
    "results",
)
"""What is handed on to each round's batch of calls."""


def batch_options(options: dict[str, Any]) -> BatchOptions:
    """What of a turn's options is its batches', all options checked.

    Raises:
        TypeError: An option that there isn't; with near misses.
        ValueError: A value that isn't allowed.
    """
    known = TurnOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}.{did_you_mean(suggest(name, known))}")
    handed: dict[str, Any] = {name: options[name] for name in FOR_BATCHES if name in options}
    check_options(handed)
    return handed  # pyright: ignore[reportReturnType]  its keys are some of that type's


__all__ = ["FOR_BATCHES", "Spoken", "Steering", "TurnOptions", "batch_options"]
