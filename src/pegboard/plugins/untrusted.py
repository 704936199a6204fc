"""JSON that somebody else has written: read part by part, whatever is wrong named with its place."""

from __future__ import annotations

from typing import Any, Final

from pegboard.errors import ManifestError
from pegboard.typing import JsonObject

MOST_CHARACTERS: Final = 1_000


def as_object(value: Any, place: str) -> JsonObject:
    """The value as an object.

    Raises:
        ManifestError: It is none.
    """
    if not isinstance(value, dict):
        raise ManifestError(f"{place}: expected an object, found {type(value).__name__}")
    return value  # pyright: ignore[reportUnknownVariableType]


def as_list(value: Any, place: str, most: int) -> list[Any]:
    """The value as a list of at most so many items.

    Raises:
        ManifestError: It is none, or longer.
    """
    if not isinstance(value, list):
        raise ManifestError(f"{place}: expected a list, found {type(value).__name__}")
    if len(value) > most:  # pyright: ignore[reportUnknownArgumentType]
        raise ManifestError(f"{place}: more than {most}")
    return value  # pyright: ignore[reportUnknownVariableType]


def as_text(value: Any, place: str) -> str:
    """The value as a text of 1 to 1,000 characters.

    Raises:
        ManifestError: It is none.
    """
    if not isinstance(value, str) or not 0 < len(value) <= MOST_CHARACTERS:
        raise ManifestError(f"{place}: expected a text of 1 to {MOST_CHARACTERS} characters")
    return value


def as_text_or_none(value: Any, place: str) -> str | None:
    """The same, or `None` as it is."""
    return None if value is None else as_text(value, place)


def is_deeper(value: JsonObject, most: int) -> bool:
    """Whether JSON is nested deeper than so many levels: what walks it later may do so by recursion."""
    objects: list[JsonObject] = [value]
    lists: list[list[Any]] = []
    for _ in range(most):
        inside = [item for outer in objects for item in outer.values()]
        inside += [item for outer in lists for item in outer]
        objects = [item for item in inside if type(item) is dict]
        lists = [item for item in inside if type(item) is list]
        if not objects and not lists:
            return False
    return True
