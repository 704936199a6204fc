"""Calls run from the command: events are shown as they happen, and Ctrl-C ends them with a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from pegboard.cli.failure import remark
from pegboard.cli.interrupting import interruptible
from pegboard.cli.progress import Status
from pegboard.tools.content import ToolResult
from pegboard.tools.policy import ResultLimits

if TYPE_CHECKING:
    from pegboard.dispatch.events import CallEvent
    from pegboard.dispatch.outcome import Outcome
    from pegboard.registry import ToolRegistry
    from pegboard.tools.call import ToolCall
    from pegboard.tools.context import ReadonlyContext
    from pegboard.toolsets.resolve import ResolvedTools

INTERRUPTED: Final = ("interrupted", "cancelled")
"""What an outcome says of calls that Ctrl-C has ended."""

WHOLE: Final = ResultLimits(lines=None, bytes=None)
"""A person, or whatever reads the output, gets results whole: there is no model to spare."""

_TO_CONFIRM: Final = "{} has to be confirmed and was not run. To run it, add --yes."
Hear = Callable[["CallEvent"], None]


async def run_turn(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    resolved: ResolvedTools,
    context: ReadonlyContext,
    hear: Hear | None = None,
    **options: Any,
) -> Outcome:
    """Runs calls as one turn; a line on a terminal's standard error tells how far they are.

    At Ctrl-C running calls are aborted and the rest is skipped: each still has its result. A second one ends the
    command at once.

    Args:
        registry: The board.
        calls: What to run.
        resolved: The tools that they may call.
        context: For whom.
        hear: Gets each event, or `None`.
        options: As `ToolRegistry.batch` takes them.
    """
    with Status() as status:
        shown, unwritten = _Shown(status, len(calls)), list[OSError]()

        def listen(event: CallEvent) -> None:
            shown.hear(event)
            if hear is not None and not unwritten:
                try:
                    hear(event)
                except OSError as error:  # the reader has gone: nothing that runs is of use to anybody
                    unwritten.append(error)
                    batch.interrupt("cancelled", "abort")

        batch = await registry.batch(calls, resolved, context, listener=listen, results=WHOLE, **options)
        with interruptible(lambda: batch.interrupt("interrupted", "abort")):
            outcome = await batch.run()
        if unwritten:
            raise unwritten[0]
        _tell_of_background(registry)
        return _worded(outcome)


def _tell_of_background(registry: ToolRegistry) -> None:
    """What goes on after its call ends with the command."""
    going_on = registry.operations()
    if going_on:
        names = ", ".join(sorted({operation.tool for operation in going_on}))
        remark(f"{len(going_on)} pending: what {names} would answer later is lost, as the command ends now")


def _worded(outcome: Outcome) -> Outcome:
    """What has to be confirmed, in the words of a command: nobody will answer it later."""
    results = [
        ToolResult.error("confirmation_required", _TO_CONFIRM.format(call.name))
        if result.kind == "confirmation_required"
        else result
        for call, result in outcome
    ]
    return attrs.evolve(outcome, results=tuple(results))


class _Shown:
    """The line that tells how far a turn is."""

    def __init__(self, status: Status, calls: int) -> None:
        self._status = status
        self._calls = calls
        self._ended = 0

    def hear(self, event: CallEvent) -> None:
        from pegboard.dispatch.events import CallEnded, CallRunning, CallUpdated

        if isinstance(event, CallEnded):
            self._ended += 1
            if self._calls > 1:
                self._status.show(f"{self._ended} of {self._calls} calls", self._ended / self._calls)
        elif isinstance(event, CallRunning):
            self._status.show(f"calling {event.name}")
        elif isinstance(event, CallUpdated) and event.progress is not None:
            text = f"{event.name}: {event.message}" if event.message else event.name
            self._status.show(text, event.progress / event.total if event.total else None)
        elif isinstance(event, CallUpdated) and event.title is not None:
            self._status.show(f"{event.name}: {event.title}")
