"""Settings: tables read into attrs classes, and validators whose errors name the setting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

import attrs

from pegboard.errors import check_keys

T = TypeVar("T")
Check: TypeAlias = Callable[[Any, Any, Any], None]
"""An attrs validator: takes the instance, the attribute and the value."""


_CALLED: Final[Mapping[type[Any], str]] = {str: "a string", list: "a list", tuple: "a list", dict: "a table"}


def kind_of(value: Any) -> str:
    """Describes a wrong value for errors; a string isn't shown, as it may be a misplaced secret."""
    if not value or isinstance(value, int | float):
        return repr(value)
    return _CALLED.get(type(value), type(value).__name__)  # pyright: ignore[reportUnknownArgumentType]


def _number(kinds: tuple[type, ...], what: str, least: float, most: float, bounds: str) -> Check:
    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if type(value) not in kinds:
            raise TypeError(f"{attribute.name} must be {what}, got {kind_of(value)}")
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} must be {bounds}, got {value!r}")

    return check


def whole(least: int = 0, most: int = 1_000_000_000) -> Check:
    """Validator for whole numbers from `least` to `most`."""
    return _number((int,), "a whole number", least, most, f"from {least} to {most}")


def seconds(*, least: float = 0.0) -> Check:
    """Validator for finite numbers from `least` on."""
    what = "a number of seconds"
    return _number((int, float), what, least, sys.float_info.max, f"{what} from {least:g} on")


def not_empty(_instance: Any, attribute: Any, value: Any) -> None:
    """Validator for a string that isn't empty."""
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a string, got {kind_of(value)}")
    if not value.strip():
        raise ValueError(f"{attribute.name} must say something, got an empty one")


def flag(_instance: Any, attribute: Any, value: Any) -> None:
    """Validator for true and false."""
    if type(value) is not bool:
        raise TypeError(f"{attribute.name} must be true or false, got {kind_of(value)}")


def one_of(choices: tuple[T, ...]) -> Callable[[Any, Any, T], Any]:
    """Validator for one of these words."""

    def check(_instance: Any, attribute: Any, value: T) -> None:
        if value not in choices:
            known = ", ".join(map(repr, choices))
            raise ValueError(f"{attribute.name} must be one of {known}, got {kind_of(value)}")

    return check


def as_texts(value: Any) -> Any:
    """A string or a list of strings as a tuple; anything else unchanged, for `texts` to refuse."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def texts(*, least: int = 1) -> Check:
    """Validator for a tuple of at least `least` strings, none of them empty."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
            raise TypeError(f"{attribute.name} must be a string or a list of strings, got {kind_of(value)}")
        if len(value) < least or not all(value):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{attribute.name} must name something, got an empty one")

    return check


NOT_A_SETTING: Final[Mapping[str, bool]] = {"setting": False}
"""Metadata of a field that can be set only from Python, such as a clock."""


def check_table(table: Any, keys: Iterable[str], place: str) -> dict[str, Any]:
    """The values of a table, by key.

    Raises:
        ValueError: A key isn't among `keys`.
        TypeError: It isn't a table.
    """
    if not isinstance(table, Mapping):
        raise TypeError(f"{f'{place}: ' if place else ''}must be a table, got {kind_of(table)}")
    values: dict[str, Any] = dict(table)  # pyright: ignore[reportUnknownArgumentType]
    check_keys(values, list(keys), place)
    return values


def read_table(cls: type[T], table: Any, place: str) -> T:
    """Makes a `cls` of a table.

    Args:
        cls: An attrs class; its validators check the values.
        table: The table from the file.
        place: Its place for errors, such as `journal` or `limits[2]`; `""` for the plugin's own table.

    Raises:
        ValueError: A key is unknown or missing, or a value isn't allowed.
        TypeError: A value of another type.
    """
    before = f"{place}: " if place else ""
    fields = [field for field in attrs.fields(cast("Any", cls)) if field.init and field.metadata.get("setting", True)]
    values = check_table(table, [field.name for field in fields], place)
    for field in fields:
        if field.default is attrs.NOTHING and field.name not in values:
            raise ValueError(f"{before}{field.name} is missing")
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{before}{error.args[0]}") from None


def read_tables(cls: type[T], tables: Any, place: str) -> tuple[T, ...]:
    """Makes a `cls` of each table of a list.

    Raises:
        ValueError: As `read_table`.
        TypeError: As `read_table`, or it isn't a list.
    """
    if not isinstance(tables, list | tuple):
        raise TypeError(f"{place}: must be a list of tables ([[plugins.guard.{place}]]), got {kind_of(tables)}")
    return tuple(read_table(cls, table, f"{place}[{index}]") for index, table in enumerate(tables))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
