"""Reads `Literal` and enums."""

from __future__ import annotations

import enum
import math
import typing
from typing import Any

from pegboard.tools.forms.choice import Choice, ChoiceForm, FlagForm
from pegboard.tools.forms.container import Reading
from pegboard.tools.forms.form import Form


def literal_form(reading: Reading, annotation: Any, path: str) -> Form:
    """The form of a `Literal`.

    Args:
        reading: Says what can't be said.
        annotation: The `Literal`.
        path: Where it stands.
    """
    choices: list[Choice] = []
    for value in typing.get_args(annotation):
        json = value.value if isinstance(value, enum.Enum) else value
        if not _is_scalar(json):
            reading.refuse(annotation, path, f"{value!r} has no JSON form", "Use text, numbers, booleans and None.")
        choices.append(Choice(json, value))
    return ChoiceForm.of(choices)


def enum_form(reading: Reading, cls: Any, path: str) -> Form:
    """The form of an enum: its values; of flags: their sums.

    Args:
        reading: Says what can't be said.
        cls: The enum.
        path: Where it stands.
    """
    members: list[enum.Enum] = list(cls)
    if not members:
        reading.refuse(cls, path, f"{cls.__qualname__} has no members", "Give it some.")
    if issubclass(cls, enum.Flag):
        mask = 0
        for member in cls.__members__.values():
            mask |= member.value
        return FlagForm(cls, mask)
    for member in members:
        if not _is_scalar(member.value):
            reading.refuse(
                cls, path, f"the value of {member} has no JSON form", "Give its members text or numbers as values."
            )
    return ChoiceForm.of(Choice(member.value, member) for member in members)


def _is_scalar(value: object) -> bool:
    return value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))
