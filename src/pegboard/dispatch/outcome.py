"""`Outcome`: what came of a batch of calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from pegboard.dispatch.approval.pending import PendingCalls
from pegboard.tools.call import Actions, ToolCall
from pegboard.tools.content import ToolResult


@frozen
class Outcome:
    """What came of a batch of calls: one result for each, in call order, and beside them what ends the turn.

    Attributes:
        calls: As the model made them.
        results: One for each call, in the same order.
        fatal: What ends the turn (`FatalToolError`, `TurnAbortedError`), or `None`; raise it once the results are kept.
        ended: Why the turn should end all the same: `"fatal"`, `"rejected"`, `"cancelled"`, what `interrupt` was told
            (`"interrupted"` by steering), or `None`.
        actions: What the calls ask the host to do, merged in call order.
        pending: The calls that wait for an answer that comes later.
        ignored: For a resumption: answers that fit no pending call.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    fatal: BaseException | None = None
    ended: str | None = None
    actions: Actions = field(factory=Actions)
    pending: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether any result is an error."""
        return any(result.is_error for result in self.results)

    def __iter__(self) -> Iterator[tuple[ToolCall, ToolResult]]:
        return zip(self.calls, self.results, strict=True)

    def __len__(self) -> int:
        return len(self.results)

    def to_json(self) -> list[dict[str, Any]]:
        """`[{"id", "name", "isError", "kind", "content", "structuredContent"}]`, in call order."""
        return [
            {"id": call.id, "name": call.name, "isError": result.is_error, "kind": result.kind, **_content(result)}
            for call, result in self
        ]


def _content(result: ToolResult) -> dict[str, Any]:
    written = result.to_json()
    return {"content": written["content"], "structuredContent": written["structuredContent"]}
