"""What a setting's value may be: validators and converters whose errors name the setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Check: TypeAlias = Callable[[Any, Any, Any], None]
"""An attrs validator: takes the instance, the attribute and the value."""


def whole(least: int = 0, most: int = 1_000_000_000) -> Check:
    """Takes whole numbers from `least` to `most`."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if type(value) is not int:
            raise TypeError(f"{attribute.name} must be a whole number, got {value!r:.100}")
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} must be from {least} to {most}, got {value}")

    return check


def seconds(*, least: float = 0.0) -> Check:
    """Takes finite numbers from `least` on."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if type(value) not in (int, float):
            raise TypeError(f"{attribute.name} must be a number of seconds, got {value!r:.100}")
        if not least <= value < float("inf"):
            raise ValueError(f"{attribute.name} must be a number of seconds from {least:g} on, got {value!r}")

    return check


def flag(_instance: Any, attribute: Any, value: Any) -> None:
    """Takes true and false."""
    if type(value) is not bool:
        raise TypeError(f"{attribute.name} must be true or false, got {value!r:.100}")


def one_of(choices: tuple[T, ...]) -> Callable[[Any, Any, T], Any]:
    """Takes one of these words."""

    def check(_instance: Any, attribute: Any, value: T) -> None:
        if value not in choices:
            known = ", ".join(map(repr, choices))
            raise ValueError(f"{attribute.name} must be one of {known}, got {value!r:.100}")

    return check


def as_texts(value: Any) -> Any:
    """A text, or a list of them, as a tuple; anything else as it is, for `texts` to refuse."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def texts(*, least: int = 1) -> Check:
    """Takes a tuple of at least so many texts, none of them empty."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
            raise TypeError(f"{attribute.name} must be a text or a list of texts, got {value!r:.100}")
        if len(value) < least or not all(value):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{attribute.name} must name something, got {list(value)!r:.100}")  # pyright: ignore[reportUnknownArgumentType]

    return check
