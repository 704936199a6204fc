"""What is wrong with a value and where: `"path: reason"`, in words that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

MOST_PROBLEMS: Final = 20
"""So many problems of one value are listed; the rest would only bury them."""

_MOST_SHOWN: Final = 60
_MOST_OPTIONS: Final = 20
_ROOT: Final = "(root)"


def problem(path: Sequence[str | int], reason: str) -> str:
    """`"filters[0].value: reason"`; the whole value is called `(root)`."""
    return f"{path_text(path)}: {reason}"


def path_text(path: Sequence[str | int]) -> str:
    """A path as one writes it in Python: names joined by dots, positions and odd names in brackets."""
    text = ""
    for step in path:
        if isinstance(step, str) and step.isidentifier() and len(step) <= _MOST_SHOWN:
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text or _ROOT


def shown(value: Any) -> str:
    """A JSON value in at most some sixty characters; arrays and objects only by kind."""
    if isinstance(value, str):
        short = value[:_MOST_SHOWN]
        return json.dumps(short, ensure_ascii=False)[:-1] + ('"' if len(short) == len(value) else '..."')
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def kind_shown(value: Any) -> str:
    """The same with the kind in front, where the kind is the point: `string "25"`, `number 5`, `null`."""
    if isinstance(value, bool):
        return f"boolean {shown(value)}"
    if isinstance(value, int | float):
        return f"number {shown(value)}"
    return f"string {shown(value)}" if isinstance(value, str) else shown(value)


def listed(options: Iterable[Any]) -> str:
    """JSON values joined by commas, the first twenty and how many more there are."""
    values = list(options)
    text = ", ".join(map(shown, values[:_MOST_OPTIONS]))
    more = len(values) - _MOST_OPTIONS
    return text if more <= 0 else f"{text} and {more} more"


def counted(number: int, noun: str) -> str:
    """`"1 item"`, `"2 items"`; the noun in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class StructureError(ValueError):
    """JSON that the schema takes and the type doesn't (a date that is none, a number out of a type's range).

    Attributes:
        path: Where, from the root: `("when", 0, "day")`.
        reason: Why, in a few words.
    """

    def __init__(self, reason: str, path: Sequence[str | int] = ()) -> None:
        self.reason = reason
        self.path = tuple(path)
        super().__init__(problem(self.path, reason))

    def below(self, *outer: str | int) -> StructureError:
        """The same error seen from further out."""
        return StructureError(self.reason, (*outer, *self.path))
