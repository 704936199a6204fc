"""The stages `before`, `on_error` and `after`: the callbacks round one call."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from pegboard.chains import Link, quick
from pegboard.dispatch.callback import asked, failure, shown
from pegboard.dispatch.limits import CallError
from pegboard.dispatch.read_only import plain
from pegboard.dispatch.truncate import hold_to_limits
from pegboard.dispatch.work import Work
from pegboard.dispatch.wrap import wrapped
from pegboard.errors import TurnAbortedError
from pegboard.tools.content import ToolResult


@frozen
class ChangeArguments:
    """A before callback's answer: go on with these arguments, which are validated again.

    Attributes:
        arguments: All of them, not only what changed; copied, so that nothing changes them later.
    """

    arguments: dict[str, Any] = field(converter=plain)


@frozen
class Deny:
    """A before callback's answer: the tool doesn't run.

    Attributes:
        reason: For the model.
    """

    reason: str = field(converter=str)


@frozen
class Abort:
    """A before or an after callback's answer: the turn ends, once every call has its result.

    Before, the tool doesn't run; after, its result stands.

    Attributes:
        reason: For the model, and for whoever runs the turn.
    """

    reason: str = field(converter=str)


async def before(work: Work) -> None:
    """Asks each callback; fills in `work.result` where one answers, `work.arguments` where one changes them.

    Raises:
        CallError: `denied`, or `callback_failure` where a callback raised, hung or answered nonsense.
    """
    for link in work.around.callbacks.before:
        answer = await asked(link, work, shown(work))
        if isinstance(answer, ToolResult):
            work.result = await hold_to_limits(work, answer)
            return
        if isinstance(answer, Abort):
            _abort(work, answer)
            work.result = ToolResult.error("aborted", f"{work.call.name} was not run: {answer.reason}")
            return
        if isinstance(answer, Deny):
            raise CallError("denied", f"{work.call.name} was denied: {answer.reason}")
        if isinstance(answer, ChangeArguments):
            work.arguments, work.parsed, work.changed = answer.arguments, False, True
        elif answer is not None:
            raise _nonsense(work, link, answer, "ToolResult, ChangeArguments, Deny, Abort")


async def on_error(work: Work) -> None:
    """Asks each callback; the first result clears the error.

    Raises:
        CallError: `callback_failure`, which then stands instead of the error.
    """
    for link in work.around.callbacks.on_error:
        answer = await asked(link, work, shown(work), work.error)
        if answer is not None:
            if not isinstance(answer, ToolResult):
                raise _nonsense(work, link, answer, "ToolResult")
            work.result, work.error = await hold_to_limits(work, answer), None
            return


async def after(work: Work) -> None:
    """Shows each callback the result; the first that answers replaces it, or ends the turn.

    Raises:
        CallError: `callback_failure`, which then stands instead of the result.
    """
    for link in work.around.callbacks.after:
        answer = await asked(link, work, shown(work), work.result)
        if isinstance(answer, Abort):
            return _abort(work, answer)
        if answer is not None:
            if not isinstance(answer, ToolResult):
                raise _nonsense(work, link, answer, "ToolResult, Abort")
            work.result = await hold_to_limits(work, answer)
            return None
    return None


def _abort(work: Work, answer: Abort) -> None:
    if work.fatal is None:
        work.fatal = TurnAbortedError(answer.reason)


def _nonsense(work: Work, link: Link, answer: object, wanted: str) -> CallError:
    return failure(work, link, TypeError(f"answered {type(answer).__name__}; it may answer {wanted} or None"))


__all__ = ["Abort", "ChangeArguments", "Deny", "after", "before", "on_error", "quick", "wrapped"]
