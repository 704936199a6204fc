"""The tool `batch`, which runs several calls; and a callback that answers invalid calls without an error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Annotated, Any, Final

from attrs import Factory, frozen

from pegboard import CallError, Handle, TextContent, ToolContext, ToolRegistry, ToolResult, tool
from pegboard.tools import Content

MOST_CALLS: Final = 25
_INVALID: Final = ("unknown_tool", "invalid_arguments")
_depth: Final[ContextVar[int | None]] = ContextVar("pegboard_agents_batch", default=None)
"""The call depth of the enclosing batch."""


@frozen
class BatchCall:
    """One call.

    Attributes:
        tool: Name of the tool to call.
        parameters: Arguments of the tool, as an object.
    """

    tool: str
    parameters: dict[str, Any] = Factory(dict[str, Any])


@tool(title="Run several calls", read_only=True, tags=("needs-turn",))
async def batch(
    context: ToolContext, tool_calls: Annotated[list[BatchCall], "The calls to run, at most 25.", {"minItems": 1}]
) -> ToolResult:
    """Call several tools at the same time. Returns all results, in the order of the calls.

    Use it for calls that don't depend on each other. A failing call doesn't affect the others.
    """
    if _depth.get() == context.depth - 1:
        return ToolResult.error(
            "limit", f"{context.tool} can't be called inside {context.tool}. Put all calls in one list."
        )
    _depth.set(context.depth)  # of this call's own task or step
    first, surplus = tool_calls[:MOST_CALLS], tool_calls[MOST_CALLS:]
    answers = await asyncio.gather(*(_run(context, call) for call in first), return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException):
            raise each  # it ends the turn; all other calls have ended
    late = ToolResult.error(
        "limit", f"Not run: at most {MOST_CALLS} calls are allowed in one batch. Make this call again."
    )
    results = [*(each for each in answers if isinstance(each, ToolResult)), *(late for _ in surplus)]
    return _merge(tool_calls, results)


async def _run(context: ToolContext, call: BatchCall) -> ToolResult:
    if call.tool == context.tool:
        return ToolResult.error("limit", f"{call.tool} can't be called inside {call.tool}. Put its calls in this list.")
    return await context.call(call.tool, call.parameters)


def _merge(calls: Sequence[BatchCall], results: Sequence[ToolResult]) -> ToolResult:
    """All results as one: each under its heading, with its images, and all attachments."""
    content: list[Content] = []
    facts: list[dict[str, Any]] = []
    for number, (call, result) in enumerate(zip(calls, results, strict=True), 1):
        how = f"failed ({result.kind})" if result.is_error else "ok"
        content += [TextContent(f"[{number}/{len(calls)}] {call.tool}: {how}"), *result.content]
        facts.append({"tool": call.tool, "isError": result.is_error, "kind": result.kind})
    well = sum(not result.is_error for result in results)
    content.append(TextContent(f"{well} of {len(calls)} calls succeeded."))
    attachments = tuple(item for result in results for item in result.attachments)
    return ToolResult(
        tuple(content),
        {"results": facts},
        title=f"{len(calls)} calls",
        attachments=attachments,
    )


def answer_invalid(registry: ToolRegistry) -> Handle:
    """Answers invalid calls, where nothing has repaired them, with a result that isn't an error.

    The model still gets the problem, but loops, logs and limits that stop at errors don't see one. The result's
    metadata has `invalid`: `"unknown_tool"` or `"invalid_arguments"`.

    Args:
        registry: Gets a callback `on_tool_error`.

    Returns:
        A handle whose `dispose()` removes the callback.
    """

    def answer(error: BaseException) -> ToolResult | None:
        if not isinstance(error, CallError) or error.kind not in _INVALID:
            return None
        return ToolResult(error.text, metadata={"invalid": error.kind})  # pyright: ignore[reportArgumentType]  converted

    return registry.add_callback("on_tool_error", answer)
