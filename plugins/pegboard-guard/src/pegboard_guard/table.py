"""`read_table`: a table of `pegboard.toml` becomes an attrs class, strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import attrs

from pegboard.errors import did_you_mean, suggest

T = TypeVar("T")
NOT_A_SETTING: Final[Mapping[str, bool]] = {"setting": False}
"""The metadata of a field that only Python can fill in, such as a clock."""


def read_table(cls: type[T], table: Any, place: str) -> T:
    """Makes a `cls` of a table.

    Args:
        cls: An attrs class; its validators judge the values.
        table: What stands in the file.
        place: Where, for errors, such as `journal` or `limits[2]`; `""` for the plugin's own table.

    Raises:
        ValueError: A key is unknown or missing, or a value isn't allowed.
        TypeError: A value of another type.
    """
    before = f"{place}: " if place else ""
    if not isinstance(table, Mapping):
        raise TypeError(f"{before}must be a table, got {table!r:.100}")
    values: dict[str, Any] = dict(table)  # pyright: ignore[reportUnknownArgumentType]
    _check_keys(cls, values, before)
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{before}{error.args[0]}") from None


def _check_keys(cls: type[Any], values: Mapping[str, Any], before: str) -> None:
    fields = [field for field in attrs.fields(cls) if field.init and field.metadata.get("setting", True)]
    known = [field.name for field in fields]
    for key in values:
        if key not in known:
            near = did_you_mean(suggest(key, known))
            raise ValueError(f"{before}there is no setting {key!r}.{near} There are {', '.join(known)}")
    for field in fields:
        if field.default is attrs.NOTHING and field.name not in values:
            raise ValueError(f"{before}{field.name} is missing")


def read_tables(cls: type[T], tables: Any, place: str) -> tuple[T, ...]:
    """Makes a `cls` of each table of a list.

    Raises:
        ValueError: As `read_table`.
        TypeError: As `read_table`, or it is no list.
    """
    if not isinstance(tables, list | tuple):
        raise TypeError(f"{place}: must be a list of tables ([[plugins.guard.{place}]]), got {tables!r:.100}")
    return tuple(read_table(cls, table, f"{place}[{index}]") for index, table in enumerate(tables))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
