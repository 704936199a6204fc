"""Trying one hook after the other, as unions do."""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Any, Final

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.form import Hook

_MOST_REASONS: Final = 3


def first_of(hooks: Sequence[Hook]) -> Hook:
    """Gives what the first hook makes that takes the value; where none does, the error of the nearest."""
    if len(hooks) == 1:
        return hooks[0]

    def structure_first(value: Any) -> Any:
        errors: list[StructureError] = []
        for hook in hooks:
            try:
                return hook(value)
            except StructureError as error:
                errors.append(error)
        raise _nearest(errors)

    return structure_first


class _Remembered(local):
    """What the members of unions have made of the values of the call that this thread is in."""

    outcomes: dict[tuple[int, int], Any] | None = None


_remembered: Final = _Remembered()


def first_remembered(hooks: Sequence[Hook]) -> Hook:
    """The same for a union made of itself: each value is tried once, however many members look into it.

    Without this, members that differ only behind a field of the union's own type would take twice as long for each
    level of the value.
    """
    if len(hooks) == 1:
        return hooks[0]
    first = first_of(hooks)

    def structure_first(value: Any) -> Any:
        if _remembered.outcomes is not None:
            return _outcome(first, value, _remembered.outcomes)
        _remembered.outcomes = {}
        try:
            return _outcome(first, value, _remembered.outcomes)
        finally:
            _remembered.outcomes = None

    return structure_first


def _outcome(hook: Hook, value: Any, outcomes: dict[tuple[int, int], Any]) -> Any:
    """What a hook makes of a value, or raises of it, worked out once."""
    key = (id(hook), id(value))
    if key not in outcomes:
        try:
            outcomes[key] = hook(value)
        except StructureError as error:
            outcomes[key] = error
    outcome = outcomes[key]
    if isinstance(outcome, StructureError):
        raise StructureError(outcome.reason, outcome.path) from outcome.__cause__
    return outcome


def _nearest(errors: Sequence[StructureError]) -> StructureError:
    """The deepest error, which is of the nearest member; where several stand at its place, their reasons in one."""
    deepest = max(errors, key=lambda error: len(error.path))
    reasons = dict.fromkeys(each.reason for each in errors if each.path == deepest.path)
    return StructureError("; or ".join(list(reasons)[:_MOST_REASONS]), deepest.path)
