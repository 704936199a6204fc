"""Reading of tables and JSON objects into classes, strictly: a key that there isn't is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import attrs

from pegboard.errors import did_you_mean, suggest
from pegboard.schema.converter import json_key, read_record

T = TypeVar("T")
_KEY: Final = next(iter(json_key("")))


def check_keys(table: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Raises `ValueError` for a key that there isn't, with what may have been meant."""
    known = list(known)
    for key in table:
        if key not in known:
            near = did_you_mean(suggest(str(key), known)) or f" There are {', '.join(known)}."
            raise ValueError(f"{place}{'.' if place else ''}{key!s:.80}: there is no such key.{near}")


def read_table(cls: type[T], table: Any, place: str) -> T:
    """Makes a value of an attrs class of a table.

    Args:
        cls: The class; the metadata of a field may have another key.
        table: What stands in the file.
        place: Where, for errors, such as `before[0]`.

    Raises:
        ValueError: It is no table, a key is unknown or missing, or a value isn't allowed.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{place}: has to be a table, not {type(table).__name__}")  # noqa: TRY004  the one error of settings
    given = cast("Mapping[str, Any]", table)
    fields = attrs.fields(cast("Any", cls))
    check_keys(given, [each.metadata.get(_KEY, each.name) for each in fields if each.init], place)
    try:
        return read_record(cls, {**given}, "")
    except ValueError as error:
        text = str(error)
        raise ValueError(f"{place}{'' if text.startswith(':') else '.'}{text}".lstrip(":. ")) from None
