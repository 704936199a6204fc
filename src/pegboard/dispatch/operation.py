"""`Operation` and `Completion`: what goes on after the first result of its call, and what comes of it."""

from __future__ import annotations

import attrs
from attrs import frozen

from pegboard.dispatch.limits import CallError
from pegboard.dispatch.results import failure_result, result_of
from pegboard.dispatch.truncate import is_within, keeper_of, limits_of, truncated
from pegboard.dispatch.work import Work
from pegboard.tools.content import TextContent, ToolResult
from pegboard.typing import JsonObject


@frozen
class Operation:
    """Something that goes on after the first result of its call.

    Attributes:
        id: Of the operation; the model is told it.
        call_id: Of the call.
        tool: The tool's name.
        session: The conversation's id, or `None`.
        started: When, in seconds since 1970 (UTC).
        replaces: Whether what comes of it replaces the call's result, which says so; else it stands beside it.
        is_background: Whether it goes on in this process and completes itself; else somebody has to complete it.
    """

    id: str
    call_id: str
    tool: str
    session: str | None
    started: float
    replaces: bool = True
    is_background: bool = False

    def to_json(self) -> JsonObject:
        """All facts by name."""
        return attrs.asdict(self)


@frozen
class Completion:
    """What came of an operation.

    Attributes:
        operation: What has ended.
        result: Shaped, and held to the tool's output schema and to limits as any result is.
    """

    operation: Operation
    result: ToolResult

    @property
    def call_id(self) -> str:
        """Of the call that it belongs to."""
        return self.operation.call_id

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.operation.tool

    @property
    def replaces(self) -> bool:
        """Whether it replaces the call's pending result; else it is a message of its own."""
        return self.operation.replaces

    def to_json(self) -> JsonObject:
        """`{"operation": ..., "result": ...}`; the result as `ToolResult.to_data` writes it."""
        return {"operation": self.operation.to_json(), "result": self.result.to_data()}


def pending_result(first: ToolResult | None, operation: Operation) -> ToolResult:
    """The first result of a call that goes on: it tells the model so, and not to call again meanwhile."""
    note = (
        f"This is pending as operation {operation.id}. Its result comes later by itself: "
        f"don't call {operation.tool} again for it meanwhile."
    )
    first = first or ToolResult()
    metadata = {**first.metadata, "pending": True, "operation": operation.id}
    return attrs.evolve(first, content=(*first.content, TextContent(note)), metadata=metadata)


def unknown_result(operation: Operation) -> ToolResult:
    """What comes of an operation that nobody has completed, and that had to make room for a newer one."""
    text = (
        f"{operation.tool} ran, but nobody has said what came of operation {operation.id}, and it is awaited no more. "
        "Find out what it has done before calling it again."
    )
    return ToolResult.error("unknown_outcome", text)


def later_result(work: Work, value: object) -> ToolResult:
    """What a value is as the result of a call that has gone on. May block, as it writes what is too long into a file.

    Args:
        work: The call.
        value: A `ToolResult`, an exception, or what the tool would have given.
    """
    if isinstance(value, BaseException):
        return failure_result(work, value)
    assert work.tool is not None
    try:
        result = result_of(work.tool, value)
        limits = limits_of(work)
        return result if is_within(result, limits) else truncated(result, limits, keeper_of(work))
    except CallError as error:
        return error.result()
    except Exception as error:  # noqa: BLE001  what a value makes of being looked at costs its own result only
        return failure_result(work, error)


__all__ = ["Completion", "Operation", "later_result", "pending_result", "unknown_result"]
