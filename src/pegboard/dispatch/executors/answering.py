"""The parent's answers to what a tool in a child process asks, errors among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.dispatch.limits import CallError
from pegboard.errors import FatalToolError, ToolError


@frozen
class AnswerMessage:
    """What the parent answers to one question.

    Attributes:
        number: The question's.
        value: The answer, JSON data.
        error: What was raised instead, as `described` tells it; or `None`.
    """

    number: int
    value: Any = None
    error: Mapping[str, Any] | None = None


def described(error: BaseException) -> dict[str, Any]:
    """An exception as a child gets it: enough for a tool to catch it by its kind, and no more than it may know."""
    if isinstance(error, ToolError):
        return {"type": "tool", "text": f"{error.text}", "retryable": bool(error.retryable), "hint": error.hint}
    if isinstance(error, FatalToolError):
        return {"type": "fatal", "text": f"{error}"}
    if isinstance(error, CallError):
        return {"type": "call", "kind": error.kind, "text": error.text}
    if isinstance(error, LookupError):
        return {"type": "lookup", "text": f"{error.args[0] if error.args else ''}"}
    return {"type": "other", "text": f"the host failed: {type(error).__name__}"}


def raised_again(said: Mapping[str, Any]) -> BaseException:
    """The exception that a child raises in its place."""
    return _KINDS[said["type"]](said)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], BaseException]]] = {
    "tool": lambda said: ToolError(said["text"], retryable=said["retryable"], hint=said["hint"]),
    "fatal": lambda said: FatalToolError(said["text"]),
    "call": lambda said: CallError(said["kind"], said["text"]),
    "lookup": lambda said: LookupError(said["text"]),
    "other": lambda said: RuntimeError(said["text"]),
}
