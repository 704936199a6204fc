"""`Tracker`: one rule at work. It is asked before a call, and told how the call went."""

from __future__ import annotations

from typing import Any, Final, Protocol

from attrs import frozen

from pegboard import ReadonlyContext, ToolResult

NOT_RUN: Final = frozenset(
    (
        "unknown_tool",
        "not_offered",
        "invalid_arguments",
        "denied",
        "rejected",
        "confirmation_required",
        "skipped",
        "not_executed",
        "cut_off",
        "limit",
    )
)
"""Kinds of results that tell for sure that the tool did not run."""


@frozen
class Call:
    """What rules look at.

    Attributes:
        name: The tool's name.
        request: For whom it runs.
        now: Of the rules' clock, in seconds.
    """

    name: str
    request: ReadonlyContext
    now: float


@frozen
class Ending:
    """How a call went.

    Attributes:
        ran: Whether the tool ran, or may have.
        well: Whether its result is no error.
    """

    ran: bool
    well: bool

    @classmethod
    def of(cls, result: ToolResult) -> Ending:
        """What a result tells."""
        return cls(result.kind not in NOT_RUN, not result.is_error)


class Tracker(Protocol):
    """One rule and what it remembers. Only one thread at a time is in any of these methods."""

    def refusal(self, call: Call, /) -> str | None:
        """Why the call may not start now, as sentences for the model; `None` where it may. Changes nothing."""
        ...

    def begin(self, call: Call, /) -> Any:
        """Notes that the call starts; what it gives comes back at its end."""
        ...

    def end(self, call: Call, token: Any, ending: Ending, /) -> None:
        """Notes how the call went; `call.now` is the time of its end."""
        ...
