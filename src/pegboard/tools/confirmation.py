"""`Confirmation`: what a person answered to a question that a running call asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
from attrs import field, frozen

from pegboard.typing import JsonObject

MOST_EARLIER: Final = 32
"""Answers that one call can collect over several turns."""


@frozen
class Confirmation:
    """What a person answered.

    Attributes:
        hint: The question.
        confirmed: Whether the answer is yes.
        payload: JSON data: the question's own, or what the person made of it.
        feedback: What the person said beside it, or `None`.
        permission: What was asked for, where it was a permission; else `None`.
        patterns: What the permission was asked for.
        earlier: What was answered before to the same call, the latest first.
    """

    hint: str = ""
    confirmed: bool = False
    payload: Any = None
    feedback: str | None = None
    permission: str | None = None
    patterns: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    earlier: tuple[Confirmation, ...] = field(default=(), repr=False)

    def to_question(self, hint: str) -> Confirmation | None:
        """The latest answer to exactly this question, or `None`: an answer to another doesn't count."""
        return next((one for one in self._all() if one.permission is None and one.hint == hint and hint), None)

    def to_permission(self, permission: str, patterns: Sequence[str]) -> Confirmation | None:
        """The latest answer that was given for this permission and all of these patterns, or `None`."""
        wanted = frozenset(patterns)
        return next((one for one in self._all() if one.permission == permission and wanted <= {*one.patterns}), None)

    def after(self, earlier: Sequence[Confirmation]) -> Confirmation:
        """The same, knowing what was answered before; the oldest of more than 32 are dropped."""
        return attrs.evolve(self, earlier=tuple(earlier)[:MOST_EARLIER])

    def history(self) -> tuple[Confirmation, ...]:
        """This answer and those before it, each by itself, the latest first."""
        return tuple(attrs.evolve(one, earlier=()) for one in self._all())

    def to_json(self) -> JsonObject:
        """All facts by name, but what was answered before; those that say nothing are left out."""
        facts: JsonObject = {"hint": self.hint, "confirmed": self.confirmed}
        optional = {"payload": self.payload, "feedback": self.feedback, "permission": self.permission}
        facts.update({name: value for name, value in optional.items() if value is not None})
        if self.patterns:
            facts["patterns"] = list(self.patterns)
        return facts

    def _all(self) -> Iterator[Confirmation]:
        yield self
        yield from self.earlier
