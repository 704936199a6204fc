"""What an exception becomes: a short text for the model, the detail for the operator."""

from __future__ import annotations

import asyncio
import traceback
from typing import Final

import attrs

from pegboard.dispatch.truncate import cut_short, limits_of
from pegboard.dispatch.work import CallError, Work
from pegboard.errors import CallStoppedError, FatalToolError, ToolError
from pegboard.tools.content import ToolResult

MOST_DETAIL: Final = 20_000


def failure_result(work: Work, error: BaseException) -> ToolResult:
    """The error result for what ended a call. Never raises.

    A `ToolError` speaks for itself. Of anything else the model learns the tool's name and the exception's type, and
    its message only where the policy exposes errors.
    """
    if isinstance(error, FatalToolError):
        work.fatal = error
    try:
        return _short(work, _told(work, error))
    except Exception as failed:  # noqa: BLE001  an exception that can't be read (a ToolError that was never set up)
        return ToolResult.error("tool_failure", f"{work.call.name} failed.", detail=detail_of(failed))


def _short(work: Work, result: ToolResult) -> ToolResult:
    """An error's text is held to the limits too."""
    text, limits = result.text, limits_of(work)
    if len(text) <= limits.small:
        return result
    return attrs.evolve(result, content=cut_short(text, limits))


def _told(work: Work, error: BaseException) -> ToolResult:
    if isinstance(error, CallError):
        return error.result()
    if isinstance(error, CallStoppedError):
        return ToolResult.error(error.kind, f"{work.call.name} was stopped: {error.text}.", detail=detail_of(error))
    if isinstance(error, ToolError):
        return _in_its_words(error)
    if isinstance(error, asyncio.CancelledError):
        return ToolResult.error("aborted", f"{work.call.name} ended itself before it had a result.")
    raised = _raised(error)
    text = f"{work.call.name} failed: {type(raised).__name__}"
    if _exposes(work):
        text += f": {_text_of(raised)}"
    return ToolResult.error("tool_failure", f"{text}.", detail=detail_of(error))


def _in_its_words(error: ToolError) -> ToolResult:
    text = f"{error.text}" if error.hint is None else f"{error.text}\n{error.hint}"
    metadata = {"retryable": error.retryable}
    return ToolResult(text, is_error=True, kind="tool_failure", metadata=metadata, detail=detail_of(error))  # pyright: ignore[reportArgumentType]  a text is converted


def _raised(error: BaseException) -> BaseException:
    """What the tool raised: Python lets no `StopIteration` out of a coroutine or a future as it is."""
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, StopIteration | StopAsyncIteration) else error


def log_failure(who: str, error: BaseException) -> None:
    """Tells the operator who failed, and how: to the logger `pegboard`, which is silent until somebody listens."""
    import logging

    log = logging.getLogger("pegboard")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.error("%s failed", who, exc_info=error)


def detail_of(error: BaseException) -> str:
    """The message and the stack, cut at 20,000 characters."""
    try:
        return "".join(traceback.format_exception(error, limit=50))[:MOST_DETAIL]
    except Exception as failed:  # noqa: BLE001  an exception whose own text can't be had
        return f"{type(error).__name__} (its text failed: {type(failed).__name__})"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001  an exception whose own text can't be had
        return "(no text)"


def _exposes(work: Work) -> bool:
    policy = work.tool.policy.expose_errors if work.tool is not None else None
    return work.around.limits.expose_errors if policy is None else policy
