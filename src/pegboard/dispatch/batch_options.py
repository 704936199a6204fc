"""`BatchOptions`: how the calls of one answer are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, TypedDict

from pegboard.errors import did_you_mean, suggest

if TYPE_CHECKING:
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.batch import Interruption, Steering
    from pegboard.dispatch.events import CallEvent
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.tools.policy import ResultLimits


class BatchOptions(TypedDict, total=False):
    """How the calls of one answer are run; everything may be left out.

    Attributes:
        approver: Asks a person, instead of the registry's own.
        permissions: What may run, instead of the registry's own.
        max_concurrency: How many of the calls may run at once.
        sequential: Whether each waits for the one before it.
        steering: Asked between calls, plain or async: anything true says that the user spoke.
        on_steering: What becomes of the calls then: `"skip"` (running ones finish, the rest is skipped; the default),
            `"abort"` (running ones are aborted too), `"finish"` (they all finish first).
        cut_off: Whether the answer was cut off by the token limit: then none of its calls runs.
        timeout: Seconds that no call may exceed, whatever its tool says.
        results: How long a result's text may be, for tools that say nothing else.
        instructions: The request's instructions, for repairers.
        listener: Gets each event, beside the registry's observers; plain, called on the event loop, must not raise.
    """

    approver: AnyApprover | None
    permissions: Permissions | None
    max_concurrency: int | None
    sequential: bool
    steering: Steering | None
    on_steering: Interruption
    cut_off: bool
    timeout: float | None
    results: ResultLimits | None
    instructions: str | None
    listener: Callable[[CallEvent], None] | None


def check_options(options: Mapping[str, Any]) -> None:
    """Refuses options that there aren't, and values that can't be meant.

    Raises:
        TypeError: An option that there isn't; with near misses.
        ValueError: A value that isn't allowed.
    """
    known = BatchOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}.{did_you_mean(suggest(name, known))}")
    timeout = options.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    how = options.get("on_steering", "skip")
    if how not in ("abort", "skip", "finish"):
        raise ValueError(f'on_steering must be "abort", "skip" or "finish", got {how!r}')
