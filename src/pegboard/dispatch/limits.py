"""Limits of calls, and the error that ends one."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.spec import DEFAULT_RESULT_LIMITS, ResultLimits


@frozen
class Limits:
    """What calls may use, where their tool declares nothing else.

    Attributes:
        timeout: Seconds for one call; `None` is no limit.
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        argument_bytes: How long the JSON text of the arguments may be.
        argument_nodes: How many values the arguments may hold.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        repair: Whether a name in another case, or with one near miss, is taken for the one that was meant.
        results: How long a result's text may be.
        callback_timeout: Seconds for one callback.
        approval_timeout: Seconds that a person may take for an answer; no answer is no.
        rejection_ends_turn: Whether a person's no without a word of feedback ends the turn.
        max_concurrency: How many calls of the registry may run at once; `None` is no limit.
        depth: How many calls deep tools may call tools.
        grace: Seconds that a cancelled coroutine has to tidy up.
    """

    timeout: float | None = 120.0
    expose_errors: bool = False
    argument_bytes: int = 1_000_000
    argument_nodes: int = 100_000
    coerce: bool = False
    repair: bool = True
    results: ResultLimits = DEFAULT_RESULT_LIMITS
    callback_timeout: float = 30.0
    approval_timeout: float = 300.0
    rejection_ends_turn: bool = True
    max_concurrency: int | None = None
    depth: int = 8
    grace: float = 1.0


DEFAULT_LIMITS: Final = Limits()


class CallError(Exception):
    """Ends the way forward of one call: an error result with the reason, unless a callback recovers.

    Attributes:
        kind: Why.
        text: For the model: what happened, and what to do.
        detail: For the operator, or `None`.
        problems: For invalid arguments: `"path: reason"` each.
    """

    def __init__(
        self, kind: ErrorKind, text: str, *, detail: str | None = None, problems: tuple[str, ...] = ()
    ) -> None:
        self.kind: ErrorKind = kind
        self.text = text
        self.detail = detail
        self.problems = problems
        super().__init__(text)

    def result(self) -> ToolResult:
        """The error result that this error becomes."""
        return ToolResult.error(self.kind, self.text, detail=self.detail)


def cancels_the_call(error: BaseException) -> bool:
    """Whether `error` means that the running task was cancelled; else the code in the task raised it."""
    import asyncio  # loading it takes longer than listing tools

    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
