"""The way of one call: `STAGES`, in order, and the loop over them."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs
from attrs import frozen

from pegboard.dispatch.approve import approve, permit
from pegboard.dispatch.callbacks import after, before, on_error
from pegboard.dispatch.find import find
from pegboard.dispatch.limits import CallError, cancels_the_call
from pegboard.dispatch.parse import parse
from pegboard.dispatch.repair import repair
from pegboard.dispatch.results import shape
from pegboard.dispatch.run import locks_known, run
from pegboard.dispatch.validate import revalidate, validate
from pegboard.dispatch.work import Callbacks, Work
from pegboard.tools.content import ErrorKind, ToolResult


class When(enum.Enum):
    """The calls that a stage sees."""

    OPEN = "neither answered nor failed"
    UNFIT = "can't run as the model wrote it: an unknown name, or invalid arguments"
    FAILED = "failed"
    ALWAYS = "every call"


OPEN, UNFIT, FAILED, ALWAYS = When.OPEN, When.UNFIT, When.FAILED, When.ALWAYS
UNFIT_KINDS: Final[tuple[ErrorKind, ...]] = ("unknown_tool", "invalid_arguments")


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
    Stage(repair, UNFIT),
    Stage(before, needs="before"),
    Stage(revalidate, needs="before"),
    Stage(permit),
    Stage(approve),
    Stage(run),
    Stage(shape),
    Stage(on_error, FAILED, needs="on_error"),
    Stage(after, ALWAYS, needs="after"),
)
"""Every stage, in order. Those before `repair` are passed once more by a call that it mended; the `wrap` callbacks
stand round `run`."""


@frozen
class Way:
    """Stages as calls pass them.

    Attributes:
        fit: What the open calls pass first: a call that fails here may be mended, and then passes them once more.
        mend: What an unfit call passes.
        onward: What the open calls pass then, until one fails or is answered.
        afterwards: The other stages, in order.
    """

    fit: tuple[Callable[[Work], Awaitable[None] | None], ...]
    mend: Callable[[Work], Awaitable[None] | None]
    onward: tuple[Callable[[Work], Awaitable[None] | None], ...]
    afterwards: tuple[Stage, ...]

    @classmethod
    def of(cls, stages: Iterable[Stage]) -> Way:
        """The way through these stages, one of which mends unfit calls."""
        stages = tuple(stages)
        middle = next(place for place, stage in enumerate(stages) if stage.when is UNFIT)
        return cls(
            tuple(stage.function for stage in stages[:middle]),
            stages[middle].function,
            tuple(stage.function for stage in stages[middle:] if stage.when is OPEN),
            tuple(stage for stage in stages if stage.when in (FAILED, ALWAYS)),
        )


def way_for(callbacks: Callbacks) -> Way:
    """The stages that have something to do with these callbacks: a hook that nobody implements costs nothing."""
    return Way.of(stage for stage in STAGES if stage.needs is None or getattr(callbacks, stage.needs))


async def travel(work: Work, way: Way) -> None:  # noqa: C901  in one frame: another would cost every call
    """Takes the work all the way; afterwards `work.result` is there, whatever happened.

    Raises:
        asyncio.CancelledError: Whoever waits for this call was cancelled.
    """
    try:
        try:
            for function in way.fit:
                pending = function(work)
                if pending is not None:
                    await pending
        except CallError as error:
            await _mended(work, way, error)
        if work.scheduler is not None:
            _take_place(work)
        for function in way.onward:
            pending = function(work)
            if pending is not None:
                await pending
            if work.result is not None:
                break
    except BaseException as error:  # noqa: BLE001  a tool's SystemExit costs its own call only
        _fail(work, error)
    if way.afterwards or work.goes_on or work.context.opened is not None:
        await _end(work, way)
    elif work.error is not None:
        settle_error(work)
    leave(work)


async def travel_alone(work: Work, way: Way) -> None:
    """`travel` for a call that no batch looks after: where it is cancelled, callbacks are told and services closed.

    Raises:
        asyncio.CancelledError: Whoever waits for this call was cancelled.
    """
    try:
        await travel(work, way)
    except asyncio.CancelledError:
        work.error = CallError("aborted", f"{work.call.name} was aborted.")
        await finish(work, way)
        raise


async def finish(work: Work, way: Way) -> None:
    """The rest of the way for a call that was ended from outside: `work.error` says why.

    Raises:
        asyncio.CancelledError: Whoever waits for this call was cancelled once more.
    """
    work.result = None
    await _end(work, way)
    leave(work)


async def _end(work: Work, way: Way) -> None:
    if work.goes_on and work.result is not None:
        _begin(work)
    failure = work.error
    await _travel_on(work, way.afterwards)
    settle_error(work)
    if work.context.opened is not None:
        await work.context.close_services(failure)


async def _mended(work: Work, way: Way, error: CallError) -> None:
    """Takes a call that can't run as it is through `repair`, and the stages before it once more."""
    if error.kind not in UNFIT_KINDS:
        raise error
    await _mend(work, way, error)
    try:
        for function in way.fit:
            pending = function(work)
            if pending is not None:
                await pending
    except CallError as still:  # `repair` has done what it can: it raises this one, and tells of the first
        await _mend(work, way, still)


def _take_place(work: Work) -> None:
    """Says what the call will have to wait for, so that later ones of its batch don't overtake it."""
    assert work.tool is not None
    locks_known(work, work.tool)


async def _mend(work: Work, way: Way, error: CallError) -> None:
    work.error = error
    try:
        pending = way.mend(work)
        if pending is not None:
            await pending
    finally:
        work.error = None


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


def _begin(work: Work) -> None:
    """Makes the result of a long-running tool a pending one."""
    operations, result = work.around.operations, work.result
    if operations is not None and result is not None and not result.is_error:
        operations.begin(work)


def leave(work: Work) -> None:
    """The call is over: nothing can be asked for it any more, and its result says what it has told people."""
    work.context.frame = work.context.listener = None
    said, result = work.context.said, work.result
    if said is None or result is None:
        return
    if said.state.faults and not result.is_error:
        text = f"{work.call.name} ran, but left something in the state that isn't JSON; that was dropped."
        result = work.result = ToolResult.error("tool_failure", text, detail="\n".join(said.state.faults))
    if said.title is not None or said.facts:
        title = said.title if result.title is None else result.title
        work.result = attrs.evolve(result, title=title, metadata={**said.facts, **result.metadata})


def _fail(work: Work, error: BaseException) -> None:
    if cancels_the_call(error):
        raise error
    work.error = error


def settle_error(work: Work) -> None:
    """Turns an error that nobody recovered into the result."""
    if work.error is not None:
        from pegboard.dispatch.results import failure_result

        work.result, work.error = failure_result(work, work.error), None


__all__ = ["STAGES", "Stage", "Way", "When", "finish", "travel", "travel_alone", "way_for"]
