"""The stages `before`, `on_error` and `after`: the callbacks round one call."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from pegboard.chains import Link, LinkError, settle
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.dispatch.failure import detail_of
from pegboard.dispatch.work import CallError, Work
from pegboard.errors import FatalToolError
from pegboard.tools.content import ToolResult


@frozen
class ChangeArguments:
    """A before callback's answer: go on with these arguments, which are validated again.

    Attributes:
        arguments: All of them, not only what changed.
    """

    arguments: dict[str, Any] = field(converter=dict)


@frozen
class Deny:
    """A before callback's answer: the tool doesn't run.

    Attributes:
        reason: For the model.
    """

    reason: str


async def before(work: Work) -> None:
    """Asks each callback; fills in `work.result` where one answers, `work.arguments` where one changes them.

    Raises:
        CallError: `denied`, or `callback_failure` where a callback raised or answered nonsense.
    """
    for link in work.around.callbacks.before:
        answer = await _asked(link, work, MappingProxyType(work.arguments))
        if isinstance(answer, ToolResult):
            work.result = answer
            return
        if isinstance(answer, Deny):
            raise CallError("denied", f"{work.call.name} was denied: {answer.reason}")
        if isinstance(answer, ChangeArguments):
            work.arguments, work.parsed, work.changed = answer.arguments, False, True
        elif answer is not None:
            raise _nonsense(work, link, answer, "ToolResult, ChangeArguments or Deny")


async def on_error(work: Work) -> None:
    """Asks each callback; the first result clears the error.

    Raises:
        CallError: `callback_failure`, which then stands instead of the error.
    """
    for link in work.around.callbacks.on_error:
        answer = await _asked(link, work, MappingProxyType(work.arguments), work.error)
        if answer is not None:
            work.result, work.error = _result(work, link, answer), None
            return


async def after(work: Work) -> None:
    """Shows each callback the result; the first that answers replaces it.

    Raises:
        CallError: `callback_failure`, which then stands instead of the result.
    """
    for link in work.around.callbacks.after:
        answer = await _asked(link, work, MappingProxyType(work.arguments), work.result)
        if answer is not None:
            work.result = _result(work, link, answer)
            return


async def _asked(link: Link, work: Work, *facts: Any) -> Any:
    """What one callback answers; it gets the context, the tool and the facts."""
    try:
        return await settle(link.function(work.context, work.tool, *facts))
    except BaseException as error:  # a callback's SystemExit costs this call only
        if cancels_the_call(error):
            raise
        raise _failure(work, link, error) from error


def _result(work: Work, link: Link, answer: object) -> ToolResult:
    if not isinstance(answer, ToolResult):
        raise _nonsense(work, link, answer, "ToolResult")
    return answer


def _nonsense(work: Work, link: Link, answer: object, wanted: str) -> CallError:
    return _failure(work, link, TypeError(f"answered {type(answer).__name__}; it may answer {wanted} or None"))


def _failure(work: Work, link: Link, error: BaseException) -> CallError:
    """The model learns that something failed; the operator, who and how, and what was being handled."""
    if work.around.observe is not None:
        work.around.observe(f"callback of {link.owner}", error)
    if isinstance(work.error, FatalToolError):
        work.fatal = work.error
    detail = f"{LinkError(link, error)}\n{detail_of(error)}"
    if work.error is not None:
        detail += f"\nIt was handling:\n{detail_of(work.error)}"
    text = f"{work.call.name} was not completed: a check round it failed."
    return CallError("callback_failure", text, detail=detail)


__all__ = ["ChangeArguments", "Deny", "after", "before", "on_error"]
