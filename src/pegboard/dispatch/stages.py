"""The way of one call: `STAGES`, in order, and the loop over them."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from attrs import frozen

from pegboard.dispatch.callbacks import after, before, on_error
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.dispatch.find import find
from pegboard.dispatch.parse import parse
from pegboard.dispatch.run import run
from pegboard.dispatch.shape import shape
from pegboard.dispatch.validate import revalidate, validate
from pegboard.dispatch.work import Callbacks, Work


class When(enum.Enum):
    """The calls that a stage sees."""

    OPEN = "neither answered nor failed"
    FAILED = "failed"
    ALWAYS = "every call"


OPEN, FAILED, ALWAYS = When.OPEN, When.FAILED, When.ALWAYS


@frozen
class Stage:
    """One step of a call.

    Attributes:
        function: Fills in its part of the work, or raises; gives an awaitable where it isn't done yet.
        when: The calls that it sees.
        needs: The chain without which it has nothing to do, or `None`.
    """

    function: Callable[[Work], Awaitable[None] | None]
    when: When = OPEN
    needs: str | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__


STAGES: Final = (
    Stage(find),
    Stage(parse),
    Stage(validate),
    Stage(before, needs="before"),
    Stage(revalidate, needs="before"),
    Stage(run),
    Stage(shape),
    Stage(on_error, FAILED, needs="on_error"),
    Stage(after, ALWAYS, needs="after"),
)
"""Every stage, in order."""


@frozen
class Way:
    """Stages as calls pass them.

    Attributes:
        forward: What the open calls pass, until one fails or is answered.
        afterwards: The other stages, in order.
    """

    forward: tuple[Callable[[Work], Awaitable[None] | None], ...]
    afterwards: tuple[Stage, ...]

    @classmethod
    def of(cls, stages: Iterable[Stage]) -> Way:
        """The way through these stages, those for open calls first."""
        stages = tuple(stages)
        forward = tuple(stage.function for stage in stages if stage.when is OPEN)
        return cls(forward, tuple(stage for stage in stages if stage.when is not OPEN))


def way_for(callbacks: Callbacks) -> Way:
    """The stages that have something to do with these callbacks: a hook that nobody implements costs nothing."""
    return Way.of(stage for stage in STAGES if stage.needs is None or getattr(callbacks, stage.needs))


async def travel(work: Work, way: Way) -> None:
    """Takes the work all the way; afterwards `work.result` is there, whatever happened.

    Raises:
        asyncio.CancelledError: Whoever waits for this call was cancelled.
    """
    try:
        for function in way.forward:
            pending = function(work)
            if pending is not None:
                await pending
            if work.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  a tool's SystemExit costs its own call only
        _fail(work, error)
    if way.afterwards:
        await _travel_on(work, way.afterwards)
    if work.error is not None:
        settle_error(work)


async def _travel_on(work: Work, stages: Iterable[Stage]) -> None:
    for stage in stages:
        if stage.when is ALWAYS:
            settle_error(work)
        elif work.error is None:
            continue
        try:
            pending = stage.function(work)
            if pending is not None:
                await pending
        except BaseException as error:  # noqa: BLE001  so does a callback's
            _fail(work, error)


def _fail(work: Work, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    work.error = error


def settle_error(work: Work) -> None:
    """Turns an error that nobody recovered into the result."""
    if work.error is not None:
        from pegboard.dispatch.failure import failure_result

        work.result, work.error = failure_result(work, work.error), None


__all__ = ["STAGES", "Stage", "Way", "When", "travel", "way_for"]
