"""`Ask`: what a person has to be asked before a call runs."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from pegboard.dispatch.permissions.rules import Decision

_ASKED: Final = Decision("ask")


@frozen
class Ask:
    """A call that a person has to allow.

    Attributes:
        permission: What is asked for: the tool's permission, or its name. Never a pattern.
        patterns: What the call touches, for people.
        always: The patterns that an answer "always" would allow, as allow rules of this permission. Empty where no
            such rules would let this call run: then "always" can't be answered.
        reason: Why it asks, in a few words: `"marked destructive"`.
        decision: What was decided.
    """

    permission: str
    patterns: tuple[str, ...] = ("*",)
    always: tuple[str, ...] = ()
    reason: str = ""
    decision: Decision = _ASKED


__all__ = ["Ask"]
