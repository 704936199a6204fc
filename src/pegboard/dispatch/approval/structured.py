"""`structured`: JSON from outside into a value, strictly."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from pegboard.errors import PendingError
from pegboard.schema.json import json_text
from pegboard.schema.problems import StructureError
from pegboard.schema.structure import strict_structurer

T = TypeVar("T")
_structurer = lru_cache(maxsize=None)(strict_structurer)


def structured(kind: type[T], data: Any, what: str) -> T:
    """A value of this class, made of JSON data; nothing may be missing, unknown or of another type.

    Args:
        kind: An attrs class.
        data: As a strict parser gave it.
        what: What it should be, for the error.

    Raises:
        PendingError: It isn't, with the path of what is wrong.
    """
    try:
        json_text(data)
        return cast("T", _structurer(kind)(data))
    except (StructureError, ValueError, TypeError, RecursionError) as error:
        raise PendingError(f"not {what}: {error}") from None


def parsed(text: str | bytes, most: int, what: str) -> Any:
    """A JSON text's value.

    Raises:
        PendingError: It is too long, or no JSON by the letter: duplicate keys, NaN, infinities, lone surrogates.
    """
    from jiter import from_json

    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > most:
            raise PendingError(f"not {what}: {len(data):,} bytes, at most {most:,} are taken")
        value = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
        json_text(value)  # 1e400 is read as an infinity
    except ValueError as error:
        raise PendingError(f"not {what}: {error}") from None
    return value
